"""the full-text index of a table -> which words its rows have, and how they write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kumihimo.core.table import Table
from kumihimo.search.fulltext import KeywordIndex, SqliteKeywordSearch
from kumihimo.search.visible_slots import visible_slots
from kumihimo.storage.sqlite.store import Db
from kumihimo.text.tokens import tokenize

_STEMS = "stems_by_letter"  # a temporary table, and what is computed once per build


@dataclass(frozen=True, slots=True)
class IndexedWords:
    """`WordIndex` of the visible rows of one table."""

    db: Db
    table: Table[Any]

    @property
    def name(self) -> str:
        """Return the name of the full-text index."""
        return KeywordIndex(self.db, self.table.name, self.table.codec).name

    def has(self, text: str) -> bool:
        phrase = " ".join(tokenize(text))
        slots = visible_slots(self.db, f"{self.name}_ids", self.table)
        condition, values = (f"AND {slots.condition()}", [slots.value]) if slots else ("", [])
        sql = f'SELECT 1 FROM "{self.name}" WHERE "{self.name}" MATCH ? {condition} LIMIT 1'
        return bool(self.db.all(sql, f'"{phrase}"', *values))

    def passages(self, text: str, k: int) -> Sequence[str]:
        hits = SqliteKeywordSearch(self.db)(self.table, text, k=k)
        return [item.record.index_text for item in hits]

    def stems(self, letter: str) -> Mapping[str, int]:
        by_letter: dict[str, Mapping[str, int]] = (
            self.table.view.once(_STEMS, dict)
            if self.table.view
            else self.db.once_per_build((_STEMS, self.table.name), dict)
        )
        if letter not in by_letter:
            by_letter[letter] = self._read_stems(letter)
        return by_letter[letter]

    def _read_stems(self, letter: str) -> dict[str, int]:
        db, end = self.db, chr(ord(letter) + 1)
        slots = visible_slots(db, f"{self.name}_ids", self.table)
        condition, values = (f"AND {slots.condition('doc')}", [slots.value]) if slots else ("", [])
        counts = "term, count(DISTINCT doc)" if slots else "term, doc"
        terms = f'SELECT {counts} FROM temp."{_STEMS}" WHERE term >= ? AND term < ? {condition} GROUP BY term'
        with db.locked():  # one connection for all threads
            db.run("PRAGMA query_only = 0")  # or there are no temporary tables
            try:
                kind = "instance" if slots else "row"
                db.run(f'CREATE VIRTUAL TABLE temp."{_STEMS}" USING fts5vocab(main, "{self.name}", {kind})')
                return dict(db.all(terms, letter, end, *values))
            finally:
                db.run(f'DROP TABLE IF EXISTS temp."{_STEMS}"')
                db.run("PRAGMA query_only = 1")
