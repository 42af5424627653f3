"""a question -> what a method finds, with plain metadata, for the documents of any framework."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from kumihimo.app.ask.questions import Questions
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.core.context import Evidence
from kumihimo.core.errors import KumiError

PLACE = ("title", "uri", "place", "location", "start", "end")


@dataclass(frozen=True, slots=True)
class Search:
    """The method, filter and settings of a search.

    method: empty for the default. k: results at most; None: as many as the method finds. filter: an expression over
    metadata. rights: an expression; other documents do not exist. settings: of the method.
    """

    method: str = ""
    k: int | None = None
    filter: str = ""
    rights: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


DEFAULT_SEARCH = Search()


@dataclass(frozen=True, slots=True)
class FoundText:
    """A piece of evidence.

    id: table and id of its row. score: of the method; its range differs between methods. metadata: `table`, and of the
    first source `title`, `uri`, `place`, `start`, `end` (characters of the document), and `location` for people;
    `index`, if several were asked.
    """

    id: str
    text: str
    score: float
    metadata: dict[str, Any]


def find_texts(kumi: Questions, question: str, search: Search) -> list[FoundText]:
    """Return what a method finds for a question, best first."""
    found = kumi.retrieve(question, search.method, filter=search.filter, rights=search.rights, **search.settings)
    with kumi.snapshot(search.method, rights=search.rights) as snapshot:
        return [
            FoundText(
                f"{item.table}/{item.record.id}", item.text, item.score, {"table": item.table, **_place(snapshot, item)}
            )
            for item in islice(found, search.k)
        ]


def _place(snapshot: Snapshot, item: Evidence) -> dict[str, Any]:
    """Return where the first source stands.

    Empty for a row that a build has just removed.
    """
    try:
        span = next(snapshot.trace(item), None)
    except KumiError:
        return {}
    if span is None:
        return {}
    index = {"index": span.index} if span.index else {}
    return {**index, **{name: getattr(span, name) for name in PLACE}}
