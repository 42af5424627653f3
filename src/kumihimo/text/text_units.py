"""a text with what another system has made of it -> JSON and back: the format that every import writes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

UNITS_FORMAT = "kumihimo text units 1"


@dataclass(frozen=True, slots=True)
class UnitRelation:
    """A relation of two names in a text unit.

    strength: 1 to 10; None: not judged.
    """

    source: str
    target: str
    text: str = ""
    keywords: tuple[str, ...] = ()
    strength: float | None = None


@dataclass(frozen=True, slots=True)
class UnitClaim:
    """A claim in a text unit.

    object: a name, or empty. start, end: ISO 8601, or empty.
    """

    subject: str
    text: str
    object: str = ""
    type: str = ""
    status: str = "SUSPECTED"
    start: str = ""
    end: str = ""
    quote: str = ""


@dataclass(frozen=True, slots=True)
class SharedDescription:
    """A description of an entity, or of a relation of two.

    documents: the files of the same import that it was written from.
    """

    names: tuple[str, ...]
    text: str
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnitFinding:
    """A finding of a report.

    sources: the names of entities, (name,), of relations, (source, target), and of claims, (subject, object, type).
    """

    summary: str
    explanation: str
    sources: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class UnitCommunity:
    """A community of entities, with its report if there is one.

    key, parent: digests that name a community in the whole import; parent: empty at the top. members: names.
    documents: the files of the same import that it rests on. title: empty without a report.
    """

    key: str
    level: int
    members: tuple[str, ...]
    documents: tuple[str, ...]
    parent: str = ""
    title: str = ""
    summary: str = ""
    rating: float = 0.0
    reason: str = ""
    findings: tuple[UnitFinding, ...] = ()


@dataclass(frozen=True, slots=True)
class TextUnit:
    """A part of the text, with what was extracted from it.

    start, end: in characters of the text. entities: (name, type) each. descriptions, communities: that rest on this
    unit first.
    """

    start: int
    end: int
    entities: tuple[tuple[str, str], ...] = ()
    relations: tuple[UnitRelation, ...] = ()
    claims: tuple[UnitClaim, ...] = ()
    descriptions: tuple[SharedDescription, ...] = ()
    communities: tuple[UnitCommunity, ...] = ()


@dataclass(frozen=True, slots=True)
class TextUnits:
    """A text and its units, in the order of their starts."""

    title: str
    text: str
    units: tuple[TextUnit, ...]
    metadata: Mapping[str, object] = field(default_factory=dict)
    modified: str = ""
    format: str = UNITS_FORMAT


def dump_units(units: tuple[TextUnit, ...]) -> str:
    """Return units as JSON, as documents keep them."""
    text: bytes = _adapter(tuple[TextUnit, ...]).dump_json(units, exclude_defaults=True)
    return text.decode()


def load_units(imported: str) -> tuple[TextUnit, ...]:
    """Return the units that `dump_units` has written."""
    units: tuple[TextUnit, ...] = _adapter(tuple[TextUnit, ...]).validate_json(imported)
    return units


def load_text_units(text: str) -> TextUnits:
    """Return the content of a file. Raise pydantic.ValidationError."""
    content: TextUnits = _adapter(TextUnits).validate_json(text)
    return content


def dump_text_units(content: TextUnits) -> bytes:
    """Return the content of a file."""
    data: bytes = _adapter(TextUnits).dump_json(content, indent=1, exclude_defaults=True)
    return data.replace(b"{", f'{{\n "format": "{UNITS_FORMAT}",'.encode(), 1)


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
