"""the partial rows of a view + a question -> their scores: what they show is in no stored index.

Their words and vectors are kept in memory, made once for the view. The statistics of BM25 are those of the stored
index, so their scores compare with those of its rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

from kumihimo.core.table import Table, View
from kumihimo.llm import local_embedder, protocols
from kumihimo.search.postings import Postings
from kumihimo.search.protocols import K1, MIN_IDF, SCORE_MARGIN, B, StoredVectors, encode_vectors, unit_vectors
from kumihimo.text import lazy_numpy as np
from kumihimo.text.tokens import hash_token, pack_tokens, tokenize

ScoredIds = list[tuple[float, str]]


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of some rows as numbers, one row after the other; ends: of each row."""

    numbers: np.NDArray[np.uint32]
    ends: np.NDArray[np.int64]

    def counts(self, word: str) -> np.NDArray[np.int64]:
        """Return how often a word occurs in each row."""
        rows = np.searchsorted(self.ends, np.flatnonzero(self.numbers == hash_token(word)), side="right")
        return np.bincount(rows, minlength=len(self.ends))


def count_by_words(table: Table[Any], view: View, words: Sequence[str]) -> tuple[int, Counter[str]]:
    """Return the number of partial rows, and how many show each word."""
    if not (positions := _positions(table, view)):
        return 0, Counter()
    rows = view.once("partial words", lambda: _read_words(table, positions))
    return len(positions), Counter({word: int((rows.counts(word) > 0).sum()) for word in words})


def score_by_words(store: Postings, table: Table[Any], view: View, words: Sequence[str]) -> ScoredIds:
    """Return the partial rows that show a word, with BM25 scores.

    store: the full-text index of the table.
    """
    if not (positions := _positions(table, view)):
        return []
    rows = view.once("partial words", lambda: _read_words(table, positions))
    counts = {word: count for word in words if (count := rows.counts(word)).any()}
    if not counts:
        return []
    total, tokens, _ = store.totals()
    lengths = np.diff(rows.ends, prepend=0)
    saturation = K1 * (1 - B + B * lengths / (max(tokens, 1) / total))
    scores = np.zeros(len(lengths))
    stored = store.count_each(list(counts), None)
    for word, count in counts.items():
        matches = stored[word]
        idf = max(log((total - matches + 0.5) / (matches + 0.5)), MIN_IDF)
        scores += idf * ((count * (K1 + 1)) / (count + saturation))
    ids = list(positions)
    return [(float(scores[i]), ids[i]) for i in np.flatnonzero(scores).tolist()]


def score_by_meaning(
    table: Table[Any],
    view: View,
    embedder: str,
    questions: protocols.Vectors,
    k: int,
    candidate_ids: Collection[str] | None,
) -> list[ScoredIds]:
    """Return at least the best `k` partial rows for each question vector.

    Only the built-in embedder makes vectors of them: another one would take long, or cost money. With another one, only
    a search among `candidate_ids` returns them, with a score of 0. embedder: the fingerprint of the model of the table.
    """
    if not (positions := _positions(table, view)):
        return [[] for _ in questions]
    ids = list(positions if candidate_ids is None else positions.keys() & candidate_ids)
    if embedder != local_embedder.LOCAL_MODEL:
        return [[(0.0, id) for id in ids if candidate_ids is not None] for _ in questions]
    vectors = view.once("partial vectors", lambda: _embed_rows(table, positions))
    exact = unit_vectors(vectors[[positions[id] for id in ids]] if candidate_ids is not None else vectors)
    scores = exact @ questions.T
    results = []
    for question, column in zip(questions, scores.T, strict=True):
        threshold = np.partition(column, -k)[-k] - SCORE_MARGIN if len(column) > k else -np.inf
        best = np.flatnonzero(column >= threshold)
        sums = (exact[best] * question).sum(axis=1)
        results.append([(score, ids[i]) for score, i in zip(sums.tolist(), best.tolist(), strict=True)])
    return results


def _positions(table: Table[Any], view: View) -> Mapping[str, int]:
    """Return the position of each partial row that a search may find."""
    return view.once("partial rows", lambda: {id: i for i, id in enumerate(_read_texts(table))})


def _read_texts(table: Table[Any]) -> dict[str, str]:
    """Return the searchable text of each partial row that has one."""
    return table.codec.index_texts(table.view.partial_rows() if table.view else ())


def _read_words(table: Table[Any], positions: Mapping[str, int]) -> _Words:
    texts = _read_texts(table)
    packed = [pack_tokens(tokenize(texts[id])) for id in positions]
    places = np.array([1, 1 << 8, 1 << 16], dtype=np.uint32)  # of the three bytes of a number
    numbers = np.frombuffer(b"".join(packed), np.uint8).reshape(-1, 3) @ places
    return _Words(numbers, np.cumsum([len(row) // 3 for row in packed], dtype=np.int64))


def _embed_rows(table: Table[Any], positions: Mapping[str, int]) -> StoredVectors:
    texts = _read_texts(table)
    return encode_vectors(local_embedder.LocalEmbedder()([texts[id] for id in positions]))
