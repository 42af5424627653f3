"""corpora -> CPU and disk space of an index by default and for all free methods, and CPU of `ask` beyond retrieval.

Data: DATA/podcasts (English), DATA/japanese (JSQuAD), DATA/multihop (MuSiQue), as far as they exist. A line for each
index: CPU seconds, bytes of the folder as a multiple of the UTF-8 text; then its largest parts. A last line for
MuSiQue: mean CPU ms that an answer without a model takes in addition to its retrieval, in a warm process.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

from benchmarks.meter import check_at_most, measured
from benchmarks.options import bench_parser, read_options, run_benchmark
from benchmarks.passages import read_rows
from kumihimo import Kumihimo
from kumihimo.app.build.build import free_methods

CORPORA = {  # name -> file, and the most bytes of a default index for each byte of text
    "podcasts": ("podcasts/kevin_scott_podcasts.jsonl", 10.0),
    "jsquad": ("japanese/jsquad_valid_corpus.jsonl", 15.0),
    "musique": ("multihop/musique_train100_corpus.jsonl", 0.0),
}
ALL_FREE, ASK_MS = 40.0, 15.0
_SIZES = "SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC LIMIT ?"


def part_sizes(folder: Path, count: int = 12) -> dict[str, int]:
    """Return the bytes of the largest tables and files."""
    with closing(sqlite3.connect(folder / "index.db")) as db:
        sizes: dict[str, int] = dict(db.execute(_SIZES, (count,)).fetchall())
    return sizes | {path.name: path.stat().st_size for path in folder.glob("vectors/*")}


def measure(name: str, source: Path, most: float) -> None:
    """Print the cost of both indexes of a corpus."""
    text = sum(len(row["text"].encode()) for row in read_rows(source))
    for label in ("default", "all free methods"):
        with TemporaryDirectory() as home, Kumihimo.open(Path(home, ".kumi")) as kumi:
            methods = [] if label == "default" else free_methods(kumi.catalogue, kumi.models)
            with measured() as cost:
                kumi.index(source, methods=methods)
            share = sum(path.stat().st_size for path in kumi.folder.rglob("*") if path.is_file()) / text
            print(f"{name}, {label}: {text / 1e6:.2f} MB of text, {cost.cpu:.1f} CPU s, {share:.2f} times the text")
            for part, size in sorted(part_sizes(kumi.folder).items(), key=lambda item: -item[1]):
                print(f"    {part:30} {size / text:6.2f}")
            if name == "musique":
                continue  # its passages are small, and full of names
            check_at_most(f"{name}, {label}, bytes per byte", share, most if label == "default" else ALL_FREE)


def measure_answers(source: Path, questions: list[str]) -> float:
    """Return the mean CPU ms of an answer in addition to its retrieval."""
    with TemporaryDirectory() as home, Kumihimo.open(Path(home, ".kumi")) as kumi:
        kumi.index(source, methods=["braid"])
        added = []
        for question in questions:
            start = time.process_time()
            kumi.retrieve(question)
            middle = time.process_time()
            kumi.ask(question)
            added.append(1000 * (time.process_time() - middle - (middle - start)))
        return mean(added[5:] or added)  # the first ones import and fill caches


def main(argv: Sequence[str] | None = None) -> None:
    options = read_options(bench_parser(__doc__), argv)
    for name, (path, most) in CORPORA.items():
        if (options.data / path).exists():
            measure(name, options.data / path, most)
    source = options.data / CORPORA["musique"][0]
    if source.exists():
        rows = read_rows(source.with_name("musique_train100_questions.jsonl"))
        added = measure_answers(source, [str(row["question"]) for row in rows])
        check_at_most("an answer without a model, beyond retrieval", added, ASK_MS, " CPU ms")


if __name__ == "__main__":
    run_benchmark(main)
