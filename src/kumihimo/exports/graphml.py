"""the entity graph -> GraphML, for Gephi, yEd, Cytoscape and networkx."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from kumihimo.app.community_tree import CommunityTree, load_tree, table_or_empty
from kumihimo.app.safe_write import FILE_MARK, write_file
from kumihimo.app.snapshot import Snapshot
from kumihimo.core.records import Entity, Relation

_HEAD = (
    f'<?xml version="1.0" encoding="UTF-8"?>\n<!-- {FILE_MARK} -->\n'
    '<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
    'xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns '
    'http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">\n'
)
_NODE = {"name": "string", "type": "string", "description": "string", "mentions": "int"}
_EDGE = {"weight": "double", "strength": "double", "keywords": "string", "description": "string"}
_INVALID_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_graphml(snapshot: Snapshot, path: Path) -> dict[str, int]:
    """Write entities as nodes and relations as edges.

    Each node names its community on every level.
    """
    count = {"entities": 0, "relations": 0}
    snapshot.table("entities")
    write_file(path, _xml_parts(snapshot, load_tree(snapshot), count))
    return count


def _xml_parts(snapshot: Snapshot, communities: CommunityTree, count: dict[str, int]) -> Iterator[str]:
    levels = {f"community_{level}": "string" for level in range(communities.depth)}
    yield _HEAD
    for kind, columns in (("node", {**_NODE, **levels}), ("edge", _EDGE)):
        for name, value_type in columns.items():
            yield f'<key id="{kind}_{name}" for="{kind}" attr.name="{name}" attr.type="{value_type}"/>\n'
    yield '<graph id="G" edgedefault="undirected">\n'
    nodes: set[str] = set()
    for entity in snapshot.table("entities"):
        nodes.add(entity.id)
        yield _node(entity, communities)
    for relation in table_or_empty(snapshot, "relations"):
        if relation.source in nodes and relation.target in nodes:
            count["relations"] += 1
            yield _edge(relation)
    count["entities"] = len(nodes)
    yield "</graph>\n</graphml>\n"


def _node(entity: Entity, communities: CommunityTree) -> str:
    values = {"name": entity.name, "type": entity.type, "description": entity.text, "mentions": entity.mentions}
    path = {f"community_{level}": id for level, id in enumerate(communities.entity_path(entity.id))}
    return f"<node id={_xml_attribute(entity.id)}>{_data('node', {**values, **path})}</node>\n"


def _edge(relation: Relation) -> str:
    values = {
        "weight": float(relation.weight),
        "strength": relation.strength,
        "keywords": ", ".join(relation.keywords),
        "description": relation.text,
    }
    ends = f"source={_xml_attribute(relation.source)} target={_xml_attribute(relation.target)}"
    return f"<edge id={_xml_attribute(relation.id)} {ends}>{_data('edge', values)}</edge>\n"


def _data(kind: str, values: Mapping[str, object]) -> str:
    present = {name: value for name, value in values.items() if value not in ("", None)}
    return "".join(f'<data key="{kind}_{name}">{escape(_xml_safe(str(v)))}</data>' for name, v in present.items())


def _xml_attribute(text: str) -> str:
    return quoteattr(_xml_safe(text))


def _xml_safe(text: str) -> str:
    r"""Return the text without characters that XML forbids.

    >>> _xml_safe("a\x00b\x1bc\ud800d\tこ")
    'abcd\tこ'
    """
    return _INVALID_XML.sub("", text)
