"""all tables -> RDF: Turtle, N-Triples or N-Quads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from kumihimo.app.safe_write import FILE_MARK, write_file_with
from kumihimo.app.snapshot import Snapshot, row_counts
from kumihimo.app.sparql import index_triples, rdf_prefixes, rdf_settings
from kumihimo.core.errors import SettingsError, describe_unknown
from kumihimo.rdf.triples import RDF_TABLES

if TYPE_CHECKING:
    from pyoxigraph import Quad, Triple

_FORMATS = {".ttl": "TURTLE", ".nt": "N_TRIPLES", ".nq": "N_QUADS"}


def write_rdf(snapshot: Snapshot, path: Path) -> dict[str, int]:
    """Write every row as RDF, in the format of the file's ending.

    Turtle is the default. The rows are streamed, never all in memory.
    """
    rdf_format = _FORMATS.get(path.suffix or ".ttl")
    if rdf_format is None:
        raise SettingsError(describe_unknown("ending of an RDF file", path.suffix, _FORMATS))
    from pyoxigraph import RdfFormat, serialize

    prefixes, count = rdf_prefixes(**rdf_settings(snapshot.settings)), {"triples": 0}

    def counted_quads() -> Iterator[Quad]:
        for quad in index_triples(snapshot, prefixes):
            count["triples"] += 1
            yield quad

    def fill(target: Path) -> None:
        with target.open("wb") as out:
            out.write(f"# {FILE_MARK}\n".encode())
            if rdf_format == "TURTLE":
                write_turtle((quad.triple for quad in counted_quads()), out, prefixes)
            elif rdf_format == "N_TRIPLES":
                serialize((quad.triple for quad in counted_quads()), out, RdfFormat.N_TRIPLES)
            else:
                serialize(counted_quads(), out, RdfFormat.N_QUADS)

    write_file_with(path, fill)
    return {name: n for name, n in row_counts(snapshot.db).items() if name in RDF_TABLES} | count


def write_turtle(triples: Iterable[Triple], out: IO[bytes], prefixes: dict[str, str]) -> None:
    """Write triples as Turtle, with the prefixes sorted by name.

    The library writes prefixes in any order.
    """
    from pyoxigraph import RdfFormat, serialize

    serialize(triples, cast(IO[bytes], _SortedPrefixes(out)), RdfFormat.TURTLE, prefixes=prefixes)


class _SortedPrefixes:
    """A file that sorts the prefixes.

    All of them are in the first part written.
    """

    def __init__(self, out: IO[bytes]) -> None:
        self.out, self.started = out, False

    def write(self, part: bytes) -> int:
        lines = [] if self.started else list(takewhile(lambda line: line[:8] == b"@prefix ", part.splitlines(True)))
        self.started = True
        self.out.write(b"".join(sorted(lines)) + part[sum(map(len, lines)) :])
        return len(part)

    def flush(self) -> None:
        self.out.flush()
