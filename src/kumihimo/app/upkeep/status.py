"""an index -> its Status: contents, failures, size, and the levels of its communities."""

from dataclasses import replace
from typing import Any

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse.community_tree import index_levels, table_or_empty
from kumihimo.app.browse.document_list import partial_documents
from kumihimo.app.build import batch, graph_edits, remote_sources
from kumihimo.app.opened import catalogue, open_index
from kumihimo.app.opened.results import Status
from kumihimo.storage.database import Database


def read_status(index: open_index.OpenIndex, *, levels: bool, rights: str = "", modularity: bool = True) -> Status:
    """Return the contents, failures and size of an index.

    levels: include the figures of each community level. rights: as for `Kumihimo.retrieve`; what does not follow from
    the visible documents, such as paths, settings and sizes of files, is then empty. modularity: compare the
    communities with new ones, which takes long for a large graph.
    """
    with index.store.read_transaction() as db:
        tables = db, index.catalogue, index.settings, index.tokenizer
        snapshot = Snapshot(*tables, index.models, {}, rights=rights.strip())
        status = _read_visible(snapshot, levels, modularity=modularity)
        rest = {} if snapshot.rights else {**_read_rest(index, db), "unmatched": graph_edits.find_unmatched(snapshot)}
        return replace(status, **rest)


def _read_visible(snapshot: Snapshot, levels: bool, *, modularity: bool) -> Status:
    """Return what follows from the visible documents."""
    db = snapshot.db
    return Status(
        folder="",
        sources={},
        removed=(),
        rows=snapshot.row_counts(),
        fields=snapshot.count_fields(),
        methods=tuple(db.meta("methods", [])),
        models=db.meta("models", {}),
        settings={},
        failed=(),
        bytes=0,
        cache={"replies": 0, "bytes": 0, "hits": 0, "misses": 0},
        partial=tuple(f"{uri}: {'; '.join(reasons)}" for uri, reasons in partial_documents(snapshot).items()),
        modularity=index_modularity(snapshot) if modularity else None,
        levels=index_levels(snapshot) if levels else (),
        changed_reports=sum(added != "[]" for (added,) in table_or_empty(snapshot, "reports").columns("added")),
        missing=catalogue.missing_entries(db, snapshot.catalogue),
    )


def _read_rest(index: open_index.OpenIndex, db: Database) -> dict[str, Any]:
    """Return the facts about the whole index, by field."""
    from kumihimo.index.sources import load_sources

    sources = load_sources(db, index.base)
    return {
        "folder": str(index.place),
        "sources": {source.name: remote_sources.describe_source(source) for source in sources.values()},
        "removed": tuple(rule for source in sources.values() for rule in source.rules if not rule.startswith("!")),
        "settings": index.settings_registry.non_default(db.meta("settings", {})),
        "failed": db.failures(),
        "bytes": index.store.size(),
        "cache": index.cache.stats(),
        "spent": tuple(index.cache.usage()),
        "waiting": batch.count_waiting(index),
    }


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
