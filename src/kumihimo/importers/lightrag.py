"""the working folder of LightRAG or nano-graphrag, with default JSON and GraphML storages -> a ForeignStore."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kumihimo.core.errors import SourceError
from kumihimo.importers import store as foreign

GRAPH_FILE = "graph_chunk_entity_relation.graphml"


def read_working_folder(folder: Path) -> foreign.ForeignStore:
    """Read documents, chunks, entities, relations, and communities with their reports.

    Raises SourceError without chunks or graph: other storages than the default ones hold them elsewhere.
    """
    graph_file = _find_file(folder, GRAPH_FILE)
    folder = graph_file.parent
    graph, chunks = foreign.read_graph(graph_file), foreign.read_json(_find_file(folder, "kv_store_text_chunks.json"))
    store = foreign.ForeignStore(documents=_documents(folder, chunks), units=_chunks(chunks))
    store.add_note("Vectors: they are made again, by the embedder of this index.")
    entity_chunks, relation_chunks = _chunk_ids(folder, "entity"), _chunk_ids(folder, "relation")
    for id, values in graph.nodes.items():
        name = values.get("entity_id") or id
        units = entity_chunks.get(name) or foreign.split_values(values.get("source_id"))
        kind = _plain(values.get("entity_type", "")).lower()
        store.entities.append(
            foreign.StoredEntity(_plain(name), "" if kind == "unknown" else kind, foreign.describe(values), units)
        )
    for source, target, values in graph.edges:
        keys = (f"{source}<SEP>{target}", f"{target}<SEP>{source}")
        units = next((relation_chunks[key] for key in keys if relation_chunks.get(key)), ())
        row = foreign.StoredRelation(
            _plain(source),
            _plain(target),
            foreign.describe(values),
            units or foreign.split_values(values.get("source_id")),
            foreign.split_values(values.get("keywords", "").replace(",", foreign.SEPARATOR)),
            foreign.number(values.get("weight"), None),
        )
        store.relations.append(row)
    store.communities = _communities(graph, _read_optional(folder / "kv_store_community_reports.json"))
    if store.communities:
        store.add_note("The numbers of rows in reports: nano-graphrag does not store what they stand for.")
    else:
        store.add_note("The store has no communities and reports: they are made here, by rule or by your model.")
    return store


def _read_optional(path: Path) -> Mapping[str, Any]:
    """Return the content of a JSON file, empty if it is missing."""
    return foreign.read_json(path) if path.is_file() else {}


def _find_file(folder: Path, name: str) -> Path:
    """Return a file of a store, or of its first workspace.

    Raise SourceError with the remedy if it is missing.
    """
    path = next((path for path in (folder / name, *sorted(folder.glob(f"*/{name}"))) if path.is_file()), None)
    if path is None:
        raise SourceError(
            f"{folder}: no {name}: name the working folder (working_dir); storages in a database are not read"
        )
    return path


def _chunks(chunks: Mapping[str, Any]) -> list[foreign.StoredUnit]:
    """Return the chunks in the order of their documents."""

    def place(item: tuple[str, Any]) -> tuple[str, int]:
        return str(item[1].get("full_doc_id", "")), int(item[1].get("chunk_order_index") or 0)

    return [
        foreign.StoredUnit(id, str(chunk.get("full_doc_id", "")), str(chunk["content"]))
        for id, chunk in sorted(chunks.items(), key=place)
    ]


def _documents(folder: Path, chunks: Mapping[str, Any]) -> list[foreign.StoredDocument]:
    """Return the documents, with the names of their files."""
    files = {str(chunk.get("full_doc_id", "")): str(chunk.get("file_path") or "") for chunk in chunks.values()}
    documents = []
    for id, text in _read_optional(folder / "kv_store_full_docs.json").items():
        file = str(text.get("file_path") or files.get(id, ""))
        title = Path(file).name if file and file != "unknown_source" else ""
        documents.append(foreign.StoredDocument(id, title, str(text.get("content") or "")))
    return documents


def _chunk_ids(folder: Path, kind: str) -> Mapping[str, tuple[str, ...]]:
    """Return the chunks of each entity or relation.

    The graph names only the first ones of many.
    """
    rows = _read_optional(folder / f"kv_store_{kind}_chunks.json")
    return {name: foreign.strings(row.get("chunk_ids")) for name, row in rows.items()}


def _plain(name: str) -> str:
    """Return a name without the quotes that nano-graphrag keeps around it."""
    return name.strip().strip('"').strip()


def _communities(graph: foreign.Graph, reports: Mapping[str, Any]) -> list[foreign.StoredCommunity]:
    """Return the communities of the nodes, with their parents."""
    members: dict[str, dict[str, None]] = {}
    places: dict[str, tuple[int, str]] = {}  # level and parent
    for id, values in graph.nodes.items():
        above = ""
        for cluster in sorted(json.loads(values.get("clusters") or "[]"), key=lambda cluster: int(cluster["level"])):
            key = str(cluster["cluster"])
            members.setdefault(key, {})[_plain(id)] = None
            places.setdefault(key, (int(cluster["level"]), above))
            above = key
    report_rows = {key: (reports.get(key) or {}).get("report_json") or {} for key in members}
    return [
        foreign.StoredCommunity(
            key,
            *places[key],
            tuple(names),
            foreign.read_report(row) if (row := report_rows[key]).get("title") else None,
        )
        for key, names in members.items()
    ]
