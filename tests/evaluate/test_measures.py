"""A ranking and gold -> measures: checked by hand and against ir_measures."""

from __future__ import annotations

import json
from math import log2
from typing import Any

import pytest

from kumihimo.core.errors import SettingsError
from kumihimo.evaluate.rankings import RETRIEVAL_MEASURES, all_gold, measures_at, ndcg, recall, sort_by_score
from tests.evaluate.oracle import GOLDEN, KS, by_oracle, cases

GOLDEN_DATA: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))


def ours(case: dict[str, Any], names: Any) -> dict[str, float]:
    measures = measures_at(KS)
    return {name: round(measures[name](case["ranking"], set(case["gold"])), 12) for name in names}


def test_measures_equal_the_golden_values() -> None:
    assert GOLDEN_DATA["oracle"].startswith("ir_measures ")
    assert [case["ranking"] for case in GOLDEN_DATA["cases"]] == [case["ranking"] for case in cases()]
    for case in GOLDEN_DATA["cases"]:
        assert ours(case, case["values"]) == pytest.approx(case["values"], abs=1e-9)
        names = {name.partition("@")[0] for name in case["values"]}
        assert names == {name.partition("@")[0] for name in measures_at(KS)} - {"all-gold"}


def test_the_golden_values_equal_ir_measures() -> None:
    pytest.importorskip("ir_measures", reason="ir_measures is no dependency: pip install ir_measures")
    for case, values in zip(cases(), by_oracle(cases()), strict=True):
        assert ours(case, values) == pytest.approx(values, abs=1e-9)


def test_hand_computed_values() -> None:
    order, gold = ["x", "a", "y", "b"], {"a", "b", "c"}
    values = {name: round(measure(order, gold), 4) for name, measure in measures_at([2, 9]).items()}
    best = 1 + 1 / log2(3)
    assert values == {
        "recall@2": 0.3333,
        "recall@9": 0.6667,
        "precision@2": 0.5,
        "precision@9": 0.2222,
        "all-gold@2": 0.0,
        "all-gold@9": 0.0,
        "nDCG@2": round((1 / log2(3)) / best, 4),
        "nDCG@9": round((1 / log2(3) + 1 / log2(5)) / (best + 0.5), 4),
        "MAP": round((1 / 2 + 2 / 4) / 3, 4),
        "MRR": 0.5,
    }


@pytest.mark.parametrize("name", RETRIEVAL_MEASURES)
def test_the_best_ranking_scores_1_and_an_empty_one_0(name: str) -> None:
    measure = RETRIEVAL_MEASURES[name]
    cutoff = {"k": 2} if f"{name}@2" in measures_at([2]) else {}
    assert measure(["b", "a", "x"], {"a", "b"}, **cutoff) == 1
    assert measure([], {"a", "b"}, **cutoff) == 0
    with pytest.raises(SettingsError, match="without gold"):
        measure(["a"], set(), **cutoff)
    with pytest.raises(SettingsError, match="twice"):
        measure(["a", "a"], {"a"}, **cutoff)


def test_ties_and_partial_recall() -> None:
    assert sort_by_score({"d": 0.5, "b": 1, "a": 0.5, "c": 1}) == ["b", "c", "a", "d"]
    assert recall(["a"], {"a", "b"}, 1) == 0.5  # hit@1 would be 1
    assert all_gold(["a", "b"], {"a", "b"}, 1) == 0
    assert ndcg(["a", "b"], {"a", "b"}, 1) == 1  # no ranking can have more among the first k
