"""table -> full-text index: BM25 over words, and over pairs of characters in Japanese and Chinese.

SQLite's FTS5 over our own tokens, in the same transaction as the rows. The index keeps no text:
what is taken out is told again, from the row as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from kumihimo.core.context import Context, Evidence
from kumihimo.core.errors import IndexUnavailable
from kumihimo.core.records import Record
from kumihimo.core.table import Codec, Row, Table
from kumihimo.storage.sqlite.store import Db
from kumihimo.text.tokens import content_tokens, tokenize

_FIRST_LIMIT_FACTOR = 4  # times as many rows as are wanted
_MAX_LIMIT = 2**62  # rows that a query can be limited to


@dataclass(frozen=True, slots=True)
class KeywordIndex:
    """The full-text index of one table, kept while the table is built."""

    db: Db
    table: str
    codec: Codec[Any]
    kind: ClassVar[str] = "words"

    @property
    def name(self) -> str:
        """Of its table in the index, and of its line in `meta`."""
        return _index_name(self.table)

    def ensure(self, fingerprint: str) -> bool:
        """Make it where it is missing or was made by other code; true if it has to be filled."""
        if self.db.meta(self.name) == fingerprint:
            return False
        self.clear()
        self.db.set_meta(self.name, fingerprint)
        return True

    def clear(self) -> None:
        name = self.name
        self.db.run(f'DROP TABLE IF EXISTS "{name}"')
        self.db.run(f'DROP TABLE IF EXISTS "{name}_ids"')
        tokenizer = "unicode61 remove_diacritics 0 categories 'L* M* N* Co'"
        self.db.run(f'CREATE VIRTUAL TABLE "{name}" USING fts5(text, content=\'\', tokenize="{tokenizer}")')
        self.db.run(f'CREATE TABLE "{name}_ids" (slot INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL)')

    def replace(self, old: list[Row], new: list[Row]) -> None:
        """Take out what the old rows said and put in what the new ones say."""
        was, now = self._token_texts(old), self._token_texts(new)
        same = {id for id in was if now.get(id) == was[id]}
        name = self.name
        for id in was.keys() - same:
            slot = self.db.all(f'SELECT slot FROM "{name}_ids" WHERE id = ?', id)[0][0]
            self.db.run(f'INSERT INTO "{name}" ("{name}", rowid, text) VALUES (\'delete\', ?, ?)', slot, was[id])
            self.db.run(f'DELETE FROM "{name}_ids" WHERE slot = ?', slot)
        added = [id for id in now if id not in same]
        self.db.many(f'INSERT INTO "{name}_ids" (id) VALUES (?)', ((id,) for id in added))
        self.db.many(
            f'INSERT INTO "{name}" (rowid, text) SELECT slot, ? FROM "{name}_ids" WHERE id = ?',
            ((now[id], id) for id in added),
        )

    def finish(self) -> None:
        """Nothing waits."""

    def _token_texts(self, rows: list[Row]) -> dict[str, str]:
        records: list[Record] = [self.codec.decode(row) for row in rows]
        return {record.id: " ".join(tokenize(said)) for record in records if (said := record.index_text)}


@dataclass(frozen=True, slots=True)
class SqliteKeywordSearch:
    """`Match` over one snapshot: BM25 as FTS5 computes it (k1 = 1.2, b = .75), equal scores in the order of ids."""

    db: Db

    def __call__(self, table: Table[Any], text: str, *, k: int) -> Context:
        if not self.db.has(_index_name(table.name)):
            raise IndexUnavailable(f"{table.name} is not indexed by words: `kumi index --methods bm25` does that")
        asked = content_tokens(text)
        if not asked or k < 1:
            return Context()
        query = " OR ".join(f'"{token}"' for token in asked)
        best = sorted((-score, id) for score, id in self._rank_rows(table, query, k))[:k]
        rows = table.get_many(id for _, id in best)
        return Context(tuple(Evidence(table.name, rows[id], -score) for score, id in best))

    def _rank_rows(self, table: Table[Any], query: str, k: int) -> list[tuple[float, str]]:
        """The best k that pass, and all that score as much as the last of them."""
        found: list[tuple[float, str]] = []
        seen = 0

        def more(row: Row) -> bool:
            nonlocal seen
            score, id = row
            if len(found) >= k and score < found[k - 1][0]:
                return False
            seen += 1
            if table.visible(id):
                found.append((score, id))
            return True

        name = _index_name(table.name)  # sorted by SQLite, not by FTS5 (`ORDER BY rank`), which takes twice as long
        ranked = f'SELECT -bm25("{name}") AS score, rowid AS place FROM "{name}" WHERE "{name}" MATCH ? ORDER BY 1 DESC'
        # The outer rows come in the order of the inner query, which LIMIT keeps apart; -1 limits nothing
        said = f'SELECT score, id FROM ({ranked} LIMIT ?) CROSS JOIN "{name}_ids" ON slot = place'
        for limit in (
            min(_FIRST_LIMIT_FACTOR * k, _MAX_LIMIT),
            -1,
        ):  # to sort few out of many takes half the time, and they mostly suffice
            found, seen = [], 0
            self.db.read(more, said, query, limit)
            if seen < limit:
                break
        return found


def _index_name(table: str) -> str:
    return f"words_{table}"
