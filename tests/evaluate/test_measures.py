"""A ranking and gold -> measures: checked by hand and against ir_measures."""

from __future__ import annotations

import json
from math import log2
from typing import Any

import pytest

from kumihimo.core.errors import SettingsError
from kumihimo.evaluate.rankings import measure_ranking, sort_by_score
from tests.evaluate.oracle import GOLDEN, KS, by_oracle, cases

GOLDEN_DATA: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))


def ours(case: dict[str, Any], names: Any) -> dict[str, float]:
    measured = measure_ranking(case["ranking"], set(case["gold"]), KS)
    return {name: round(measured[name], 12) for name in names}


def test_measures_equal_the_golden_values() -> None:
    assert GOLDEN_DATA["oracle"].startswith("ir_measures ")
    assert [case["ranking"] for case in GOLDEN_DATA["cases"]] == [case["ranking"] for case in cases()]
    for case in GOLDEN_DATA["cases"]:
        assert ours(case, case["values"]) == pytest.approx(case["values"], abs=1e-9)
        names = {name.partition("@")[0] for name in case["values"]}
        assert names == {name.partition("@")[0] for name in measure_ranking([], ["a"], KS)} - {"all-gold"}


def test_the_golden_values_equal_ir_measures() -> None:
    pytest.importorskip("ir_measures", reason="ir_measures is no dependency: pip install ir_measures")
    for case, values in zip(cases(), by_oracle(cases()), strict=True):
        assert ours(case, values) == pytest.approx(values, abs=1e-9)


def test_hand_computed_values() -> None:
    order, gold = ["x", "a", "y", "b"], {"a", "b", "c"}
    values = {name: round(value, 4) for name, value in measure_ranking(order, gold, [2, 9]).items()}
    best = 1 + 1 / log2(3)
    assert values == {
        "hit@2": 1,
        "hit@9": 1,
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


def test_the_best_ranking_scores_1_and_an_empty_one_0() -> None:
    assert set(measure_ranking(["b", "a", "x"], {"a", "b"}, [2]).values()) == {1}
    assert set(measure_ranking([], {"a", "b"}, [2]).values()) == {0}
    with pytest.raises(SettingsError, match="without gold"):
        measure_ranking(["a"], set(), [2])
    with pytest.raises(SettingsError, match="twice"):
        measure_ranking(["a", "a"], {"a"}, [2])


def test_ties_and_partial_recall() -> None:
    assert sort_by_score({"d": 0.5, "b": 1, "a": 0.5, "c": 1}) == ["b", "c", "a", "d"]
    assert measure_ranking(["a"], {"a", "b"}, [1])["recall@1"] == 0.5  # hit@1 would be 1
    measured = measure_ranking(["a", "b"], {"a", "b"}, [1])
    assert measured["all-gold@1"] == 0
    assert measured["nDCG@1"] == 1  # no ranking can have more among the first k
