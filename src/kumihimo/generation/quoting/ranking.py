"""question + evidence -> passages: the windows with most words of the question, from different places, best first."""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, Protocol, TypeVar

from kumihimo.core.context import Context, Evidence
from kumihimo.core.records import Chunk
from kumihimo.core.spans import Span
from kumihimo.core.table import Table
from kumihimo.generation.quoting.windows import MAX_WIDTH, Headings, Region, Window
from kumihimo.llm.protocols import Embedder
from kumihimo.text import question, word_variants
from kumihimo.text.tokens import content_tokens, subject_terms, tokenize

T = TypeVar("T")
MAX_PASSAGES = 3
_KATAKANA = re.compile("[ァ-ヺー]{3,}")
_MAX_EVIDENCE = 10  # items whose text is read
_MAX_REGIONS, _MAX_CHARS = 1000, 10_000_000  # of the regions that are kept, and of their documents
_LENGTH = MAX_WIDTH / 6  # tokens of a window of usual length
_SATURATION, _BY_LENGTH = 1.0, 0.6  # of BM25
RANK = 1.24  # how much the rank of the evidence counts; learned (benchmarks.quoting)
_SIMILARITY, _MAX_ENCODED = 2.5, 12  # how much the cosine of an encoder counts, and how many windows it reads
_FILLER = 0.3  # of the match of the best passage; one with less is not shown
_CLEAR, _COVERED = 0.4, 0.6  # the lead and the coverage of a passage that answers 9 times in 10


