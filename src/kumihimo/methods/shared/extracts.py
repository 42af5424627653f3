"""question + reports -> points without a model: the best sentences, from as many communities as possible."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import nsmallest
from itertools import chain
from math import log, sqrt

from kumihimo.core.context import Context, Tokenizer
from kumihimo.core.records import Community, Reference, Report
from kumihimo.core.table import Table
from kumihimo.index.data_refs import sources_of
from kumihimo.methods.shared.map_step import make_point, rank_points
from kumihimo.search.protocols import KeywordSearch, VectorSearch
from kumihimo.text.question import ParsedQuestion
from kumihimo.text.sentences import ends_sentence, is_table_row
from kumihimo.text.tokens import subject_terms

SourcedText = tuple[str, tuple[Reference, ...], bool]  # a text, its sources, and whether it is verbatim
_NAME_PATTERN = re.compile(r"\b[A-Z]+[a-z][\w'’-]*|^[A-Z][A-Z.'’ -]+:")  # names and speaker labels
_MIN_REPORTS = 3  # that contain a theme word
_MAX_EXPANDED, _MAX_DESCENDANTS = 30, 40  # communities whose descendants are read, and how many of each
_MAX_POINTS = 2000  # more than a budget holds
_SHORT_WORDS = 15  # a sentence of this length gets half the density
_POOL = 50  # reports of each search
_MIN_COVERAGE = 0.4  # of the question's terms in a report
_RATING_WEIGHT = 0.3  # of a report's rating, relative to its search score
_FILE_NAME = re.compile(r"\w_\w|\w\.(?:txt|docx?|pdf|md|html?)\b")  # from a heading that became part of the sentence
_SPEAKER_LABEL = re.compile(r"^[A-Z][A-Z.'’ -]+:\s*")  # of a transcript
# Introductions of people or of the documents, without content.
_INTRODUCTION = (  # compiled on first use
    r"\b(?:[Ss]?[Hh]e|[A-Z]\w+)(?:['’]s| is| was| has been)(?: also| currently)?"
    r" (?:an? (?:\w+ ){0,2}|the |our |\w+ as an? )?"
    r"(?:artist|author|award|ceo|cto|chair|champion|chief|co-?founder|director|entrepreneur|executive|fellow|founder|"
    r"guest|host|investor|inventor|leader|manager|officer|partner|president|professor|recipient|researcher|scientist|"
    r"vice|writer)\b"
    r"|\b(?:[Ss]?[Hh]e|[A-Z]\w+) (?:also |has |then |previously )*"
    r"(?:co-?founded|earned|enjoyed|held|holds|received|served|serves|"
    r"(?:is|was) (?:\w+ly )?(?:appointed|awarded|honou?red|named|nominated|recogni[sz]ed))\b"
    r"|\b(?i:founder (?:and|of)|(?:ceo|cto|professor|director|president) (?:and|at|of)|welcome|our guests?|"
    r"join(?:ing|s) us|thanks? (?:you )?(?:so much )?for|episodes?|podcasts?|listeners|"
    r"(?:the|this|our|your|great) show|check out|next up|tune in|talk(?:ing)? (?:with our|to today)|to be here|"
    r"having me|having you)\b"
)
_QUESTION_PATTERN = re.compile(
    r"[?？][”\"'’)]*$|\b(?:tell (?:us|me)|I['’]d love (?:to|for)|I would love|your perspective|do you think|ask you)\b"
)
_FILLERS = re.compile(r"\b(?:you know|I mean|sort of|kind of|uh|um)\b|,? like,", re.IGNORECASE)
_TURN_START = r"^(?:like|no|oh|right|um|well|yeah|yes)\b"
_MIN_WORDS, _MAX_WORDS = 4, 30  # subject terms


def extract_report_points(
    question: str,
    selected: Iterable[Report],
    reports: Table[Report],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
    part_reports: Mapping[str, Sequence[Report]] | None = None,
) -> Context:
    """Return sentences of the reports, the best of each report first.

    If the question has a subject, only reports on it count. If it is corpus-level, all reports count, the largest
    first: first sentences score between .5 and 1, second ones between .25 and .5, and so on. Table rows score a
    quarter. part_reports: further reports by the id of the report that they belong to; their sentences count as its
    own.
    """
    by_id = {report.id: report for report in selected}
    terms = set(ParsedQuestion(question).corpus_terms)
    if terms:
        report_scores = _search_reports(question, terms, by_id, reports, keyword_search, vector_search)
    else:
        max_elements = max((report.elements for report in by_id.values()), default=0) or 1
        report_scores = {id: (report.elements / max_elements + report.rating / 10) / 2 for id, report in by_id.items()}
    texts_of = {id: _report_texts(by_id[id], (part_reports or {}).get(id, ())) for id in report_scores}
    themes = {} if terms else _find_themes(texts_of)
    best: dict[str, tuple[float, SourcedText]] = {}  # by text: chunks and reports may repeat it
    for id, report_score in sorted(report_scores.items(), key=lambda item: (-item[1], item[0])):
        for turn, share, sourced in _order_texts(terms, themes.get(id, {}), texts_of[id]):
            text = sourced[0]
            score = (0.25 if is_table_row(text) else 1.0) * (0.8 if terms else 0.5) ** turn * (report_score + share) / 2
            if text not in best or best[text][0] < score:
                best[text] = score, sourced
    points = nsmallest(_MAX_POINTS, best.values(), key=lambda pair: (-pair[0], pair[1][0]))
    return rank_points(
        (score, make_point(text, sources, tokenizer, verbatim=verbatim)) for score, (text, sources, verbatim) in points
    )


def descendant_reports(
    selected: Iterable[Report], communities: Table[Community], reports: Table[Report]
) -> dict[str, list[Report]]:
    """Return the reports on descendants of the largest communities, by ancestor.

    Children come before their own children. Of each ancestor, the first 40 are read.
    """
    largest = sorted(selected, key=lambda report: (-report.elements, report.id))[:_MAX_EXPANDED]
    parents = {report.id: report.id for report in largest}  # to their ancestors
    descendants: dict[str, list[str]] = {id: [] for id in parents}
    while parents:
        children: dict[str, str] = {}
        for id, community in communities.get_many(parents).items():
            found = descendants[parents[id]]
            new = community.children[: _MAX_DESCENDANTS - len(found)]
            found += new
            children |= dict.fromkeys(new, parents[id])
        parents = children
    rows = reports.get_many(chain.from_iterable(descendants.values()))
    return {id: [rows[each] for each in found if each in rows] for id, found in descendants.items() if found}


def _search_reports(
    question: str,
    terms: set[str],
    reports_by_id: dict[str, Report],
    reports: Table[Report],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
) -> dict[str, float]:
    """Return how well each matching report fits, from 0 to 1."""
    hits = keyword_search(reports, question, k=_POOL)
    keyword_hits = Context(tuple(item for item in hits if item.record.id in reports_by_id))
    vector_hits = vector_search(reports, question, k=_POOL, candidate_ids=sorted(reports_by_id))
    shares = {item.record.id: len(terms & set(subject_terms(item.text))) / len(terms) for item in keyword_hits}
    minimum = max(_MIN_COVERAGE, max(shares.values(), default=0.0) / 2)
    fused = {item.record.id: item.score for item in Context.fuse([keyword_hits, vector_hits], weights=[1.0, 0.5])}
    return {
        id: (score + _RATING_WEIGHT * reports_by_id[id].rating / 10) / (1.5 + _RATING_WEIGHT)
        for id, score in fused.items()
        if shares.get(id, 0.0) >= minimum
    }


def _report_texts(report: Report, part_reports: Sequence[Report]) -> list[SourcedText]:
    """Return the sentences of a report, then those of its parts.

    A report without quotable sentences gives its summary.
    """
    texts = list(dict.fromkeys(chain.from_iterable(map(_extractive_sentences, (report, *part_reports)))))
    return texts or ([(report.summary, (("reports", report.id),), False)] if report.summary.strip() else [])


def _find_themes(texts_of: Mapping[str, Sequence[SourcedText]]) -> dict[str, dict[str, float]]:
    """Return the theme words of each report, with weights.

    A theme word is more frequent in the report than elsewhere. But: it has to occur in at least three reports, and
    names do not count, because they say who, not what.
    """
    counts = {id: Counter(word for text, *_ in texts for word in _theme_words(text)) for id, texts in texts_of.items()}
    total, report_frequency = Counter[str](), Counter[str]()
    for count in counts.values():
        total.update(count)
        report_frequency.update(count.keys())
    frequent = {word for word, reports in report_frequency.items() if reports >= _MIN_REPORTS}
    return {id: _distinctive_words(count, total, count.keys() & frequent) for id, count in counts.items()}


def _distinctive_words(count: Counter[str], total: Counter[str], words: set[str]) -> dict[str, float]:
    """Return the words over-represented here, with weights."""
    expected_share = count.total() / total.total() if count else 0.0
    lift = {word: count[word] / (total[word] * expected_share) for word in sorted(words)}
    return {word: sqrt(count[word]) * log(ratio) for word, ratio in lift.items() if ratio > 1}


@lru_cache(maxsize=65536)
def _theme_words(text: str) -> tuple[str, ...]:
    """Return the words of a prose sentence that can be themes.

    Names and numbers do not count.
    """
    words = subject_terms(_NAME_PATTERN.sub(" ", text)) if is_prose(text) else ()
    return tuple(word for word in words if not word.isdigit())


def _order_texts(
    terms: set[str], themes: Mapping[str, float], texts: Sequence[SourcedText]
) -> Iterator[tuple[int, float, SourcedText]]:
    """Yield the texts of a report with turn and match, best first.

    The match is from 0 to 1. With terms, texts rank by the terms they contain. Without, they rank by theme density, and
    lists and tables come one turn after prose.
    """
    if not terms:
        ranked = sorted(texts, key=lambda text: (not is_prose(text[0]), -_theme_density(text[0], themes)))
        return ((turn + (not is_prose(text[0])), 1.0, text) for turn, text in enumerate(ranked))
    shares = [(len(terms & set(subject_terms(text[0]))) / len(terms), text) for text in texts]
    matching = sorted(filter(lambda pair: pair[0], shares), key=lambda pair: -pair[0])
    return ((turn, share, text) for turn, (share, text) in enumerate(matching))


def _theme_density(text: str, themes: Mapping[str, float]) -> float:
    """Return how dense the themes are in a text.

    Short texts and texts that need their context get less.
    """
    words = _theme_words(text)
    return rate_sentence(text) * sum(themes.get(word, 0.0) for word in words) / (len(words) + _SHORT_WORDS)


def _extractive_sentences(report: Report) -> Iterator[SourcedText]:
    """Yield the sentences of an extractive report with their chunks."""
    if not report.extractive:
        return
    for sentence, source in zip(report.summary.splitlines(), sources_of(report, 0), strict=False):
        yield sentence, (source,), True
    for n, (_, sentence) in enumerate(report.findings, 1):
        if sources := sources_of(report, n):
            yield sentence, sources, True


# -- the quality of a sentence


def is_prose(text: str) -> bool:
    """Return whether a text is a complete sentence of prose.

    Table rows, headings and file names are no prose.

    >>> is_prose("The tide turns."), is_prose("tides_2.txt The tide turns."), is_prose("Tides and")
    (True, False, False)
    """
    is_sentence = ends_sentence(text) or text.endswith("…")
    return is_sentence and not is_table_row(text) and _FILE_NAME.search(text) is None


def rate_sentence(text: str) -> float:
    """Rate a sentence as a quotation, from 0 to 1.

    Questions, fragments and introductions of people score less; text that is no prose scores 0.

    >>> [rate_sentence(text) for text in ("Long tides wear the old stone steps down.", "and a tide.")]
    [1.0, 0.25]
    """
    if not is_prose(text):
        return 0.0
    body = _SPEAKER_LABEL.sub("", text)
    size = len(subject_terms(body))
    score = 0.25 if re.search(_INTRODUCTION, body) else 1.0
    fragment, colloquial = body[:1].islower() or body[:1] in ",.;-–—", len(_FILLERS.findall(body)) > size / 8
    turn = re.match(_TURN_START, body, re.IGNORECASE)
    for flaw in (_QUESTION_PATTERN.search(body), fragment or turn, colloquial, not _MIN_WORDS <= size <= _MAX_WORDS):
        score *= 0.5 if flaw else 1.0
    return score
