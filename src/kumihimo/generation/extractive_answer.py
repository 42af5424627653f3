"""question + context -> Answer, without a chat model: the best sentences, quoted and cited."""

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
_MAX_EVIDENCE = 8  # pieces of evidence whose sentences are weighed
_MAX_QUOTES = 3  # sentences at most
_MAX_POINTS = 10  # of the whole at most
_MIN_COVERAGE = (
    0.3  # share of what is asked for, by rarity, that a quoted sentence, or it and its neighbours, speaks of ...
)
_MIN_COVERAGE_SHORT = 0.5  # ... and in a question of no more than
_SHORT_QUESTION = 3  # words
_MIN_QUOTE_SHARE = 0.25  # share of a statement that a sentence has to say to be quoted for it


@dataclass(frozen=True, slots=True)
class _Sentence:
    span: Span
    evidence_score: float  # how good the evidence is that it stands in, against the best
    words: frozenset[str]
    context_words: frozenset[str]  # its own words and those of the sentences before and after it


@dataclass(frozen=True, slots=True)
class _ScoredSentence:
    span: Span
    matched_words: frozenset[str]  # what it says of what is asked
    score: float


def quote_answer(question: str, method: str, context: Context, spans: SpanFinder, embed: Embedder) -> Answer:
    """The sentences of the evidence that say most of what is asked, word for word, best first; or that none does.

    Where a method has read points out of the whole, they are the answer.
    """
    points = [item for item in context if isinstance(item.record, KeyPoint)]
    if points:
        return _answer_from_points(question, method, context, points[:_MAX_POINTS], spans)
    chosen = _select_sentences(_score_sentences(question, list(_evidence_sentences(context, spans)), embed))
    citations = tuple(Citation(n, sentence.span) for n, sentence in enumerate(chosen, 1))
    text = "\n".join(f"{_in_quotation_marks(c.span.text)} [{c.n}]" for c in citations) or no_answer_text(
        question, context
    )
    return Answer(question, method, text, citations, context, Usage())


def _answer_from_points(
    question: str, method: str, context: Context, points: Sequence[Evidence], spans: SpanFinder
) -> Answer:
    """The points, each with the sentence that it is, or that says most of it."""
    lines, citations = [], []
    for n, item in enumerate(points, 1):
        verbatim = isinstance(item.record, KeyPoint) and item.record.verbatim
        lines.append(f"{_in_quotation_marks(item.text) if verbatim else collapse_spaces(item.text)} [{n}]")
        citations += [Citation(n, span) for span in make_quoter(list(spans(item)))(item.text)[:1]]
    return Answer(question, method, "\n".join(lines), tuple(citations), context, Usage())


def no_answer_text(question: str, context: Context) -> str:
    """That the documents do not say, in the language of the question as far as its script tells.

    In kanji alone it may be Japanese or Chinese: the evidence that was near, if any, decides.

    >>> nothing("誰が門を描きましたか。", Context()), nothing("东门钥匙", Context())
    ('これに答える記述は見つかりませんでした。', '未找到能回答这个问题的段落。')
    """
    if not _KANJI.search(question) and not _KANA.search(question):
        return _NO_ANSWER
    near = "".join(item.text for item in context.top(_MAX_EVIDENCE))
    if _KANA.search(question) or len(_KANA.findall(near)) > len(_KANJI.findall(near)) / 10:
        return _NO_ANSWER_JAPANESE
    # GB 2312 has the simplified characters, Big5 the traditional ones.
    return (
        _NO_ANSWER_SIMPLIFIED
        if _count_encodable(question, "gb2312") >= _count_encodable(question, "big5")
        else _NO_ANSWER_TRADITIONAL
    )


def _count_encodable(text: str, encoding: str) -> int:
    """How many of its characters that encoding has."""
    return sum(len(letter.encode(encoding, "ignore")) > 0 for letter in text)


