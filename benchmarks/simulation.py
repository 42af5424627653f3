"""made-up documents -> what building, growing and asking cost at a size: CPU, wall time, memory, disk, p50, p95.

Data: none; with --compare, DATA/multihop (MuSiQue), DATA/podcasts and DATA/ordinary (news), whose statistics stand
beside those of the made-up text. Every piece of work runs in a child process of its own: a first build, a build without
a change, 100 more documents, questions by each method, and 100 documents fewer. The questions call no model.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ParamSpec, TypeVar

from benchmarks.corpus_statistics import print_comparison
from benchmarks.made_up import MadeUp, Question, documents, questions, write_document, write_folder
from benchmarks.meter import measured
from benchmarks.options import bench_parser, read_options, run_benchmark
from benchmarks.stored import TreeMemory, disk_parts, server_cpu
from kumihimo import Kumihimo
from kumihimo.core.task import ProgressEvent

P = ParamSpec("P")
R = TypeVar("R")
WHOLE = "What are the main themes of these documents?"  # read from reports, not from chunks
WHOLE_TIMES = 5
WHOLE_METHOD = "braid"
NEWS_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Work:
    """What a piece of work cost; `steps` is CPU s of this process by step, `peak` MB of it and its children."""

    label: str
    cpu: float
    server_cpu: float
    wall: float
    peak: float
    rows: dict[str, int] = field(default_factory=dict)
    steps: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """Questions by one method; ms at p50 and p95. found: share of the passages that are among the results."""

    method: str
    questions: int
    wall: tuple[float, float]
    cpu: tuple[float, float]
    slowest: float
    first: float  # ms of the first question, which loads what the others use
    found: float
    peak: float


def run_in_child(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what a function returns in a new process, so that its memory is its own."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as `kumi` does
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *args, **kwargs).result()


def build(label: str, address: str, folder: Path, methods: list[str], settings: dict[str, Any]) -> Work:
    """Index a folder; return the cost with that of child processes."""
    steps: defaultdict[str, float] = defaultdict(float)
    last = time.process_time()

    news = start = time.monotonic()

    def clock(event: ProgressEvent) -> None:
        nonlocal last, news
        now = time.process_time()
        steps[event.step] += now - last
        last = now
        if (wall := time.monotonic()) - news >= NEWS_SECONDS:
            news = wall
            at = f"{wall - start:,.0f} s, {now:,.0f} CPU s, {memory.peak:,.0f} MB"
            print(f"{label}: {at}: {event.step} {event.done:,} of {event.total:,}", file=sys.stderr, flush=True)

    server = server_cpu(address)
    with TreeMemory() as memory, measured() as cost, Kumihimo.open(address, settings=settings) as kumi:
        built = kumi.index(folder, methods=methods, progress=clock)
        last, end = time.process_time(), last
        steps["commit"] += last - end
    return Work(label, cost.cpu, server_cpu(address) - server, cost.wall, memory.peak, dict(built.rows), dict(steps))


def ask(address: str, method: str, asked: list[Question]) -> Asked:
    """Ask questions by one method, in one process."""
    walls, cpus, hits = [], [], []
    with TreeMemory() as memory, Kumihimo.open(address) as kumi:
        for question in asked:
            cpu, wall = time.process_time(), time.perf_counter()
            with kumi.snapshot() as snapshot:
                context = snapshot.retrieve(question.text, method)
                walls.append(1000 * (time.perf_counter() - wall))
                cpus.append(1000 * (time.process_time() - cpu))
                if question.document >= 0:
                    uris = {span.uri for item in context for span in snapshot.trace(item.reference)}
                    hits.append(any(f"note-{question.document:08}." in uri for uri in uris))
    first = walls[0]
    if len(walls) > 1:
        walls, cpus = walls[1:], cpus[1:]
    found = sum(hits) / len(hits) if hits else float("nan")
    return Asked(method, len(asked), percentiles(walls), percentiles(cpus), max(walls), first, found, memory.peak)


def percentiles(values: Sequence[float]) -> tuple[float, float]:
    """Return p50 and p95.

    >>> percentiles([3.0, 1.0, 2.0])
    (2.0, 3.0)
    """
    ordered = sorted(values)
    return ordered[len(ordered) // 2], ordered[int(0.95 * len(ordered))]


def run_here(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what a function returns; for a quick run."""
    return function(*args, **kwargs)


