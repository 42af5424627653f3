"""one read transaction -> files: one function for each format."""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import IO, cast
from xml.sax.saxutils import escape, quoteattr

from pyoxigraph import Quad, RdfFormat, Triple, serialize

from kumihimo.app.ask.data_frames import arrow_batches, arrow_schema, loading_frames
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse.community_tree import CommunityTree, load_tree, table_or_empty
from kumihimo.app.browse.sparql import index_prefixes, index_triples
from kumihimo.core.errors import SettingsError, describe_unknown
from kumihimo.core.records import Entity, Relation
from kumihimo.exports import obsidian
from kumihimo.rdf.triples import RDF_TABLES
from kumihimo.text.safe_write import FILE_MARK, write_file, write_file_with, write_folder

_HEAD = (
    f'<?xml version="1.0" encoding="UTF-8"?>\n<!-- {FILE_MARK} -->\n'
    '<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
    'xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns '
    'http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">\n'
)
_NODE = {"name": "string", "type": "string", "description": "string", "mentions": "int"}
_EDGE = {"weight": "double", "strength": "double", "keywords": "string", "description": "string"}
_INVALID_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_graphml(snapshot: Snapshot, path: Path, *, force: bool = False) -> dict[str, int]:
    """Write entities as nodes and relations as edges.

    Each node names its community on every level.
    """
    count = {"entities": 0, "relations": 0}
    snapshot.table("entities")
    write_file(path, _xml_parts(snapshot, load_tree(snapshot), count), force=force)
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
    values: dict[str, object] = {"weight": float(relation.weight), "strength": relation.strength}
    values |= {"keywords": ", ".join(relation.keywords), "description": relation.text}
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


TableRow = tuple[object, ...]
TableWriter = Callable[[Path, str, Iterator[TableRow]], None]  # the file, the name of the table, its rows
GRAPH_TABLES = ("entities", "relations", "claims", "communities", "members", "reports")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def write_csv(snapshot: Snapshot, path: Path, *, force: bool = False) -> dict[str, int]:
    """Write one file for each table; lists as JSON."""

    def write_table(file: Path, name: str, rows: Iterator[TableRow]) -> None:
        with file.open("w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(_column_names(snapshot, name))
            writer.writerows(map(_cell, row) for row in rows)

    return _write_tables(snapshot, path, "csv", write_table, force=force)


def write_parquet(snapshot: Snapshot, path: Path, *, force: bool = False) -> dict[str, int]:
    """Write one file for each table.

    Lists of names stay lists; lists of lists become JSON. Raises KumiError without a working pyarrow.
    """
    with loading_frames("parquet", "pyarrow"):
        from pyarrow import parquet

    def write_table(file: Path, name: str, rows: Iterator[TableRow]) -> None:
        schema = arrow_schema(snapshot.record_types[name], _column_names(snapshot, name))
        with parquet.ParquetWriter(file, schema) as out:
            for batch in arrow_batches(rows, schema):
                out.write_batch(batch)

    return _write_tables(snapshot, path, "parquet", write_table, force=force)


def _write_tables(
    snapshot: Snapshot, path: Path, ending: str, write_table: TableWriter, *, force: bool
) -> dict[str, int]:
    """Write each table to a file; return the numbers of rows."""
    snapshot.table("entities")
    count = dict.fromkeys(GRAPH_TABLES, 0)

    def counted_rows(name: str) -> Iterator[TableRow]:
        for row in _table_rows(snapshot, name):
            count[name] += 1
            yield row

    def fill(target: Path) -> None:
        for name in GRAPH_TABLES:
            write_table(target / f"{name}.{ending}", name, counted_rows(name))

    write_folder(path, fill, force=force)
    return count


def _column_names(snapshot: Snapshot, name: str) -> tuple[str, ...]:
    """Return the column names of a table, in the order of `_table_rows`."""
    return (*table_or_empty(snapshot, name).codec.columns, *(["community"] if name == "members" else []))


def _table_rows(snapshot: Snapshot, name: str) -> Iterator[TableRow]:
    """Yield the rows of a table, by id."""
    table = table_or_empty(snapshot, name)
    for record in table:
        cells = (getattr(record, column) for column in table.codec.columns)
        yield (*cells, *([record.id.rpartition(".")[0]] if name == "members" else []))


def _cell(value: object) -> object:
    """Return the value of a cell.

    A text that a spreadsheet would read as a formula starts with an apostrophe.

    >>> _cell("=HYPERLINK(1)"), _cell("oats"), _cell(-1.5), _cell(("a", "b")), _cell(None)
    ("'=HYPERLINK(1)", 'oats', -1.5, '["a", "b"]', '')
    """
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA_STARTS) else value.replace("\0", "\ufffd")
    if isinstance(value, tuple):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else value


_FORMATS = {".ttl": RdfFormat.TURTLE, ".nt": RdfFormat.N_TRIPLES, ".nq": RdfFormat.N_QUADS}


def write_rdf(snapshot: Snapshot, path: Path, *, force: bool = False) -> dict[str, int]:
    """Write every row as RDF, in the format of the file's ending.

    Turtle is the default. The rows are streamed, never all in memory.
    """
    if (rdf_format := _FORMATS.get(path.suffix or ".ttl")) is None:
        raise SettingsError(describe_unknown("ending of an RDF file", path.suffix, _FORMATS))
    prefixes, count = index_prefixes(snapshot.settings), {"triples": 0}

    def counted_quads() -> Iterator[Quad]:
        for quad in index_triples(snapshot, prefixes):
            count["triples"] += 1
            yield quad

    def fill(target: Path) -> None:
        with target.open("wb") as out:
            out.write(f"# {FILE_MARK}\n".encode())
            write_triples(counted_quads(), out, prefixes, rdf_format)

    write_file_with(path, fill, force=force)
    return {name: n for name, n in snapshot.row_counts().items() if name in RDF_TABLES} | count


def write_triples(
    triples: Iterable[Quad] | Iterable[Triple],
    out: IO[bytes],
    prefixes: dict[str, str],
    rdf_format: RdfFormat = RdfFormat.TURTLE,
) -> None:
    """Write triples as RDF, in Turtle with the prefixes sorted by name.

    The library writes prefixes in any order.
    """
    serialize(triples, cast(IO[bytes], _SortedPrefixes(out)), rdf_format, prefixes=prefixes)


class _SortedPrefixes:
    """A file that sorts the prefixes.

    All of them are in the first part written.
    """

    def __init__(self, out: IO[bytes]) -> None:
        self.out, self.started = out, False

    def write(self, part: bytes) -> int:
        lines = [] if self.started else list(takewhile(lambda line: line[:8] == b"@prefix ", part.splitlines(True)))
        self.started = True
        self.out.write(b"".join(sorted(lines)) + part[sum(map(len, lines)) :])
        return len(part)

    def flush(self) -> None:
        self.out.flush()


# Each function writes a snapshot to a path (a file or a folder), completely or not at all, and returns the number of
# rows by table. force: replace files that we did not write.
FORMATS = {
    "graphml": write_graphml,
    "csv": write_csv,
    "obsidian": obsidian.write_obsidian,
    "parquet": write_parquet,
    "rdf": write_rdf,
}
DEFAULT_PATHS = {
    "graphml": "graph.graphml",
    "csv": "graph-csv",
    "obsidian": "graph-obsidian",
    "parquet": "graph-parquet",
    "rdf": "graph.ttl",
}
