"""metadata filters -> CPU ms that each adds to a question, over generated documents.

Data: none. The filters pass all, most, some, few and no documents. Columns: documents that pass, CPU ms of a question
with `bm25` and with `naive`, CPU ms of the filter alone, the filter.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.growth import WORDS
from benchmarks.meter import check_at_most, measured
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo import Kumihimo
from kumihimo.search.metadata_filter import matching_documents

FILTERS = ("", "year >= 1", "year >= 800 and author = 'Hild Garrow'", "year = 999", "year > 999")
MOST = 2000.0  # CPU ms that a filter may add to a question over 100,000 documents


def write_documents(path: Path, count: int, words: int) -> Path:
    """Write a row for each document: three authors, a thousand years."""
    rng = random.Random(count)
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            text = " ".join(rng.choices(WORDS, k=words))
            author = rng.choice(["Hild Garrow", "Bo Lind", "縒野すみ"])
            row = {"id": number, "text": text, "author": author, "year": number % 1000, "tags": ["port", "braiding"]}
            file.write(json.dumps(row) + "\n")
    return path


def time_question(kumi: Kumihimo, method: str, where: str, rounds: int = 5) -> float:
    """Return the median CPU ms of a question."""
    cpu_ms = []
    for i in range(rounds):
        with measured() as cost:
            kumi.retrieve(f"{WORDS[i]} {WORDS[9 * i + 1]} {WORDS[-1 - i]}", method, filter=where)
        cpu_ms.append(cost.cpu * 1000)
    return median(cpu_ms)


def measure_filter(kumi: Kumihimo, where: str) -> dict[str, float]:
    """Print and return the CPU ms of a question by method."""
    with kumi.snapshot() as snapshot, measured() as cost:
        documents = snapshot.table("documents")
        count = len(matching_documents(where, documents)) if where else len(documents)
    ms_by_method = {method: time_question(kumi, method, where) for method in ("bm25", "naive")}
    figures = "".join(f"{method} {ms:5.0f} ms   " for method, ms in ms_by_method.items())
    print(f"  {count:7,} pass  {figures} filter alone {cost.cpu * 1000:4.0f} ms   {where}")
    return ms_by_method


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--words", type=int, default=100, help="in each document")
    options = read_options(parser, argv, documents=60)
    with TemporaryDirectory() as folder, Kumihimo.open(Path(folder, ".kumi")) as kumi:
        kumi.index(
            write_documents(Path(folder, "rows.jsonl"), options.documents, options.words), methods=["bm25", "naive"]
        )
        unfiltered, *filtered = [measure_filter(kumi, where) for where in FILTERS]
    added = max(ms_by_method[method] - unfiltered[method] for ms_by_method in filtered for method in ms_by_method)
    check_at_most("added by the slowest filter", added, MOST * options.documents / 100_000, " ms")


if __name__ == "__main__":
    run_benchmark(main)
