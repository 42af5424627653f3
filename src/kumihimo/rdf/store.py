"""triples -> a store of them beside the index, made when it is first asked for; a query -> what it finds there.

A store is written under another name, then renamed: whoever finds it finds it whole. It is named after the build it is
of, and never changes. One process makes it, others that want it wait; what a killed one leaves the next one takes away.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Event, Timer
from typing import TYPE_CHECKING, Any

from kumihimo.core.errors import KumiError, SettingsError

if TYPE_CHECKING:
    import subprocess

    from pyoxigraph import Quad

BUILD_KEY = "build"  # in the index, how many builds have changed it
_LOCK_TIMEOUT = 3600  # seconds to wait for another process that makes the same store


class StoreRemoved(KumiError):
    """The store was taken away while it was read: a newer build has its own."""


def stores_folder(folder: Path) -> Path:
    """Where the stores of an index lie."""
    return folder / "rdf"


def remove_old_stores(folder: Path, build: int) -> None:
    """Remove the stores of other builds; who reads one of them begins again."""
    for path in stores_folder(folder).glob("[0-9]*"):
        if _build_number(path) != build:
            remove_store(path)


def ensure_store(folder: Path, name: str, made: Callable[[], Iterator[Quad]]) -> Path:
    """The store of that name, filled with the triples that `made` gives where it is not there yet."""
    path = stores_folder(folder) / name
    if path.exists():
        return path
    path.parent.mkdir(exist_ok=True)
    with _exclusive_lock(path.parent):
        if not path.exists():
            for other in path.parent.iterdir():
                if other.is_dir() and _build_number(other) <= _build_number(path):  # a later one has its own readers
                    remove_store(other)
            part = path.with_name(f".{name}")  # which no build sweeps away
            write_store(part, made())
            part.rename(path)
    return path


def _build_number(path: Path) -> int:
    """Of a store the build it is of; of one that was never finished none."""
    number = path.name.partition("-")[0]
    return int(number) if number.isdecimal() else -1


def remove_store(path: Path) -> None:
    """Remove a store that cannot be read; the next who wants it makes it again."""
    from shutil import rmtree  # here: whoever never asks for a store does without

    rmtree(path, ignore_errors=True)


def write_store(path: Path, triples: Iterator[Quad]) -> None:
    """A store of these."""
    from pyoxigraph import Store

    store = Store(path)
    store.bulk_extend(triples)
    store.flush()


@contextmanager
def _exclusive_lock(folder: Path) -> Iterator[None]:
    """While no other process is within: SQLite's lock, which goes with the process that has it."""
    with closing(sqlite3.connect(folder / "lock.db", timeout=_LOCK_TIMEOUT, isolation_level=None)) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        yield
        lock.execute("ROLLBACK")


Head = dict[str, Any]


def run_query(
    path: Path, query: str, prefixes: dict[str, str], base: str, *, limit: int | None, timeout: float
) -> tuple[Head, list[list[Any]], str]:
    """What kind of answer it is, its rows as terms of SPARQL's JSON, and what cut it short: rows, time or nothing.

    Raises SettingsError where it cannot be asked or answered, Gone where the store is there no more.
    """
    import subprocess

    asked = {"store": str(path), "query": query, "prefixes": prefixes, "base": base, "most": limit}
    program = [sys.executable, "-P", str(Path(__file__).with_name("sparql_worker.py"))]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as ran:
        late = Event()

        def stop() -> None:
            late.set()
            ran.kill()

        timer = Timer(timeout, stop)
        timer.start()
        try:
            head, rows = _collect_reply(_iterate_lines(ran, json.dumps(asked)))
        finally:
            timer.cancel()
            ran.kill()
    if "wrong" in head:
        raise SettingsError(head["wrong"])
    if "failed" in head:
        raise StoreRemoved(f"the triples in {path} cannot be read ({head['failed']}): ask again")
    if "more" in head or "yes" in head:
        return head, rows, "rows" if head.get("more") else ""
    if not late.is_set():
        raise SettingsError("the query took more memory than it may have: ask for less at once")
    if "kind" not in head:
        raise SettingsError(f"nothing was found within {timeout:g} s: ask for less, or give it more with `--timeout`")
    return head, rows, "time"


def _iterate_lines(ran: subprocess.Popen[bytes], asked: str) -> Iterator[Any]:
    """What the other process says, as far as it comes."""
    assert ran.stdin
    assert ran.stdout
    with suppress(BrokenPipeError), ran.stdin as stdin:
        stdin.write(asked.encode("ascii"))
    yield from (json.loads(line) for line in ran.stdout if line.endswith(b"\n"))


def _collect_reply(lines: Iterator[Any]) -> tuple[Head, list[list[Any]]]:
    head: Head = {}
    rows: list[list[Any]] = []
    for line in lines:
        if isinstance(line, dict):
            head |= line
        else:
            rows.append(line)
    return head, rows
