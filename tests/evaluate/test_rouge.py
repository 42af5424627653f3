"""texts -> ROUGE-L and clusters: as rouge-score and scikit-learn count them.

`KUMI_GOLDEN=1 python -m pytest tests/evaluate/test_rouge.py` where both are installed writes tests/golden/rouge.json
and clusters.json anew.
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

from kumihimo.evaluate.clusters import THRESHOLDS, count_clusters, count_clusters_by_distance
from kumihimo.evaluate.rouge import TokenKind, rouge_distances, rouge_l, rouge_matrix

GOLDEN = Path(__file__).parents[1] / "golden"
RENEW = os.environ.get("KUMI_GOLDEN", "") == "1"
WORDS = ["the", "The", "ferry", "ferries", "left", "at", "nine", "9", "o'clock", "Émile", "café", "snake_case"]
WORDS += ["naïve", "U.S.", "組紐", "工房", "—", "1,000", "boat-house"]
AT = (0.2, 0.3, 0.4, *THRESHOLDS, 0.9, 1.0)


def texts(seed: int, count: int) -> list[str]:
    rng = Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(0, 12))) for _ in range(count)]


def apart(rng: Random, n: int, steps: int) -> NDArray[np.float64]:
    """Distances of n things, with many ties where there are few steps."""
    found = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            found[i, j] = found[j, i] = rng.randint(0, steps) / steps
    return found


def golden(name: str, made: dict[str, Any] | None) -> Any:
    path = GOLDEN / f"{name}.json"
    if RENEW and made:
        path.write_text(json.dumps(made, ensure_ascii=False) + "\n", encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))["cases"]


def rouge_score(pairs: list[tuple[str, str]]) -> list[float]:
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(["rougeL"], use_stemmer=False)
    return [scorer.score(b, a)["rougeL"].fmeasure for a, b in pairs]


def sklearn(found: NDArray[np.float64]) -> list[int]:
    cluster = pytest.importorskip("sklearn.cluster").AgglomerativeClustering
    made = (
        cluster(n_clusters=None, metric="precomputed", linkage="complete", distance_threshold=t).fit(found) for t in AT
    )
    return [int(one.n_clusters_) for one in made]


def test_rouge_l_is_that_of_rouge_score() -> None:
    for a, b, wanted in golden("rouge", None):
        assert rouge_l(a, b, "paper") == wanted
        assert rouge_l(b, a, "paper") == wanted


def test_rouge_l_is_that_of_the_rouge_score_that_is_installed() -> None:
    pairs = list(zip(texts(1, 300), texts(2, 300), strict=True))
    said = rouge_score(pairs)
    assert [rouge_l(a, b, "paper") for a, b in pairs] == said
    cases = [[a, b, f] for (a, b), f in zip(pairs[:60], said, strict=False)]
    golden("rouge", {"by": f"rouge-score {version('rouge-score')}", "cases": cases})


def test_clusters_are_those_of_scikit_learn() -> None:
    for listed, wanted in golden("clusters", None):
        assert count_clusters_by_distance(np.array(listed), AT) == wanted


def test_clusters_are_those_of_the_scikit_learn_that_is_installed() -> None:
    rng = Random(3)
    made = [apart(rng, rng.randint(2, 12), rng.choice((2, 10, 10, 1000))) for _ in range(60)]
    said = [sklearn(found) for found in made]
    assert [count_clusters_by_distance(found, AT) for found in made] == said
    told = [listed for listed in texts(4, 40) if listed]
    assert count_clusters(told, AT, token_kind="paper") == sklearn(1 - rouge_matrix(told, "paper"))
    cases = [[found.tolist(), counts] for found, counts in zip(made, said, strict=True) if len(found) < 9]
    golden("clusters", {"by": f"scikit-learn {version('scikit-learn')}", "at": AT, "cases": cases})


def test_what_is_as_far_as_the_threshold() -> None:
    """Two texts of five words with n in common are (5 - n) / 5 apart; of four with two: a half."""
    for common, threshold in ((4, 0.2), (3, 0.4), (2, 0.6), (1, 0.8)):
        two = ["a b c d e", " ".join("abcde"[:common]) + " v w x y z"[: 2 * (5 - common)]]
        assert rouge_distances(two)[0, 1] == threshold
        assert (count_clusters(two, [threshold]), count_clusters(two, [threshold], merge_rule="<=")) == ([2], [1])
    assert (count_clusters(["a b c d", "a b x y"], [0.5]), count_clusters(["a b c d", "a b x y"], [0.5001])) == (
        [2],
        [1],
    )


def test_of_nothing_none_and_of_one_one() -> None:
    assert count_clusters([]) == [0, 0, 0, 0]
    assert count_clusters(["."]) == [1, 1, 1, 1]
    assert count_clusters(["", "。"]) == [2, 2, 2, 2]  # without words: like nothing


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
    assert rouge_l(a, b, kind) == pytest.approx(f)


def test_many_words_need_no_halves_of_characters() -> None:
    one, other = (" ".join(f"w{i}" for i in range(*ends)) for ends in ((0, 56_000), (55_280, 55_320)))
    assert rouge_l(one, other) == 80 / 56_040
