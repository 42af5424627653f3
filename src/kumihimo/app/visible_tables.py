"""a snapshot + expressions over metadata -> the documents that match, and what its tables show of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kumihimo.core.lineage import visibility_filters
from kumihimo.core.table import Table
from kumihimo.core.wiring import ROOT
from kumihimo.llm.registry import RULES

if TYPE_CHECKING:
    from kumihimo.app.snapshot import Snapshot


def visible_table(snapshot: Snapshot, table: Table[Any]) -> Table[Any]:
    """Return the visible rows of a table of a snapshot."""
    if not snapshot.rights and not snapshot.filter:
        return table
    bare = replace(snapshot, matrices={})  # the filters outlive this snapshot
    filters = snapshot.db.once_per_build(
        ("filter", snapshot.rights, snapshot.filter),
        lambda: visibility_filters(bare.catalogue.wired, bare.stored_table, visible_documents(bare)),
    )
    return table.filtered(filters(table.name))


def visible_documents(snapshot: Snapshot) -> frozenset[str]:
    """Return the ids of the documents that a snapshot shows.

    A field that no document has is unset for rights, and an error in a filter. Raises SettingsError.
    """
    # imported here, since few questions have a filter
    from kumihimo.search.metadata_filter import matching_documents

    expression, lenient = (snapshot.filter, False) if snapshot.filter else (snapshot.rights, True)
    outer = replace(snapshot, filter="") if snapshot.filter else replace(snapshot, rights="")
    metadata_model = snapshot.db.meta("models", {}).get("metadata", RULES)
    # a table made by rule only repeats the metadata of the documents
    metadata = outer.table("metadata") if metadata_model != RULES else None
    return matching_documents(expression, outer.table(ROOT), metadata, lenient=lenient)
