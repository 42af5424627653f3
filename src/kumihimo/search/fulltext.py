"""table -> full-text index: BM25 over words; pairs of characters in Japanese and Chinese.

SQLite's FTS5 over our own tokens, in the same transaction as the rows. The index keeps no text: to delete an entry, its
tokens are computed again from the old row. A forward index keeps the tokens of each row as numbers: a method can then
compare a question with many rows without reading their texts.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar, Protocol

from kumihimo.core.context import Context, Evidence
from kumihimo.core.errors import IndexDamaged, IndexUnavailable
from kumihimo.core.records import Record
from kumihimo.core.table import Codec, Row, Table
from kumihimo.core.task import Progress, ProgressEvent
from kumihimo.llm.local_embedder import find_subwords
from kumihimo.search.partial_rows import score_by_words
from kumihimo.search.protocols import RowTokens
from kumihimo.search.visible_slots import visible_slots
from kumihimo.storage.sqlite.ledger import DerivedView, SqlLedger
from kumihimo.storage.sqlite.store import Db, SqlRows
from kumihimo.text.tokens import content_tokens, pack_tokens, tokenize

_FIRST_LIMIT_FACTOR = 4  # of the first query, which is usually enough
_MAX_LIMIT = 2**62  # of SQLite
_FTS5 = "USING fts5(text, content='', tokenize=\"unicode61 remove_diacritics 0 categories 'L* M* N* Co'\")"
_SEGMENT_BYTES = 2**24  # kept in memory before they are written: few large segments repeat fewer words
_EXPECTED, _VOCABULARIES = "expected", ("stored_words", "expected_words")  # temporary tables


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
        self.db.run(f'CREATE VIRTUAL TABLE "{name}" {_FTS5}')
        self.db.run(f'INSERT INTO "{name}" ("{name}", rank) VALUES (\'hashsize\', {_SEGMENT_BYTES})')
        columns = "slot INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, words BLOB, subwords BLOB"
        self.db.run(f'CREATE TABLE "{name}_ids" ({columns})')

    def replace(self, old: list[Row], new: list[Row]) -> None:
        """Remove the old rows' tokens and add those of the new rows."""
        before, after = self._index_texts(old), self._index_texts(new)
        unchanged = {id for id in before if after.get(id) == before[id]}
        old_texts, new_texts = (
            {id: _join_tokens(text) for id, text in texts.items() if id not in unchanged} for texts in (before, after)
        )
        name = self.name
        for id in old_texts:
            slot = self.db.all(f'SELECT slot FROM "{name}_ids" WHERE id = ?', id)[0][0]
            self.db.run(f'INSERT INTO "{name}" ("{name}", rowid, text) VALUES (\'delete\', ?, ?)', slot, old_texts[id])
            self.db.run(f'DELETE FROM "{name}_ids" WHERE slot = ?', slot)
        forward = self._forward_rows(after, new_texts)
        self.db.many(f'INSERT INTO "{name}_ids" (id, words, subwords) VALUES (?, ?, ?)', forward)
        slots: dict[str, int] = dict(self.db.all_in(f'SELECT id, slot FROM "{name}_ids" WHERE id IN (?)', [*new_texts]))
        # FTS5 writes its words to the file at each `INSERT ... SELECT`, and at a number below the last one.
        rows = sorted((slots[id], text) for id, text in new_texts.items())
        self.db.many(f'INSERT INTO "{name}" (rowid, text) VALUES (?, ?)', rows)

    def finish(self) -> None:
        """Do nothing: there is no queue."""

    def erase(self) -> None:
        """Merge all segments: until then, they hold the words of deleted rows."""
        self.db.run(f'INSERT INTO "{self.name}" ("{self.name}") VALUES (\'optimize\')')

    def find_damage(self) -> str:
        """Return what is wrong with the index; empty: nothing.

        It is compared with a new index of the same rows, in temporary tables.
        """
        db, name = self.db, self.name
        if ("words",) not in db.all("SELECT name FROM pragma_table_info(?)", f"{name}_ids"):
            return "another version made it: `kumi index` makes it again"
        db.run("PRAGMA query_only = 0")  # or there are no temporary tables
        try:
            db.run(f'CREATE VIRTUAL TABLE temp."{_EXPECTED}" {_FTS5}')
            for vocabulary, schema, table in zip(_VOCABULARIES, ("main", "temp"), (name, _EXPECTED), strict=True):
                db.run(f'CREATE VIRTUAL TABLE temp."{vocabulary}" USING fts5vocab({schema}, "{table}", instance)')
            if not self._fill_expected():
                return f"its rows are not those of {self.table}"
            return "" if self._equals_expected() else f"its words are not those of {self.table}"
        finally:
            for table in (*_VOCABULARIES, _EXPECTED):
                db.run(f'DROP TABLE IF EXISTS temp."{table}"')
            db.run("PRAGMA query_only = 1")

    def _fill_expected(self) -> bool:
        """Index all rows in a temporary table; return whether the rest matches."""
        slots: dict[str, int] = dict(self.db.all(f'SELECT id, slot FROM "{self.name}_ids"'))
        for page in SqlRows(self.db, self.table).pages():
            index_texts = self._index_texts(page)
            texts = {id: _join_tokens(text) for id, text in index_texts.items()}
            stored = self.db.all_in(f'SELECT id, words, subwords FROM "{self.name}_ids" WHERE id IN (?)', [*texts])
            if sorted(stored) != sorted(self._forward_rows(index_texts, texts)):
                return False
            rows = ((slots.pop(id), text) for id, text in texts.items())
            self.db.many(f'INSERT INTO temp."{_EXPECTED}" (rowid, text) VALUES (?, ?)', rows)
        return not slots

    def _equals_expected(self) -> bool:
        """Return whether postings, lengths and totals equal those of the temporary table."""
        stored, expected = (f'SELECT term, doc, "offset" FROM temp."{name}"' for name in _VOCABULARIES)
        with self.db.rows_one_by_one(stored) as rows, self.db.rows_one_by_one(expected) as expected_rows:
            if any(row != other for row, other in zip_longest(rows, expected_rows)):
                return False
        lengths = [self.db.all(f'SELECT * FROM "{table}_docsize" ORDER BY id') for table in (self.name, _EXPECTED)]
        totals = [self.db.all(f'SELECT block FROM "{table}_data" WHERE id = 1') for table in (self.name, _EXPECTED)]
        # An index that was emptied keeps totals of 0; a new one has none.
        return lengths[0] == lengths[1] and (not lengths[0] or totals[0] == totals[1])

    def _index_texts(self, rows: list[Row]) -> dict[str, str]:
        records: list[Record] = [self.codec.decode(row) for row in rows]
        return {record.id: text for record in records if (text := record.index_text)}

    def _forward_rows(
        self, texts: Mapping[str, str], token_texts: Mapping[str, str]
    ) -> list[tuple[str, bytes | None, bytes | None]]:
        """Return the id, words and subwords of the rows in `token_texts`."""
        if not self.codec.record.FORWARD_INDEX:
            return [(id, None, None) for id in token_texts]
        subwords = find_subwords([texts[id] for id in token_texts])
        words = (pack_tokens(tokens.split(" ")) for tokens in token_texts.values())
        return list(zip(token_texts, words, subwords, strict=True))


