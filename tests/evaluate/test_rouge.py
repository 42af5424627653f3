"""Texts -> ROUGE-L and clusters: equal to rouge-score and scikit-learn.

`KUMI_GOLDEN=1 python -m pytest tests/evaluate/test_rouge.py`, with both installed, rewrites tests/golden/rouge.json and
clusters.json.
"""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kumihimo.evaluate.claims.study_claims import (
    THRESHOLDS,
    TokenKind,
    count_clusters,
    count_clusters_by_distance,
    rouge_distances,
)


def distance(a: str, b: str, kind: TokenKind = "unicode") -> float:
    """Return 1 - ROUGE-L F."""
    return float(rouge_distances([a, b], kind)[0, 1])


GOLDEN = Path(__file__).parents[1] / "golden"
RENEW = os.environ.get("KUMI_GOLDEN", "") == "1"
WORDS = ["the", "The", "ferry", "ferries", "left", "at", "nine", "9", "o'clock", "Émile", "café", "snake_case"]
WORDS += ["naïve", "U.S.", "組紐", "工房", "—", "1,000", "boat-house"]
CUTOFFS = (0.2, 0.3, 0.4, *THRESHOLDS, 0.9, 1.0)


def random_texts(seed: int, count: int) -> list[str]:
    rng = Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(0, 12))) for _ in range(count)]


def random_distances(rng: Random, n: int, steps: int) -> NDArray[np.float64]:
    """Return random distances of n items; few steps give many ties."""
    distances = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            distances[i, j] = distances[j, i] = rng.randint(0, steps) / steps
    return distances


def golden(name: str, data: dict[str, Any] | None) -> Any:
    path = GOLDEN / f"{name}.json"
    if RENEW and data:
        path.write_text(json.dumps(data, ensure_ascii=False) + "\n", encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))["cases"]


def rouge_score(pairs: list[tuple[str, str]]) -> list[float]:
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(["rougeL"], use_stemmer=False)
    return [scorer.score(b, a)["rougeL"].fmeasure for a, b in pairs]


def sklearn(distances: NDArray[np.float64]) -> list[int]:
    cluster = pytest.importorskip("sklearn.cluster").AgglomerativeClustering
    fitted = (
        cluster(n_clusters=None, metric="precomputed", linkage="complete", distance_threshold=t).fit(distances)
        for t in CUTOFFS
    )
    return [int(model.n_clusters_) for model in fitted]


def test_rouge_l_equals_the_golden_values() -> None:
    for a, b, expected in golden("rouge", None):
        assert distance(a, b, "paper") == 1 - expected
        assert distance(b, a, "paper") == 1 - expected


def test_rouge_l_equals_the_installed_rouge_score() -> None:
    pairs = list(zip(random_texts(1, 300), random_texts(2, 300), strict=True))
    expected = rouge_score(pairs)
    assert [distance(a, b, "paper") for a, b in pairs] == [1 - f for f in expected]
    cases = [[a, b, f] for (a, b), f in zip(pairs[:60], expected, strict=False)]
    golden("rouge", {"by": f"rouge-score {version('rouge-score')}", "cases": cases})


def test_clusters_equal_the_golden_values() -> None:
    for distances, expected in golden("clusters", None):
        assert count_clusters_by_distance(np.array(distances), CUTOFFS) == expected


def test_clusters_equal_the_installed_scikit_learn() -> None:
    rng = Random(3)
    matrices = [random_distances(rng, rng.randint(2, 12), rng.choice((2, 10, 10, 1000))) for _ in range(60)]
    expected = [sklearn(table) for table in matrices]
    assert [count_clusters_by_distance(table, CUTOFFS) for table in matrices] == expected
    claims = [claim for claim in random_texts(4, 40) if claim]
    assert count_clusters(claims, CUTOFFS, token_kind="paper") == sklearn(rouge_distances(claims, "paper"))
    cases = [[table.tolist(), counts] for table, counts in zip(matrices, expected, strict=True) if len(table) < 9]
    golden("clusters", {"by": f"scikit-learn {version('scikit-learn')}", "at": CUTOFFS, "cases": cases})


def test_distances_equal_to_the_threshold() -> None:
    """Two texts of five words with n in common have distance (5 - n) / 5; of four with two, a half."""
    for common, threshold in ((4, 0.2), (3, 0.4), (2, 0.6), (1, 0.8)):
        two = ["a b c d e", " ".join("abcde"[:common]) + " v w x y z"[: 2 * (5 - common)]]
        assert rouge_distances(two)[0, 1] == threshold
        assert count_clusters(two, [threshold]) == [2]
    assert (count_clusters(["a b c d", "a b x y"], [0.5]), count_clusters(["a b c d", "a b x y"], [0.5001])) == (
        [2],
        [1],
    )


def test_no_texts_and_one_text() -> None:
    assert count_clusters([]) == [0, 0, 0, 0]
    assert count_clusters(["."]) == [1, 1, 1, 1]
    assert count_clusters(["", "。"]) == [2, 2, 2, 2]  # texts without words are similar to none


@pytest.mark.parametrize(
    ("a", "b", "kind", "f"),
    [
        ("船は九時に出た。", "船は九時に出ました。", "unicode", 10 / 14),  # 6 and 8 pairs, of which 5 are the same
        ("轮渡九点离开", "渡轮九点离开", "unicode", 0.6),  # 5 pairs each, the last 3
        ("船は九時に出た。", "船は九時に出た。", "paper", 0.0),
        ("Émile's café", "EMILE’S CAFE", "unicode", 1.0),
        ("", "", "paper", 0.0),
    ],
)
def test_scripts(a: str, b: str, kind: TokenKind, f: float) -> None:
    assert 1 - distance(a, b, kind) == pytest.approx(f)


def test_many_words_skip_the_surrogates() -> None:
    first, second = (" ".join(f"w{i}" for i in range(*ends)) for ends in ((0, 56_000), (55_280, 55_320)))
    assert distance(first, second) == 55_960 / 56_040
