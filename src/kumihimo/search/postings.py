"""rows with words -> postings: which rows have a word, and how often; ranked by BM25.

A posting is a number of 16 bits: the place of a row in its segment, and how often the row has the word, from one to
four times; a row that has it more often has several postings. The postings of a word stand in blocks, one for each
segment of slots. So a word of a million rows is read in some dozen values, and a build changes only the blocks of its
own rows. Each segment also has a block with the lengths of its rows.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from zlib import crc32

from kumihimo.core.errors import IndexUnavailable
from kumihimo.search.protocols import K1, MIN_IDF, B, Slots, WordRow
from kumihimo.storage.database import Database
from kumihimo.text import lazy_numpy as np
from kumihimo.text.tokens import pack_tokens

_SEGMENT = 16_384  # slots, of which a number has 14 bits
_COUNT_BITS = 2
_MOST = 2**_COUNT_BITS  # uses of a posting
_MAX_COUNT = 2**18 - 1  # tokens of a row
_LENGTHS = ""  # the word whose blocks have the number of tokens of each slot; before them, the totals
_BEFORE_ALL = -1  # the segment of the totals: the number of rows, of tokens and of changes
_CHECKED = 1000  # rows whose order of words is looked at together


@dataclass(slots=True)
class Postings:
    """The full-text index of one table.

    A table with the columns slot, id, words and subwords has a row for each of its rows.
    """

    db: Database
    table: str
    waiting: defaultdict[str, array[int]] = field(default_factory=lambda: defaultdict(lambda: array("H")))
    lengths: array[int] = field(default_factory=lambda: array("I"))  # of the rows of the last segment
    new_totals: list[int] = field(default_factory=lambda: [0, 0, 0])  # rows, tokens, changes that are not written
    next_slot: int = -1
    first_empty: int = 0  # segments from here on have no blocks yet

    @property
    def name(self) -> str:
        """Return the name of the index and of its `meta` row."""
        return f"words_{self.table}"

    @property
    def blocks(self) -> str:
        """Return the name of the table of postings."""
        return f"{self.name}_postings"

    @property
    def earlier(self) -> tuple[str, ...]:
        """Return the names that the table had in earlier versions."""
        return self.name, f"{self.name}_blocks"

    @property
    def slot_table(self) -> str:
        return f"{self.name}_ids"

    def create(self) -> None:
        """Make an empty index in place of an earlier one."""
        integer, text, bytes_ = (self.db.types[kind] for kind in ("INTEGER", "TEXT", "BLOB"))
        self.waiting.clear()
        self.lengths = array("I")
        self.new_totals, self.next_slot, self.first_empty = [0, 0, 0], 0, 0
        columns = f"term {text}, segment {integer}, data {bytes_} NOT NULL, PRIMARY KEY (term, segment)"
        for earlier in self.earlier:
            self.db.drop_table(earlier)
        self.db.create_table(self.blocks, columns, by_key=True)
        columns = f"slot {integer} PRIMARY KEY, id {text} UNIQUE NOT NULL, words {bytes_}, subwords {bytes_}"
        self.db.create_table(self.slot_table, columns)

    # -- building

    def add(self, rows: Sequence[WordRow]) -> None:
        if rows and self.next_slot < 0:
            self._find_end()
        places = range(self.next_slot, self.next_slot + len(rows))
        entries = ((slot, row.id, row.words, row.subwords) for slot, row in zip(places, rows, strict=True))
        self.db.insert(self.slot_table, ("slot", "id", "words", "subwords"), entries)
        for row in rows:
            place = self.next_slot % _SEGMENT
            if place == 0:
                self.finish()
                self.lengths = array("I")
            tokens, posting = row.tokens, place << _COUNT_BITS
            for term, count in Counter(tokens[:_MAX_COUNT]).items():
                self.waiting[term].extend([posting + _MOST - 1] * ((count - 1) // _MOST))
                self.waiting[term].append(posting + (count - 1) % _MOST)
            self.lengths.append(len(tokens))
            self._count(1, len(tokens))
            self.next_slot += 1

    def _find_end(self) -> None:
        """Find the first free slot and the lengths before it."""
        relation = self.db.relation(self.slot_table)
        self.next_slot = self.db.all(f"SELECT coalesce(max(slot) + 1, 0) FROM {relation}")[0][0]
        self.first_empty = -(-self.next_slot // _SEGMENT)
        query = f"SELECT data FROM {self.db.relation(self.blocks)} WHERE term = ? AND segment = ?"
        for (data,) in self.db.all(query, _LENGTHS, self.next_slot // _SEGMENT):
            self.lengths = array("I", data)[: self.next_slot % _SEGMENT]

    def finish(self) -> None:
        """Write the postings that wait: all are of one segment."""
        relation = self.db.relation(self.blocks)
        replace = f"INSERT INTO {relation} AS block VALUES (?, ?, ?) ON CONFLICT (term, segment) DO UPDATE SET data ="
        if self.waiting:
            segment = (self.next_slot - 1) // _SEGMENT
            rows = [(term, segment, self.waiting[term].tobytes()) for term in sorted(self.waiting)]
            self.waiting.clear()
            if segment >= self.first_empty:
                self.db.insert(self.blocks, ("term", "segment", "data"), rows)
                self.first_empty = segment + 1
            else:
                joined = f"CAST(block.data || excluded.data AS {self.db.types['BLOB']})"
                self.db.many(f"{replace} {joined}", rows)
            self.db.run(f"{replace} excluded.data", _LENGTHS, segment, self.lengths.tobytes())
        if any(self.new_totals):
            totals = [old + new for old, new in zip(self.totals(), self.new_totals, strict=True)]
            self.db.run(f"{replace} excluded.data", _LENGTHS, _BEFORE_ALL, array("q", totals).tobytes())
            self.new_totals = [0, 0, 0]

    def remove(self, rows: Mapping[str, list[str]]) -> None:
        """Remove rows. rows: id -> the tokens that were added."""
        if not rows:
            return
        self.finish()
        relation = self.db.relation(self.slot_table)
        slots: dict[str, int] = dict(self.db.all_in(f"SELECT id, slot FROM {relation} WHERE id", [*rows]))
        self.db.many(f"DELETE FROM {relation} WHERE slot = ?", ((slot,) for slot in slots.values()))
        terms: defaultdict[int, set[str]] = defaultdict(set)
        for id, slot in slots.items():
            tokens = rows[id]
            terms[slot // _SEGMENT].update(tokens)
            self._count(-1, -len(tokens))
        for segment in sorted(terms):
            places = [slot % _SEGMENT for slot in slots.values() if slot // _SEGMENT == segment]
            self._remove_from_blocks(segment, sorted(terms[segment] - {_LENGTHS}), places)

    def _remove_from_blocks(self, segment: int, terms: list[str], places: list[int]) -> None:
        relation = self.db.relation(self.blocks)
        blocks = self.db.all_in(f"SELECT term, data FROM {relation} WHERE segment = {segment} AND term", terms)
        kept, emptied = [], []
        stays = np.ones(_SEGMENT, bool)
        stays[places] = False
        for term, data in blocks:
            block = np.frombuffer(data, np.uint16)
            rest = block[stays[block >> _COUNT_BITS]].tobytes()
            if rest:
                kept.append((rest, term, segment))
            else:
                emptied.append((term, segment))
        self.db.many(f"UPDATE {relation} SET data = ? WHERE term = ? AND segment = ?", kept)
        self.db.many(f"DELETE FROM {relation} WHERE term = ? AND segment = ?", emptied)

    def _count(self, rows: int, tokens: int) -> None:
        self.new_totals[0] += rows
        self.new_totals[1] += tokens
        self.new_totals[2] += 1

    def find_damage(self, pages: Iterable[list[WordRow]]) -> str:
        """Return what is wrong with the index; empty: nothing."""
        if not self.db.has(self.blocks):
            return "another version made it: `kumi index` makes it again"
        relation = self.db.relation(self.slot_table)
        slots: dict[str, int] = dict(self.db.all(f"SELECT id, slot FROM {relation}"))
        query, expected, totals = f"SELECT id, words, subwords FROM {relation} WHERE id", 0, [0, 0]
        lengths = self._read_lengths()
        for page in pages:
            stored = self.db.all_in(query, [row.id for row in page])
            if sorted(stored) != sorted((row.id, row.words, row.subwords) for row in page):
                return f"its rows are not those of {self.table}"
            for row in page:
                tokens, slot = row.tokens, slots.pop(row.id)
                if slot >= len(lengths) or lengths[slot] != len(tokens):
                    return f"its words are not those of {self.table}"
                totals = [totals[0] + 1, totals[1] + len(tokens)]
                counts = Counter(tokens[:_MAX_COUNT])
                expected += sum(_checksum(term, slot, n) for term, n in counts.items() if term != _LENGTHS)
        if slots:
            return f"its rows are not those of {self.table}"
        stored_sum = sum(_checksum(term, *map(int, pair)) for term, block in self._all_blocks() for pair in block.T)
        is_right = stored_sum == expected and [*self.totals()[:2]] == totals
        return "" if is_right else f"its words are not those of {self.table}"

    def _all_blocks(self) -> Iterator[tuple[str, np.Integers]]:
        last: tuple[str, int] = _LENGTHS, 2**31
        query = f"SELECT term, segment, data FROM {self.db.relation(self.blocks)} WHERE (term, segment) > (?, ?)"
        while page := self.db.all(f"{query} ORDER BY term, segment LIMIT 1000", *last):
            yield from ((term, _read_block(segment, data)) for term, segment, data in page)
            last = page[-1][:2]

    # -- reading

    def rank(self, words: Sequence[str], k: int, slots: Slots | None) -> list[tuple[float, str]]:
        """Return score and id of the best `k` visible rows, ties included."""
        by_word = self._read_blocks(words)
        if not by_word:
            return []
        rows, tokens, changes = self.totals()
        lengths = self.db.once_per_build((self.name, changes), self._read_lengths)
        scores, mean_length = np.zeros(len(lengths)), tokens / rows
        for word in words:
            if word in by_word:
                places, counts = by_word[word]
                idf = max(log((rows - len(places) + 0.5) / (len(places) + 0.5)), MIN_IDF)
                norms = counts + K1 * (1 - B + B * lengths[places] / mean_length)
                scores[places] += idf * ((counts * (K1 + 1)) / norms)
        found = np.flatnonzero(scores)
        if slots:
            found = found[np.isin(found, slots.array, assume_unique=True)]
        if len(found) > k:
            found = found[scores[found] >= np.partition(scores[found], -k)[-k]]
        query = f"SELECT slot, id FROM {self.db.relation(self.slot_table)} WHERE slot"
        return [(float(scores[slot]), id) for slot, id in self.db.all_in(query, found.tolist())]

    def _read_blocks(self, words: Sequence[str]) -> dict[str, np.Integers]:
        """Return the slots and counts of each word that there is."""
        blocks: defaultdict[str, list[np.Integers]] = defaultdict(list)
        query = f"SELECT term, segment, data FROM {self.db.relation(self.blocks)} WHERE term"
        for term, segment, data in sorted(self.db.all_in(query, [*dict.fromkeys(filter(None, words))])):
            blocks[term].append(_read_block(segment, data))
        return {term: np.concatenate(parts, axis=1) for term, parts in blocks.items()}

    def _read_lengths(self) -> np.NDArray[np.uint32]:
        """Return the number of tokens of each slot."""
        query = f"SELECT segment, data FROM {self.db.relation(self.blocks)} WHERE term = ? AND segment >= 0"
        blocks = [np.frombuffer(data, np.uint32) for _, data in sorted(self.db.all(query, _LENGTHS))]
        return np.concatenate([*blocks, np.zeros(0, np.uint32)])

    def count_each(self, words: Sequence[str], slots: Slots | None) -> Counter[str]:
        """Return how many visible rows have each word."""
        blocks = self._read_blocks(words).items()
        return Counter({w: int(np.isin(b[0], slots.array).sum()) if slots else len(b[0]) for w, b in blocks})

    def totals(self) -> tuple[int, int, int]:
        """Return the number of rows, of tokens and of changes.

        Rows may change places while the facts about the build stay, so that they alone do not tell its lengths.
        """
        query = f"SELECT data FROM {self.db.relation(self.blocks)} WHERE term = ? AND segment = ?"
        stored = self.db.all(query, _LENGTHS, _BEFORE_ALL)
        rows, tokens, changes = array("q", (stored[0][0] if stored else b"").ljust(24, b"\0"))
        return rows, tokens, changes

    def has_phrase(self, words: Sequence[str], slots: Slots | None) -> bool:
        blocks = self._read_blocks(words)
        if not words or len(blocks) < len(set(words)):
            return False
        places = slots.array if slots else next(iter(blocks.values()))[0]
        for block in blocks.values():
            places = np.intersect1d(places, block[0], assume_unique=True)
        if len(words) == 1:
            return len(places) > 0
        found = places.tolist()
        return any(self._follow_each_other(words, found[i : i + _CHECKED]) for i in range(0, len(found), _CHECKED))

    def _follow_each_other(self, words: Sequence[str], slots: list[int]) -> bool:
        """Return whether one of these rows has the words in this order."""
        phrase = pack_tokens(list(words))
        size = len(phrase) // len(words)
        query = f"SELECT words FROM {self.db.relation(self.slot_table)} WHERE slot"
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
        query = f"SELECT term, segment, data FROM {self.db.relation(self.blocks)} WHERE term >= ? AND term < ?"
        counts: Counter[str] = Counter()
        for term, segment, data in self.db.all(query, letter, chr(ord(letter) + 1)):
            places = _read_block(segment, data)[0]
            counts[term] += int(np.isin(places, slots.array).sum()) if slots else len(places)
        return {term: count for term, count in counts.items() if count}


def _read_block(segment: int, data: bytes) -> np.Integers:
    """Return the slots of the postings and the counts: two rows."""
    block = np.frombuffer(data, np.uint16).astype(np.int64)
    places, counts = segment * _SEGMENT + (block >> _COUNT_BITS), 1 + (block & (_MOST - 1))
    if counts.max(initial=0) == _MOST:
        first = np.flatnonzero(np.diff(places, prepend=-1))
        places, counts = places[first], np.add.reduceat(counts, first)
    return np.stack([places, counts])


def _checksum(term: str, slot: int, count: int) -> int:
    return crc32(f"{term} {slot} {count}".encode())
