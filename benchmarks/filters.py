"""What a filter adds to a question: CPU ms over made-up documents, for filters that most, some and few of them pass."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.growth import WORDS
from benchmarks.meter import bound, measured
from benchmarks.options import bench_parser, read_options
from kumihimo import Kumihimo
from kumihimo.search.metadata_filter import matching_documents

FILTERS = ("", "year >= 1", "year >= 800 and author = 'Hild Garrow'", "year = 999", "year > 999")
MOST = 2000.0  # ms that a filter may add to a question over 100,000 documents


def made_up(path: Path, count: int, words: int) -> Path:
    """A row for each document, with an author of three and a year of a thousand."""
    rng = random.Random(count)
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            text = " ".join(rng.choices(WORDS, k=words))
            author = rng.choice(["Hild Garrow", "Bo Lind", "縒野すみ"])
            row = {"id": number, "text": text, "author": author, "year": number % 1000, "tags": ["port", "braiding"]}
            file.write(json.dumps(row) + "\n")
    return path


def asked(kumi: Kumihimo, method: str, where: str, rounds: int = 5) -> float:
    """CPU ms of a question."""
    spent = []
    for i in range(rounds):
        with measured() as cost:
            kumi.retrieve(f"{WORDS[i]} {WORDS[9 * i + 1]} {WORDS[-1 - i]}", method, filter=where)
        spent.append(cost.cpu * 1000)
    return median(spent)


def told(kumi: Kumihimo, where: str) -> dict[str, float]:
    """CPU ms of a question, by method."""
    with kumi.snapshot() as reading, measured() as cost:
        documents = reading.table("documents")
        count = len(matching_documents(where, documents)) if where else len(documents)
    spent = {method: asked(kumi, method, where) for method in ("bm25", "naive")}
    figures = "".join(f"{method} {ms:5.0f} ms   " for method, ms in spent.items())
    print(f"  {count:7,} pass  {figures} the filter itself {cost.cpu * 1000:4.0f} ms   {where}")
    return spent


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--words", type=int, default=100, help="in each document")
    options = read_options(parser, argv, documents=60)
    with TemporaryDirectory() as folder, Kumihimo.open(Path(folder, ".kumi")) as kumi:
        kumi.index(made_up(Path(folder, "rows.jsonl"), options.documents, options.words), methods=["bm25", "naive"])
        plain, *filtered = [told(kumi, where) for where in FILTERS]
    added = max(spent[method] - plain[method] for spent in filtered for method in spent)
    bound("a filter adds", added, MOST * options.documents / 100_000, " ms")


if __name__ == "__main__":
    main()
