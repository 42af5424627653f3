"""table -> full-text index: BM25 over words; pairs of characters in Japanese and Chinese.

SQLite's FTS5 over our own tokens, in the same transaction as the rows. The index keeps no text: to delete an entry, its
tokens are computed again from the old row.
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

_FIRST_LIMIT_FACTOR = 4  # of the first query, which is usually enough
_MAX_LIMIT = 2**62  # of SQLite


@dataclass(frozen=True, slots=True)
class KeywordIndex:
    """The full-text index of one table, updated while the table is built."""

    db: Db
    table: str
    codec: Codec[Any]
    kind: ClassVar[str] = "words"

    @property
    def name(self) -> str:
        """Return the name of the index table and of its `meta` row."""
        return _index_name(self.table)

    def ensure(self, fingerprint: str) -> bool:
        """Create the index if missing or outdated; return whether to fill it."""
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
        """Remove the old rows' tokens and add those of the new rows."""
        old_texts, new_texts = self._token_texts(old), self._token_texts(new)
        unchanged = {id for id in old_texts if new_texts.get(id) == old_texts[id]}
        name = self.name
        for id in old_texts.keys() - unchanged:
            slot = self.db.all(f'SELECT slot FROM "{name}_ids" WHERE id = ?', id)[0][0]
            self.db.run(f'INSERT INTO "{name}" ("{name}", rowid, text) VALUES (\'delete\', ?, ?)', slot, old_texts[id])
            self.db.run(f'DELETE FROM "{name}_ids" WHERE slot = ?', slot)
        added = [id for id in new_texts if id not in unchanged]
        self.db.many(f'INSERT INTO "{name}_ids" (id) VALUES (?)', ((id,) for id in added))
        self.db.many(
            f'INSERT INTO "{name}" (rowid, text) SELECT slot, ? FROM "{name}_ids" WHERE id = ?',
            ((new_texts[id], id) for id in added),
        )

    def finish(self) -> None:
        """Do nothing: there is no queue."""

    def _token_texts(self, rows: list[Row]) -> dict[str, str]:
        records: list[Record] = [self.codec.decode(row) for row in rows]
        return {record.id: " ".join(tokenize(text)) for record in records if (text := record.index_text)}


@dataclass(frozen=True, slots=True)
class SqliteKeywordSearch:
    """`KeywordSearch` over one snapshot: BM25 by FTS5, ties by id.

    k1 = 1.2 and b = .75 are fixed by FTS5.
    """

    db: Db

    def __call__(self, table: Table[Any], text: str, *, k: int) -> Context:
        if not self.db.has(_index_name(table.name)):
            raise IndexUnavailable(f"{table.name} is not indexed by words: `kumi index --methods bm25` does that")
        terms = content_tokens(text)
        if not terms or k < 1:
            return Context()
        query = " OR ".join(f'"{token}"' for token in terms)
        top_pairs = sorted((-score, id) for score, id in self._rank_rows(table, query, k))[:k]
        rows = table.get_many(id for _, id in top_pairs)
        return Context(tuple(Evidence(table.name, rows[id], -score) for score, id in top_pairs))

    def _rank_rows(self, table: Table[Any], query: str, k: int) -> list[tuple[float, str]]:
        """Return the best `k` visible rows, ties included."""
        hits: list[tuple[float, str]] = []
        row_count = 0

        def collect(row: Row) -> bool:
            nonlocal row_count
            score, id = row
            if len(hits) >= k and score < hits[k - 1][0]:
                return False
            row_count += 1
            if table.visible(id):
                hits.append((score, id))
            return True

        name = _index_name(table.name)
        # SQLite sorts: FTS5 (`ORDER BY rank`) takes twice as long
        ranked = f'SELECT -bm25("{name}") AS score, rowid AS place FROM "{name}" WHERE "{name}" MATCH ? ORDER BY 1 DESC'
        # LIMIT keeps the inner query separate, so its order is kept; -1 is no limit
        sql = f'SELECT score, id FROM ({ranked} LIMIT ?) CROSS JOIN "{name}_ids" ON slot = place'
        for limit in (min(_FIRST_LIMIT_FACTOR * k, _MAX_LIMIT), -1):  # sorting few rows takes half the time
            hits, row_count = [], 0
            self.db.read(collect, sql, query, limit)
            if row_count < limit:
                break
        return hits


def _index_name(table: str) -> str:
    return f"words_{table}"
