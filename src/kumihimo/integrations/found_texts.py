"""a question -> what a method finds, with plain metadata, for any framework; the texts of its documents -> an index."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from kumihimo.app.facade import Kumihimo
from kumihimo.core import context, digests, spans


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
_OURS = ("table", "score", "n")  # what results have besides a place


def find_evidence(kumi: Kumihimo, question: str, search: Search) -> list[context.Evidence]:
    """Return what a method finds for a question, best first."""
    options = {"filter": search.filter, "rights": search.rights, **search.settings}
    return list(islice(kumi.retrieve(question, search.method, **options), search.k))


def add_texts(kumi: Kumihimo, texts: Iterable[tuple[str | None, str, Mapping[str, Any]]]) -> list[str]:
    """Index texts, each with its id and metadata; return the ids."""
    if not (columns := list(zip(*texts, strict=True))):
        return []
    ids = [id or "" for id in columns[0]]
    kumi.index_texts(columns[1], ids=ids, metadata=columns[2], wait=True)
    return [id or digests.hash_parts(text) for id, text in zip(ids, columns[1], strict=True)]


def row_name(item: context.Evidence) -> str:
    """Return the table and the id of a row, as one id."""
    return "/".join(item.reference)


def describe_row(item: context.Evidence) -> dict[str, Any]:
    """Return the table of a row, and where its first source stands."""
    return {"table": item.table, **(describe_span(item.source) if item.uri else {})}


def describe_span(span: spans.Span) -> dict[str, Any]:
    """Return the fields of the document of a span, and its place.

    The place is `title`, `uri`, `place`, `start`, `end` (characters of the document), and `location` for people. A
    field with the name of one of these becomes `document_place`.
    """
    place = span.to_place()
    taken = {*place, *_OURS}
    fields = {f"document_{name}" if name in taken else name: value for name, value in span.metadata.items()}
    return {**fields, **place}
