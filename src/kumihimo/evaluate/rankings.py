"""A ranking and its gold -> recall, precision, MAP, MRR, nDCG, all-gold; TREC files of both.

A ranking is a list of unique names, best first. Gold is a set of equally relevant names. A TREC run has
`question Q0 name place score system` on each line, qrels have `question 0 name 1`. Characters that would break a line
are percent-encoded in ids: `my%20notes/a.md`.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial, wraps
from math import isfinite, log2
from pathlib import Path
from urllib.parse import quote, unquote

from kumihimo.core.errors import SettingsError
from kumihimo.text.safe_write import read_text_file

Ranking = Sequence[str]
GoldNames = Collection[str]
Measure = Callable[[Ranking, GoldNames], float]


def sort_by_score(scores: Mapping[str, float]) -> list[str]:
    """Sort names by score, best first; ties by name.

    >>> sort_by_score({"b": 1.0, "c": 2.0, "a": 1.0})
    ['c', 'a', 'b']
    """
    return sorted(scores, key=lambda name: (-scores[name], name))


def _require_gold(measure: Callable[..., float]) -> Callable[..., float]:
    @wraps(measure)
    def checked(ranking: Ranking, gold: GoldNames, *args: int, **kwargs: int) -> float:
        if not gold:
            raise SettingsError("a question without gold cannot be measured: leave it out, or add gold")
        if len(set(ranking)) != len(ranking):
            raise SettingsError("a ranking names something twice: keep the first")
        return measure(ranking, frozenset(gold), *args, **kwargs)

    return checked


@_require_gold
def recall(ranking: Ranking, gold: GoldNames, k: int) -> float:
    """Return the share of gold among the first k. Not Hit@k.

    |G ∩ top k| / |G| (Manning et al., 2008, section 8.3).

    >>> recall(["a", "x", "b"], {"a", "b", "c", "d"}, 2)
    0.25
    """
    return _hits(ranking, gold, k) / len(gold)


@_require_gold
def precision(ranking: Ranking, gold: GoldNames, k: int) -> float:
    """Return the share of the first k that is gold.

    |G ∩ top k| / k, even for a ranking shorter than k (Manning et al., 2008, 8.4).

    >>> precision(["a", "x", "b"], {"a", "b"}, 4)
    0.5
    """
    return _hits(ranking, gold, k) / k


@_require_gold
def all_gold(ranking: Ranking, gold: GoldNames, k: int) -> float:
    """Return 1 if all gold is among the first k, else 0.

    [G ⊆ top k], for questions that need every piece of gold.

    >>> all_gold(["a", "x", "b"], {"a", "b"}, 2), all_gold(["a", "x", "b"], {"a", "b"}, 3)
    (0.0, 1.0)
    """
    return float(_hits(ranking, gold, k) == len(gold))


@_require_gold
def average_precision(ranking: Ranking, gold: GoldNames) -> float:
    """Return the precision at each piece of gold, averaged over |G|.

    Σ P@k / |G| over the ranks k of gold (Manning et al., 2008, 8.4). Its mean over questions is MAP. Gold outside the
    ranking counts 0.

    >>> round(average_precision(["a", "x", "b", "y"], {"a", "b", "c"}), 4)  # (1/1 + 2/3) / 3
    0.5556
    """
    places = [place for place, name in enumerate(ranking, 1) if name in gold]
    return sum(n / place for n, place in enumerate(places, 1)) / len(gold)


@_require_gold
def reciprocal_rank(ranking: Ranking, gold: GoldNames) -> float:
    """Return 1 / the rank of the first gold, 0 without gold.

    Its mean over questions is MRR (Voorhees, TREC-8, 1999).

    >>> reciprocal_rank(["x", "a"], {"a"})
    0.5
    """
    return next((1 / place for place, name in enumerate(ranking, 1) if name in gold), 0.0)


@_require_gold
def ndcg(ranking: Ranking, gold: GoldNames, k: int) -> float:
    """Return the discounted gain of the first k, divided by the ideal.

    Järvelin & Kekäläinen (2002): Σ gain / log2(rank + 1); the gain of gold is 1, of anything else 0. For such gains
    2^rel - 1 equals rel.

    >>> round(ndcg(["x", "a"], {"a"}, 10), 4)  # 1 / log2(3)
    0.6309
    """
    gained = sum(1 / log2(place + 1) for place, name in enumerate(ranking[:k], 1) if name in gold)
    return gained / sum(1 / log2(place + 1) for place in range(1, min(k, len(gold)) + 1))


def _hits(ranking: Ranking, gold: GoldNames, k: int) -> int:
    return sum(name in gold for name in ranking[:k])


CUTOFF_MEASURES: Mapping[str, Callable[..., float]] = {  # of the first k names
    "recall": recall,
    "precision": precision,
    "all-gold": all_gold,
    "nDCG": ndcg,
}
RANKING_MEASURES: Mapping[str, Measure] = {"MAP": average_precision, "MRR": reciprocal_rank}  # of the whole ranking
RETRIEVAL_MEASURES: Mapping[str, Callable[..., float]] = {**CUTOFF_MEASURES, **RANKING_MEASURES}


def measures_at(ks: Iterable[int]) -> dict[str, Measure]:
    """Return each measure for these k, by the name of its mean.

    >>> list(measures_at([5]))
    ['recall@5', 'precision@5', 'all-gold@5', 'nDCG@5', 'MAP', 'MRR']
    """
    cutoffs = {f"{name}@{k}": partial(measure, k=k) for name, measure in CUTOFF_MEASURES.items() for k in ks}
    return {**cutoffs, **RANKING_MEASURES}


Rankings = Mapping[str, Sequence[str]]  # by question, best first
_UNSAFE = re.compile(r"[\s%\x00-\x1f\x7f]")


def trec_run_lines(system: str, rankings: Rankings) -> Iterator[str]:
    """Yield the lines of a run.

    Scores count down, because programs sort by score, not by rank.

    >>> list(trec_run_lines("naive", {"q 1": ["my notes.md", "b.md"]}))
    ['q%201 Q0 my%20notes.md 1 2 naive', 'q%201 Q0 b.md 2 1 naive']
    """
    for question, names in rankings.items():
        for place, name in enumerate(names, 1):
            score = len(names) - place + 1
            yield f"{_escape_field(question)} Q0 {_escape_field(name)} {place} {score} {_escape_field(system)}"


def trec_qrels_lines(gold: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield the lines of qrels."""
    for question, names in gold.items():
        for name in names:
            yield f"{_escape_field(question)} 0 {_escape_field(name)} 1"


