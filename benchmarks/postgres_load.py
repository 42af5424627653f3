"""six processes that ask and one that builds, on one index in PostgreSQL -> errors, times, memory.

    python -m benchmarks.postgres_load --minutes 10

The builder changes a document, builds, and begins again. Each asking process asks `bm25`, `naive` and `braid` in turn.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from itertools import count, cycle
from pathlib import Path
from statistics import quantiles

from benchmarks.options import bench_parser, read_options, run_benchmark
from benchmarks.postgres_process import postgres_server, start_process
from kumihimo import Kumihimo
from kumihimo.core.errors import KumiError

EXAMPLES = Path(__file__).parents[1] / "examples"
QUESTIONS = (
    "Who repaired the Long Arm?",
    "When does the ferry leave?",
    "組紐を送ったのは誰ですか",
    "What does oat seed cost?",
)
ASKING = 6


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    arguments = read_options(parser, argv, minutes=0.02)
    with postgres_server("load") as (_, address, home):
        shutil.copytree(EXAMPLES, home / "notes")
        with Kumihimo.open(address) as kumi:
            kumi.index(home / "notes", methods=["bm25", "naive", "braid"])
        seconds = arguments.minutes * 60
        processes = [start_process(ask, address, home / f"times-{n}", seconds) for n in range(ASKING)]
        processes.append(start_process(build, address, home, seconds))
        for process in processes:
            process.join()
        builds, build_times = read_log(home / "builds")
        codes = [process.exitcode for process in processes]
        print(f"exit codes {codes}; {len(build_times)} builds, errors {builds or 'none'}")
        for n in range(ASKING):
            errors, times = read_log(home / f"times-{n}")
            p50, p95 = (quantiles(times, n=20)[place] for place in (9, 18)) if len(times) > 1 else (0, 0)
            memory = (home / f"times-{n}.memory").read_text(encoding="ascii").split()
            print(f"process {n}: {len(times)} questions, p50 {p50:.0f} ms, p95 {p95:.0f} ms, errors {errors or 'none'}")
            print(f"  memory in MB after each quarter: {', '.join(memory)}")


def ask(address: str, log: Path, seconds: float) -> None:
    """Ask until the end; log the milliseconds of each question, or its error."""
    begin, quarters = time.monotonic(), count(1)
    quarter, memory = next(quarters), list[int]()
    methods = cycle(("bm25", "naive", "braid"))
    with Kumihimo.open(address) as kumi, log.open("w", encoding="utf-8") as file:
        for question in cycle(QUESTIONS):
            start = time.monotonic()
            if start >= begin + seconds * quarter / 4:
                memory.append(resident_mb())
                quarter = next(quarters)
            if start >= begin + seconds:
                break
            try:
                assert kumi.ask(question, next(methods)).text
                file.write(f"{(time.monotonic() - start) * 1000:.1f}\n")
            except KumiError as error:
                file.write(f"{type(error).__name__}: {error}\n")
    log.with_suffix(".memory").write_text(" ".join(map(str, memory)), encoding="ascii")


def build(address: str, home: Path, seconds: float) -> None:
    """Change a document and build, until the end."""
    ends_at = time.monotonic() + seconds
    with Kumihimo.open(address) as kumi, (home / "builds").open("w", encoding="utf-8") as file:
        for number in count():
            start = time.monotonic()
            if start >= ends_at:
                return
            (home / "notes" / "new.md").write_text(f"Bea Orrell bought ferry {number} of Fenwick.\n" * 5, "utf-8")
            try:
                kumi.index()
                file.write(f"{(time.monotonic() - start) * 1000:.1f}\n")
            except KumiError as error:
                file.write(f"{type(error).__name__}: {error}\n")


def read_log(path: Path) -> tuple[list[str], list[float]]:
    """Return the errors and the milliseconds of a log."""
    lines = path.read_text("utf-8").splitlines()
    times = [float(line) for line in lines if line.replace(".", "").isdigit()]
    return [line for line in lines if not line.replace(".", "").isdigit()], times


def resident_mb() -> int:
    """Return the resident memory of this process in MB (Linux)."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


if __name__ == "__main__":
    run_benchmark(main)
