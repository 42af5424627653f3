"""questions and builds at once -> the size of the write-ahead log after each build.

Made-up notes, and a model that takes .5 s for each answer. Eight threads ask one question after the other, by a method
without a model in the search and by one with; 20 builds each add some notes and change others. The log may grow while a
build writes. It has to be empty again once the questions that read the earlier state have gone on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

from benchmarks.meter import check_at_most
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo.app.facade import Kumihimo
from kumihimo.llm.cached_llm import Chat
from kumihimo.llm.registry import ModelRegistry
from kumihimo.testing.fake_models import FakeChat

THREADS, BUILDS, NOTES, SECONDS = 8, 20, 40, 0.5
METHODS = ("bm25", "hyde")
SETTLING = 0.25  # seconds after a build, before the log is looked at again


class SlowModel(ModelRegistry):
    """A model that takes some time for each answer."""

    seconds = SECONDS

    def chat(self, scope: str) -> Chat | None:
        return FakeChat(self._answer) if scope in ("answer", *METHODS) else None

    def _answer(self, prompt: str) -> str:
        time.sleep(self.seconds)
        return f"The ferry left at {len(prompt) % 12} [1]."


def write_notes(folder: Path, build: int) -> None:
    """Add some notes, and change some that were there."""
    for n in range(build * NOTES, (build + 1) * NOTES):
        text = f"Note {n} of build {build}: the ferry left at {n % 12} with {n} letters for the harbour office. "
        (folder / f"{n}.txt").write_text(text * 20, encoding="utf-8")
        (folder / f"{n // 2}.txt").write_text(f"Changed by build {build}. {text}" * 20, encoding="utf-8")


def measure(folder: Path, builds: int, seconds: float) -> tuple[list[tuple[int, int]], int, int]:
    """Return the log sizes after each build and a little later, the questions, and the bytes of the index."""
    notes, index = folder / "notes", folder / ".kumi"
    notes.mkdir()
    write_notes(notes, 0)
    stopped = Event()
    with Kumihimo(index) as kumi, ThreadPoolExecutor(THREADS) as pool:
        kumi.index(notes, methods=METHODS)
        models = SlowModel(kumi.models.settings, kumi.models.cache)
        models.seconds, kumi.models = seconds, models

        def ask(thread: int) -> int:
            count = 0
            while not stopped.is_set():
                kumi.ask(f"When did the ferry with letter {thread}.{count} leave?", METHODS[count % len(METHODS)])
                count += 1
            return count

        asking = [pool.submit(ask, thread) for thread in range(THREADS)]
        sizes = []
        try:
            for build in range(1, builds + 1):
                write_notes(notes, build)
                kumi.index(methods=METHODS)
                after = log_bytes(index)
                time.sleep(SETTLING)
                sizes.append((after, log_bytes(index)))
        finally:
            stopped.set()
        return sizes, sum(each.result() for each in asking), (index / "index.db").stat().st_size


def log_bytes(folder: Path) -> int:
    path = folder / "index.db-wal"
    return path.stat().st_size if path.exists() else 0


def main(argv: Sequence[str] | None = None) -> None:
    quick = read_options(bench_parser(__doc__), argv).quick
    builds, seconds = (2, 0.1) if quick else (BUILDS, SECONDS)
    with TemporaryDirectory() as folder:
        sizes, questions, index = measure(Path(folder), builds, seconds)
    print(f"  {questions:,} questions by {THREADS} threads; index.db has {index / 1e6:.1f} MB at the end")
    for build, (after, later) in enumerate(sizes, 1):
        print(f"  build {build:2}: index.db-wal has {after:>11,} bytes at its end, {later:>11,} {SETTLING} s later")
    largest = max(later for _, later in sizes)
    check_at_most("largest log while questions are asked, as a share of the index", largest / index, 0.5)


if __name__ == "__main__":
    run_benchmark(main)
