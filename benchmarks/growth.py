"""200, 400 and 800 one-chunk documents -> CPU and bytes written of indexing them: whether indexing is linear.

Data: none; the documents are generated and indexed for `bm25` and `naive`. One line a build: CPU, wall time, bytes
written, peak memory, size on disk. LightRAG 1.5.7, with its default stores and a model that answers at once, took 30.5
and 123.7 CPU seconds and wrote 1.7 and 7.5 GB for 200 and 400 such documents.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.meter import Cost, check_at_most, measured
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo import Kumihimo

STARTS, ENDS = "ba ke li mo ru sa te vi", "dan gor lim nas pel rit sun tov"
WORDS = [start + end for start in STARTS.split() for end in ENDS.split()]


def index(count: int) -> Cost:
    """Index `count` files of about 2,400 characters each, one chunk."""
    rng = random.Random(count)
    with TemporaryDirectory() as folder:
        for number in range(count):
            text = " ".join(rng.choice(WORDS) for _ in range(400))
            Path(folder, f"{number:04}.txt").write_text(f"{text}.", encoding="utf-8")
        with Kumihimo.open(Path(folder, ".kumi")) as kumi, measured() as cost:
            kumi.index(folder, methods=["bm25", "naive"])
        size = sum(path.stat().st_size for path in Path(folder, ".kumi").rglob("*") if path.is_file())
    print(f"  {count:4} documents {cost} {size / 1e6:6.1f} MB on disk")
    return cost


def main(argv: Sequence[str] | None = None) -> None:
    options = read_options(bench_parser(__doc__), argv)
    sizes = (2, 4, 8) if options.quick else (200, 400, 800)
    print("One-chunk documents")
    index(50)  # load the embedder, which is not measured
    small, middle, large = (min((index(n) for _ in range(3)), key=lambda cost: cost.cpu) for n in sizes)
    for fewer, more in ((small, middle), (middle, large)):
        for label, ratio in (("CPU", more.cpu / fewer.cpu), ("bytes", more.written / fewer.written)):
            check_at_most(f"twice the documents, {label}", abs(ratio - 2), 0.3, " from 2")


if __name__ == "__main__":
    run_benchmark(main)
