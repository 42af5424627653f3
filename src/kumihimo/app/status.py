"""an index -> its Status: contents, failures, size, and the levels of its communities."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kumihimo.app.batch import count_waiting
from kumihimo.app.missing import missing_entries
from kumihimo.app.remote_sources import describe_source
from kumihimo.app.results import CommunityLevel, Status
from kumihimo.app.snapshot import Snapshot
from kumihimo.core.digests import hash_parts
from kumihimo.core.records import NOT_READ, Chunk, Community, Report
from kumihimo.core.table import Table
from kumihimo.core.wiring import ROOT
from kumihimo.index.communities import communities_at_level, deepest_level
from kumihimo.storage import IndexTransaction

if TYPE_CHECKING:
    from kumihimo.app.facade import Kumihimo

SOURCE_LEVEL = "TS"  # the source texts, as in the paper


def read_status(kumi: Kumihimo, *, levels: bool, rights: str = "", modularity: bool = True) -> Status:
    """Return the contents, failures and size of an index.

    levels: include the figures of each community level. rights: as for `Kumihimo.retrieve`; what does not follow from
    the visible documents, such as paths, settings and sizes of files, is then empty. modularity: compare the
    communities with new ones, which takes long for a large graph.
    """
    with kumi.store.read_transaction() as db:
        snapshot = Snapshot(db, kumi.catalogue, kumi.settings, kumi.models, kumi.tokenizer, {}, rights=rights.strip())
        status = _read_visible(snapshot, levels, modularity=modularity)
        return status if snapshot.rights else replace(status, **_read_rest(kumi, db))


def _read_visible(snapshot: Snapshot, levels: bool, *, modularity: bool) -> Status:
    """Return what follows from the visible documents."""
    db = snapshot.db
    return Status(
        folder="",
        sources={},
        removed=(),
        rows=snapshot.row_counts(),
        methods=tuple(db.meta("methods", [])),
        models=db.meta("models", {}),
        settings={},
        failed=(),
        bytes=0,
        cache={"replies": 0, "bytes": 0, "hits": 0, "misses": 0},
        partial=_partial_documents(snapshot),
        modularity=index_modularity(snapshot) if modularity else None,
        levels=index_levels(snapshot) if levels else (),
        changed_reports=_count_changed_reports(snapshot),
        missing=missing_entries(db, snapshot.catalogue),
    )


def _read_rest(kumi: Kumihimo, db: IndexTransaction) -> dict[str, Any]:
    """Return the facts about the whole index, by field."""
    from kumihimo.index.sources import load_sources

    sources = load_sources(db, kumi.base)
    return {
        "folder": str(kumi.place),
        "sources": {source.name: describe_source(source) for source in sources.values()},
        "removed": tuple(rule for source in sources.values() for rule in source.rules if not rule.startswith("!")),
        "settings": kumi.settings_registry.non_default(db.meta("settings", {})),
        "failed": db.failures(),
        "bytes": kumi.store.size(),
        "cache": kumi.cache_stats(),
        "spent": tuple(kumi.spent()),
        "waiting": count_waiting(kumi),
    }


def _count_changed_reports(snapshot: Snapshot) -> int:
    """Return the number of reports with changes since they were written."""
    if not snapshot.db.has("reports"):
        return 0
    return sum(added != "[]" for (added,) in snapshot.table("reports").columns("added"))


def _partial_documents(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the documents read in part, with the reasons."""
    if not snapshot.db.has(ROOT):
        return ()
    documents, notes = snapshot.table(ROOT), snapshot.db.documents_with(NOT_READ)
    visible = [(uri, reasons) for uri, reasons in notes if documents.ids(id=hash_parts(uri))]
    return tuple(f"{uri}: {'; '.join(map(str, reasons))}" for uri, reasons in visible if isinstance(reasons, list))


def measure_levels(communities: Table[Community], reports: Table[Report], chunks: Table[Chunk]) -> list[CommunityLevel]:
    """Return what each level and the source would cost to read.

    (GraphRAG, arXiv:2404.16130, table 2.) Leaf communities repeat on deeper levels, so every level covers all entities.
    """
    all_communities = list(communities)
    report_tokens: dict[str, int] = dict(reports.columns("id", "tokens"))
    texts = [tokens for (tokens,) in chunks.columns("tokens")]
    results = []
    for level in range(deepest_level(all_communities) + 1 if all_communities else 0):
        sizes = [report_tokens[c.id] for c in communities_at_level(all_communities, level) if c.id in report_tokens]
        results.append(_measure_level(f"C{level}", sizes, sum(texts)))
    return [*results, _measure_level(SOURCE_LEVEL, texts, sum(texts))]


def _measure_level(name: str, sizes: list[int], source: int) -> CommunityLevel:
    return CommunityLevel(name, len(sizes), sum(sizes), 100 * sum(sizes) / source if source else 0.0)


def index_levels(snapshot: Snapshot) -> tuple[CommunityLevel, ...]:
    """Return the levels of an index; empty without reports."""
    tables = ("communities", "reports", "chunks")
    if not all(map(snapshot.db.has, tables)):
        return ()
    return tuple(measure_levels(*map(snapshot.table, tables)))


def index_modularity(snapshot: Snapshot) -> tuple[float, float] | None:
    """Return the modularity of an index and of fresh communities.

    None if the index has no communities.
    """
    tables = ("entities", "relations", "communities")
    if not all(map(snapshot.db.has, tables)) or not snapshot.table("communities"):
        return None
    from kumihimo.index.communities import community_modularity

    seed = snapshot.db.meta("settings", {}).get("communities", {}).get("seed", 0)
    return community_modularity(*map(snapshot.table, tables), seed=int(str(seed)))
