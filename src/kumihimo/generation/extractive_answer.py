"""question + context -> Answer without a chat model: quoted sentences with citations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import log

from kumihimo.core.context import Answer, Context, Evidence, SpanFinder
from kumihimo.core.records import Chunk, KeyPoint
from kumihimo.core.spans import Citation, Span
from kumihimo.core.usage import Usage
from kumihimo.llm.protocols import Embedder
from kumihimo.text.sentences import collapse_spaces, split_blocks, split_sentences
from kumihimo.text.tokens import subject_terms

_NO_ANSWER = "No passage that answers this was found."
_NO_ANSWER_JAPANESE = "これに答える記述は見つかりませんでした。"
_NO_ANSWER_TRADITIONAL = "未找到能回答這個問題的段落。"
_NO_ANSWER_SIMPLIFIED = "未找到能回答这个问题的段落。"
_KANA, _KANJI = re.compile("[\u3041-\u3096\u30a1-\u30fa\uff66-\uff9d]"), re.compile("[\u3400-\u9fff]")
_MAX_EVIDENCE = 8  # items whose sentences are scored
_MAX_QUOTES = 3
_MAX_POINTS = 10
_MIN_COVERAGE = 0.3  # of the question's terms, by rarity, in a quoted sentence and its neighbours
_MIN_COVERAGE_SHORT = 0.5  # the same for a short question
_SHORT_QUESTION = 3  # terms
_MIN_QUOTE_SHARE = 0.25  # of a statement's terms in the sentence that is quoted for it


@dataclass(frozen=True, slots=True)
class _Sentence:
    span: Span
    evidence_score: float  # of its evidence, relative to the best
    words: frozenset[str]
    context_words: frozenset[str]  # its words, and those of the previous and next sentence


@dataclass(frozen=True, slots=True)
class _ScoredSentence:
    span: Span
    matched_words: frozenset[str]  # of the question
    score: float


def quote_answer(question: str, method: str, context: Context, spans: SpanFinder, embed: Embedder) -> Answer:
    """Answer with the best-matching sentences of the evidence.

    If the method extracted points, the points are the answer. If no sentence matches, the answer says so.
    """
    points = [item for item in context if isinstance(item.record, KeyPoint)]
    if points:
        return _answer_from_points(question, method, context, points[:_MAX_POINTS], spans)
    selected = _select_sentences(_score_sentences(question, list(_evidence_sentences(context, spans)), embed))
    citations = tuple(Citation(n, sentence.span) for n, sentence in enumerate(selected, 1))
    text = "\n".join(f"{_in_quotation_marks(c.span.text)} [{c.n}]" for c in citations) or no_answer_text(
        question, context
    )
    return Answer(question, method, text, citations, context, Usage())


def _answer_from_points(
    question: str, method: str, context: Context, points: Sequence[Evidence], spans: SpanFinder
) -> Answer:
    """Answer with the points, each cited by its best sentence."""
    lines, citations = [], []
    for n, item in enumerate(points, 1):
        verbatim = isinstance(item.record, KeyPoint) and item.record.verbatim
        lines.append(f"{_in_quotation_marks(item.text) if verbatim else collapse_spaces(item.text)} [{n}]")
        citations += [Citation(n, span) for span in make_quoter(list(spans(item)))(item.text)[:1]]
    return Answer(question, method, "\n".join(lines), tuple(citations), context, Usage())


def no_answer_text(question: str, context: Context) -> str:
    """Return the "no answer" text in the language of the question.

    The script decides. A question in kanji alone may be Japanese or Chinese; then the script of the evidence decides.

    >>> no_answer_text("誰が門を描きましたか。", Context()), no_answer_text("东门钥匙", Context())
    ('これに答える記述は見つかりませんでした。', '未找到能回答这个问题的段落。')
    """
    if not _KANJI.search(question) and not _KANA.search(question):
        return _NO_ANSWER
    evidence_text = "".join(item.text for item in context.top(_MAX_EVIDENCE))
    if _KANA.search(question) or len(_KANA.findall(evidence_text)) > len(_KANJI.findall(evidence_text)) / 10:
        return _NO_ANSWER_JAPANESE
    # GB 2312 has the simplified characters, Big5 the traditional ones.
    return (
        _NO_ANSWER_SIMPLIFIED
        if _count_encodable(question, "gb2312") >= _count_encodable(question, "big5")
        else _NO_ANSWER_TRADITIONAL
    )


def _count_encodable(text: str, encoding: str) -> int:
    """Return how many characters of the text the encoding has."""
    return sum(len(letter.encode(encoding, "ignore")) > 0 for letter in text)


def make_quoter(spans: Sequence[Span]) -> Callable[[str], Sequence[Span]]:
    """Return a function that finds the best sentence for a statement.

    It returns all spans if no sentence matches well.
    """
    span_sentences = [sentence for span in spans for sentence in _split_sentences(span)]
    words = [frozenset(subject_terms(sentence.text)) for sentence in span_sentences]
    rarity = _rarity_function(words)

    def find_best(statement: str) -> Sequence[Span]:
        terms = frozenset(subject_terms(statement))
        total = sum(map(rarity, sorted(terms))) or 1.0
        shares = [sum(map(rarity, sorted(terms & words_of))) / total for words_of in words]
        best_share = max(shares, default=0.0)
        return [span_sentences[shares.index(best_share)]] if best_share >= _MIN_QUOTE_SHARE else spans

    return find_best


def _evidence_sentences(context: Context, spans: SpanFinder) -> Iterator[_Sentence]:
    """Yield the sentences of the best evidence, each text once.

    Chunks come first; other rows count only if there are no chunks.
    """
    yielded: set[str] = set()
    items = [item for item in context if isinstance(item.record, Chunk)] or list(context)
    max_score = max((item.score for item in items), default=0.0) or 1.0
    for item in items[:_MAX_EVIDENCE]:
        for source in spans(item):
            span_sentences = list(_split_sentences(source))
            words = [frozenset(subject_terms(span.text)) for span in span_sentences]
            for i, span in enumerate(span_sentences):
                if span.text not in yielded:
                    yielded.add(span.text)
                    yield _Sentence(
                        span, item.score / max_score, words[i], frozenset().union(*words[max(0, i - 1) : i + 2])
                    )


def _split_sentences(source: Span) -> Iterator[Span]:
    for block in split_blocks(source.text):
        if block.kind != "heading":
            is_row = block.kind == "row"  # a table row makes sense only as a whole
            for start, end in (
                [(block.start, block.end)] if is_row else split_sentences(source.text, block.start, block.end)
            ):
                yield Span(source.chunk, source.uri, source.start + start, source.start + end, source.text[start:end])


def _score_sentences(question: str, candidates: list[_Sentence], embed: Embedder) -> list[_ScoredSentence]:
    """Return the sentences that match the question, best first."""
    if not candidates:
        return []
    rarity = _rarity_function([sentence.words for sentence in candidates])
    terms = frozenset(subject_terms(question))
    total = sum(map(rarity, sorted(terms))) or 1.0
    vectors = embed([question, *(sentence.span.text for sentence in candidates)])
    minimum = _MIN_COVERAGE if len(terms) > _SHORT_QUESTION else _MIN_COVERAGE_SHORT
    scored = []
    for sentence, cosine in zip(candidates, vectors[1:] @ vectors[0], strict=True):
        coverage, context_coverage = (
            sum(map(rarity, sorted(terms & words))) / total for words in (sentence.words, sentence.context_words)
        )
        if coverage >= minimum or (context_coverage >= minimum and coverage >= minimum / 2):
            score = coverage + 0.5 * float(cosine) + 0.5 * context_coverage + 0.3 * sentence.evidence_score
            scored.append(_ScoredSentence(sentence.span, terms & sentence.words, round(score, 4)))
    return sorted(scored, key=lambda sentence: -sentence.score)


def _rarity_function(sentences: Sequence[frozenset[str]]) -> Callable[[str], float]:
    counts = Counter(word for words in sentences for word in words)
    return lambda word: log(1 + len(sentences) / (1 + counts[word]))


def _select_sentences(ranked: Sequence[_ScoredSentence]) -> list[_ScoredSentence]:
    """Return the best sentence, and others that are close or complementary."""
    selected = list(ranked[:1])
    for sentence in ranked[1:]:
        covered = frozenset[str]().union(*(earlier.matched_words for earlier in selected))
        close = sentence.score >= 0.75 * selected[0].score
        complementary = len(sentence.matched_words - covered) >= 2 and sentence.score >= 0.5 * selected[0].score
        if (close or complementary) and len(selected) < _MAX_QUOTES:
            selected.append(sentence)
    return selected


def _in_quotation_marks(text: str) -> str:
    """Return the sentence on one line, in its script's quotation marks."""
    line = collapse_spaces(text)
    if not any("\u3040" <= c <= "\u9fff" for c in line):
        return f"“{line}”"
    return f"『{line}』" if "「" in line else f"「{line}」"
