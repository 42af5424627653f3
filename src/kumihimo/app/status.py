"""an index -> its Status: contents, failures, size, and the levels of its communities."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kumihimo.app.batch import count_waiting
from kumihimo.app.catalogue import BUILT_IN
from kumihimo.app.missing import missing_entries
from kumihimo.app.results import CommunityLevel, Status
from kumihimo.app.snapshot import row_counts
from kumihimo.core.records import NOT_READ, Chunk, Community, Report
from kumihimo.core.table import Table, codec
from kumihimo.core.wiring import ROOT
from kumihimo.index.communities import communities_at_level, deepest_level
from kumihimo.storage import IndexTransaction

if TYPE_CHECKING:
    from kumihimo.app.facade import Kumihimo

SOURCE_LEVEL = "TS"  # the source texts, as in the paper


def read_status(kumi: Kumihimo, *, levels: bool) -> Status:
    """Return the contents, failures and size of an index.

    levels: include the figures of each community level.
    """
    from kumihimo.index.documents import load_sources

    with kumi.store.read_transaction() as db:
        sources = load_sources(db, kumi.base)
        return Status(
            folder=str(kumi.folder),
            sources={source.name: str(source.path) for source in sources.values()},
            removed=tuple(rule for source in sources.values() for rule in source.rules if not rule.startswith("!")),
            rows=row_counts(db, kumi.catalogue),
            methods=tuple(db.meta("methods", [])),
            models=db.meta("models", {}),
            settings=kumi.settings_registry.non_default(db.meta("settings", {})),
            missing=missing_entries(db, kumi.catalogue),
            failed=db.failures(),
            partial=_partial_documents(db),
            bytes=sum(_file_size(path) for path in kumi.folder.rglob("*")),
            cache=kumi.cache_stats(),
            spent=tuple(kumi.spent()),
            waiting=count_waiting(kumi.cache.path),
            modularity=index_modularity(db),
            levels=index_levels(db) if levels else (),
            changed_reports=_count_changed_reports(db),
        )


def _count_changed_reports(db: IndexTransaction) -> int:
    """Return the number of reports with changes since they were written."""
    return sum(added != "[]" for (added,) in _open_table(db, "reports").columns("added")) if db.has("reports") else 0


def _partial_documents(db: IndexTransaction) -> tuple[str, ...]:
    """Return the documents read in part, with the reasons."""
    notes = db.documents_with(NOT_READ) if db.has(ROOT) else ()
    return tuple(f"{uri}: {'; '.join(map(str, reasons))}" for uri, reasons in notes if isinstance(reasons, list))


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:  # a build has just removed it
        return 0


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

    seed = db.meta("settings", {}).get("communities", {}).get("seed", 0)
    return community_modularity(*(_open_table(db, name) for name in tables), seed=int(str(seed)))


def _open_table(db: IndexTransaction, name: str) -> Table[Any]:
    return Table(name, codec(BUILT_IN.record_types[name]), db.rows(name))
