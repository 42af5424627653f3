"""files of another system -> a ForeignStore: what all these systems hold, in one form.

Also the JSON and GraphML that they write.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar
from xml.etree import ElementTree

from kumihimo.core.errors import SourceError
from kumihimo.index.data_refs import strip_references

T = TypeVar("T")
SEPARATOR = "<SEP>"  # of nano-graphrag and LightRAG, between values in one field
_NO_VALUE = ("", "none", "null", "nan", "nat", "-1")
RowNames = tuple[str, ...]  # an entity, both ends of a relation, or both names and the type of a claim


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document. title, text: empty if the store does not hold them."""

    id: str
    title: str
    text: str = ""
    modified: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredUnit:
    """A part of a document, as it was given to the model."""

    id: str
    document: str
    text: str


@dataclass(frozen=True, slots=True)
class StoredEntity:
    """An entity, with the ids of its text units."""

    name: str
    type: str
    text: str
    units: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredRelation:
    """A relation of two names, with the ids of its text units.

    weight: the sum over the units.
    """

    source: str
    target: str
    text: str
    units: tuple[str, ...]
    keywords: tuple[str, ...] = ()
    weight: float | None = None


@dataclass(frozen=True, slots=True)
class StoredClaim:
    """A claim of one text unit."""

    unit: str
    subject: str
    object: str
    type: str
    status: str
    start: str
    end: str
    text: str
    quote: str


@dataclass(frozen=True, slots=True)
class StoredReport:
    """A report. findings: summary, explanation, and the names of their rows, as in `UnitFinding`."""

    title: str
    summary: str
    rating: float
    reason: str
    findings: tuple[tuple[str, str, tuple[RowNames, ...]], ...]


@dataclass(frozen=True, slots=True)
class StoredCommunity:
    """A community. members: the names of all its entities. parent: an id, or empty."""

    id: str
    level: int
    parent: str
    members: tuple[str, ...]
    report: StoredReport | None = None


@dataclass(slots=True)
class ForeignStore:
    """All that is read from a store. notes: what cannot be kept, as sentences."""

    documents: list[StoredDocument] = field(default_factory=list)
    units: list[StoredUnit] = field(default_factory=list)
    entities: list[StoredEntity] = field(default_factory=list)
    relations: list[StoredRelation] = field(default_factory=list)
    claims: list[StoredClaim] = field(default_factory=list)
    communities: list[StoredCommunity] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add_note(self, note: str, count: int = 1) -> None:
        """Add a sentence on what cannot be kept."""
        if count:
            self.notes.append(note)


def read_json(path: Path) -> Any:
    """Return the content of a JSON file.

    Raise SourceError with the remedy.
    """
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SourceError(f"{path}: cannot be read as JSON ({error}); name the folder of a finished index") from error


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines.

    Raise SourceError with the row.
    """
    rows = list[dict[str, Any]]()
    try:
        with path.open(encoding="utf-8") as file:
            for line in filter(str.strip, file):
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError("not an object")
                rows.append(row)
    except (OSError, ValueError, RecursionError) as error:
        raise SourceError(f"{path}: row {len(rows) + 1:,}: {error}; each line is a JSON object") from error
    return rows


def split_values(text: object) -> tuple[str, ...]:
    """Return the distinct values of a field that joins them by `<SEP>`.

    >>> split_values("a<SEP>b<SEP>a"), split_values(None)
    (('a', 'b'), ())
    """
    values = str(text).split(SEPARATOR) if text else []
    return tuple(dict.fromkeys(filter(None, map(str.strip, values))))


def strings(values: object) -> tuple[str, ...]:
    """Return the texts of a list or array."""
    if values is None or isinstance(values, str | bytes | Mapping):
        return ()
    return tuple(str(value) for value in values) if isinstance(values, Iterable) else ()


def clean_text(row: Mapping[str, Any], *names: str) -> str:
    """Return the first of these values as text, or empty without one."""
    texts = (str(row[name]).strip() for name in names if row.get(name) is not None)
    return next((text for text in texts if text.casefold() not in _NO_VALUE), "")


def number(value: object, default: T) -> float | T:
    """Return a value as a number; the default for what is none.

    >>> number("7", 0), number(None, 0), number(float("nan"), 1.0), number("x", None)
    (7.0, 0, 1.0, None)
    """
    try:
        parsed = float(str(value))
    except ValueError:
        return default
    return parsed if isfinite(parsed) else default


def read_report(row: Mapping[str, Any], find_rows: Callable[[str], Sequence[RowNames]] = lambda _: ()) -> StoredReport:
    """Return a report of graphrag or nano-graphrag.

    find_rows: returns the names of the rows that a text refers to.
    """
    findings = row.get("findings")
    findings = json.loads(findings) if isinstance(findings, str) else findings
    texts = []
    for finding in findings if findings is not None else ():
        parts = finding if isinstance(finding, Mapping) else {"summary": finding}
        summary, text = (str(parts.get(key) or "") for key in ("summary", "explanation"))
        texts.append((strip_references(summary), strip_references(text), tuple(find_rows(f"{summary} {text}"))))
    names = (("title",), ("summary",), ("rating_explanation", "rank_explanation"))
    title, summary, reason = (strip_references(clean_text(row, *keys)) for keys in names)
    return StoredReport(title, summary, number(row.get("rank", row.get("rating")), 0.0), reason, tuple(texts))


Values = Mapping[str, str]


def describe(values: Values) -> str:
    """Return a description with a line for each part."""
    return "\n".join(split_values(values.get("description")))


@dataclass(slots=True)
class Graph:
    """nodes: id -> attributes. edges: source, target, attributes."""

    nodes: dict[str, Values] = field(default_factory=dict)
    edges: list[tuple[str, str, Values]] = field(default_factory=list)


def read_graph(path: Path) -> Graph:
    """Read a GraphML file. Raise SourceError if it is none."""
    graph, names, root = Graph(), dict[str, str](), ""
    try:
        for event, element in ElementTree.iterparse(path, events=("start", "end")):
            kind = element.tag.rpartition("}")[2]
            root = root or kind
            if event == "end":
                _add(graph, names, kind, element)
    except (OSError, ElementTree.ParseError) as error:
        raise SourceError(f"{path}: cannot be read as GraphML ({error}); export the graph again") from error
    if root != "graphml":
        raise SourceError(f"{path}: its root is <{root}>, not <graphml>; export the graph as GraphML")
    return graph


def _add(graph: Graph, names: dict[str, str], kind: str, element: ElementTree.Element) -> None:
    """Add a complete node or edge, or the name of an attribute."""
    if kind == "key":
        names[element.get("id", "")] = element.get("attr.name", element.get("id", "")).lower()
    elif kind == "node":
        graph.nodes[element.get("id", "")] = _values(element, names)
        element.clear()
    elif kind == "edge":
        graph.edges.append((element.get("source", ""), element.get("target", ""), _values(element, names)))
        element.clear()


def _values(element: ElementTree.Element, names: Mapping[str, str]) -> Values:
    data = (child for child in element if child.tag.rpartition("}")[2] == "data")
    return {names.get(child.get("key", ""), child.get("key", "")): (child.text or "").strip() for child in data}
