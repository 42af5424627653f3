"""passages, questions with gold passages -> recall of each method under rights to half of the passages.

Data: DATA/multihop (MuSiQue, HotpotQA, 2WikiMultiHopQA), DATA/japanese (JSQuAD), DATA/chinese (DRCD). No model. A
random half of the passages is visible, and with it all gold passages. For each set and method, a line with recall@5 and
recall@20 by trace: of an index of all passages under these rights, and of an index of the visible passages alone. The
first must not be more than .02 below the second. Every row counts, an entity or a report with its first few chunks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.meter import check_at_least
from benchmarks.options import bench_parser, read_options, run_benchmark
from benchmarks.passages import SETS, read_rows
from benchmarks.recall import list_passages, score_ranking
from kumihimo import Kumihimo

METHODS = ("bm25", "naive", "local", "light", "braid", "global", "discourse")  # those that need no model
MAX_LOSS = 0.02
Figures = dict[str, tuple[float, float]]  # recall@5 and recall@20 by method


def mark_visible(rows: Iterable[dict[str, Any]], gold: set[str], seed: int = 0) -> list[dict[str, Any]]:
    """Return the passages with a field `visible`: yes for all gold, and for half of the others."""
    rng = Random(seed)
    return [{**row, "visible": "yes" if row["id"] in gold or rng.random() < 0.5 else "no"} for row in rows]


def build(folder: Path, name: str, rows: Iterable[dict[str, Any]]) -> Kumihimo:
    """Return an index of these passages."""
    path = folder / name / "passages.jsonl"
    path.parent.mkdir()
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")
    kumi = Kumihimo.open(folder / name / ".kumi")
    kumi.index(path, methods=METHODS)
    return kumi


def measure(kumi: Kumihimo, questions: list[dict[str, Any]], rights: str) -> Figures:
    """Return the mean recall of each method."""
    figures: Figures = {}
    with kumi.snapshot(rights=rights) as snapshot:
        ids = {id: uri.partition("#")[2] for id, uri in snapshot.table("documents").columns("id", "uri")}
        for method in METHODS:
            scores = []
            for row in questions:
                ranking = list_passages(snapshot, snapshot.retrieve(row["question"], method), ids, traced=True)
                scores.append(score_ranking(ranking, set(row["gold_passage_ids"]))[:2])
            figures[method] = (mean(five for five, _ in scores), mean(twenty for _, twenty in scores))
    return figures


def compare(data: Path, name: str) -> None:
    """Print and check the figures of one set."""
    questions = list(read_rows(data / f"{SETS[name]}_questions.jsonl"))
    gold = {id for row in questions for id in row["gold_passage_ids"]}
    rows = mark_visible(read_rows(data / f"{SETS[name]}_corpus.jsonl"), gold)
    visible = [row for row in rows if row["visible"] == "yes"]
    with (
        TemporaryDirectory() as folder,
        build(Path(folder), "all", rows) as whole,
        build(Path(folder), "visible", visible) as alone,
    ):
        ours, theirs = measure(whole, questions, 'visible = "yes"'), measure(alone, questions, "")
    print(f"\n{name}: {len(visible):,} of {len(rows):,} passages are visible\n")
    print("| method | recall@5 | index of the visible | recall@20 | index of the visible |\n|---|---|---|---|---|")
    for method in METHODS:
        pairs = zip(ours[method], theirs[method], strict=True)
        print(f"| `{method}` | {' | '.join(f'{one:.3f} | {other:.3f}' for one, other in pairs)} |")
    for method in METHODS:
        for n, one, other in zip((5, 20), ours[method], theirs[method], strict=True):
            check_at_least(f"{name}, {method}, recall@{n} beside that of the visible", one - other, -MAX_LOSS)


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--sets", default=",".join(SETS))
    options = read_options(parser, argv)
    for name in options.sets.split(","):
        compare(options.data, name)


if __name__ == "__main__":
    run_benchmark(main)
