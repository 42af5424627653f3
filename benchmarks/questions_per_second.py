"""questions by each method that needs no model -> questions per second: the bare method, threads, processes.

Data: examples/ and DATA/podcasts, with questions made of words of random sentences. The bare method answers one
question after the other in one thread. AsyncKumihimo answers eight at a time, in threads, then with two processes (`workers=2`).
Each figure is the best of three rounds. The last lines show the memory of the two processes: what each has alone (USS)
and its fair share of what both map (PSS), beside the size of the vectors.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.meter import check_at_least
from benchmarks.options import bench_parser, read_options, run_benchmark
from benchmarks.question_sets import draw_questions
from kumihimo import AsyncKumihimo, Kumihimo
from kumihimo.app.question_room import needs_no_model

EXAMPLES = Path(__file__).parents[1] / "examples"
AT_ONCE, WORKERS = 8, 2
GAIN = 1.3  # braid with two processes beside the bare method, on two cores


def free_methods(kumi: Kumihimo) -> list[str]:
    """Return the methods whose questions need no model; build their tables."""
    with kumi.snapshot() as snapshot:
        free = [name for name in kumi.catalogue.methods if needs_no_model(snapshot, name, {}, is_answer=True)]
    for name in free:
        kumi.prepare_method(name)
    return free


async def ask_bare(kumi: Kumihimo, method: str, questions: Sequence[str]) -> None:
    for question in questions:
        kumi.ask(question, method)


async def ask_together(kumi: AsyncKumihimo, method: str, questions: Sequence[str]) -> None:
    await asyncio.gather(*(kumi.ask(question, method) for question in questions))


async def measure_methods(
    kumi: Kumihimo, methods: Sequence[str], questions: Sequence[str], rounds: int
) -> tuple[dict[str, list[float]], list[str]]:
    """Return the questions per second by method, in each mode, and the memory of the processes.

    The modes take turns, so that other load on the machine falls on all.
    """
    rates: dict[str, list[float]] = {}
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
            seconds = [[await time_round(mode) for mode in modes] for _ in range(rounds + 1)]  # the first loads tables
            rates[method] = [len(questions) / min(each) for each in zip(*seconds[-rounds:], strict=True)]
        return rates, [describe_memory(pid) for pid in workers.pids]


async def time_round(ask: Callable[[], Awaitable[None]]) -> float:
    start = perf_counter()
    await ask()
    return perf_counter() - start


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
        if ".i16" in part
        for line in part.splitlines()
        if line.startswith("Private_Dirty")
    )
    return ", ".join(f"{name} {size / 1024:.0f} MB" for name, size in parts.items()) + f", copied vectors {copied} kB"


def vector_megabytes(kumi: Kumihimo) -> float:
    return sum(path.stat().st_size for path in (kumi.folder / "vectors").glob("*.i16")) / 2**20


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
        print(f"  {'method':10} {'bare':>8} {'threads':>8} {f'{WORKERS} workers':>10}")
        for method, (bare, threads, workers) in rates.items():
            print(f"  {method:10} {bare:8.1f} {threads:8.1f} {workers:10.1f}")
        for line in memory:
            print(f"  process: {line}; vectors on disk: {vector_megabytes(kumi):.1f} MB")
        check_at_least(f"{name}: braid with {WORKERS} workers beside bare", rates["braid"][2] / rates["braid"][0], GAIN)


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    options = read_options(parser, argv, questions=4, rounds=1)
    with TemporaryDirectory() as folder:
        notes = Path(folder, "notes.jsonl")
        notes.write_text(json.dumps({"id": "1", "text": "The ferry Kestrel leaves Oban for Brannet at nine."}))
        sources = {"examples": notes if options.quick else EXAMPLES}
        sources["podcasts"] = options.data / "podcasts" / "kevin_scott_podcasts.jsonl"
        for name, source in sources.items():
            measure_set(name, source, options.questions, options.rounds)


if __name__ == "__main__":
    run_benchmark(main)
