"""Passages and questions with gold: what indexing costs, what is found, how long a question takes.

DATA/multihop: MuSiQue, HotpotQA, 2WikiMultiHopQA. DATA/japanese: JSQuAD. DATA/chinese: DRCD. No chat model.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.meter import bound, least, measured
from benchmarks.options import bench_parser, read_options
from kumihimo import Kumihimo

SETS = {
    "musique": "multihop/musique_train100",
    "hotpot": "multihop/hotpot_train100",
    "2wiki": "multihop/2wiki_dev164",
    "jsquad": "japanese/jsquad_valid",
    "drcd": "chinese/drcd_dev",
}
FLOORS = {"musique": 0.52, "hotpot": 0.79, "2wiki": 0.71}  # recall@5 of naive
ARMS: dict[str, tuple[str, dict[str, object]]] = {
    "bm25": ("bm25", {}),
    "naive": ("naive", {}),
    "naive, words=false": ("naive", {"words": False}),
}


def questions(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def recall(kumi: Kumihimo, path: Path, method: str, settings: dict[str, Any]) -> tuple[float, list[float]]:
    """Mean share of the gold passages among the first five, and the seconds each question took."""
    shares, seconds = [], []
    for row in questions(path):
        began = time.perf_counter()
        with kumi.snapshot() as reading:
            context = reading.retrieve(row["question"], method, **settings)
            seconds.append(time.perf_counter() - began)
            places = [span.uri.partition("#")[2] for item in context for span in reading.trace(item.reference)]
        found = list(dict.fromkeys(places))[:5]
        shares.append(len(set(row["gold_passage_ids"]) & set(found)) / len(row["gold_passage_ids"]))
    return mean(shares), sorted(seconds)


def measure(data: Path, name: str) -> dict[str, float]:
    corpus, asked = data / f"{SETS[name]}_corpus.jsonl", data / f"{SETS[name]}_questions.jsonl"
    found: dict[str, float] = {}
    with TemporaryDirectory() as folder, Kumihimo.open(Path(folder, ".kumi")) as kumi:
        with measured() as cost:
            built = kumi.index(corpus, methods=["bm25", "naive"])
        print(f"{name}: {built.rows['documents']:,} passages, {built.rows['chunks']:,} chunks {cost}")
        if name == "musique":
            bound("indexing", cost.cpu, 15, " CPU s")
            bound("peak memory", cost.peak, 600, " MB")
        for arm, (method, settings) in ARMS.items():
            found[arm], seconds = recall(kumi, asked, method, settings)
            p50, p95 = 1000 * median(seconds), 1000 * seconds[int(0.95 * len(seconds))]
            print(f"  {arm:20} recall@5 {found[arm]:.4f}   p50 {p50:5.1f} ms   p95 {p95:5.1f} ms")
            bound("p95 of a question", p95, 30, " ms")
    return found


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    data = read_options(parser, argv).data
    found = {name: measure(data, name) for name in SETS}
    for name, floor in FLOORS.items():
        least(f"{name}, recall@5 of naive", found[name]["naive"], floor)
    gain = mean(found[name]["naive"] - found[name]["bm25"] for name in FLOORS)
    least("naive above bm25, mean of the three", gain, 0.01)
    for name in ("jsquad", "drcd"):
        least(f"{name}, recall@5 of bm25", found[name]["bm25"], 0.96)


if __name__ == "__main__":
    main()
