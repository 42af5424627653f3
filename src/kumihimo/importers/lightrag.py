"""the working folder of LightRAG or nano-graphrag, with default JSON and GraphML storages -> a ForeignStore."""

import json
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from kumihimo.core.errors import SourceError
from kumihimo.importers import store as foreign
from kumihimo.index.data_refs import strip_references

GRAPH_FILE = "graph_chunk_entity_relation.graphml"
_NO_TYPE = ("unknown", "")


def read_lightrag(folder: Path) -> foreign.ForeignStore:
    """Read documents, chunks, entities and relations.

    Raises SourceError without chunks or graph: other storages than the default ones hold them elsewhere.
    """
    folder, graph, store = _open_store(folder)
    entity_chunks, relation_chunks = _chunk_ids(folder, "entity"), _chunk_ids(folder, "relation")
    for id, values in graph.nodes.items():
        name = values.get("entity_id") or id
        units = entity_chunks.get(name) or foreign.split_values(values.get("source_id"))
        store.entities.append(foreign.StoredEntity(name, _type(values), describe(values), units))
    for source, target, values in graph.edges:
        key = next((key for key in (f"{source}<SEP>{target}", f"{target}<SEP>{source}") if key in relation_chunks), "")
        units = relation_chunks.get(key) or foreign.split_values(values.get("source_id"))
        keywords = dict.fromkeys(word.strip() for word in values.get("keywords", "").replace("<SEP>", ",").split(","))
        row = foreign.StoredRelation(
            source, target, describe(values), units, tuple(filter(None, keywords)), weight(values)
        )
        store.relations.append(row)
    store.add_note("LightRAG has no communities and reports: they are made here, by rule or by your model.")
    return store


def _open_store(folder: Path) -> tuple[Path, foreign.Graph, foreign.ForeignStore]:
    """Return the folder, its graph, and a store of its texts."""
    graph_file = find_file(folder, GRAPH_FILE)
    folder = graph_file.parent
    graph, chunks = foreign.read_graph(graph_file), foreign.read_json(find_file(folder, "kv_store_text_chunks.json"))
    store = foreign.ForeignStore(documents=read_documents(folder, chunks), units=read_chunks(chunks))
    store.add_note("Vectors: they are made again, by the embedder of this index.")
    return folder, graph, store


def _read_optional(path: Path) -> Mapping[str, Any]:
    """Return the content of a JSON file, empty if it is missing."""
    return foreign.read_json(path) if path.is_file() else {}


def find_file(folder: Path, name: str) -> Path:
    """Return a file of a store, or of its first workspace.

    Raise SourceError with the remedy if it is missing.
    """
    path = next((path for path in (folder / name, *sorted(folder.glob(f"*/{name}"))) if path.is_file()), None)
    if path is None:
        raise SourceError(
            f"{folder}: no {name}: name the working folder (working_dir); storages in a database are not read"
        )
    return path


def read_chunks(chunks: Mapping[str, Any]) -> list[foreign.StoredUnit]:
    """Return the chunks in the order of their documents."""

    def place(item: tuple[str, Any]) -> tuple[str, int]:
        return str(item[1].get("full_doc_id", "")), int(item[1].get("chunk_order_index") or 0)

    return [
        foreign.StoredUnit(id, str(chunk.get("full_doc_id", "")), str(chunk["content"]))
        for id, chunk in sorted(chunks.items(), key=place)
    ]


def read_documents(folder: Path, chunks: Mapping[str, Any]) -> list[foreign.StoredDocument]:
    """Return the documents, with the names of their files."""
    files = {str(chunk.get("full_doc_id", "")): str(chunk.get("file_path") or "") for chunk in chunks.values()}
    documents = []
    for id, text in _read_optional(folder / "kv_store_full_docs.json").items():
        file = str(text.get("file_path") or files.get(id, ""))
        title = Path(file).name if file and file != "unknown_source" else ""
        documents.append(foreign.StoredDocument(id, title, str(text.get("content") or "")))
    return documents


def describe(values: foreign.Values) -> str:
    """Return a description with a line for each part."""
    return "\n".join(foreign.split_values(values.get("description")))


def weight(values: foreign.Values) -> float | None:
    """Return the weight of an edge, or None."""
    try:
        number = float(values["weight"])
    except (KeyError, ValueError):
        return None
    return number if isfinite(number) else None


def _type(values: foreign.Values) -> str:
    kind = values.get("entity_type", "").strip('"').lower()
    return "" if kind in _NO_TYPE else kind


def _chunk_ids(folder: Path, kind: str) -> Mapping[str, tuple[str, ...]]:
    """Return the chunks of each entity or relation.

    The graph names only the first ones of many.
    """
    rows = _read_optional(folder / f"kv_store_{kind}_chunks.json")
    return {name: foreign.strings(row.get("chunk_ids")) for name, row in rows.items()}


def read_nano(folder: Path) -> foreign.ForeignStore:
    """Read documents, chunks, entities, relations, communities and their reports."""
    folder, graph, store = _open_store(folder)
    for id, values in graph.nodes.items():
        kind = _plain(values.get("entity_type", "")).lower()
        units = foreign.split_values(values.get("source_id"))
        kind = "" if kind == "unknown" else kind
        store.entities.append(foreign.StoredEntity(_plain(id), kind, describe(values), units))
    for source, target, values in graph.edges:
        units = foreign.split_values(values.get("source_id"))
        ends = _plain(source), _plain(target)
        store.relations.append(foreign.StoredRelation(*ends, describe(values), units, weight=weight(values)))
    store.communities = _communities(graph, _read_optional(folder / "kv_store_community_reports.json"))
    store.add_note("The numbers of rows in reports: nano-graphrag does not store what they stand for.")
    return store


def _plain(name: str) -> str:
    """Return a name without the quotes that this system keeps around it."""
    return name.strip().strip('"').strip()


def _communities(graph: foreign.Graph, reports: Mapping[str, Any]) -> list[foreign.StoredCommunity]:
    """Return the communities of the nodes, with their parents."""
    members: dict[str, dict[str, None]] = {}
    levels: dict[str, int] = {}
    parents: dict[str, str] = {}
    for id, values in graph.nodes.items():
        clusters = sorted(json.loads(values.get("clusters") or "[]"), key=lambda cluster: int(cluster["level"]))
        above = ""
        for cluster in clusters:
            key = str(cluster["cluster"])
            members.setdefault(key, {})[_plain(id)] = None
            levels[key] = int(cluster["level"])
            parents.setdefault(key, above)
            above = key
    return [
        foreign.StoredCommunity(key, levels[key], parents[key], tuple(names), _report(reports.get(key)))
        for key, names in members.items()
    ]


def _text(row: Mapping[str, Any], key: str) -> str:
    return strip_references(str(row.get(key) or ""))


def _report(row: Mapping[str, Any] | None) -> foreign.StoredReport | None:
    report = (row or {}).get("report_json") or {}
    if not report.get("title"):
        return None
    findings = [
        finding if isinstance(finding, Mapping) else {"summary": finding} for finding in report.get("findings") or ()
    ]
    title, summary, reason = (_text(report, key) for key in ("title", "summary", "rating_explanation"))
    texts = tuple((_text(finding, "summary"), _text(finding, "explanation"), ()) for finding in findings)
    return foreign.StoredReport(title, summary, float(report.get("rating") or 0), reason, texts)
