"""the full-text index of a table -> which words its rows have, and how they write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kumihimo.core.table import Table
from kumihimo.search.fulltext import Bm25Search
from kumihimo.search.stores import word_store
from kumihimo.search.visible_slots import visible_slots
from kumihimo.search.word_store import WordStore
from kumihimo.storage.database import Database
from kumihimo.text.tokens import tokenize

_STEMS = "stems_by_letter"  # what is computed once per build


@dataclass(frozen=True)
class IndexedWords:
    """`WordIndex` of the visible rows of one table."""

    db: Database
    table: Table[Any]

    def has(self, text: str) -> bool:
        slots = visible_slots(self.db, self._store.slot_table, self.table)
        return self._store.has_phrase(tokenize(text), slots)

    def passages(self, text: str, k: int) -> Sequence[str]:
        hits = Bm25Search(self.db)(self.table, text, k=k)
        return [item.record.index_text for item in hits]

    def stems(self, letter: str) -> Mapping[str, int]:
        by_letter: dict[str, Mapping[str, int]] = (
            self.table.view.once(_STEMS, dict)
            if self.table.view
            else self.db.once_per_build((_STEMS, self.table.name), dict)
        )
        if letter not in by_letter:
            slots = visible_slots(self.db, self._store.slot_table, self.table)
            by_letter[letter] = self._store.count_words(letter, slots)
        return by_letter[letter]

    @cached_property
    def _store(self) -> WordStore:
        return word_store(self.db, self.table.name)
