"""rows with words -> a full-text index in a store: what building, ranking and spelling need of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from kumihimo.search.visible_slots import Slots

K1, B = 1.2, 0.75  # of BM25, as FTS5 has them
MIN_IDF = 1e-6  # as in FTS5


class WordRow(NamedTuple):
    """A row of a full-text index.

    text: its tokens, with spaces between them. words, subwords: its entry in the forward index, or None.
    """

    id: str
    text: str
    words: bytes | None
    subwords: bytes | None


class WordStore(Protocol):
    """The full-text index of one table.

    A table with the columns slot, id, words and subwords has a row for each of its rows.
    """

    @property
    def name(self) -> str: ...  # of the index and of its `meta` row
    @property
    def slot_table(self) -> str: ...
    def create(self) -> None: ...  # empty, in place of an earlier one
    def remove(self, texts: Mapping[str, str]) -> None: ...  # id -> the tokens that were added
    def add(self, rows: Sequence[WordRow]) -> None: ...
    def finish(self) -> None: ...  # write what waits
    def erase(self) -> None: ...  # what removed rows left
    def find_damage(self, pages: Iterable[list[WordRow]]) -> str: ...  # all rows; empty: no damage

    def rank(self, words: Sequence[str], k: int, slots: Slots | None) -> list[tuple[float, str]]:
        """Return score and id of the best `k` visible rows, ties included."""

    def count_rows(self, word: str) -> int: ...
    def totals(self) -> tuple[int, int]: ...  # rows, tokens
    def has_phrase(self, words: Sequence[str], slots: Slots | None) -> bool: ...
    def count_words(self, letter: str, slots: Slots | None) -> dict[str, int]:
        """Return words with this first letter, and their visible rows."""
