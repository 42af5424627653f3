"""all tables -> RDF: Turtle, N-Triples or N-Quads, which every triple store reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from kumihimo.app.safe_write import MARK, filled
from kumihimo.app.snapshot import Reading, counts
from kumihimo.app.sparql import names, own, triples
from kumihimo.core.errors import SettingsError, unknown

if TYPE_CHECKING:
    from pyoxigraph import Quad, Triple

_FORMS = {".ttl": "TURTLE", ".nt": "N_TRIPLES", ".nq": "N_QUADS"}


def write(reading: Reading, path: Path) -> dict[str, int]:
    """Every row of every table, by the ending of the file's name; Turtle where it has none. Never all in memory."""
    form = _FORMS.get(path.suffix or ".ttl")
    if form is None:
        raise SettingsError(unknown("ending of an RDF file", path.suffix, _FORMS))
    from pyoxigraph import RdfFormat, serialize

    from kumihimo.rdf.triples import TABLES

    prefixes, count = names(**own(reading.settings)), {"triples": 0}

    def counted() -> Iterator[Quad]:
        for quad in triples(reading, prefixes):
            count["triples"] += 1
            yield quad

    def fill(made: Path) -> None:
        with made.open("wb") as out:
            out.write(f"# {MARK}\n".encode())
            if form == "TURTLE":
                turtle((quad.triple for quad in counted()), out, prefixes)
            elif form == "N_TRIPLES":
                serialize((quad.triple for quad in counted()), out, RdfFormat.N_TRIPLES)
            else:
                serialize(counted(), out, RdfFormat.N_QUADS)

    filled(path, fill)
    return {name: n for name, n in counts(reading.db).items() if name in TABLES} | count


def turtle(triples: Iterable[Triple], out: IO[bytes], prefixes: dict[str, str]) -> None:
    """Write them as they come, the prefixes in the order of their names: the library has them in any."""
    from pyoxigraph import RdfFormat, serialize

    serialize(triples, cast(IO[bytes], _Ordered(out)), RdfFormat.TURTLE, prefixes=prefixes)


class _Ordered:
    """A file that puts the prefixes in order, all of which are in the first part that is written."""

    def __init__(self, out: IO[bytes]) -> None:
        self.out, self.begun = out, False

    def write(self, part: bytes) -> int:
        lines = [] if self.begun else list(takewhile(lambda line: line[:8] == b"@prefix ", part.splitlines(True)))
        self.begun = True
        self.out.write(b"".join(sorted(lines)) + part[sum(map(len, lines)) :])
        return len(part)

    def flush(self) -> None:
        self.out.flush()
