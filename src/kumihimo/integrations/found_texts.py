"""a question -> what a method finds, with plain metadata, for the documents of any framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from kumihimo.app.facade import Kumihimo
from kumihimo.app.json_values import place_json


@dataclass(frozen=True, slots=True)
class Search:
    """How an index is searched.

    method: empty for the default. k: results at most; None: as many as the method finds. filter: an expression over
    metadata. rights: an expression; other documents do not exist. settings: of the method.
    """

    method: str = ""
    k: int | None = None
    filter: str = ""
    rights: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FoundText:
    """A piece of evidence.

    id: table and id of its row. score: of the method; its range differs between methods. metadata: `table`, and of the
    first source `title`, `uri`, `place`, `start`, `end` (characters of the document), and `location` for people.
    """

    id: str
    text: str
    score: float
    metadata: dict[str, Any]


def find_texts(kumi: Kumihimo, question: str, search: Search) -> list[FoundText]:
    """Return what a method finds for a question, best first."""
    with kumi.snapshot(search.method, rights=search.rights) as snapshot:
        context = snapshot.retrieve(question, search.method, filter=search.filter, **search.settings)
        found = []
        for item in islice(context, search.k):
            places = (place_json(span) for span in snapshot.trace((item.table, item.record.id)))
            place = {name: value for name, value in next(places, {}).items() if name not in ("chunk", "document")}
            metadata = {"table": item.table, **place}
            found.append(FoundText(f"{item.table}/{item.record.id}", item.text, item.score, metadata))
    return found
