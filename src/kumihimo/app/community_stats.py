"""communities, reports, chunks -> what each level holds, and how well the communities fit what they are made of."""

from __future__ import annotations

from typing import Any

from kumihimo.app.results import CommunityLevel
from kumihimo.core.records import Chunk, Community, Report
from kumihimo.core.table import Table, codec
from kumihimo.index import STEPS, settings_for_step
from kumihimo.index.community_levels import communities_at_level, deepest_level
from kumihimo.storage.sqlite.store import Db, SqlRows

SOURCE_LEVEL = "TS"  # the source texts themselves, as the paper calls them


def measure_levels(communities: Table[Community], reports: Table[Report], chunks: Table[Chunk]) -> list[CommunityLevel]:
    """What a question to each level would read, and to the source (GraphRAG, arXiv:2404.16130, table 2).

    A community without parts stands for itself on all levels below its own, so that each level tells of everything.
    """
    listed = list(communities)
    written: dict[str, int] = dict(reports.columns("id", "tokens"))
    texts = [tokens for (tokens,) in chunks.columns("tokens")]
    found = []
    for level in range(deepest_level(listed) + 1 if listed else 0):
        sizes = [written[c.id] for c in communities_at_level(listed, level) if c.id in written]
        found.append(_measure_level(f"C{level}", sizes, sum(texts)))
    return [*found, _measure_level(SOURCE_LEVEL, texts, sum(texts))]


def _measure_level(name: str, sizes: list[int], source: int) -> CommunityLevel:
    return CommunityLevel(name, len(sizes), sum(sizes), 100 * sum(sizes) / source if source else 0.0)


def index_levels(db: Db) -> tuple[CommunityLevel, ...]:
    """Of an index; none where it has no reports."""
    if not all(map(db.has, ("communities", "reports", "chunks"))):
        return ()
    return tuple(measure_levels(_open_table(db, "communities"), _open_table(db, "reports"), _open_table(db, "chunks")))


def index_modularity(db: Db) -> tuple[float, float] | None:
    """Of an index: of its communities, and of those that would be found afresh; None where it has none."""
    tables = ("entities", "relations", "communities")
    if not all(map(db.has, tables)) or not SqlRows(db, "communities").count():
        return None
    from kumihimo.index.communities import community_modularity

    seed = settings_for_step("communities", db.meta("settings", {})).get("seed", 0)
    return community_modularity(*(_open_table(db, name) for name in tables), seed=int(str(seed)))


def _open_table(db: Db, name: str) -> Table[Any]:
    kind = STEPS[name].output_type
    assert kind
    return Table(name, codec(kind), SqlRows(db, name))
