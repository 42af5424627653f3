"""A ranking and its gold -> recall, precision, MAP, MRR, nDCG, all-gold.

A ranking is a list of unique names, best first. Gold is a set of equally relevant names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial, wraps
from math import log2

from kumihimo.core.errors import SettingsError

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
