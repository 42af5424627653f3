"""one read transaction -> the whole index as RDF, and what a SPARQL query finds in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kumihimo.app.results import Solutions, Term
from kumihimo.app.snapshot import KINDS, Reading
from kumihimo.core.digests import digest
from kumihimo.core.errors import SettingsError
from kumihimo.core.settings import Values
from kumihimo.core.table import Table, codec
from kumihimo.rdf import store
from kumihimo.storage.sqlite.store import Db, SqlRows

if TYPE_CHECKING:
    from pyoxigraph import Quad, Triple

ROWS, SECONDS = 1000, 30.0
_AGAIN = 5  # times that a store is made anew where it cannot be read, or a newer build has taken it away


def names(*, base: str = "http://example.org/") -> dict[str, str]:
    """The beginnings of IRIs in the index as RDF; base: of those of its rows, `ex:`."""
    from pyoxigraph import NamedNode

    from kumihimo.rdf.terms import prefixes

    try:
        NamedNode(f"{base}x")
    except ValueError:
        base = ""
    if ":" not in base or not base.endswith(("/", "#", ":")):
        raise SettingsError("rdf.base is what IRIs begin with, such as http://example.org/: it ends with / or #")
    return prefixes(base)


def triples(reading: Reading, prefixes: dict[str, str]) -> Iterator[Quad]:
    """All that the tables of the index say, as they were built."""
    from kumihimo.index.pdtb_senses import senses
    from kumihimo.rdf.triples import TABLES
    from kumihimo.rdf.triples import triples as told

    tables = {name: _table(reading.db, name) for name in TABLES if name in KINDS and reading.db.has(name)}
    return told(tables, senses().values() if "links" in tables else (), prefixes["ex"])


def _table(db: Db, name: str) -> Table[Any]:
    return Table(name, codec(KINDS[name]), SqlRows(db, name))


def asked(
    opened: Callable[[], AbstractContextManager[Reading]],
    folder: Path,
    query: str,
    *,
    limit: int | None,
    timeout: float,
) -> Solutions:
    """What a query finds, within so many rows and seconds. Raises SettingsError where it cannot be answered."""
    for left in reversed(range(_AGAIN)):
        with opened() as reading:
            prefixes = names(**own(reading.settings))
            try:
                with _store(reading, folder, prefixes) as path:
                    found = store.solve(path, query, prefixes, prefixes["ex"], most=limit, seconds=timeout)
            except store.Gone:
                if not left:
                    raise
                continue
        head, rows, cut = found
        terms = tuple(tuple(map(_term, row)) for row in rows)
        return Solutions(tuple(head.get("columns", ())), terms, head.get("yes"), head["kind"] == "graph", cut)
    raise AssertionError


def own(settings: Values) -> dict[str, Any]:
    return dict(settings.get("rdf", {}))


def _term(told: dict[str, str] | None) -> Term | None:
    return (
        None if told is None else Term(told["value"], told["type"], told.get("xml:lang", ""), told.get("datatype", ""))
    )


def triples_of(found: Solutions) -> Iterator[Triple]:
    """The triples that CONSTRUCT or DESCRIBE gave, as the library has them."""
    from pyoxigraph import BlankNode, Literal, NamedNode, Triple

    def node(term: Term) -> Any:
        if term.kind != "literal":
            return (NamedNode if term.kind == "uri" else BlankNode)(term.value)
        if term.language:
            return Literal(term.value, language=term.language)
        return Literal(term.value, datatype=NamedNode(term.datatype)) if term.datatype else Literal(term.value)

    for row in found.rows:
        about, name, value = (node(term) for term in row if term)
        yield Triple(about, name, value)


@contextmanager
def _store(reading: Reading, folder: Path, prefixes: dict[str, str]) -> Iterator[Path]:
    """The store of this build, made now if it has to be; in a folder that is read-only to us, for this query only."""
    name = f"{reading.db.meta(store.BUILD, 0)}-{_mark(prefixes['ex'])}"
    made = partial(triples, reading, prefixes)
    if os.access(folder, os.W_OK):
        path = store.ready(folder, name, made)
        try:
            yield path
        except store.Gone:
            store.forget(path)  # where it is still there, it is broken
            raise
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as other:
        yield store.ready(Path(other), name, made)


def _mark(base: str) -> str:
    """Of what makes triples of tables: our code and its data, the library, the setting."""
    from importlib.metadata import version

    from kumihimo import index, rdf

    made_by = [Path(*rdf.__path__, name) for name in ("terms.py", "triples.py")]
    files = [*made_by, Path(*index.__path__, "pdtb_senses.tsv")]
    return digest(base, version("pyoxigraph"), *(file.read_text(encoding="utf-8") for file in files))[:8]