def simulate(home: Path, options: Any) -> dict[str, Any]:
    """Write a corpus, build, grow, ask and shrink; print each cost as it is known."""
    run = run_here if options.quick else run_in_child
    folder, address = home / "notes", str(options.index or home / ".kumi")
    methods = options.methods.split(",")
    settings: dict[str, Any] = {"building": {"executor": options.executor}} if options.executor else {}
    with measured() as cost:
        count, size = write_folder(folder, documents(options.seed, options.chunks))
    print(f"{count:,} documents, {size / 1e6:,.1f} MB, written in {cost.cpu:.1f} CPU s; {cost.peak:.0f} MB of memory")
    works: list[Work] = []

    def index(label: str) -> None:
        works.append(run(build, label, address, folder, methods, settings))
        print_work(works[-1], works[0], count, options.growth)

    print_header()
    index("first build")
    parts = disk_parts(address)
    index("no change")
    added = home / "notes" / "added"
    write_folder(added, documents_from(options.seed, count, options.growth))
    index(f"+{options.growth} documents")
    asked = questions(options.seed, count, options.questions)
    answers = [run(ask, address, method, asked) for method in methods]
    if WHOLE_METHOD in methods:
        whole = run(ask, address, WHOLE_METHOD, [Question("whole", WHOLE)] * WHOLE_TIMES)
        answers.append(replace(whole, method=f"{WHOLE_METHOD}, on the whole"))
    shutil.rmtree(added)
    index(f"-{options.growth} documents")
    print_answers(answers)
    print_rows(works[0], count, size, parts)
    return {
        "chunks": works[0].rows["chunks"],
        "documents": count,
        "bytes": size,
        "works": [asdict(work) for work in works],
        "answers": [asdict(answer) for answer in answers],
        "disk": parts,
    }


def documents_from(seed: int, start: int, number: int) -> Iterator[MadeUp]:
    """Yield this many documents that follow those of a corpus."""
    return (write_document(seed, start + i) for i in range(number))


def print_header() -> None:
    print(f"\n| work | CPU s | CPU s of the server | wall s | peak MB | CPU ms a document |\n|{'---|' * 6}", flush=True)


def print_work(work: Work, first: Work, count: int, growth: int) -> None:
    """Print a row of the table of builds."""
    documents_of_work = count if work is first else growth
    each = 1000 * (work.cpu + work.server_cpu) / documents_of_work
    cells = f"{work.cpu:,.1f} | {work.server_cpu:,.1f} | {work.wall:,.1f} | {work.peak:,.0f} | {each:,.1f}"
    print(f"| {work.label} | {cells} |", flush=True)


def print_answers(answers: Sequence[Asked]) -> None:
    """Print the table of questions."""
    print("\n| method | p50 ms | p95 ms | CPU p50 | CPU p95 | slowest | first question | peak MB | passage found |")
    print(f"|{'---|' * 9}")
    for row in answers:
        times = [*row.wall, *row.cpu, row.slowest, row.first, row.peak]
        print(f"| `{row.method}` | {' | '.join(f'{value:,.0f}' for value in times)} | {row.found:.2f} |", flush=True)


def print_rows(first: Work, count: int, size: int, parts: dict[str, int]) -> None:
    """Print the rows, the CPU of each step and the disk space of the first build."""
    chunks = first.rows["chunks"]
    rows = ", ".join(f"{number:,} {table}" for table, number in first.rows.items() if number)
    print(f"\n{chunks:,} chunks of {count:,} documents: {rows}\n")
    print(f"| step | CPU s | ms a chunk |\n|{'---|' * 3}")
    for step, cpu in sorted(first.steps.items(), key=lambda item: -item[1]):
        if cpu >= 0.005 * first.cpu:
            print(f"| `{step}` | {cpu:,.1f} | {1000 * cpu / chunks:.3f} |")
    print(f"\n| on disk | MB | bytes a chunk | times the text |\n|{'---|' * 4}")
    for part, used in [*parts.items(), ("all", sum(parts.values()))]:
        print(f"| {part} | {used / 1e6:,.1f} | {used / chunks:,.0f} | {used / size:.2f} |")


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--chunks", type=int, default=10_000, help="about so many chunks")
    parser.add_argument("--index", default="", help="a folder, or postgresql://HOST/DB?schema=NAME")
    parser.add_argument("--methods", default="bm25,naive,braid,local")
    parser.add_argument("--executor", default="", help="what runs the steps of a build")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--growth", type=int, default=100, help="documents to add, then to remove")
    parser.add_argument("--folder", type=Path, help="of the documents and the index (default: temporary)")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    parser.add_argument("--compare", action="store_true", help="only compare the text with real sets")
    options = read_options(parser, argv, chunks=60, methods="braid", questions=10, growth=4)
    with TemporaryDirectory() as temporary:
        home = options.folder or Path(temporary)
        if options.compare:
            print_comparison(home, options.data, options.seed, options.chunks)
            return
        figures = simulate(home, options)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    run_benchmark(main)
