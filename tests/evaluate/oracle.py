"""Random rankings and gold -> tests/golden/measures.json: the values of ir_measures.

`python -m tests.evaluate.oracle`, with ir_measures installed (`pip install ir_measures`).
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

GOLDEN = Path(__file__).parents[1] / "golden" / "measures.json"
KS = (1, 3, 10)


def cases() -> list[dict[str, list[str]]]:
    """Return rankings without equal scores: missing gold, short rankings, an empty ranking."""
    random = Random(8)
    names = [f"d{i}" for i in range(12)]
    drawn = [
        {"ranking": random.sample(names, random.randint(1, 12)), "gold": random.sample(names, random.randint(1, 5))}
        for _ in range(20)
    ]
    return [*drawn, {"ranking": ["d1", "d2"], "gold": ["d3"]}]


def by_oracle(cases: list[dict[str, list[str]]]) -> list[dict[str, float]]:
    ir: Any = import_module("ir_measures")

    measures: dict[str, Any] = {"MAP": ir.AP, "MRR": ir.RR}
    for k in KS:
        measures |= {
            f"hit@{k}": ir.Success @ k,
            f"recall@{k}": ir.R @ k,
            f"precision@{k}": ir.P @ k,
            f"nDCG@{k}": ir.nDCG @ k,
        }
    qrels = [ir.Qrel(str(n), name, 1) for n, case in enumerate(cases) for name in case["gold"]]
    run = [
        ir.ScoredDoc(str(n), name, float(100 - place))
        for n, case in enumerate(cases)
        for place, name in enumerate(case["ranking"])
    ]
    names_by_measure = {str(measure): name for name, measure in measures.items()}
    values: list[dict[str, float]] = [{} for _ in cases]
    for metric in ir.iter_calc(list(measures.values()), qrels, run):
        values[int(metric.query_id)][names_by_measure[str(metric.measure)]] = round(metric.value, 12)
    return [dict(sorted(case_values.items())) for case_values in values]


if __name__ == "__main__":
    from importlib.metadata import version

    header = {"oracle": f"ir_measures {version('ir_measures')}", "by": "python -m tests.evaluate.oracle"}
    rows = [{**case, "values": values} for case, values in zip(cases(), by_oracle(cases()), strict=True)]
    GOLDEN.write_text(json.dumps({**header, "cases": rows}, indent=1) + "\n", encoding="utf-8")