def _join_tokens(text: str) -> str:
    return " ".join(tokenize(text))


@dataclass(frozen=True, slots=True)
class SqliteKeywordSearch:
    """`KeywordSearch` over one snapshot: BM25 by FTS5, ties by id.

    k1 = 1.2 and b = .75 are fixed by FTS5.
    """

    db: Db

    def __call__(self, table: Table[Any], text: str, *, k: int) -> Context:
        self._require_index(table)
        terms = content_tokens(text)
        if not terms or k < 1:
            return Context()
        query = " OR ".join(f'"{token}"' for token in terms)
        partial = score_by_words(self.db, _index_name(table.name), table, terms)
        top_pairs = sorted((-score, id) for score, id in (*self._rank_rows(table, query, k), *partial))[:k]
        rows = table.get_many(id for _, id in top_pairs)
        return Context(tuple(Evidence(table.name, rows[id], -score) for score, id in top_pairs))

    def tokens(self, table: Table[Any], ids: Sequence[str]) -> dict[str, RowTokens]:
        import numpy as np

        self._require_index(table)
        places = np.array([1, 1 << 8, 1 << 16], dtype=np.uint32)  # of the three bytes of a number
        rows = self.db.all_in(f'SELECT id, words, subwords FROM "{_index_name(table.name)}_ids" WHERE id IN (?)', ids)
        if any(words is None or len(words) % 3 or len(subwords) % 2 for _, words, subwords in rows):
            raise IndexDamaged(f"the tokens of {table.name} are damaged: `kumi check --repair` makes them again")
        return {
            id: RowTokens(np.frombuffer(words, np.uint8).reshape(-1, 3) @ places, np.frombuffer(subwords, np.uint16))
            for id, words, subwords in rows
        }

    def _require_index(self, table: Table[Any]) -> None:
        if not self.db.has(_index_name(table.name)):
            raise IndexUnavailable(f"{table.name} is not indexed by words: `kumi index --methods bm25` does that")

    def _rank_rows(self, table: Table[Any], query: str, k: int) -> list[tuple[float, str]]:
        """Return the best `k` rows shown as stored, ties included."""
        hits: list[tuple[float, str]] = []
        name = _index_name(table.name)
        slots = visible_slots(self.db, f"{name}_ids", table)
        condition, values = (f"AND {slots.condition()}", [slots.value]) if slots else ("", [])
        matches = f'FROM "{name}" WHERE "{name}" MATCH ? {condition}'
        # SQLite sorts: FTS5 (`ORDER BY rank`) takes twice as long
        ranked = f'SELECT -bm25("{name}") AS score, rowid AS place {matches} ORDER BY 1 DESC'
        # LIMIT keeps the inner query separate, so its order is kept; -1 is no limit
        sql = f'SELECT score, id FROM ({ranked} LIMIT ?) CROSS JOIN "{name}_ids" ON slot = place'
        for limit in (min(_FIRST_LIMIT_FACTOR * k, _MAX_LIMIT), -1):  # sorting few rows takes half the time
            hits = []
            with self.db.rows_one_by_one(sql, query, *values, limit) as rows:
                for score, id in rows:
                    if len(hits) >= k and score < hits[k - 1][0]:
                        return hits
                    hits.append((score, id))
            if len(hits) < limit:
                break
        return hits


