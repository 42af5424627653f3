"""a view of a table + a search index -> the places in it that are searched, found once."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from kumihimo.core.table import View
from kumihimo.storage.database import Database

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Slots:
    """The places in a search index whose rows a view shows as they are stored."""

    visible: tuple[int, ...]

    @cached_property
    def array(self) -> "NDArray[np.int64]":
        """Return the visible places as numbers of numpy, sorted."""
        import numpy as np

        return np.array(self.visible, dtype=np.int64)


def visible_slots(db: Database, slot_table: str, view: View) -> Slots:
    """Return the visible places of an index.

    slot_table: has the columns slot and id.
    """
    return view.once(slot_table, lambda: _find_slots(db, slot_table, view.is_whole))


def _find_slots(db: Database, slot_table: str, visible: Callable[[str], bool]) -> Slots:
    rows = db.all(f"SELECT slot, id FROM {db.relation(slot_table)} ORDER BY slot")
    return Slots(tuple(slot for slot, id in rows if visible(id)))
