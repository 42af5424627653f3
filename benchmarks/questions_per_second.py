"""questions by each method that needs no model -> questions per second: the bare method, threads, processes.

Data: examples/ and DATA/podcasts, with questions made of words of random sentences. The bare method answers one
question after the other in one thread. AsyncKumihimo answers eight at a time, in threads, then with two processes
(`workers=2`). BLAS has one thread in all of them. Each figure is the best of three rounds, and beside it are the CPU
milliseconds of a question in all processes, which other load on the machine changes less. The last lines show the
memory of the two processes: what each has alone (USS) and its fair share of what both map (PSS), beside the vectors.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

from benchmarks.meter import check_at_most
from benchmarks.options import bench_parser, read_options, run_benchmark
from benchmarks.question_sets import draw_questions
from kumihimo import AsyncKumihimo, Kumihimo
from kumihimo.app.ask.query import Query
from kumihimo.app.processes.question_pool import needs_no_model

EXAMPLES = Path(__file__).parents[1] / "examples"
AT_ONCE, WORKERS = 8, 2
MOST_CPU = 1.3  # so that two processes on two free cores answer at least half as many questions again


def free_methods(kumi: Kumihimo) -> list[str]:
    """Return the methods whose questions need no model; build their tables."""
    queries = [Query.of("?", name) for name in kumi.catalogue.methods]
    free = [query.method for query in queries if needs_no_model(kumi.opened, query, is_answer=True)]
    for name in free:
        kumi.prepare_method(name)
    return free


async def ask_bare(kumi: Kumihimo, method: str, questions: Sequence[str]) -> None:
    for question in questions:
        kumi.ask(question, method)


async def ask_together(kumi: AsyncKumihimo, method: str, questions: Sequence[str]) -> None:
    await asyncio.gather(*(kumi.ask(question, method) for question in questions))


@dataclass(frozen=True, slots=True)
class Rate:
    """Questions per second, and CPU milliseconds of a question."""

    per_second: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.per_second:8.1f} {self.cpu:7.1f}"


async def measure_methods(
    kumi: Kumihimo, methods: Sequence[str], questions: Sequence[str], rounds: int
) -> tuple[dict[str, list[Rate]], list[str]]:
    """Return the rates by method, in each mode, and the memory of the processes.

    The modes take turns, so that other load on the machine falls on all.
    """
    rates: dict[str, list[Rate]] = {}
    async with (
        AsyncKumihimo(kumi, questions=AT_ONCE) as threads,
        AsyncKumihimo(kumi, questions=AT_ONCE, workers=WORKERS) as workers,
    ):
        for method in methods:
            modes = (
                partial(ask_bare, kumi, method, questions),
                partial(ask_together, threads, method, questions),
                partial(ask_together, workers, method, questions),
            )
            costs = [[await time_round(mode, workers.pids) for mode in modes] for _ in range(rounds + 1)]
            by_mode = zip(*costs[1:], strict=True)  # the first round loads the tables
            rates[method] = [best_rate(len(questions), each) for each in by_mode]
        return rates, [describe_memory(pid) for pid in workers.pids]


async def time_round(ask: Callable[[], Awaitable[None]], pids: Sequence[int]) -> tuple[float, float]:
    """Return the seconds, and the CPU seconds of this process and of others."""
    start, cpu = perf_counter(), process_time() + sum(map(cpu_seconds, pids))
    await ask()
    return perf_counter() - start, process_time() + sum(map(cpu_seconds, pids)) - cpu


def best_rate(count: int, costs: Sequence[tuple[float, float]]) -> Rate:
    wall, cpu = (min(each) for each in zip(*costs, strict=True))
    return Rate(count / wall, 1000 * cpu / count)


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds that another process has used (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def describe_memory(pid: int) -> str:
    """Return the memory of a process in MB (Linux)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    alone = kilobytes["Private_Clean"] + kilobytes["Private_Dirty"]
    parts = {"RSS": kilobytes["Rss"], "PSS": kilobytes["Pss"], "USS": alone}
    mapped = Path(f"/proc/{pid}/smaps").read_text(encoding="ascii").split("VmFlags")
    copied = sum(
        int(line.split()[1])
        for part in mapped
        if ".i8" in part
        for line in part.splitlines()
        if line.startswith("Private_Dirty")
    )
    return ", ".join(f"{name} {size / 1024:.0f} MB" for name, size in parts.items()) + f", copied vectors {copied} kB"


def vector_megabytes(kumi: Kumihimo) -> float:
    return sum(path.stat().st_size for path in (kumi.folder / "vectors").glob("*.i8")) / 2**20


def measure_set(name: str, source: Path, count: int, rounds: int) -> None:
    """Index a folder or file, and print a table of its methods."""
    with TemporaryDirectory() as folder, Kumihimo.open(Path(folder, ".kumi")) as kumi:
        kumi.index(source)
        methods = free_methods(kumi)
        with kumi.snapshot() as snapshot:
            drawn = [question.text for question in draw_questions(snapshot)]
            chunks = len(snapshot.table("chunks"))
        questions = list(islice(cycle(drawn), count))
        rates, memory = asyncio.run(measure_methods(kumi, methods, questions, rounds))
        print(f"{name}: {chunks:,} chunks, {os.cpu_count()} cores, questions per second")
        headings = " ".join(f"{mode:>8} {'CPU ms':>7}" for mode in ("bare", "threads", f"{WORKERS} proc."))
        print(f"  {'method':10} {headings}")
        for method, modes in rates.items():
            print(f"  {method:10} {' '.join(map(str, modes))}")
        for line in memory:
            print(f"  process: {line}; vectors on disk: {vector_megabytes(kumi):.1f} MB")
        bare, _, workers = rates["braid"]
        check_at_most(f"{name}: CPU of braid with {WORKERS} workers beside bare", workers.cpu / bare.cpu, MOST_CPU)


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    options = read_options(parser, argv, questions=4, rounds=1)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported
    sources = {} if options.quick else {"examples": EXAMPLES}
    sources["podcasts"] = options.data / "podcasts" / "kevin_scott_podcasts.jsonl"
    for name, source in sources.items():
        measure_set(name, source, options.questions, options.rounds)


if __name__ == "__main__":
    run_benchmark(main)
