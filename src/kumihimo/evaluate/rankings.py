"""A ranking and its gold -> hit, recall, precision, MAP, MRR, nDCG, all-gold; TREC files of both.

A ranking is a list of unique names, best first. Gold is a set of equally relevant names. A TREC run has
`question Q0 name place score system` on each line, qrels have `question 0 name 1`. Characters that would break a line
are percent-encoded in ids: `my%20notes/a.md`.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import isfinite, log2
from pathlib import Path
from urllib.parse import quote, unquote

from kumihimo.core.errors import SettingsError
from kumihimo.text.safe_write import read_text_file


def sort_by_score(scores: Mapping[str, float]) -> list[str]:
    """Sort names by score, best first; ties by name.

    >>> sort_by_score({"b": 1.0, "c": 2.0, "a": 1.0})
    ['c', 'a', 'b']
    """
    return sorted(scores, key=lambda name: (-scores[name], name))


def measure_ranking(ranking: Sequence[str], gold: Collection[str], ks: Iterable[int]) -> dict[str, float]:
    """Return each measure of one ranking, by the name of its mean.

    G is the gold, P@k and so on are those of Manning et al. (2008, sections 8.3 and 8.4). hit@k: whether any gold is
    among the first k. recall@k: |G ∩ top k| / |G|. precision@k: |G ∩ top k| / k, even for a shorter ranking.
    all-gold@k: [G ⊆ top k], for questions that need every piece of gold. nDCG@k: Σ 1 / log2(rank + 1) of the gold in
    the first k, divided by that of the best order (Järvelin & Kekäläinen, 2002); for gains of 0 and 1, 2^rel - 1 equals
    rel. MAP: Σ P@k / |G| over the ranks k of gold; gold outside the ranking counts 0. MRR: 1 / rank of the first gold
    (Voorhees, TREC-8, 1999). Raises SettingsError without gold.

    >>> measured = measure_ranking(["a", "x", "b", "y"], {"a", "b", "c"}, [2])
    >>> [round(value, 4) for value in measured.values()]  # hit, recall, precision, all-gold, nDCG, MAP, MRR
    [1.0, 0.3333, 0.5, 0.0, 0.6131, 0.5556, 1.0]
    """
    if not gold:
        raise SettingsError("a question without gold cannot be measured: leave it out, or add gold")
    if len(set(ranking)) != len(ranking):
        raise SettingsError("a ranking names something twice: keep the first")
    size, places = len(set(gold)), [place for place, name in enumerate(ranking, 1) if name in gold]
    found = {k: [place for place in places if place <= k] for k in ks}

    def gain(ranks: Iterable[int]) -> float:
        return sum(1 / log2(rank + 1) for rank in ranks)

    return {
        **{f"hit@{k}": float(bool(ranks)) for k, ranks in found.items()},
        **{f"recall@{k}": len(ranks) / size for k, ranks in found.items()},
        **{f"precision@{k}": len(ranks) / k for k, ranks in found.items()},
        **{f"all-gold@{k}": float(len(ranks) == size) for k, ranks in found.items()},
        **{f"nDCG@{k}": gain(ranks) / gain(range(1, min(k, size) + 1)) for k, ranks in found.items()},
        "MAP": sum(n / place for n, place in enumerate(places, 1)) / size,
        "MRR": 1 / places[0] if places else 0.0,
    }


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
