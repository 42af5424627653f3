"""the working folder of nano-graphrag, with its default JSON and GraphML storages -> a ForeignStore."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kumihimo.importers.lightrag import GRAPH_FILE, describe, find_file, read_chunks, read_documents, weight
from kumihimo.importers.store import (
    ForeignStore,
    StoredCommunity,
    StoredEntity,
    StoredRelation,
    StoredReport,
    read_json,
    split_values,
)
from kumihimo.importers.xml_graph import Graph, read_graph
from kumihimo.index.data_refs import strip_references


def read_nano(folder: Path) -> ForeignStore:
    """Read documents, chunks, entities, relations, communities and their reports."""
    graph_file = find_file(folder, GRAPH_FILE)
    folder = graph_file.parent
    graph, chunks = read_graph(graph_file), read_json(find_file(folder, "kv_store_text_chunks.json"))
    store = ForeignStore(documents=read_documents(folder, chunks), units=read_chunks(chunks))
    for id, values in graph.nodes.items():
        kind = _plain(values.get("entity_type", "")).lower()
        units = split_values(values.get("source_id"))
        store.entities.append(StoredEntity(_plain(id), "" if kind == "unknown" else kind, describe(values), units))
    for source, target, values in graph.edges:
        units = split_values(values.get("source_id"))
        ends = _plain(source), _plain(target)
        store.relations.append(StoredRelation(*ends, describe(values), units, weight=weight(values)))
    path = folder / "kv_store_community_reports.json"
    store.communities = _communities(graph, read_json(path) if path.is_file() else {})
    store.add_note("Vectors: they are made again, by the embedder of this index.")
    store.add_note("The numbers of rows in reports: nano-graphrag does not store what they stand for.")
    return store


def _plain(name: str) -> str:
    """Return a name without the quotes that this system keeps around it."""
    return name.strip().strip('"').strip()


def _communities(graph: Graph, reports: Mapping[str, Any]) -> list[StoredCommunity]:
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
        StoredCommunity(key, levels[key], parents[key], tuple(names), _report(reports.get(key)))
        for key, names in members.items()
    ]


def _finding_text(finding: Mapping[str, Any], key: str) -> str:
    return strip_references(str(finding.get(key) or ""))


def _report(row: Mapping[str, Any] | None) -> StoredReport | None:
    report = (row or {}).get("report_json") or {}
    if not report.get("title"):
        return None
    findings = [
        finding if isinstance(finding, Mapping) else {"summary": finding} for finding in report.get("findings") or ()
    ]
    return StoredReport(
        strip_references(str(report["title"])),
        strip_references(str(report.get("summary") or "")),
        float(report.get("rating") or 0),
        strip_references(str(report.get("rating_explanation") or "")),
        tuple((_finding_text(f, "summary"), _finding_text(f, "explanation"), ()) for f in findings),
    )
