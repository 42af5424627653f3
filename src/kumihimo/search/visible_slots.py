"""a filter of rows + a search index -> the places in it that are searched, found once per build."""

import json
from dataclasses import dataclass
from typing import Any

from kumihimo.core.table import RowFilter, Table, all_visible
from kumihimo.storage.sqlite.store import Db


@dataclass(frozen=True, slots=True)
class Slots:
    """The places in a search index whose rows are visible."""

    visible: tuple[int, ...]
    condition: str  # of SQL, on a column `rowid`
    value: str  # its parameter


def visible_slots(db: Db, slot_table: str, table: Table[Any]) -> Slots | None:
    """Return the visible places of an index; None: all are.

    slot_table: has the columns slot and id.
    """
    visible = table.visible
    if visible is all_visible:
        return None
    return db.once_per_build((slot_table, visible), lambda: _find_slots(db, slot_table, visible))


def _find_slots(db: Db, slot_table: str, visible: RowFilter) -> Slots:
    by_visibility: dict[bool, list[int]] = {True: [], False: []}
    for slot, id in db.all(f'SELECT slot, id FROM "{slot_table}" ORDER BY slot'):
        by_visibility[visible(id)].append(slot)
    wide = len(by_visibility[True]) > len(by_visibility[False])
    # the + keeps FTS5 from a search for each place
    condition = f"+rowid {'NOT IN' if wide else 'IN'} (SELECT value FROM json_each(?))"
    return Slots(tuple(by_visibility[True]), condition, json.dumps(by_visibility[not wide]))
