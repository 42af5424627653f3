"""one read transaction -> the whole index as RDF, and what a SPARQL query finds in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kumihimo.app.results import RdfTerm, Solutions
from kumihimo.app.snapshot import RECORD_TYPES, Snapshot
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import SettingsError
from kumihimo.core.settings import SettingValues
from kumihimo.core.table import Table, codec
from kumihimo.rdf import store
from kumihimo.storage.sqlite.store import Db, SqlRows

if TYPE_CHECKING:
    from pyoxigraph import Quad, Triple

DEFAULT_LIMIT, DEFAULT_TIMEOUT = 1000, 30.0
_MAX_ATTEMPTS = 5  # times that a store is made anew where it cannot be read, or a newer build has taken it away


def rdf_prefixes(*, base: str = "http://example.org/") -> dict[str, str]:
    """The beginnings of IRIs in the index as RDF; base: of those of its rows, `ex:`."""
    from pyoxigraph import NamedNode

    from kumihimo.rdf.terms import prefix_map

    try:
        NamedNode(f"{base}x")
    except ValueError:
        base = ""
    if ":" not in base or not base.endswith(("/", "#", ":")):
        raise SettingsError("rdf.base is what IRIs begin with, such as http://example.org/: it ends with / or #")
    return prefix_map(base)


def index_triples(snapshot: Snapshot, prefixes: dict[str, str]) -> Iterator[Quad]:
    """All that the tables of the index say, as they were built."""
    from kumihimo.index.pdtb_senses import senses_by_name
    from kumihimo.rdf.triples import RDF_TABLES
    from kumihimo.rdf.triples import table_triples as told

    tables = {
        name: _open_table(snapshot.db, name) for name in RDF_TABLES if name in RECORD_TYPES and snapshot.db.has(name)
    }
    return told(tables, senses_by_name().values() if "links" in tables else (), prefixes["ex"])


def _open_table(db: Db, name: str) -> Table[Any]:
    return Table(name, codec(RECORD_TYPES[name]), SqlRows(db, name))


def run_sparql(
    opened: Callable[[], AbstractContextManager[Snapshot]],
    folder: Path,
    query: str,
    *,
    limit: int | None,
    timeout: float,
) -> Solutions:
    """What a query finds, within so many rows and seconds. Raises SettingsError where it cannot be answered."""
    for left in reversed(range(_MAX_ATTEMPTS)):
        with opened() as reading:
            prefixes = rdf_prefixes(**rdf_settings(reading.settings))
            try:
                with _open_store(reading, folder, prefixes) as path:
                    found = store.run_query(path, query, prefixes, prefixes["ex"], limit=limit, timeout=timeout)
            except store.StoreRemoved:
                if not left:
                    raise
                continue
        head, rows, cut = found
        terms = tuple(tuple(map(_to_term, row)) for row in rows)
        return Solutions(tuple(head.get("columns", ())), terms, head.get("yes"), head["kind"] == "graph", cut)
    raise AssertionError


def rdf_settings(settings: SettingValues) -> dict[str, Any]:
    return dict(settings.get("rdf", {}))


def _to_term(told: dict[str, str] | None) -> RdfTerm | None:
    return (
        None
        if told is None
        else RdfTerm(told["value"], told["type"], told.get("xml:lang", ""), told.get("datatype", ""))
    )


def solution_triples(found: Solutions) -> Iterator[Triple]:
    """The triples that CONSTRUCT or DESCRIBE gave, as the library has them."""
    from pyoxigraph import BlankNode, Literal, NamedNode, Triple

    def node(term: RdfTerm) -> Any:
        if term.kind != "literal":
            return (NamedNode if term.kind == "uri" else BlankNode)(term.value)
        if term.language:
            return Literal(term.value, language=term.language)
        return Literal(term.value, datatype=NamedNode(term.datatype)) if term.datatype else Literal(term.value)

    for row in found.rows:
        about, name, value = (node(term) for term in row if term)
        yield Triple(about, name, value)


@contextmanager
def _open_store(snapshot: Snapshot, folder: Path, prefixes: dict[str, str]) -> Iterator[Path]:
    """The store of this build, made now if it has to be; in a folder that is read-only to us, for this query only."""
    name = f"{snapshot.db.meta(store.BUILD_KEY, 0)}-{_store_fingerprint(prefixes['ex'])}"
    made = partial(index_triples, snapshot, prefixes)
    if os.access(folder, os.W_OK):
        path = store.ensure_store(folder, name, made)
        try:
            yield path
        except store.StoreRemoved:
            store.remove_store(path)  # where it is still there, it is broken
            raise
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as other:
        yield store.ensure_store(Path(other), name, made)


def _store_fingerprint(base: str) -> str:
    """Of what makes triples of tables: our code and its data, the library, the setting."""
    from importlib.metadata import version

    from kumihimo import index, rdf

    made_by = [Path(*rdf.__path__, name) for name in ("terms.py", "triples.py")]
    files = [*made_by, Path(*index.__path__, "pdtb_senses.tsv")]
    return hash_parts(base, version("pyoxigraph"), *(file.read_text(encoding="utf-8") for file in files))[:8]
