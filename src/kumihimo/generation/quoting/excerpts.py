"""question + evidence -> excerpts: readable stretches of documents, best first, and how well they match."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import log
from typing import Any, Protocol

from kumihimo.core.context import Context, Evidence
from kumihimo.core.records import Chunk
from kumihimo.core.spans import Span
from kumihimo.core.table import Table
from kumihimo.generation.quoting.answer_kinds import AnswerRules
from kumihimo.generation.quoting.readable import Region, Stretch, grow, read_region, says_something
from kumihimo.llm.local_embedder import find_subwords, subword_vectors
from kumihimo.llm.protocols import Embedder
from kumihimo.text.name_keys import entity_id, name_key
from kumihimo.text.tokens import subject_terms

MAX_CHARS = 1200  # of all excerpts together
MAX_EXCERPTS = 3
_MAX_EVIDENCE = 8  # items whose text is read
_MAX_MENTIONS = 500  # of the subject of a question, whose sentences are read
_MAX_DEFINITIONS = 5  # chunks
_CLOSE = 0.85  # of the best score
_MIN_GAIN = 0.2  # of the question's words, that no better excerpt has
_USUAL, _FEW = 0.4, 8  # similarity of a stretch; how many stretches count as much as it
_MAX_EMBEDDED = 48  # stretches that are compared by meaning
# Learned from questions whose answer has a known place (benchmarks.quoting), as multiples of the first.
WEIGHTS = {
    "sentence": 1.0,
    "nearby": 0.49,
    "above": 0.92,
    "rank": 0.42,
    "answer": 0.35,
    "states": 0.28,
    "topic": 0.59,
    "similar": 0.48,
    "definition": 1.0,  # set by hand: these questions define nothing
}

# Learned from the same questions, with and without the passages that hold the answer.
# unusual: how much more similar than the other stretches.
CONFIDENCE = {"sentence": 1.0, "above": 1.0, "nearby": 0.6, "unusual": 1.2, "topic": 0.5, "definition": 0.7}

Features = dict[str, float]


class IndexReader(Protocol):
    """The part of an index that an answer without a model reads."""

    def spans(self, item: Evidence) -> Iterable[Span]:
        """Return the source spans of evidence."""

    def find_table(self, name: str) -> Table[Any] | None:
        """Return the visible rows of a table, or None."""

    def document(self, uri: str) -> tuple[str, str, int]:
        """Return the text, title and start of the body."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A readable stretch of a document.

    coverage: the share of the question's words in it, by rarity. score: compares within one question. words: of it, its
    heading and its title. matched: the shares of the question's words in it. confidence: how likely it answers.
    answers: whether it has the kind of answer that the question wants.
    """

    span: Span
    title: str
    heading: str
    lead: str
    words: frozenset[str]
    matched: Mapping[str, float] = field(default_factory=dict)
    coverage: float = 0.0
    score: float = 0.0
    confidence: float = 0.0
    answers: bool = False

    @property
    def size(self) -> int:
        return len(self.span.text) + len(self.lead)


@dataclass(frozen=True)
class Candidate:
    """A stretch with the sentence it has grown from."""

    excerpt: Excerpt
    sentence: str
    rank: int  # of its evidence


@lru_cache(maxsize=1024)
def _find_words(text: str) -> frozenset[str]:
    """Return the subject terms of a text; `マリー・キュリー` has `マリーキュリー` too."""
    joined = subject_terms(text.replace("・", "")) if "・" in text else ()
    return frozenset((*subject_terms(text), *joined))


def choose_excerpts(rules: AnswerRules, context: Context, reader: IndexReader, embed: Embedder) -> list[Excerpt]:
    """Return the best excerpts of the evidence, best first.

    They do not overlap, and have at most `MAX_CHARS` characters together.
    """
    return select_excerpts(rules, find_candidates(rules, context, reader, embed))


def select_excerpts(
    rules: AnswerRules, candidates: Sequence[tuple[Candidate, Features]], weights: Mapping[str, float] = WEIGHTS
) -> list[Excerpt]:
    """Return the best of these stretches, best first."""
    answers: dict[Span, float] = {}  # the most words of the question in a sentence with the kind of answer
    for candidate, features in candidates:
        if features["answer"]:
            span = candidate.excerpt.span
            answers[span] = max(features["sentence"], answers.get(span, 0.0))
    scored = [
        replace(
            candidate.excerpt,
            coverage=features["coverage"],
            score=round(sum([weight * features[name] for name, weight in weights.items()]), 4),
            confidence=sum([weight * features[name] for name, weight in CONFIDENCE.items()]),
            answers=features["definition"] > 0,
        )
        for candidate, features in candidates
    ]
    if not (rules.asked.subject and rules.wants_definition):
        scored = [
            replace(excerpt, answers=answers.get(excerpt.span, -1.0) >= features["sentence"] / 2)
            for excerpt, (_, features) in zip(scored, candidates, strict=True)
        ]
    selected: list[Excerpt] = []
    for excerpt in sorted(scored, key=lambda excerpt: -excerpt.score):
        room = MAX_CHARS - sum(other.size for other in selected)
        if len(selected) < MAX_EXCERPTS and excerpt.size <= room and _adds(excerpt, selected):
            selected.append(excerpt)
    return selected


def _read_candidates(rules: AnswerRules, context: Context, reader: IndexReader) -> Iterator[Candidate]:
    """Yield a stretch around each sentence of the best evidence."""
    items = [item for item in context if isinstance(item.record, Chunk)] or list(context)
    rest, items = items[_MAX_EVIDENCE:], items[:_MAX_EVIDENCE]
    if rules.asked.subject:
        items += [item for item in rest if rules.names_heading(item.text)] + _defining_chunks(rules, reader)
    places: set[tuple[str, int, int]] = set()
    texts: set[str] = set()
    for rank, item in enumerate(items):
        for span in reader.spans(item):
            text, title, body = reader.document(span.uri)
            region = read_region(text, span.start, span.end, body)
            for i, unit in enumerate(region.units):
                if unit.end <= span.start or unit.start >= span.end or not says_something(region, unit):
                    continue
                stretch, sentence = grow(region, i), text[unit.text_start : unit.end]
                if (span.uri, unit.start, unit.end) not in places and sentence not in texts:
                    places.add((span.uri, unit.start, unit.end))
                    texts.add(sentence)
                    yield Candidate(_make_excerpt(span, region, stretch, title), sentence, rank)


def _defining_chunks(rules: AnswerRules, reader: IndexReader) -> list[Evidence]:
    """Return the chunks that define the subject of the question."""
    mentions, chunks = reader.find_table("mentions"), reader.find_table("chunks")
    if mentions is None or chunks is None:
        return []
    rows = mentions.where(entity=entity_id(name_key(rules.asked.subject)))[:_MAX_MENTIONS]
    scored = sorted((-rules.definition_score(row.text), row.id) for row in rows)
    ids = dict.fromkeys(id.rpartition(".")[0] for score, id in scored if score < 0)
    defining = chunks.get_many(list(ids)[:_MAX_DEFINITIONS])
    return [Evidence("chunks", chunk, 0.0) for chunk in defining.values()]


def _make_excerpt(span: Span, region: Region, stretch: Stretch, title: str) -> Excerpt:
    start, end, lead = stretch
    text, heading = region.text[start:end], region.heading_above(start)
    words = _find_words("\n".join((title, heading, lead, text)))
    return Excerpt(replace(span, start=start, end=end, text=text), title, heading, lead, words)


def find_candidates(
    rules: AnswerRules, context: Context, reader: IndexReader, embed: Embedder
) -> list[tuple[Candidate, Features]]:
    """Return the stretches with most words of the question, and their features."""
    candidates = list(_read_candidates(rules, context, reader))
    in_sentences = [_find_words(f"{candidate.excerpt.lead}\n{candidate.sentence}") for candidate in candidates]
    weights = _weigh_terms(rules, in_sentences)
    total = sum(weights.values()) or 1.0
    rows = []
    for candidate, in_sentence in zip(candidates, in_sentences, strict=True):
        above = _find_words(f"{candidate.excerpt.title}\n{candidate.excerpt.heading}")
        parts = {
            "sentence": in_sentence,
            "nearby": candidate.excerpt.words - in_sentence - above,
            "above": above - in_sentence,
        }
        shares = {
            name: sum([w for term, w in weights.items() if term in words]) / total for name, words in parts.items()
        }
        features = {
            **shares,
            "rank": 1 / (1 + candidate.rank),
            "answer": float(
                rules.is_answered_by(candidate.excerpt.span.text if rules.asked.kind == "why" else candidate.sentence)
            ),
            "states": float(not candidate.sentence.rstrip().endswith(("?", "？"))),
            "definition": rules.definition_score(
                candidate.sentence, candidate.excerpt.span.text, (candidate.excerpt.heading, candidate.excerpt.title)
            )
            if rules.asked.subject
            else 0.0,
        }
        features["coverage"] = features["sentence"] + 0.7 * features["above"] + 0.6 * features["nearby"]
        matched = {term: weight / total for term, weight in weights.items() if term in candidate.excerpt.words}
        rows.append((replace(candidate, excerpt=replace(candidate.excerpt, matched=matched)), features))
    rows.sort(key=lambda row: -(row[1]["coverage"] + row[1]["sentence"] + row[1]["definition"] + 0.3 * row[1]["rank"]))
    rows = rows[:_MAX_EMBEDDED]
    if not rows:
        return []
    texts = [f"{c.excerpt.heading}\n{c.excerpt.lead}\n{c.excerpt.span.text}" for c, _ in rows]
    numbers = {text: n for n, text in enumerate(dict.fromkeys(texts), 1)}
    vectors = embed([rules.asked.text, *numbers])
    topics = (vectors @ vectors[0])[[numbers[text] for text in texts]]
    similar = _similar_words(rules, [f"{c.excerpt.lead}\n{c.sentence}" for c, _ in rows])
    usual = (sum(similar) + _FEW * _USUAL) / (len(similar) + _FEW)
    return [
        (candidate, features | {"topic": float(topic), "similar": words, "unusual": words - usual})
        for (candidate, features), topic, words in zip(rows, topics, similar, strict=True)
    ]


def _similar_words(rules: AnswerRules, sentences: Sequence[str]) -> Sequence[float]:
    """Return the similarity of each sentence to the question.

    This is the mean of the best cosine of each subword of the question, weighted by how much the subword says.
    """
    import numpy as np

    own, *others = (np.frombuffer(ids, dtype=np.uint16) for ids in find_subwords([rules.asked.content, *sentences]))
    if not len(own):
        return [0.0] * len(sentences)
    own_vectors, own_lengths = subword_vectors(own)
    best = [(subword_vectors(ids)[0] @ own_vectors.T).max(axis=0) if len(ids) else own_lengths * 0 for ids in others]
    weights = own_lengths / own_lengths.sum()
    return [float(row @ weights) for row in best]


def _weigh_terms(rules: AnswerRules, sentences: Sequence[frozenset[str]]) -> dict[str, float]:
    """Return the rarity of each term of a question in the sentences.

    A pair of ideographs that no sentence has may be the end of one word and the beginning of another: it counts as far
    as no other pair of a longer run has its characters.
    """
    terms, counts = rules.asked.terms, Counter(word for words in sentences for word in words)
    whole = frozenset(re.findall(r"(?<![\u3400-\u9fff])[\u3400-\u9fff]{2}(?![\u3400-\u9fff])", rules.asked.plain))
    present = {char for term in terms if counts[term] for char in term}
    weights = {}
    for term in sorted(terms):
        share = 1.0
        if not counts[term] and term not in whole and all("\u3400" <= char <= "\u9fff" for char in term):
            share = sum(char not in present for char in term) / len(term)
        weights[term] = share * log(1 + len(sentences) / (1 + counts[term]))
    return weights


def _adds(excerpt: Excerpt, selected: Sequence[Excerpt]) -> bool:
    """Return whether an excerpt equals the best, or adds words."""
    if not selected:
        return excerpt.coverage > 0
    span = excerpt.span
    others = [other.span for other in selected]
    if any(span.uri == other.uri and span.start < other.end and other.start < span.end for other in others):
        return False
    covered = {word for other in selected for word in other.matched}
    gain = sum(share for word, share in excerpt.matched.items() if word not in covered)
    return excerpt.score >= _CLOSE * selected[0].score or gain >= _MIN_GAIN
