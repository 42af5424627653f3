"""rows with words -> FTS5 of SQLite over our own tokens, in the same transaction as the rows.

The index keeps no text: to delete an entry, its tokens are given again. FTS5 fixes k1 = 1.2 and b = .75.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from kumihimo.search.protocols import WordRow
from kumihimo.search.visible_slots import Slots
from kumihimo.storage.sqlite.connection import Db

_FIRST_LIMIT_FACTOR = 4  # of the first query, which is usually enough
_MAX_LIMIT = 2**62  # of SQLite
_FTS5 = "USING fts5(text, content='', tokenize=\"unicode61 remove_diacritics 0 categories 'L* M* N* Co'\")"
_SEGMENT_BYTES = 2**24  # kept in memory before they are written: few large segments repeat fewer words
_EXPECTED, _VOCABULARIES = "expected", ("stored_words", "expected_words")  # temporary tables
_STEMS = "stems_by_letter"  # another


@dataclass(frozen=True, slots=True)
class Fts5Words:
    """The `WordStore` of one table in SQLite."""

    db: Db
    table: str
    name: str

    @property
    def slot_table(self) -> str:
        return f"{self.name}_ids"

    def create(self) -> None:
        name = self.name
        self.db.drop_table(name)
        self.db.run(f'CREATE VIRTUAL TABLE "{name}" {_FTS5}')
        self.db.run(f'INSERT INTO "{name}" ("{name}", rank) VALUES (\'hashsize\', {_SEGMENT_BYTES})')
        columns = "slot INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, words BLOB, subwords BLOB"
        self.db.create_table(self.slot_table, columns)

    def remove(self, texts: Mapping[str, str]) -> None:
        name = self.name
        for id, text in texts.items():
            slot = self.db.all(f'SELECT slot FROM "{name}_ids" WHERE id = ?', id)[0][0]
            self.db.run(f'INSERT INTO "{name}" ("{name}", rowid, text) VALUES (\'delete\', ?, ?)', slot, text)
            self.db.run(f'DELETE FROM "{name}_ids" WHERE slot = ?', slot)

    def add(self, rows: Sequence[WordRow]) -> None:
        name = self.name
        self.db.insert(f"{name}_ids", ("id", "words", "subwords"), ((row.id, row.words, row.subwords) for row in rows))
        query = f'SELECT id, slot FROM "{name}_ids" WHERE id IN (?)'
        slots: dict[str, int] = dict(self.db.all_in(query, [row.id for row in rows]))
        # FTS5 writes its words to the file at each `INSERT ... SELECT`, and at a number below the last one.
        self.db.insert(name, ("rowid", "text"), sorted((slots[row.id], row.text) for row in rows))

    def finish(self) -> None:
        """Do nothing: there is no queue."""

    def erase(self) -> None:
        """Merge all segments: until then, they hold the words of deleted rows."""
        self.db.run(f'INSERT INTO "{self.name}" ("{self.name}") VALUES (\'optimize\')')

    # -- damage

    def find_damage(self, pages: Iterable[list[WordRow]]) -> str:
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
            if not self._fill_expected(pages):
                return f"its rows are not those of {self.table}"
            return "" if self._equals_expected() else f"its words are not those of {self.table}"
        finally:
            for table in (*_VOCABULARIES, _EXPECTED):
                db.run(f'DROP TABLE IF EXISTS temp."{table}"')
            db.run("PRAGMA query_only = 1")

    def _fill_expected(self, pages: Iterable[list[WordRow]]) -> bool:
        """Index all rows in a temporary table; return whether the rest matches."""
        slots: dict[str, int] = dict(self.db.all(f'SELECT id, slot FROM "{self.name}_ids"'))
        query = f'SELECT id, words, subwords FROM "{self.name}_ids" WHERE id IN (?)'
        for page in pages:
            stored = self.db.all_in(query, [row.id for row in page])
            if sorted(stored) != sorted((row.id, row.words, row.subwords) for row in page):
                return False
            rows = ((slots.pop(row.id), row.text) for row in page)
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

    # -- reading

    def rank(self, words: Sequence[str], k: int, slots: Slots | None) -> list[tuple[float, str]]:
        """Return the best `k` visible rows by BM25, ties included."""
        hits: list[tuple[float, str]] = []
        name, query = self.name, " OR ".join(f'"{word}"' for word in words)
        condition, values = _condition(slots)
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

    def count_rows(self, word: str) -> int:
        return int(self.db.all(f'SELECT count(*) FROM "{self.name}" WHERE "{self.name}" MATCH ?', f'"{word}"')[0][0])

    def totals(self) -> tuple[int, int]:
        """Return the number of rows and of tokens.

        FTS5 keeps them as two varints of SQLite.
        """
        block = self.db.all(f'SELECT block FROM "{self.name}_data" WHERE id = 1')[0][0]
        numbers, value = [], 0
        for byte in block:
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                numbers.append(value)
                value = 0
        rows, tokens = (*numbers, 0, 0)[:2]
        return rows, tokens

    def has_phrase(self, words: Sequence[str], slots: Slots | None) -> bool:
        condition, values = _condition(slots)
        sql = f'SELECT 1 FROM "{self.name}" WHERE "{self.name}" MATCH ? {condition} LIMIT 1'
        return bool(self.db.all(sql, f'"{" ".join(words)}"', *values))

    def count_words(self, letter: str, slots: Slots | None) -> dict[str, int]:
        """Return words with this first letter, and their visible rows."""
        db, end = self.db, chr(ord(letter) + 1)
        condition, values = _condition(slots, "doc")
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


def _condition(slots: Slots | None, column: str = "rowid") -> tuple[str, list[str]]:
    """Return a condition on visible places, and its values."""
    if not slots:
        return "", []
    # the + keeps FTS5 from a search for each place
    return f"AND +{column} {'NOT IN' if slots.is_negated else 'IN'} (SELECT value FROM json_each(?))", [slots.value]
