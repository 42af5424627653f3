"""passages, questions with gold passages -> cost of indexing, recall@5 and ms of a question, for `bm25` and `naive`.

Data: DATA/multihop (MuSiQue, HotpotQA, 2WikiMultiHopQA), DATA/japanese (JSQuAD), DATA/chinese (DRCD). No chat model. A
line for each set: passages, chunks, cost of the index. A line for each method: mean share of the gold passages among
the first 5, wall ms of a question at p50 and p95.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.meter import check_at_least, check_at_most, measured
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo import Kumihimo

SETS = {
    "musique": "multihop/musique_train100",
    "hotpot": "multihop/hotpot_train100",
    "2wiki": "multihop/2wiki_dev164",
    "jsquad": "japanese/jsquad_valid",
    "drcd": "chinese/drcd_dev",
}
FLOORS = {"musique": 0.52, "hotpot": 0.79, "2wiki": 0.71}  # of recall@5 of naive
ARMS: dict[str, tuple[str, dict[str, object]]] = {
    "bm25": ("bm25", {}),
    "naive": ("naive", {}),
    "naive, words=false": ("naive", {"words": False}),
}


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a JSON Lines file."""
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def recall(kumi: Kumihimo, path: Path, method: str, settings: dict[str, Any]) -> tuple[float, list[float]]:
    """Return mean recall@5 and the sorted wall seconds of the questions."""
    shares, seconds = [], []
    for row in read_rows(path):
        start = time.perf_counter()
        with kumi.snapshot() as snapshot:
            context = snapshot.retrieve(row["question"], method, **settings)
            seconds.append(time.perf_counter() - start)
            traced_ids = [span.uri.partition("#")[2] for item in context for span in snapshot.trace(item.reference)]
        passage_ids = list(dict.fromkeys(traced_ids))[:5]
        shares.append(len(set(row["gold_passage_ids"]) & set(passage_ids)) / len(row["gold_passage_ids"]))
    return mean(shares), sorted(seconds)


def measure(data: Path, name: str) -> dict[str, float]:
    corpus, questions = data / f"{SETS[name]}_corpus.jsonl", data / f"{SETS[name]}_questions.jsonl"
    recalls: dict[str, float] = {}
    with TemporaryDirectory() as folder, Kumihimo.open(Path(folder, ".kumi")) as kumi:
        with measured() as cost:
            built = kumi.index(corpus, methods=["bm25", "naive"])
        print(f"{name}: {built.rows['documents']:,} passages, {built.rows['chunks']:,} chunks {cost}")
        if name == "musique":
            check_at_most("indexing", cost.cpu, 15, " CPU s")
            check_at_most("peak memory", cost.peak, 600, " MB")
        for arm, (method, settings) in ARMS.items():
            recalls[arm], seconds = recall(kumi, questions, method, settings)
            p50, p95 = 1000 * median(seconds), 1000 * seconds[int(0.95 * len(seconds))]
            print(f"  {arm:20} recall@5 {recalls[arm]:.4f}   p50 {p50:5.1f} ms   p95 {p95:5.1f} ms")
            check_at_most("p95 of a question", p95, 30, " ms")
    return recalls


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    data = read_options(parser, argv).data
    recalls = {name: measure(data, name) for name in SETS}
    for name, floor in FLOORS.items():
        check_at_least(f"{name}, recall@5 of naive", recalls[name]["naive"], floor)
    gain = mean(recalls[name]["naive"] - recalls[name]["bm25"] for name in FLOORS)
    check_at_least("naive above bm25, mean of the three", gain, 0.01)
    for name in ("jsquad", "drcd"):
        check_at_least(f"{name}, recall@5 of bm25", recalls[name]["bm25"], 0.96)


if __name__ == "__main__":
    run_benchmark(main)
