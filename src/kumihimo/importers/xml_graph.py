"""a GraphML file -> its nodes and edges, with their attributes as text."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from kumihimo.core.errors import SourceError

Values = Mapping[str, str]


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
