"""snapshot -> the index as RDF, and the solutions of SPARQL queries on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.core.digests import hash_parts
from kumihimo.core.settings import SettingValues
from kumihimo.rdf import store
from kumihimo.rdf.store import rdf_prefixes

if TYPE_CHECKING:
    from pyoxigraph import Quad, Triple

    from kumihimo.app.opened.results import RdfTerm, Solutions

DEFAULT_LIMIT, DEFAULT_TIMEOUT = 1000, 30.0
_MAX_ATTEMPTS = 5  # if the store is unreadable or a newer build removed it


def index_triples(snapshot: Snapshot, prefixes: dict[str, str]) -> Iterator[Quad]:
    """Yield the triples of all tables in the index."""
    from kumihimo.index.pdtb_senses import senses_by_name
    from kumihimo.rdf.triples import RDF_TABLES, table_triples

    tables = {name: snapshot.table(name) for name in RDF_TABLES if snapshot.db.has(name)}
    return table_triples(tables, senses_by_name().values() if "links" in tables else (), prefixes["ex"])


def run_sparql(
    open_snapshot: Callable[[], AbstractContextManager[Snapshot]],
    folder: Path,
    query: str,
    *,
    limit: int | None,
    timeout: float,
) -> Solutions:
    """Run a SPARQL query within a row limit and a time limit.

    Raises SettingsError if the query cannot be answered.
    """
    from kumihimo.app.opened.results import RdfTerm, Solutions  # few other commands need them

    for attempts_left in reversed(range(_MAX_ATTEMPTS)):
        with open_snapshot() as snapshot:
            prefixes = index_prefixes(snapshot.settings)
            try:
                with _open_store(snapshot, folder, prefixes) as path:
                    result = store.run_query(path, query, prefixes, prefixes["ex"], limit=limit, timeout=timeout)
            except store.StoreRemoved:
                if not attempts_left:
                    raise
                continue
        head, rows, cut = result
        terms = tuple(tuple(term and RdfTerm(*_term_fields(term)) for term in row) for row in rows)
        return Solutions(tuple(head.get("columns", ())), terms, head.get("yes"), head["kind"] == "graph", cut)
    raise AssertionError


def index_prefixes(settings: SettingValues) -> dict[str, str]:
    """Return the RDF prefixes with the settings of an index."""
    values: dict[str, Any] = dict(settings.get("rdf", {}))
    return rdf_prefixes(**values)


def _term_fields(term: dict[str, str]) -> tuple[str, str, str, str]:
    return term["value"], term["type"], term.get("xml:lang", ""), term.get("datatype", "")


def solution_triples(solutions: Solutions) -> Iterator[Triple]:
    """Yield the triples of a CONSTRUCT or DESCRIBE query."""
    from pyoxigraph import BlankNode, Literal, NamedNode, Triple

    def node(term: RdfTerm) -> Any:
        if term.kind != "literal":
            return (NamedNode if term.kind == "uri" else BlankNode)(term.value)
        if term.language:
            return Literal(term.value, language=term.language)
        return Literal(term.value, datatype=NamedNode(term.datatype)) if term.datatype else Literal(term.value)

    for row in solutions.rows:
        subject, name, value = (node(term) for term in row if term)
        yield Triple(subject, name, value)


@contextmanager
def _open_store(snapshot: Snapshot, folder: Path, prefixes: dict[str, str]) -> Iterator[Path]:
    """Open the store of this build, and build it if necessary.

    If the index folder is read-only, the store is temporary.
    """
    name = f"{snapshot.db.meta(store.BUILD_KEY, 0)}-{_store_fingerprint(prefixes['ex'])}"
    make_triples = partial(index_triples, snapshot, prefixes)
    if os.access(folder, os.W_OK):
        path = store.ensure_store(folder, name, make_triples)
        try:
            yield path
        except store.StoreRemoved:
            store.remove_store(path)  # if it still exists, it is broken
            raise
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as temporary:
        yield store.ensure_store(Path(temporary), name, make_triples)


def _store_fingerprint(base: str) -> str:
    """Return the fingerprint of the triples: code, data, library and setting."""
    from importlib.metadata import version

    from kumihimo import index, rdf

    files = [Path(*rdf.__path__, "triples.py"), Path(*index.__path__, "pdtb_senses.tsv")]
    return hash_parts(base, version("pyoxigraph"), *(file.read_text(encoding="utf-8") for file in files))[:8]
