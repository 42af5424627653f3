"""10,000 passages -> CPU ms of a question under rights to few, half and most of them, by method.

Data: DATA/multihop (MuSiQue, HotpotQA, 2WikiMultiHopQA), DATA/ordinary (news, FiQA), together in one index. No model. A
line for each share and method: the first question, which finds out what is visible, and the median of the next five.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.meter import measured
from benchmarks.options import bench_parser, read_options, run_benchmark
from benchmarks.passages import read_rows
from benchmarks.rights_recall import METHODS
from kumihimo import Kumihimo

SETS = (
    "multihop/musique_train100",
    "multihop/hotpot_train100",
    "multihop/2wiki_dev164",
    "ordinary/news",
    "ordinary/fiqa",
)
RIGHTS = ("", "share < 5", "share < 50", "share < 95")  # percent of the passages
QUESTIONS = 6


def read_passages(data: Path, most: int) -> Iterator[dict[str, Any]]:
    """Yield the passages of all sets, each with a random number below 100."""
    rng = Random(7)
    for name in SETS:
        path = data / f"{name}_corpus.jsonl"
        for row, _ in zip(read_rows(path) if path.exists() else (), range(most), strict=False):
            yield {
                "id": f"{name.rpartition('/')[2]}-{row['id']}",
                "title": row.get("title", ""),
                "text": row["text"],
                "share": rng.randrange(100),
            }


def time_questions(folder: Path, questions: Sequence[str], method: str, rights: str) -> list[float]:
    """Return the CPU ms of each question."""
    cpu_ms = []
    with Kumihimo.open(folder / ".kumi") as kumi:
        kumi.retrieve(questions[0], method)  # loads what no question needs again
        for question in questions:
            with measured() as cost:
                kumi.retrieve(question, method, rights=rights)
            cpu_ms.append(1000 * cost.cpu)
    return cpu_ms


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--passages", type=int, default=10_000, help="the most passages of each set")
    options = read_options(parser, argv, passages=20)
    questions = [row["question"] for row in read_rows(options.data / "multihop/hotpot_train100_questions.jsonl")]
    with TemporaryDirectory() as name:
        folder = Path(name)
        rows = list(read_passages(options.data, options.passages))
        (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        with Kumihimo.open(folder / ".kumi") as kumi:
            counts = kumi.index(folder / "rows.jsonl", methods=METHODS).rows
        print(", ".join(f"{counts[table]:,} {table}" for table in ("documents", "entities", "relations", "reports")))
        print("| rights | method | first question, CPU ms | next ones |\n|---|---|---|---|")
        for rights in RIGHTS:
            for method in METHODS:
                first, *others = time_questions(folder, questions[:QUESTIONS], method, rights)
                print(f"| {rights or 'none'} | `{method}` | {first:,.0f} | {median(others):,.0f} |", flush=True)


if __name__ == "__main__":
    run_benchmark(main)
