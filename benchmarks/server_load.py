"""50 clients of `kumi serve` while builds run -> errors, times, memory, the log; questions per second by method.

There are two indexes of examples/ and 20 notes. Builds change one after the other all the time. `plain` has no model;
for `answered` a server on this machine writes each answer within one second. 50 clients send one request after the
other, with pauses: searches by each method that needs no model, answers, streams, documents, entities, pages. Some
leave before the answer. Every second the memory of the server and of its children is read, and the size of
`index.db-wal`.

Then the questions per second by method: the bare method in one thread, and eight requests at a time over HTTP, without
and with two processes (`--workers`; two are the default on two processors). Beside them are the CPU milliseconds of a
question, without those of the clients. The bound is for processes: threads that share one processor for Python code
take turns, and that costs CPU.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import httpx2
from tests.fake_server import run_fake_server

from benchmarks.meter import check_at_most
from benchmarks.options import bench_parser, read_options, run_benchmark
from benchmarks.question_sets import draw_questions
from benchmarks.server_clients import ANSWERED, PLAIN, TIMEOUT, Record, run_clients
from benchmarks.server_process import ServerProcess, file_bytes, run_server
from kumihimo import Kumihimo
from kumihimo.app.ask.query import Query
from kumihimo.app.processes.question_pool import needs_no_model

EXAMPLES = Path(__file__).parents[1] / "examples"
CLIENTS, NOTES, MODEL_SECONDS = 50, 20, 1.0
AT_ONCE, WORKERS = 8, 2
MOST_CPU = 1.6  # of a question over HTTP, beside the bare method
PAUSE = 1.0  # seconds between two requests of a client, in the mean


@dataclass(frozen=True, slots=True)
class Sample:
    """The state of the server at one time."""

    megabytes: float
    children: float
    files: int  # that the server has open, connections too
    log: int  # bytes of the largest index.db-wal


@dataclass(slots=True)
class Load:
    """What happened in a run: the samples, one a second, and the builds."""

    record: Record = field(default_factory=Record)
    samples: list[Sample] = field(default_factory=list)
    builds: int = 0


def write_note(folder: Path, number: int, version: int) -> None:
    """Write one of the notes; each version has other names and numbers."""
    places = ("Brannet", "Kettle Narrows", "Shioyori", "Calf Bay", "the Long Arm")
    lines = [
        f"On day {version % 28 + 1} Mr Kerrow counted {(version + n) % 90} boats at {places[(version + n) % 5]}. "
        f"Miss Oldacre wrote letter {version * 7 + n} about gate {n} of the tide station."
        for n in range(12)
    ]
    (folder / f"note-{number:02}.md").write_text(f"# Note {number}\n\n" + "\n\n".join(lines), encoding="utf-8")


def make_index(home: Path, sources: Sequence[Path], model: str) -> tuple[Path, list[str], list[str]]:
    """Return an index of these sources and the notes, with questions and the methods that need no model.

    model: the address of a server that writes answers; empty: none.
    """
    notes = home / "notes"
    notes.mkdir(parents=True)
    for number in range(NOTES):
        write_note(notes, number, number)
    for source in sources:
        (shutil.copytree if source.is_dir() else shutil.copy)(source, home / source.name)
    if model:
        (home / "kumi.toml").write_text(
            f'[answer]\nmodel = "m"\nbase_url = "{model}"\nworkers = {CLIENTS}\n', encoding="utf-8"
        )
    with Kumihimo.open(home / ".kumi") as kumi:
        kumi.index(notes, *(home / source.name for source in sources))
        if model:
            return kumi.folder, [], []
        methods = free_methods(kumi)
        with kumi.snapshot() as snapshot:
            return kumi.folder, [question.text for question in draw_questions(snapshot)], methods


async def run_builds(http: httpx2.AsyncClient, home: Path, load: Load) -> None:
    """Change a note and build, of one index after the other, until the time is over."""
    for version in range(NOTES, 10**9):
        name = (PLAIN, ANSWERED)[version % 2]
        write_note(home / name / "notes", version % NOTES, version)
        response = await http.post(f"/api/v1/indexes/{name}/builds", json={})
        assert response.status_code == 202, response.text
        path = f"/api/v1/indexes/{name}/builds/{response.json()['id']}"
        async with http.stream("GET", f"{path}/events") as events:  # until it has ended
            async for _ in events.aiter_lines():
                pass
        job = (await http.get(path)).json()
        assert job["state"] == "done", job["error"]
        load.builds += 1
        if load.record.is_over:
            return


async def watch(server: ServerProcess, folders: Sequence[Path], load: Load) -> None:
    """Take a sample every second."""
    while not load.record.is_over:
        log = max(file_bytes(folder / "index.db-wal") for folder in folders)
        load.samples.append(Sample(server.megabytes(), server.children_megabytes(), server.descriptors(), log))
        await asyncio.sleep(1)


async def run_load(
    server: ServerProcess, home: Path, folders: Sequence[Path], questions: Sequence[str], methods: Sequence[str], o: Any
) -> Load:
    """Return what happened in so many minutes."""
    load = Load()

    async def stop() -> None:
        await asyncio.sleep(60 * o.minutes)
        load.record.is_over = True

    async with httpx2.AsyncClient(base_url=server.address, timeout=TIMEOUT) as http, asyncio.TaskGroup() as tasks:
        tasks.create_task(stop())
        tasks.create_task(watch(server, folders, load))
        tasks.create_task(run_builds(http, home, load))
        tasks.create_task(run_clients(server.address, o.clients, o.pause, questions, methods, load.record))
    return load


def show_load(load: Load, seconds: float, cpu: float, audit: Path, folders: Sequence[Path]) -> None:
    """Print the tables of a run, and check its bounds."""
    record = load.record
    print(f"  {record.requests:,} requests in {seconds:.0f} s, {load.builds:,} builds; {record.left:,} clients left")
    print(f"  {'':28} {'requests':>8} {'p50 ms':>8} {'p95 ms':>8} {'p99 ms':>8}")
    for name, times in record.seconds.items():
        figures = " ".join(f"{1000 * percentile(times, share):8.0f}" for share in (0.5, 0.95, 0.99))
        print(f"  {name:28} {len(times):8,} {figures}")
    print(f"  CPU of the server without builds: {1000 * cpu / max(1, record.requests):.1f} s for 1,000 requests")
    quarters = [load.samples[i * len(load.samples) // 4 : (i + 1) * len(load.samples) // 4 + 1] for i in range(4)]
    memory = [mean(sample.megabytes for sample in quarter) for quarter in quarters]
    show_quarters(f"MB of the server ({load.samples[0].megabytes:.0f} before the first request)", memory)
    show_quarters("MB of its children, at most", [max(each.children for each in quarter) for quarter in quarters])
    files = [max(each.files for each in quarter) for quarter in quarters]
    show_quarters("its open files and connections, at most", files)
    logs = [sample.log for sample in load.samples]
    index = max(file_bytes(folder / "index.db") for folder in folders)
    end = max(file_bytes(folder / "index.db-wal") for folder in folders)
    sizes = (max(logs), end, index)
    print(
        "  index.db-wal: {:.1f} MB at most, {:.1f} MB at the end; index.db: {:.1f} MB".format(*(n / 1e6 for n in sizes))
    )
    print(f"  audit log: {file_bytes(audit) / max(1, record.requests):.0f} bytes for a request")
    for error, count in record.errors.most_common(10):
        print(f"  {count} times {error}")
    check_at_most("errors", record.errors.total(), 0)
    check_at_most("memory in the last quarter, as a share of the second", memory[3] / memory[1], 1.1)
    check_at_most("open files in the last quarter, as a share of the second", files[3] / files[1], 1.2)
    check_at_most("largest log, as a share of the index", max(logs) / index, 1)


def show_quarters(name: str, values: Sequence[float]) -> None:
    print(f"  by quarter, {name}: {', '.join(f'{each:.0f}' for each in values)}")


def percentile(times: Sequence[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


# -- questions per second


@dataclass(frozen=True, slots=True)
class Rate:
    """Questions per second, and CPU milliseconds of a question."""

    per_second: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.per_second:8.1f} {self.cpu:7.1f}"


def best_rate(count: int, costs: Sequence[tuple[float, float]]) -> Rate:
    wall, cpu = (min(each) for each in zip(*costs, strict=True))
    return Rate(count / wall, 1000 * cpu / count)


def free_methods(kumi: Kumihimo) -> list[str]:
    """Return the methods whose questions need no model; build their tables."""
    queries = [Query.of("?", name) for name in kumi.catalogue.methods]
    free = [query.method for query in queries if needs_no_model(kumi.opened, query, is_answer=True)]
    for name in free:
        kumi.prepare_method(name)
    return free


async def ask_over_http(server: ServerProcess, method: str, questions: Sequence[str]) -> tuple[float, float]:
    """Return the seconds, and the CPU seconds of the server and its children, of questions asked eight at a time."""
    limits = httpx2.Limits(max_connections=AT_ONCE)
    async with httpx2.AsyncClient(base_url=server.address, timeout=TIMEOUT, limits=limits) as http:

        async def ask(question: str) -> None:
            body = {"question": question, "method": method, "reasons": False}
            response = await http.post(f"/api/v1/indexes/{PLAIN}/ask", json=body)
            assert response.status_code == 200, response.text

        start, cpu = perf_counter(), server.cpu() + server.children_cpu()
        await asyncio.gather(*map(ask, questions))
        return perf_counter() - start, server.cpu() + server.children_cpu() - cpu


def ask_bare(kumi: Kumihimo, method: str, questions: Sequence[str]) -> tuple[float, float]:
    start, cpu = perf_counter(), process_time()
    for question in questions:
        kumi.ask(question, method)
    return perf_counter() - start, process_time() - cpu


def measure_rates(
    folder: Path, servers: Mapping[str, ServerProcess], methods: Sequence[str], questions: Sequence[str], rounds: int
) -> None:
    """Print the questions per second by method: bare, and over HTTP by each server."""
    headings = " ".join(f"{mode:>8} {'CPU ms':>7}" for mode in ("bare", *servers))
    print(f"  {'questions per second':20} {headings}")
    rates: dict[str, list[Rate]] = {}
    with Kumihimo.open(folder) as kumi:
        for method in methods:
            costs = []
            for _ in range(rounds + 1):  # the modes take turns, so that other load on the machine falls on all
                over_http = [asyncio.run(ask_over_http(server, method, questions)) for server in servers.values()]
                costs.append([ask_bare(kumi, method, questions), *over_http])
            best = zip(*costs[1:], strict=True)  # the first round loads the tables
            rates[method] = [best_rate(len(questions), each) for each in best]
            print(f"  {method:20} {' '.join(map(str, rates[method]))}")
    bare, *_, default = rates["braid"]
    check_at_most(f"CPU of braid over {[*servers][-1]} beside bare", default.cpu / bare.cpu, MOST_CPU)


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--minutes", type=float, default=0.5)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--pause", type=float, default=PAUSE, help="mean seconds between two requests of a client")
    parser.add_argument("--workers", type=int, default=WORKERS, help="processes of the server, for the load")
    parser.add_argument("--podcasts", action="store_true", help="with DATA/podcasts too, which is larger")
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    o = read_options(parser, argv, minutes=0.01, clients=3, pause=0.01, questions=2, rounds=1)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported
    sources = [] if o.quick else [EXAMPLES]
    sources += [o.data / "podcasts" / "kevin_scott_podcasts.jsonl"] if o.podcasts else []
    slow = {"faults": {"slow": 1.0}, "drip": 0.01 if o.quick else MODEL_SECONDS}
    with TemporaryDirectory() as folder, run_fake_server(**slow) as model, ExitStack() as stack:
        home, audit = Path(folder), Path(folder, "audit.jsonl")
        plain, drawn, methods = make_index(home / PLAIN, sources, "")
        folders, asked = (
            [plain, make_index(home / ANSWERED, sources, model.url)[0]],
            [*islice(cycle(drawn), o.questions)],
        )
        with run_server(*folders, options=("--workers", f"{o.workers}", "--audit", str(audit))) as server:
            start = perf_counter()
            load = asyncio.run(run_load(server, home, folders, drawn, methods, o))
            show_load(load, perf_counter() - start, server.cpu(), audit, folders)
            if o.quick:
                measure_rates(plain, {"HTTP": server}, ["braid"], asked, o.rounds)
                return
        servers = {
            name: stack.enter_context(run_server(plain, options=("--workers", f"{workers}")))
            for name, workers in (("HTTP", 0), (f"{WORKERS} proc.", WORKERS))
        }
        measure_rates(plain, servers, methods, asked, o.rounds)


if __name__ == "__main__":
    run_benchmark(main)
