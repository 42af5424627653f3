"""question + descriptions -> the documents that it names by title, source, people, numbers and dates."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from math import log
from unicodedata import normalize

from kumihimo.core.context import Context
from kumihimo.core.table import Table
from kumihimo.index.chunk_background import Description, date_terms
from kumihimo.search.protocols import KeywordSearch
from kumihimo.text.dates import compare_dates, find_dates, list_dates
from kumihimo.text.tokens import subject_terms, tokenize

_MAX_HITS = 100  # descriptions that are compared; more documents than this are not told apart
_FEW = 10  # what one in ten documents shares, or fewer, counts in full
_SINGLE_NAME = 0.5  # of a name of one word, which may be another's
_MIN_COVERAGE = 0.5  # share of a name that words in small letters must give
_MIN_CJK_CHARS = 4  # of a part of a Japanese or Chinese name
_CJK = "々〆ー\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_PIECE = rf"[{_CJK}]+|[^\W_{_CJK}]+"
_IDEOGRAPHS = "[々ー\u30a0-\u30ff\u3400-\u9fff]+"
Span = tuple[int, int]  # of words of the question


@dataclass(frozen=True, slots=True)
class DocumentMatch:
    """A document that a question names; score: how surely, from 0 to 1.

    terms: the words of the question that name it.
    """

    score: float
    terms: tuple[str, ...]


def match_documents(
    question: str, descriptions: Table[Description], keyword_search: KeywordSearch, candidates: Collection[str] = ()
) -> dict[str, DocumentMatch]:
    """Return the documents that a question names, by id.

    A title, a name, a date or a number with its label counts; one common word does not. Each counts by how few
    documents share it. The scores are shares of the best document's sum, if that is above 1. candidates: ids of
    documents that are scored too; they show how common a name is that more documents have than a search returns.
    """
    total, query = len(descriptions), _parse_question(question)
    hits = (
        keyword_search(descriptions, query.search_text, k=_MAX_HITS)
        if total > 1 and query.search_text.strip()
        else Context()
    )
    rows = {item.record.id: item.record for item in hits if isinstance(item.record, Description)}
    last = list(rows)[-1] if len(rows) == _MAX_HITS else ""
    sample = descriptions.get_many(candidates) if last else {}
    rows |= sample
    names = {id: _match_names(query, row.text) for id, row in rows.items()}
    dates = {id: _match_dates(query.dates, row.dates) for id, row in rows.items()}

    @cache
    def rarity(term: Span | str) -> float:
        """Return how rare a span or date is, from 0 to 1."""
        shares = {id: share for id in rows if (share := _term_share(term, names[id], dates[id]))}
        count = max(1.0, sum(shares.values()))
        if last in shares:  # more documents have it than were returned
            count = max(count, total * sum(id in shares for id in sample) / len(sample) if sample else total)
        return min(1.0, log(total / count) / log(min(total, _FEW)))

    sums = {id: _sum_terms(names[id], dates[id], rarity) for id in names}
    best = max((sum(weights.values()) for weights in sums.values()), default=0.0)
    return {
        id: DocumentMatch(sum(weights.values()) / max(1.0, best), tuple(map(query.term_text, weights)))
        for id, weights in sums.items()
        if weights
    }


def _term_share(term: Span | str, names: Mapping[Span, float], dates: Mapping[str, float]) -> float:
    """Return how well a document has a span or date."""
    if isinstance(term, str):
        return dates.get(term, 0.0)
    return float(any(start <= term[0] and term[1] <= end for start, end in names))


def _sum_terms(
    names: Mapping[Span, float], dates: Mapping[str, float], rarity: Callable[[Span | str], float]
) -> dict[Span | str, float]:
    """Return the weights of the best disjoint spans and the dates."""
    weights = {span: weight for span, factor in names.items() if (weight := factor * rarity(span))}
    selected: dict[Span, float] = {}
    for span in sorted(weights, key=lambda span: (-weights[span], span[0] - span[1], span)):
        if all(span[1] <= start or end <= span[0] for start, end in selected):
            selected[span] = weights[span]
    dated = {date: factor * rarity(date) for date, factor in dates.items()}
    return {**dict(sorted(selected.items())), **{date: weight for date, weight in dated.items() if weight}}


# -- the question


@dataclass(frozen=True, slots=True)
class _Word:
    """A token of the question, at [start, end) of its text.

    is_name: whether a capital letter marks a name. is_cjk: whether its script has no spaces.
    """

    token: str
    start: int
    end: int
    is_name: bool
    is_cjk: bool


@dataclass(frozen=True, slots=True)
class _Question:
    """A question as words and dates.

    dates: as the question writes them, by ISO form. labelled: where a number follows a content word. has_capitals:
    whether capital letters tell names from other words.
    """

    text: str
    words: Sequence[_Word]
    dates: Mapping[str, str]
    labelled: Sequence[int]
    has_capitals: bool

    @property
    def search_text(self) -> str:
        """Return the text for keyword search, without isolated common words."""
        counts = [bool(_subject_terms(word.token)) for word in self.words]
        beside = [any(counts[max(i - 1, 0) : i] + counts[i + 1 : i + 2]) for i in range(len(counts))]
        tokens = [word.token for word, near in zip(self.words, beside, strict=True) if near or self.may_name(word)]
        return " ".join([*tokens, *(term for date in self.dates for term in date_terms(date, is_question=True))])

    def may_name(self, word: _Word) -> bool:
        """Return whether a word alone may be a name."""
        return word.is_name or word.is_cjk or not self.has_capitals

    def term_text(self, term: Span | str) -> str:
        """Return a span or date as the question writes it."""
        if isinstance(term, str):
            return self.dates[term]
        return self.text[self.words[term[0]].start : self.words[term[1] - 1].end]

    def run(self, span: Span) -> str:
        """Return the tokens of a span, each between spaces."""
        return f" {' '.join(word.token for word in self.words[slice(*span)])} "

    def span_terms(self, span: Span) -> list[str]:
        """Return the subject terms of a span."""
        return _subject_terms(self.term_text(span))

    def longest_cjk(self, span: Span) -> int:
        """Return the longest run of kanji or katakana in a span."""
        return max(map(len, re.findall(_IDEOGRAPHS, self.term_text(span))), default=0)


@lru_cache(maxsize=4096)
def _subject_terms(text: str) -> list[str]:
    """Return the subject terms, cached."""
    return subject_terms(text)


def _parse_question(question: str) -> _Question:
    """Return the words of a question outside its dates, and the dates."""
    text = plain = normalize("NFKC", question)
    for start, end in find_dates(text):
        plain = f"{plain[:start]}{'|' * (end - start)}{plain[end:]}"
    pieces = list(re.finditer(_PIECE, plain))
    first = pieces[0].start() if pieces else 0
    has_small = any(piece[0].islower() for piece in pieces)
    has_capitals = has_small and any(piece[0] != piece[0].lower() for piece in pieces[1:])
    words = []
    for piece in pieces:
        is_name = has_capitals and (piece[0][1:] != piece[0][1:].lower() or piece.start() > first)
        is_name = is_name and piece[0] != piece[0].lower()
        for offset, token in enumerate(tokenize(piece[0])):
            is_cjk = re.match(f"[{_CJK}]", token) is not None
            start = piece.start() + (offset if is_cjk else 0)
            words.append(_Word(token, start, start + len(token) if is_cjk else piece.end(), is_name, is_cjk))
    pairs = enumerate(pairwise(words))
    labelled = [i for i, (label, number) in pairs if number.token.isdigit() and subject_terms(label.token)]
    written = [*(text[start:end] for start, end in find_dates(text)), *text.split()]
    forms = {date: form.strip(".,;:?!") for form in reversed(written) for date in list_dates(form)}
    dates = {date: forms.get(date, date) for date in list_dates(text)}
    return _Question(text, words, dates, labelled, has_capitals)


# -- a description


def _match_dates(query: Iterable[str], dates: Sequence[str]) -> dict[str, float]:
    """Return how well a document has each date."""
    best = {date: max((compare_dates(own, date) for own in dates), default=0.0) for date in query}
    return {date: share for date, share in best.items() if share}


def _match_names(query: _Question, text: str) -> dict[Span, float]:
    """Return a factor for each span with a name of the description."""
    tokens = _tokenize_names(text)
    labelled = dict.fromkeys(_labelled_numbers(query, tokens), 1.0)
    rated = {span: _rate_run(query, span, text, tokens) for span in _common_runs(query.words, tokens)}
    first = {query.run(span): span for span in reversed(rated) if rated[span]}  # a repeated name counts once
    return {span: rated[span] for span in first.values()} | labelled


@lru_cache(maxsize=65536)
def _tokenize_names(text: str) -> str:
    """Return the tokens of all names, between spaces and bars."""
    return f" | {' | '.join(' '.join(tokenize(name)) for name in text.splitlines())} | "


def _common_runs(words: Sequence[_Word], tokens: str) -> Iterator[Span]:
    """Yield the longest disjoint runs of words that a name has."""
    present = [f" {word.token} " in tokens for word in words]
    start = 0
    while start < len(words):
        end = start + present[start]
        run = f" {words[start].token} "
        while end > start and end < len(words) and present[end] and (run := f"{run}{words[end].token} ") in tokens:
            end += 1
        if end > start:
            yield start, end
        start = max(end, start + 1)


def _rate_run(query: _Question, span: Span, text: str, tokens: str) -> float:
    """Return how much a run of words says, from 0 to 1."""
    words = query.words[slice(*span)]
    has_name, is_cjk = any(word.is_name for word in words), words[0].is_cjk
    if len(words) == 1 and not (has_name or is_cjk):
        return 0.0
    run, own_terms = query.run(span), query.span_terms(span)
    if not any(map(str.isalpha, "".join(own_terms))):
        return 0.0
    is_whole = f"|{run}|" in tokens
    if is_cjk:
        return (1.0 if len(words) > 1 else 0.5) if is_whole else 0.5 * (query.longest_cjk(span) >= _MIN_CJK_CHARS)
    if len(words) == 1:
        is_same = re.search(rf"\b{re.escape(query.term_text(span))}\b", text, re.I)  # Bank is not in Iain Banks
        return (1.0 if is_whole else _SINGLE_NAME) * bool(is_same)
    if len(own_terms) == 1:
        return 1.0 if is_whole and has_name else _SINGLE_NAME * (is_whole or has_name)
    if is_whole or has_name:
        return 1.0
    coverage = _cover_name(len(own_terms), run, text)
    has_capitals = not query.has_capitals and query.term_text(span).title() in text  # the name has them instead
    return coverage if coverage >= _MIN_COVERAGE else _MIN_COVERAGE * has_capitals


@lru_cache(maxsize=65536)
def _cover_name(terms: int, run: str, text: str) -> float:
    """Return the share of the shortest name that the run covers."""
    names = [name for name in text.splitlines() if run in f" {' '.join(tokenize(name))} "]
    return terms / min(max(len(subject_terms(name)), 1) for name in names)


def _labelled_numbers(query: _Question, tokens: str) -> Iterator[Span]:
    """Yield each label with its number, if the name has both.

    It may abbreviate the label: `EP 14` for `episode 14`.
    """
    for position in query.labelled:
        label, number = (word.token for word in query.words[position : position + 2])
        before = re.findall(rf"(\S+) (?={number} )", tokens) if f" {number} " in tokens else []
        if any(label == word or (len(word) > 1 and label.startswith(word)) for word in before):
            yield position, position + 2