class IndexReader(Protocol):
    """The part of an index that an answer without a model reads."""

    def spans(self, item: Evidence) -> Iterable[Span]:
        """Return the source spans of evidence."""

    def find_table(self, name: str) -> Table[Any] | None:
        """Return the visible rows of a table, or None."""

    def document(self, uri: str) -> tuple[str, str, int]:
        """Return the text, title and start of the body."""

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return a value of the visible documents, computed once per build.

        It must not hold the index.
        """


@dataclass(frozen=True, slots=True)
class Passage:
    """A window of a document.

    coverage: the share of the question's words in it and above it, by rarity. match: the same, as BM25 weighs it; up to
    2. rank: of its evidence, from 0. score: compares within one question. lead: by how much its match is above that of
    the next place. copies: the passages of other documents with the same text.
    """

    region: Region
    window: Window
    span: Span
    headings: tuple[str, ...]
    coverage: float
    match: float
    rank: int
    score: float
    lead: float = 0.0
    copies: tuple[Span, ...] = ()

    @property
    def answers(self) -> bool:
        """Return whether it answers with a likelihood of 9 in 10.

        That is so if it comes from the best evidence, has most words of the question and leads clearly. Measured on
        questions whose answer has a known place (benchmarks.quoting).
        """
        return self.rank == 0 and self.lead >= _CLEAR and self.coverage >= _COVERED

    def meets(self, other: "Passage") -> bool:
        """Return whether two passages share some text."""
        one, two = self.span, other.span
        return one.text == two.text or (one.uri == two.uri and one.start < two.end and two.start < one.end)

    @property
    def place(self) -> tuple[str, int]:
        """Return the document, and where the section, list or table begins."""
        return self.span.uri, self.region.place(self.window)


def choose_passages(
    asked: question.ParsedQuestion,
    context: Context,
    reader: IndexReader,
    encoder: Embedder | None = None,
    index: word_variants.WordIndex | None = None,
    subjects: Sequence[str] = (),
) -> list[Passage]:
    """Return up to three passages of the evidence, best first.

    Each is from another document or section. encoder: compares the best ones by meaning. index: knows how rare a word
    is; without it, all weigh the same. subjects: of a comparison; the best passage for each comes first.
    """
    windows = list(find_windows(asked, context, reader, index))
    if encoder and windows:
        windows = _compare_by_meaning(asked, windows, encoder)
    elif not any(window.match for window in windows):  # of no word there is a pair: a single ideograph may be one
        windows = [window for window in windows if not asked.terms.isdisjoint(subject_terms(window.span.text))]
    found = [list(find_windows(question.ParsedQuestion(subject), context, reader, index)) for subject in subjects]
    best = [max(own, key=lambda passage: passage.match) for own in found if any(window.match for window in own)]
    return select_passages(windows, best)


def select_passages(windows: Iterable[Passage], first: Sequence[Passage] = ()) -> list[Passage]:
    """Return up to three windows from different places, best first.

    first: come before the others.
    """
    ranked = sorted(windows, key=lambda passage: -passage.score)
    selected: list[Passage] = []
    for passage in (*first, *ranked):
        if not selected:
            others = (other.match for other in ranked if not other.meets(passage))
            selected = [replace(passage, lead=passage.match - max(others, default=0.0))]
        elif len(selected) < MAX_PASSAGES and passage.match >= _FILLER * selected[0].match:
            is_new = not any(passage.meets(other) or passage.place == other.place for other in selected)
            selected += [passage] if is_new else []
    return selected


def find_windows(
    asked: question.ParsedQuestion, context: Context, reader: IndexReader, index: word_variants.WordIndex | None
) -> Iterator[Passage]:
    """Yield the windows of the best evidence with their scores."""
    words = content_tokens(asked.subject or asked.text)
    weights = _weigh(asked, words, index)
    chunks = [item for item in context if isinstance(item.record, Chunk)]
    known = reader.once("regions", _KnownRegions)
    seen: set[tuple[str, int]] = set()
    for rank, item in enumerate((chunks or list(context))[:_MAX_EVIDENCE]):
        spans = list(reader.spans(item))
        copies = tuple(spans[1:]) if item.duplicates else ()
        for span in spans[: len(spans) - len(copies)]:
            title, region = known.find(span, reader)
            scores = _Scores(region, title, words, weights)
            for window in region.windows:
                start, end = region.pieces[window.first].start, region.pieces[window.last].end
                if (span.uri, start) not in seen:
                    seen.add((span.uri, start))
                    above = region.headings.above(start)
                    coverage, match = scores.of(window, above)
                    part = replace(span, start=start, end=end, text=region.text[start:end])
                    score = match + RANK / (2 + rank)
                    yield Passage(region, window, part, above, coverage, match, rank, score, copies=copies)


@dataclass(slots=True)
class _KnownRegions:
    """The documents and regions that questions to one build met, with their windows and tokens, up to a bound."""

    documents: dict[str, tuple[str, Headings]] = field(default_factory=dict)  # title and headings, by uri
    regions: dict[tuple[str, int, int], Region] = field(default_factory=dict)
    chars: int = 0  # of the documents

    def find(self, span: Span, reader: IndexReader) -> tuple[str, Region]:
        """Return the title of the document of a span, and its region."""
        if len(self.regions) > _MAX_REGIONS or self.chars > _MAX_CHARS:
            self.documents.clear()
            self.regions.clear()
            self.chars = 0
        title, headings = self.documents.get(span.uri) or self._read(span.uri, reader)
        key = span.uri, span.start, span.end
        region = self.regions.get(key) or Region(headings.text, span.start, span.end, headings)
        self.regions[key] = region
        return title, region

    def _read(self, uri: str, reader: IndexReader) -> tuple[str, Headings]:
        text, title, body = reader.document(uri)
        self.chars += len(text)
        self.documents[uri] = found = title, Headings(text, body)
        return found


def _weigh(asked: question.ParsedQuestion, words: Sequence[str], index: word_variants.WordIndex | None) -> list[float]:
    """Return the weights of words: a word in katakana counts once.

    Its pairs of characters share the weight, which a name of many pairs would have several times.
    """
    runs = (tokenize(run) for run in _KATAKANA.findall(asked.normalized))
    shares = {token: len(run) for run in runs for token in run}
    rarities = index.rarity(words) if index else [1.0] * len(words)
    return [rarity / shares.get(word, 1) for word, rarity in zip(words, rarities, strict=True)]


@dataclass(frozen=True)
class _Scores:
    """The coverage and the match of the windows of a region. Each piece is counted once."""

    region: Region
    title: str
    words: Sequence[str]
    weights: Sequence[float]
    counts: dict[tuple[str, ...], list[int]] = field(default_factory=dict)  # by what stands above

    def of(self, window: Window, headings: tuple[str, ...]) -> tuple[float, float]:
        """Return the coverage and the match of a window."""
        above = *headings, window.lead
        if above not in self.counts:
            self.counts[above] = self._count(tokenize("\n".join((self.title, *above))))
        first, last = self._sums[window.first], self._sums[window.last + 1]
        *counts, tokens = [n + after - before for n, after, before in zip(self.counts[above], last, first, strict=True)]
        norm = _SATURATION * (1 - _BY_LENGTH + _BY_LENGTH * (tokens + 1) / _LENGTH)
        found = [(weight, n) for weight, n in zip(self.weights, counts, strict=True) if n]
        total = sum(self.weights) or 1.0
        match = sum(weight * n * (1 + _SATURATION) / (n + norm) for weight, n in found)
        return sum(weight for weight, _ in found) / total, match / total

    @cached_property
    def _sums(self) -> dict[int, tuple[int, ...]]:
        """Return the counts before each piece of the windows."""
        windows = self.region.windows
        first, last = min(window.first for window in windows), max(window.last for window in windows)
        counts = zip(*(self._count(self.region.tokens(i)) for i in range(first, last + 1)), strict=True)
        sums = zip(*(accumulate(column, initial=0) for column in counts), strict=True)
        return dict(enumerate(sums, first))

    def _count(self, tokens: Sequence[str]) -> list[int]:
        """Return how often each word occurs, and the number of tokens."""
        return [*map(tokens.count, self.words), len(tokens)]


def _compare_by_meaning(asked: question.ParsedQuestion, windows: Iterable[Passage], encoder: Embedder) -> list[Passage]:
    """Return the best windows, scored by similarity to the question, too."""
    passages = sorted(windows, key=lambda passage: -passage.score)[:_MAX_ENCODED]
    texts = ["\n".join((*passage.headings, passage.span.text)) for passage in passages]
    vectors = encoder([asked.text, *texts])
    similar = (vectors[1:] @ vectors[0]).tolist()
    return [replace(p, score=p.score + _SIMILARITY * cosine) for p, cosine in zip(passages, similar, strict=True)]
