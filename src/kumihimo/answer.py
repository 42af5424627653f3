"""question + context -> Answer, without a chat model: the best sentences, quoted and cited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import log

from kumihimo.core.context import Answer, Context, Evidence
from kumihimo.core.records import Citation, Span, Usage
from kumihimo.ports.models import Embedder
from kumihimo.ports.sentences import blocks, sentences
from kumihimo.views.words import content

Spans = Callable[[Evidence], Iterable[Span]]

NOTHING = "The documents do not seem to say anything about this."
_READ = 8  # pieces of evidence whose sentences are weighed
_QUOTED = 3  # sentences at most
_COVERED = 0.2  # share of the question's words (by rarity) that a quoted sentence has at least ...
_ALIKE = 0.45  # ... or how near it is to the question


@dataclass(frozen=True, slots=True)
class _Sentence:
    span: Span
    words: frozenset[str]
    score: float


def quoted(question: str, method: str, context: Context, spans: Spans, embed: Embedder) -> Answer:
    """The sentences of the evidence that say most of what is asked, word for word, best first; or that none does."""
    found = _weighed(question, context, spans, embed)
    chosen = _chosen(found)
    citations = tuple(Citation(n, sentence.span) for n, sentence in enumerate(chosen, 1))
    text = "\n".join(f"{_marks(c.span.text)} [{c.n}]" for c in citations) or NOTHING
    return Answer(question, method, text, citations, context, Usage())


def _weighed(question: str, context: Context, spans: Spans, embed: Embedder) -> list[_Sentence]:
    """The sentences of the best evidence, best first."""
    found = {span.text: span for item in context.top(_READ) for span in _sentences(spans(item))}
    if not found:
        return []
    words = [frozenset(content(text)) for text in found]
    rarity = _rarity(words)
    asked = frozenset(content(question))
    total = sum(map(rarity, asked)) or 1.0
    vectors = embed([question, *found])
    weighed = []
    for span, said, alike in zip(found.values(), words, vectors[1:] @ vectors[0], strict=True):
        covered = sum(map(rarity, sorted(asked & said))) / total
        if covered >= _COVERED or alike >= _ALIKE:
            weighed.append(_Sentence(span, asked & said, round(covered + 0.5 * float(alike), 4)))
    return sorted(weighed, key=lambda s: -s.score)


def _rarity(sentences: Sequence[frozenset[str]]) -> Callable[[str], float]:
    count = Counter(word for words in sentences for word in words)
    return lambda word: log(1 + len(sentences) / (1 + count[word]))


def _chosen(found: Sequence[_Sentence]) -> list[_Sentence]:
    """The best sentence, then those that are nearly as good, or say what it leaves open."""
    chosen: list[_Sentence] = []
    for sentence in found:
        said = frozenset[str]().union(*(other.words for other in chosen))
        nearly = not chosen or sentence.score >= 0.75 * chosen[0].score
        more = len(sentence.words - said) >= 2 and sentence.score >= 0.5 * chosen[0].score if chosen else True
        if (nearly or more) and len(chosen) < _QUOTED:
            chosen.append(sentence)
    return chosen


def _sentences(spans: Iterable[Span]) -> Iterable[Span]:
    for whole in spans:
        for block in blocks(whole.text):
            if block.kind != "heading":
                for start, end in sentences(whole.text, block.start, block.end):
                    yield Span(whole.chunk, whole.uri, whole.start + start, whole.start + end, whole.text[start:end])


def _marks(text: str) -> str:
    """The sentence on one line, in the quotation marks of its script."""
    line = " ".join(text.split())
    return f"「{line}」" if any("\u3040" <= c <= "\u9fff" for c in line) else f"“{line}”"
