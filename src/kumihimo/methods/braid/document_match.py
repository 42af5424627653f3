"""question + descriptions -> the documents that it names by title, source, people, numbers and dates."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import log

from kumihimo.core import context, table
from kumihimo.index.chunk_background import Description, date_terms
from kumihimo.search.protocols import KeywordSearch
from kumihimo.text.dates import compare_dates
from kumihimo.text.question import ParsedQuestion, Word, Wording
from kumihimo.text.tokens import subject_terms, word_tokens

_MAX_HITS = 100  # descriptions that are compared; more documents than this are not told apart
_FEW = 10  # what one in ten documents shares, or fewer, counts in full
_SINGLE_NAME = 0.5  # of a name of one word, which may be another's
_MIN_COVERAGE = 0.5  # share of a name that words in small letters must give
_MIN_CJK_CHARS = 4  # of a part of a Japanese or Chinese name
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
    question: ParsedQuestion,
    descriptions: table.Table[Description],
    keyword_search: KeywordSearch,
    candidates: Collection[str] = (),
) -> dict[str, DocumentMatch]:
    """Return the documents that a question names, by id.

    A title, a name, a date or a number with its label counts; one common word does not. Each counts by how few
    documents share it. The scores are shares of the best document's sum, if that is above 1. candidates: ids of
    documents that are scored too; they show how common a name is that more documents have than a search returns.
    """
    wording, total = question.wording, len(descriptions)
    text = _search_text(wording)
    hits = keyword_search(descriptions, text, k=_MAX_HITS) if total > 1 and text.strip() else context.Context()
    rows = {item.record.id: item.record for item in hits if isinstance(item.record, Description)}
    last = list(rows)[-1] if len(rows) == _MAX_HITS else ""
    sample = descriptions.get_many(candidates) if last else {}
    rows |= sample
    names = {id: _match_names(wording, row.text) for id, row in rows.items()}
    dates = {id: _match_dates(wording.dates, row.dates) if wording.dates else {} for id, row in rows.items()}

    @cache
    def rarity(term: Span | str) -> float:
        """Return how rare a span or date is, from 0 to 1."""
        if isinstance(term, str):
            shares = {id: share for id in rows if (share := dates[id].get(term, 0.0))}
        else:
            first, last_word = term
            shares = {id: 1.0 for id in rows if any(start <= first and last_word <= end for start, end in names[id])}
        count = max(1.0, sum(shares.values()))
        if last in shares:  # more documents have it than were returned
            count = max(count, total * sum(id in shares for id in sample) / len(sample) if sample else total)
        return min(1.0, log(total / count) / log(min(total, _FEW)))

    sums = {id: _sum_terms(names[id], dates[id], rarity) for id in names}
    best = max((sum(weights.values()) for weights in sums.values()), default=0.0)
    return {
        id: DocumentMatch(sum(weights.values()) / max(1.0, best), tuple(map(wording.term_text, weights)))
        for id, weights in sums.items()
        if weights
    }


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


def _search_text(wording: Wording) -> str:
    """Return the text for keyword search, without isolated common words."""
    words = wording.words
    counts = [bool(_subject_terms(word.token)) for word in words]
    beside = [any(counts[max(i - 1, 0) : i] + counts[i + 1 : i + 2]) for i in range(len(counts))]
    kept = (
        near or word.is_name or word.is_unspaced or not wording.has_capitals
        for word, near in zip(words, beside, strict=True)
    )
    tokens = [word.token for word, is_kept in zip(words, kept, strict=True) if is_kept]
    return " ".join([*tokens, *(term for date in wording.dates for term in date_terms(date, is_question=True))])


@lru_cache(maxsize=4096)
def _subject_terms(text: str) -> list[str]:
    """Return the subject terms, cached."""
    return subject_terms(text)


# -- a description


def _match_dates(query: Iterable[str], dates: Sequence[str]) -> dict[str, float]:
    """Return how well a document has each date."""
    best = {date: max((compare_dates(own, date) for own in dates), default=0.0) for date in query}
    return {date: share for date, share in best.items() if share}


def _match_names(wording: Wording, text: str) -> dict[Span, float]:
    """Return a factor for each span with a name of the description."""
    tokens = _tokenize_names(text)
    labelled = dict.fromkeys(_labelled_numbers(wording, tokens), 1.0) if wording.labelled else {}
    runs = {
        span: (wording.words[slice(*span)], wording.term_text(span)) for span in _common_runs(wording.words, tokens)
    }
    rated = {span: _rate_run(*run, text, tokens, wording.has_capitals) for span, run in runs.items()}
    first = {
        _join_tokens(runs[span][0]): span for span in reversed(rated) if rated[span]
    }  # a repeated name counts once
    return {span: rated[span] for span in first.values()} | labelled


@lru_cache(maxsize=65536)
def _tokenize_names(text: str) -> str:
    """Return the tokens of all names, between spaces and bars."""
    return f" | {' | '.join(' '.join(word_tokens(name)) for name in text.splitlines())} | "


def _common_runs(words: Sequence[Word], tokens: str) -> Iterator[Span]:
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


def _join_tokens(words: Iterable[Word]) -> str:
    """Return the tokens of words, each between spaces."""
    return f" {' '.join(word.token for word in words)} "


def _rate_run(words: Sequence[Word], written: str, text: str, tokens: str, has_capitals: bool) -> float:
    """Return how much a run of words says, from 0 to 1.

    written: as the question writes it. has_capitals: whether capital letters tell names there.
    """
    has_name, is_unspaced = any(word.is_name for word in words), words[0].is_unspaced
    if len(words) == 1 and not (has_name or is_unspaced):
        return 0.0
    run, own_terms = _join_tokens(words), _subject_terms(written)
    if not any(map(str.isalpha, "".join(own_terms))):
        return 0.0
    is_whole = f"|{run}|" in tokens
    if is_unspaced:
        longest = max(map(len, re.findall(_IDEOGRAPHS, written)), default=0)
        return (1.0 if len(words) > 1 else 0.5) if is_whole else 0.5 * (longest >= _MIN_CJK_CHARS)
    if len(words) == 1:
        is_same = re.search(rf"(?<!\w){re.escape(written)}(?!\w)", text, re.I)  # Bank is not in Iain Banks
        return (1.0 if is_whole else _SINGLE_NAME) * bool(is_same)
    if len(own_terms) == 1:
        return 1.0 if is_whole and has_name else _SINGLE_NAME * (is_whole or has_name)
    if is_whole or has_name:
        return 1.0
    coverage = _cover_name(len(own_terms), run, text)
    is_capital = not has_capitals and written.title() in text  # the name has them instead
    return coverage if coverage >= _MIN_COVERAGE else _MIN_COVERAGE * is_capital


@lru_cache(maxsize=65536)
def _cover_name(terms: int, run: str, text: str) -> float:
    """Return the share of the shortest name that the run covers."""
    names = [name for name in text.splitlines() if run in f" {' '.join(word_tokens(name))} "]
    return terms / min(max(len(subject_terms(name)), 1) for name in names)


def _labelled_numbers(wording: Wording, tokens: str) -> Iterator[Span]:
    """Yield each label with its number, if the name has both.

    It may abbreviate the label: `EP 14` for `episode 14`.
    """
    for position in wording.labelled:
        label, number = (word.token for word in wording.words[position : position + 2])
        before = re.findall(rf"(\S+) (?={number} )", tokens) if f" {number} " in tokens else []
        if any(label == word or (len(word) > 1 and label.startswith(word)) for word in before):
            yield position, position + 2