def read_trec_run(path: Path) -> tuple[str, dict[str, list[str]]]:
    """Read the system of a run and its ranking for each question.

    Rankings are sorted by score, ties by name. Raises SettingsError.
    """
    scores: dict[str, dict[str, float]] = {}
    systems: dict[str, None] = {}
    for number, (question, _, name, _, score, system) in _iterate_rows(path, 6, "question Q0 name place score system"):
        systems.setdefault(system)
        question_scores = scores.setdefault(question, {})
        if name in question_scores:
            raise SettingsError(f"{path}, line {number}: {name!r} stands twice for that question")
        question_scores[name] = _parse_number(path, number, score)
    if len(systems) != 1:
        problem = f"holds runs of {', '.join(systems)}: write a file for each" if systems else "holds no run"
        raise SettingsError(f"{path} {problem}")
    return next(iter(systems)), {question: sort_by_score(by_name) for question, by_name in scores.items()}


def read_trec_qrels(path: Path) -> dict[str, list[str]]:
    """Read the relevant names of each question, of any grade above 0.

    Raises SettingsError.
    """
    by_question: dict[str, list[str]] = {}
    for number, (question, _, name, relevance) in _iterate_rows(path, 4, "question 0 name relevance"):
        names = by_question.setdefault(question, [])
        if _parse_number(path, number, relevance) > 0 and name not in names:
            names.append(name)
    return by_question


def _iterate_rows(path: Path, size: int, form: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(read_text_file(path, "give a file of TREC in UTF-8").split("\n"), 1):
        parts = line.split()
        if parts and len(parts) != size:
            raise SettingsError(f"{path}, line {number}: {len(parts)} columns, not {size}: {form}")
        if parts:
            yield number, [_unescape_field(part) for part in parts]


def _parse_number(path: Path, number: int, text: str) -> float:
    try:
        value = float(text)
        if isfinite(value):
            return value
    except ValueError:
        pass
    raise SettingsError(f"{path}, line {number}: {text!r} is no number")


def _escape_field(text: str) -> str:
    """Encode a field; `%` alone stands for an empty one."""
    return _UNSAFE.sub(lambda match: quote(match[0]), text) or "%"


def _unescape_field(text: str) -> str:
    return "" if text == "%" else unquote(text)
