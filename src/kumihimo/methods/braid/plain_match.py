"""question + candidate chunks -> how well each one matches the question by itself, without the graph."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from kumihimo.llm.local_embedder import find_subwords, subword_vectors
from kumihimo.llm.protocols import Vectors
from kumihimo.search.protocols import RowTokens
from kumihimo.text import function_words, lazy_numpy as np, sentences
from kumihimo.text.question import ParsedQuestion
from kumihimo.text.tokens import content_tokens, hash_token

PLAIN_FEATURES = ("words", "meaning", "window", "phrase", "similar", "topic", "clause", "document")
WINDOW = 30  # tokens
_PHRASE_GAP = 2  # tokens from one word of a phrase to the next
_K1, _B = 1.2, 0.75  # of BM25
_MIN_CLAUSE_WORDS = 2
_MIN_WINDOW = 0.2  # of the question's words, by rarity, in the best window: below it, words count less
_SUBWORDS = 2**16
_CLAUSE_END = re.compile(  # punctuation, and English words that join clauses
    rf"[,;:.?!，、；：{sentences.TERMINALS}]|\b(?:and|but|or|that|when|where|whereas|which|while|who)\b", re.I
)

Features = dict[str, float]


@dataclass(frozen=True)
class _Hits:
    """The places of question words in the rows, in reading order.

    rows, positions, words: of each hit, the row, the position in it, and the word. counts: hits by row and word.
    """

    rows: np.Integers
    positions: np.Integers
    words: np.Integers
    counts: np.Floats
    lengths: np.Integers


@dataclass(frozen=True)
class PlainMatcher:
    """A question, prepared for comparison with chunks.

    pool: the tokens of the first candidates, which decide how rare a word is and what the best score is.
    """

    question: ParsedQuestion
    pool: Mapping[str, RowTokens]

    @cached_property
    def rarity(self) -> np.Floats:
        """Return the weight of each word, by rarity in the pool."""
        if not self.question.wording.tokens or not self.pool:
            return np.zeros(len(self.question.wording.tokens))
        row_counts = (self._pool_hits.counts > 0).sum(axis=0)
        weights = np.log(1 + len(self.pool) / (1 + row_counts))
        return np.asarray(weights / (weights.sum() or 1.0))

    @cached_property
    def _pool_hits(self) -> _Hits:
        return _find_hits(self.question.wording.tokens, list(self.pool.values()))

    @cached_property
    def _clauses(self) -> np.Floats:
        """Return 1 for each word (row) in a clause (column)."""
        words = self.question.wording.tokens
        parts = [frozenset(content_tokens(part)) for part in _CLAUSE_END.split(self.question.text) if part.strip()]
        clauses = [part for part in parts if len(part.intersection(words)) >= _MIN_CLAUSE_WORDS]
        whole = [] if len(clauses) > 1 else [frozenset(words)]
        return np.array([[float(word in clause) for clause in whole or clauses] for word in words])

    @cached_property
    def _best_clause_scores(self) -> np.Floats:
        best: np.Floats = np.maximum(self._clause_scores(self._pool_hits).max(axis=0), 1e-9)
        return best

    def _clause_scores(self, hits: _Hits) -> np.Floats:
        """Return BM25 of each row for each clause."""
        relative = hits.lengths / max(self._pool_hits.lengths.mean(), 1.0)
        saturated = hits.counts * (_K1 + 1) / (hits.counts + (_K1 * (1 - _B + _B * relative))[:, None])
        scores: np.Floats = (saturated * self.rarity) @ self._clauses
        return scores

    def match(self, rows: Mapping[str, RowTokens]) -> tuple[dict[str, Features], dict[str, frozenset[str]]]:
        """Return features of each row, and the question words in it.

        window: the share of the question's words, by rarity, in its best 30 tokens. phrase: the share of neighbouring
        words of the question that are neighbours here. similar: the mean, by rarity and length, of the best cosine of
        each subword of the question with a subword here. topic: the cosine of the sums of both, by rarity (Arora et
        al., 2017: SIF). clause: BM25 for the best clause of the question, as a share of the best row's.
        """
        if not rows or not self.question.wording.tokens:
            return {id: {} for id in rows}, {id: frozenset() for id in rows}
        hits = self._pool_hits if rows is self.pool else _find_hits(self.question.wording.tokens, list(rows.values()))
        similar, topic = self._meaning(list(rows.values()))
        columns = {
            "window": _best_windows(hits, self.rarity),
            "phrase": _phrase_shares(hits, self.rarity),
            "similar": similar,
            "topic": topic,
            "clause": self.lexical_trust * (self._clause_scores(hits) / self._best_clause_scores).max(axis=1),
        }
        present = hits.counts > 0
        features = {id: {name: float(column[i]) for name, column in columns.items()} for i, id in enumerate(rows)}
        return features, {
            id: frozenset(self.question.wording.tokens[j] for j in present[i].nonzero()[0]) for i, id in enumerate(rows)
        }

    @cached_property
    def lexical_trust(self) -> float:
        """Return how much shared words count, from 0 to 1.

        They count less if no row has many of them.
        """
        best = _best_windows(self._pool_hits, self.rarity).max() if self.question.wording.tokens and self.pool else 0.0
        return min(1.0, float(best) / _MIN_WINDOW)

    @cached_property
    def _own_subwords(self) -> tuple[Vectors, Vectors, np.Floats, np.Floats]:
        """Return the vectors, lengths and rarity of the question's subwords.

        And the rarity of each subword of the tokenizer in the pool.
        """
        counts = np.bincount(np.concatenate([row.subwords for row in self.pool.values()]), minlength=_SUBWORDS)
        rarity = np.log(1 + len(self.pool) / (1 + counts))
        own = np.frombuffer(find_subwords([function_words.cut_function_words(self.question.text)])[0], np.uint16)
        return *subword_vectors(own), rarity[own], rarity

    def _meaning(self, rows: Sequence[RowTokens]) -> tuple[np.Floats, np.Floats]:
        """Return `similar` and `topic` of each row."""
        own_vectors, own_lengths, own_weights, rarity = self._own_subwords
        sizes = np.array([len(row.subwords) for row in rows])
        subwords = np.concatenate([row.subwords for row in rows])
        distinct = np.flatnonzero(np.bincount(subwords, minlength=_SUBWORDS))
        places = (np.cumsum(np.bincount(distinct, minlength=_SUBWORDS)) - 1)[subwords]
        vectors, _ = subword_vectors(distinct)
        cosines = vectors @ own_vectors.T
        ends = np.cumsum(sizes)
        similar, weights = np.zeros(len(rows)), own_weights * own_lengths
        best = np.maximum.reduceat(cosines[places], (ends - sizes)[sizes > 0], axis=0).astype(np.float64)
        similar[sizes > 0] = best @ (weights / (weights.sum() or 1.0))
        bounds = np.concatenate([[0], ends])
        weighted, own_sum = rarity[distinct][:, None] * vectors, own_weights @ own_vectors
        sums, terms = np.zeros((len(rows), vectors.shape[1])), np.empty((sizes.max(), vectors.shape[1]))
        for row, (start, end) in zip(sums, pairwise(bounds), strict=True):  # one array for the terms of all rows
            own_terms = weighted.take(places[start:end], axis=0, out=terms[: end - start], mode="clip")
            np.add.reduce(own_terms, axis=0, out=row)
        topic = (sums @ own_sum) / np.maximum(np.linalg.norm(sums, axis=1) * np.linalg.norm(own_sum), 1e-9)
        return similar, topic


def _find_hits(words: Sequence[str], rows: Sequence[RowTokens]) -> _Hits:
    hashes = np.array([hash_token(word) for word in words], dtype=np.uint32)
    order = np.argsort(hashes)
    lengths = np.array([len(row.words) for row in rows])
    tokens = np.concatenate([row.words for row in rows])
    places = np.minimum(np.searchsorted(hashes[order], tokens), len(words) - 1)
    matching = np.flatnonzero(hashes[order][places] == tokens)
    hit_rows = np.repeat(np.arange(len(rows)), lengths)[matching]
    hit_words = order[places[matching]]
    positions = matching - (np.cumsum(lengths) - lengths)[hit_rows]
    counts = np.bincount(hit_rows * len(words) + hit_words, minlength=len(rows) * len(words))
    return _Hits(hit_rows, positions, hit_words, counts.reshape(len(rows), -1).astype(np.float64), lengths)


def _best_windows(hits: _Hits, rarity: np.Floats) -> np.Floats:
    """Return the total rarity of the best window, by row."""
    size = len(hits.rows)
    earlier = np.full(size, -1)  # the previous hit of the same word in the row
    groups = hits.rows * len(rarity) + hits.words
    order = np.argsort(groups, kind="stable")
    same = groups[order][1:] == groups[order][:-1]
    earlier[order[1:][same]] = order[:-1][same]
    totals = np.zeros(size)
    for shift in range(min(size, WINDOW)):
        first, last = np.arange(size - shift), np.arange(shift, size)
        inside = (hits.rows[first] == hits.rows[last]) & (hits.positions[last] - hits.positions[first] < WINDOW)
        if not inside.any():
            break
        totals[first] += inside * (earlier[last] < first) * rarity[hits.words[last]]
    best = np.zeros(len(hits.lengths))
    np.maximum.at(best, hits.rows, totals)
    return best


def _phrase_shares(hits: _Hits, rarity: np.Floats) -> np.Floats:
    """Return the rarity of question phrases in each row.

    A phrase is two neighbouring words of the question that are neighbours in the row.
    """
    near = (np.diff(hits.rows) == 0) & (np.diff(hits.positions) <= _PHRASE_GAP) & (np.diff(hits.words) == 1)
    pairs = np.sort_distinct(hits.rows[:-1][near] * len(rarity) + hits.words[:-1][near])
    rows, words = np.divmod(pairs, len(rarity))
    weights = (rarity[words] + rarity[words + 1]) / 2
    return np.bincount(rows, weights, len(hits.lengths)).astype(np.float64)