def make_quoter(wholes: Sequence[Span]) -> Callable[[str], Sequence[Span]]:
    """Gives the sentence that says most of a statement; the spans as they are, where none says much of it."""
    found = [sentence for whole in wholes for sentence in _split_sentences(whole)]
    words = [frozenset(subject_terms(sentence.text)) for sentence in found]
    rarity = _rarity_function(words)

    def best(statement: str) -> Sequence[Span]:
        said = frozenset(subject_terms(statement))
        total = sum(map(rarity, sorted(said))) or 1.0
        shares = [sum(map(rarity, sorted(said & has))) / total for has in words]
        most = max(shares, default=0.0)
        return [found[shares.index(most)]] if most >= _MIN_QUOTE_SHARE else wholes

    return best


def _evidence_sentences(context: Context, spans: SpanFinder) -> Iterator[_Sentence]:
    """The sentences of the best evidence, each text once: of its chunks, or of what other rows were made of."""
    seen: set[str] = set()
    read = [item for item in context if isinstance(item.record, Chunk)] or list(context)
    best = max((item.score for item in read), default=0.0) or 1.0
    for item in read[:_MAX_EVIDENCE]:
        for whole in spans(item):
            found = list(_split_sentences(whole))
            words = [frozenset(subject_terms(span.text)) for span in found]
            for i, span in enumerate(found):
                if span.text not in seen:
                    seen.add(span.text)
                    yield _Sentence(span, item.score / best, words[i], frozenset().union(*words[max(0, i - 1) : i + 2]))


def _split_sentences(whole: Span) -> Iterator[Span]:
    for block in split_blocks(whole.text):
        if block.kind != "heading":
            row = block.kind == "row"  # which makes sense as a whole
            for start, end in (
                [(block.start, block.end)] if row else split_sentences(whole.text, block.start, block.end)
            ):
                yield Span(whole.chunk, whole.uri, whole.start + start, whole.start + end, whole.text[start:end])


def _score_sentences(question: str, found: list[_Sentence], embed: Embedder) -> list[_ScoredSentence]:
    """Those that speak to the question, best first."""
    if not found:
        return []
    rarity = _rarity_function([sentence.words for sentence in found])
    asked = frozenset(subject_terms(question))
    total = sum(map(rarity, sorted(asked))) or 1.0
    vectors = embed([question, *(sentence.span.text for sentence in found)])
    least = _MIN_COVERAGE if len(asked) > _SHORT_QUESTION else _MIN_COVERAGE_SHORT
    weighed = []
    for sentence, alike in zip(found, vectors[1:] @ vectors[0], strict=True):
        covered, around = (
            sum(map(rarity, sorted(asked & w))) / total for w in (sentence.words, sentence.context_words)
        )
        if covered >= least or (around >= least and covered >= least / 2):
            score = covered + 0.5 * float(alike) + 0.5 * around + 0.3 * sentence.evidence_score
            weighed.append(_ScoredSentence(sentence.span, asked & sentence.words, round(score, 4)))
    return sorted(weighed, key=lambda sentence: -sentence.score)


def _rarity_function(sentences: Sequence[frozenset[str]]) -> Callable[[str], float]:
    count = Counter(word for words in sentences for word in words)
    return lambda word: log(1 + len(sentences) / (1 + count[word]))


def _select_sentences(found: Sequence[_ScoredSentence]) -> list[_ScoredSentence]:
    """The best sentence, then those that are nearly as good, or say something of what it leaves open."""
    chosen = list(found[:1])
    for sentence in found[1:]:
        said = frozenset[str]().union(*(other.matched_words for other in chosen))
        nearly = sentence.score >= 0.75 * chosen[0].score
        more = len(sentence.matched_words - said) >= 2 and sentence.score >= 0.5 * chosen[0].score
        if (nearly or more) and len(chosen) < _MAX_QUOTES:
            chosen.append(sentence)
    return chosen


def _in_quotation_marks(text: str) -> str:
    """The sentence on one line, in the quotation marks of its script."""
    line = collapse_spaces(text)
    if not any("\u3040" <= c <= "\u9fff" for c in line):
        return f"“{line}”"
    return f"『{line}』" if "「" in line else f"「{line}」"
