"""the entity graph -> GraphML, which Gephi, yEd, Cytoscape and networkx read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from kumihimo.app.community_tree import Tree, held, tree
from kumihimo.app.safe_write import MARK, file
from kumihimo.app.snapshot import Reading
from kumihimo.core.records import Entity, Relation

_HEAD = (
    f'<?xml version="1.0" encoding="UTF-8"?>\n<!-- {MARK} -->\n'
    '<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
    'xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns '
    'http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">\n'
)
_NODE = {"name": "string", "type": "string", "description": "string", "mentions": "int"}
_EDGE = {"weight": "double", "strength": "double", "keywords": "string", "description": "string"}
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(reading: Reading, path: Path) -> dict[str, int]:
    """Entities as nodes, each with its community on every level; relations as edges."""
    count = {"entities": 0, "relations": 0}
    reading.table("entities")
    file(path, _parts(reading, tree(reading), count))
    return count


def _parts(reading: Reading, communities: Tree, count: dict[str, int]) -> Iterator[str]:
    levels = {f"community_{level}": "string" for level in range(communities.depth)}
    yield _HEAD
    for kind, columns in (("node", {**_NODE, **levels}), ("edge", _EDGE)):
        for name, of in columns.items():
            yield f'<key id="{kind}_{name}" for="{kind}" attr.name="{name}" attr.type="{of}"/>\n'
    yield '<graph id="G" edgedefault="undirected">\n'
    nodes: set[str] = set()
    for entity in reading.table("entities"):
        nodes.add(entity.id)
        yield _node(entity, communities)
    for relation in held(reading, "relations"):
        if relation.source in nodes and relation.target in nodes:
            count["relations"] += 1
            yield _edge(relation)
    count["entities"] = len(nodes)
    yield "</graph>\n</graphml>\n"


def _node(entity: Entity, communities: Tree) -> str:
    values = {"name": entity.name, "type": entity.type, "description": entity.text, "mentions": entity.mentions}
    path = {f"community_{level}": id for level, id in enumerate(communities.path(entity.id))}
    return f"<node id={_quoted(entity.id)}>{_data('node', {**values, **path})}</node>\n"


def _edge(relation: Relation) -> str:
    values = {
        "weight": float(relation.weight),
        "strength": relation.strength,
        "keywords": ", ".join(relation.keywords),
        "description": relation.text,
    }
    ends = f"source={_quoted(relation.source)} target={_quoted(relation.target)}"
    return f"<edge id={_quoted(relation.id)} {ends}>{_data('edge', values)}</edge>\n"


def _data(kind: str, values: Mapping[str, object]) -> str:
    there = {name: value for name, value in values.items() if value not in ("", None)}
    return "".join(f'<data key="{kind}_{name}">{escape(_xml(str(v)))}</data>' for name, v in there.items())


def _quoted(text: str) -> str:
    return quoteattr(_xml(text))


def _xml(text: str) -> str:
    """The text without what no XML document can hold.

    >>> _xml("a\\x00b\\x1bc\\ud800d\\tこ")
    'abcd\\tこ'
    """
    return _NOT_XML.sub("", text)
