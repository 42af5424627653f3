"""communities, reports, chunks -> size of each level, and modularity of the communities."""

from __future__ import annotations

from typing import Any

from kumihimo.app.results import CommunityLevel
from kumihimo.core.records import Chunk, Community, Report
from kumihimo.core.table import Table, codec
from kumihimo.index import STEPS, settings_for_step
from kumihimo.index.community_levels import communities_at_level, deepest_level
from kumihimo.storage.protocols import IndexTransaction

SOURCE_LEVEL = "TS"  # the source texts, as in the paper


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


def index_levels(db: IndexTransaction) -> tuple[CommunityLevel, ...]:
    """Return the levels of an index; empty without reports."""
    if not all(map(db.has, ("communities", "reports", "chunks"))):
        return ()
    return tuple(measure_levels(_open_table(db, "communities"), _open_table(db, "reports"), _open_table(db, "chunks")))


def index_modularity(db: IndexTransaction) -> tuple[float, float] | None:
    """Return the modularity of an index and of fresh communities.

    None if the index has no communities.
    """
    tables = ("entities", "relations", "communities")
    if not all(map(db.has, tables)) or not db.count("communities"):
        return None
    from kumihimo.index.communities import community_modularity

    seed = settings_for_step("communities", db.meta("settings", {})).get("seed", 0)
    return community_modularity(*(_open_table(db, name) for name in tables), seed=int(str(seed)))


def _open_table(db: IndexTransaction, name: str) -> Table[Any]:
    record_type = STEPS[name].output_type
    assert record_type
    return Table(name, codec(record_type), db.rows(name))
