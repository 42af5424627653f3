"""rows with words -> postings in PostgreSQL, ranked as FTS5 of SQLite ranks them, to the last bit.

A posting is a row's slot, how often the row has the word, and the number of its tokens. The postings of a word stand
in blocks, one for each segment of slots. So a word of a million rows is read in some dozen values, and a build changes
only the blocks of its own rows.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import TYPE_CHECKING
from zlib import crc32

from kumihimo.core.errors import IndexUnavailable
from kumihimo.search.protocols import K1, MIN_IDF, B, WordRow
from kumihimo.search.visible_slots import Slots
from kumihimo.storage.database import Database
from kumihimo.text.tokens import pack_tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SEGMENT = 16_384  # slots
_TOTALS = ""  # the word whose only posting has the number of rows and of tokens
_CHECKED = 1000  # rows whose order of words is looked at together


@dataclass(slots=True)
class Postings:
    """The `WordStore` of one table in PostgreSQL."""

    db: Database
    table: str
    name: str
    waiting: defaultdict[str, array[int]] = field(default_factory=lambda: defaultdict(lambda: array("I")))
    new_totals: list[int] = field(default_factory=lambda: [0, 0])  # rows, tokens that are not written
    next_slot: int = -1
    first_empty: int = 0  # segments from here on have no blocks yet

    @property
    def slot_table(self) -> str:
        return f"{self.name}_ids"

    def create(self) -> None:
        integer, text, bytes_ = (self.db.types[kind] for kind in ("INTEGER", "TEXT", "BLOB"))
        self.waiting.clear()
        self.new_totals, self.next_slot, self.first_empty = [0, 0], 0, 0
        columns = f"term {text}, segment {integer}, data {bytes_} NOT NULL, PRIMARY KEY (term, segment)"
        self.db.create_table(self.name, columns)
        columns = f"slot {integer} PRIMARY KEY, id {text} UNIQUE NOT NULL, words {bytes_}, subwords {bytes_}"
        self.db.create_table(self.slot_table, columns)

    # -- building

    def add(self, rows: Sequence[WordRow]) -> None:
        if rows and self.next_slot < 0:
            relation = self.db.relation(self.slot_table)
            self.next_slot = self.db.all(f"SELECT coalesce(max(slot) + 1, 0) FROM {relation}")[0][0]
            self.first_empty = -(-self.next_slot // _SEGMENT)
        places = range(self.next_slot, self.next_slot + len(rows))
        entries = ((slot, row.id, row.words, row.subwords) for slot, row in zip(places, rows, strict=True))
        self.db.insert(self.slot_table, ("slot", "id", "words", "subwords"), entries)
        for row in rows:
            if self.next_slot % _SEGMENT == 0:
                self.finish()
            tokens = row.text.split(" ")
            for term, count in Counter(tokens).items():
                self.waiting[term].extend((self.next_slot, count, len(tokens)))
            self._count(1, len(tokens))
            self.next_slot += 1

    def finish(self) -> None:
        """Write the postings that wait: all are of one segment."""
        if self.waiting:
            segment = (self.next_slot - 1) // _SEGMENT
            rows = [(term, segment, _to_bytes(self.waiting[term])) for term in sorted(self.waiting)]
            self.waiting.clear()
            if segment >= self.first_empty:
                self.db.insert(self.name, ("term", "segment", "data"), rows)
                self.first_empty = segment + 1
            else:
                update = "ON CONFLICT (term, segment) DO UPDATE SET data = block.data || excluded.data"
                self.db.many(f"INSERT INTO {self.db.relation(self.name)} AS block VALUES (?, ?, ?) {update}", rows)
        if any(self.new_totals):
            totals = [old + new for old, new in zip(self.totals(), self.new_totals, strict=True)]
            update = "ON CONFLICT (term, segment) DO UPDATE SET data = excluded.data"
            insert = f"INSERT INTO {self.db.relation(self.name)} VALUES (?, ?, ?) {update}"
            self.db.run(insert, _TOTALS, 0, array("q", totals).tobytes())
            self.new_totals = [0, 0]

    def remove(self, texts: Mapping[str, str]) -> None:
        if not texts:
            return
        self.finish()
        relation = self.db.relation(self.slot_table)
        slots: dict[str, int] = dict(self.db.all_in(f"SELECT id, slot FROM {relation} WHERE id IN (?)", [*texts]))
        self.db.run(f"DELETE FROM {relation} WHERE slot = ANY(?)", list(slots.values()))
        terms: defaultdict[int, set[str]] = defaultdict(set)
        for id, slot in slots.items():
            tokens = texts[id].split(" ")
            terms[slot // _SEGMENT].update(tokens)
            self._count(-1, -len(tokens))
        for segment in sorted(terms):
            self._remove_from_blocks(segment, sorted(terms[segment]), list(slots.values()))

    def _remove_from_blocks(self, segment: int, terms: list[str], slots: list[int]) -> None:
        import numpy as np

        relation = self.db.relation(self.name)
        blocks = self.db.all(f"SELECT term, data FROM {relation} WHERE segment = ? AND term = ANY(?)", segment, terms)
        kept = []
        for term, data in blocks:
            block = _from_bytes(data)
            kept.append((block[~np.isin(block[:, 0], slots)].tobytes(), term, segment))
        emptied = [term for data, term, _ in kept if not data]
        self.db.many(f"UPDATE {relation} SET data = ? WHERE term = ? AND segment = ?", (row for row in kept if row[0]))
        self.db.run(f"DELETE FROM {relation} WHERE segment = ? AND term = ANY(?)", segment, emptied)

    def _count(self, rows: int, tokens: int) -> None:
        self.new_totals[0] += rows
        self.new_totals[1] += tokens

    def erase(self) -> None:
        """Do nothing: removed postings are in no block."""

    def find_damage(self, pages: Iterable[list[WordRow]]) -> str:
        """Return what is wrong with the index; empty: nothing."""
        relation = self.db.relation(self.slot_table)
        slots: dict[str, int] = dict(self.db.all(f"SELECT id, slot FROM {relation}"))
        query, expected = f"SELECT id, words, subwords FROM {relation} WHERE id IN (?)", 0
        for page in pages:
            stored = self.db.all_in(query, [row.id for row in page])
            if sorted(stored) != sorted((row.id, row.words, row.subwords) for row in page):
                return f"its rows are not those of {self.table}"
            for row in page:
                tokens, slot = row.text.split(" "), slots.pop(row.id)
                expected += sum(_checksum(term, slot, n, len(tokens)) for term, n in Counter(tokens).items())
        if slots:
            return f"its rows are not those of {self.table}"
        stored_sum = sum(_checksum(term, *map(int, posting)) for term, block in self._all_blocks() for posting in block)
        return "" if stored_sum == expected else f"its words are not those of {self.table}"

    def _all_blocks(self) -> Iterator[tuple[str, NDArray[np.uint32]]]:
        last = _TOTALS, 0
        query = f"SELECT term, segment, data FROM {self.db.relation(self.name)} WHERE (term, segment) > (?, ?)"
        while page := self.db.all(f"{query} ORDER BY term, segment LIMIT 1000", *last):
            yield from ((term, _from_bytes(data)) for term, _, data in page)
            last = page[-1][:2]

    # -- reading

    def rank(self, words: Sequence[str], k: int, slots: Slots | None) -> list[tuple[float, str]]:
        """Return the best `k` visible rows by BM25, ties included."""
        import numpy as np

        by_word, (rows, tokens) = self._read_blocks(words)
        if not by_word:
            return []
        scores = np.zeros(1 + max(int(block[:, 0].max()) for block in by_word.values()))
        mean_length = tokens / rows
        for word in words:
            if word in by_word:
                places, counts, lengths = (column.astype(np.float64) for column in by_word[word].T)
                idf = max(log((rows - len(places) + 0.5) / (len(places) + 0.5)), MIN_IDF)
                norms = counts + K1 * (1 - B + B * lengths / mean_length)
                scores[by_word[word][:, 0]] += idf * ((counts * (K1 + 1)) / norms)
        found = np.flatnonzero(scores)
        if slots:
            found = found[np.isin(found, slots.array, assume_unique=True)]
        if len(found) > k:
            found = found[scores[found] >= np.partition(scores[found], -k)[-k]]
        query = f"SELECT slot, id FROM {self.db.relation(self.slot_table)} WHERE slot IN (?)"
        return [(float(scores[slot]), id) for slot, id in self.db.all_in(query, found.tolist())]

    def _read_blocks(self, words: Sequence[str]) -> tuple[dict[str, NDArray[np.uint32]], tuple[int, int]]:
        """Return the postings of each word, and the totals."""
        data: dict[str, list[bytes]] = {}
        query = f"SELECT term, data FROM {self.db.relation(self.name)} WHERE term IN (?) ORDER BY term, segment"
        for term, block in self.db.all_in(query, [_TOTALS, *dict.fromkeys(words)]):
            data.setdefault(term, []).append(block)
        rows, tokens = array("q", b"".join(data.pop(_TOTALS, [bytes(16)])))
        return {term: _from_bytes(b"".join(blocks)) for term, blocks in data.items()}, (rows, tokens)

    def count_rows(self, word: str) -> int:
        blocks, _ = self._read_blocks([word])
        return len(blocks[word]) if blocks else 0

    def totals(self) -> tuple[int, int]:
        return self._read_blocks([])[1]

    def has_phrase(self, words: Sequence[str], slots: Slots | None) -> bool:
        import numpy as np

        blocks, _ = self._read_blocks(words)
        if not words or len(blocks) < len(set(words)):
            return False
        places = slots.array if slots else next(iter(blocks.values()))[:, 0]
        for block in blocks.values():
            places = np.intersect1d(places, block[:, 0], assume_unique=True)
        if len(words) == 1:
            return len(places) > 0
        found = places.tolist()
        return any(self._follow_each_other(words, found[i : i + _CHECKED]) for i in range(0, len(found), _CHECKED))

    def _follow_each_other(self, words: Sequence[str], slots: list[int]) -> bool:
        """Return whether one of these rows has the words in this order."""
        phrase = pack_tokens(list(words))
        size = len(phrase) // len(words)
        query = f"SELECT words FROM {self.db.relation(self.slot_table)} WHERE slot IN (?)"
        for (tokens,) in self.db.all_in(query, slots):
            if tokens is None:
                raise IndexUnavailable(f"{self.table} has no forward index, so phrases cannot be found in it")
            place = tokens.find(phrase)
            while place >= 0 and place % size:
                place = tokens.find(phrase, place + 1)
            if place >= 0:
                return True
        return False

    def count_words(self, letter: str, slots: Slots | None) -> dict[str, int]:
        """Return words with this first letter, and their visible rows."""
        import numpy as np

        values = "data" if slots else "octet_length(data) / 12"
        query = f"SELECT term, {values} FROM {self.db.relation(self.name)} WHERE term >= ? AND term < ?"
        counts: Counter[str] = Counter()
        for term, value in self.db.all(query, letter, chr(ord(letter) + 1)):
            counts[term] += int(np.isin(_from_bytes(value)[:, 0], slots.array).sum()) if slots else value
        return {term: count for term, count in counts.items() if count}


def _to_bytes(numbers: array[int]) -> bytes:
    import numpy as np

    return np.array(numbers, dtype="<u4").tobytes()


def _from_bytes(data: bytes) -> NDArray[np.uint32]:
    """Return a row for each posting: slot, count, length."""
    import numpy as np

    return np.frombuffer(data, dtype="<u4").reshape(-1, 3)


def _checksum(term: str, slot: int, count: int, length: int) -> int:
    return crc32(f"{term} {slot} {count} {length}".encode())