def _index_name(table: str) -> str:
    return f"words_{table}"


class SearchIndex(DerivedView, Protocol):
    """A search index over one table."""

    @property
    def kind(self) -> str: ...  # for progress messages
    @property
    def table(self) -> str: ...
    @property
    def name(self) -> str: ...  # of its index table
    def ensure(self, fingerprint: str) -> bool: ...
    def finish(self) -> None: ...
    def erase(self) -> None: ...  # what deleted rows left


@contextmanager
def maintain_indexes(
    ledger: SqlLedger, views: Sequence[SearchIndex], fingerprint: str, progress: Progress | None = None
) -> Iterator[None]:
    """Update the indexes with each table write inside the context.

    A new index, or one with another fingerprint, is filled on exit.
    """
    _drop_unused(ledger.db, views)
    to_fill = [view for view in views if view.ensure(fingerprint)]
    for view in views:
        if view not in to_fill:
            ledger.views[view.table].append(view)
    yield
    for view in to_fill:
        _fill_index(view, ledger.db, progress)
    for view in views:
        view.finish()


def _drop_unused(db: Db, views: Sequence[SearchIndex]) -> None:
    """Drop the indexes that no method uses."""
    names = {view.name for view in views}
    for name in stored_indexes(db):
        if name not in names:
            db.run(f'DROP TABLE IF EXISTS "{name}"')
            db.run(f'DROP TABLE IF EXISTS "{name}_ids"')
            db.run("DELETE FROM meta WHERE name = ?", name)
            db.run("DELETE FROM failed WHERE step = ?", name)


def stored_indexes(db: Db) -> list[str]:
    """Return the names of the search indexes, such as words_chunks."""
    query = "SELECT name FROM meta WHERE name GLOB 'words_*' OR name GLOB 'vectors_*' ORDER BY name"
    return [name for (name,) in db.all(query)]


def _fill_index(index: SearchIndex, db: Db, progress: Progress | None) -> None:
    rows = SqlRows(db, index.table)
    row_count, total = 0, rows.count()
    for page in rows.pages():
        index.replace([], page)
        row_count += len(page)
        if progress:
            progress(ProgressEvent(f"{index.kind} of {index.table}", row_count, total))
