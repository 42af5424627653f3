"""all tables -> RDF: Turtle, N-Triples or N-Quads, which every triple store reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kumihimo.core.errors import SettingsError, unknown
from kumihimo.placing import MARK, filled
from kumihimo.querying import names, own, triples
from kumihimo.reading import Reading, counts

if TYPE_CHECKING:
    from pyoxigraph import Triple

_FORMS = {".ttl": "TURTLE", ".nt": "N_TRIPLES", ".nq": "N_QUADS"}


def write(reading: Reading, path: Path) -> dict[str, int]:
    """Every row of every table, by the ending of the file's name; Turtle where it has none. Never all in memory."""
    form = _FORMS.get(path.suffix or ".ttl")
    if form is None:
        raise SettingsError(unknown("ending of an RDF file", path.suffix, _FORMS))
    from pyoxigraph import Quad, RdfFormat, serialize

    from kumihimo.views.triples import TABLES

    prefixes, count = names(**own(reading.settings)), {"triples": 0}

    def counted() -> Iterator[Triple]:
        for triple in triples(reading, prefixes):
            count["triples"] += 1
            yield triple

    def fill(made: Path) -> None:
        with made.open("wb") as out:
            out.write(f"# {MARK}\n".encode())
            if form == "N_QUADS":
                serialize((Quad(*triple) for triple in counted()), out, RdfFormat.N_QUADS)
            else:
                serialize(counted(), out, getattr(RdfFormat, form), prefixes=prefixes if form == "TURTLE" else None)

    filled(path, fill)
    return {name: n for name, n in counts(reading.db).items() if name in TABLES} | count
