"""an index on either store -> its bytes by part, the CPU of its database server, the memory of a tree of processes."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from typing import Self

from kumihimo.storage.place import IndexPlace
from kumihimo.storage.postgres.connection import connect

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_LARGEST = 14
_TABLES = "SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC"
_RELATIONS = """SELECT relname, pg_total_relation_size(oid) FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'm', 'p') ORDER BY 2 DESC"""


def disk_parts(address: str) -> dict[str, int]:
    """Return the bytes of the largest tables and files, then those of the rest."""
    place = IndexPlace.at(address)
    if place.database:
        with closing(connect(place)) as connection:
            sizes = {str(name): int(used) for name, used in connection.execute(_RELATIONS).fetchall()}
    else:
        with closing(sqlite3.connect(place.folder / "index.db")) as db:
            sizes = dict(db.execute(_TABLES).fetchall())
        files = [path for path in place.folder.rglob("*") if path.is_file() and not path.name.startswith("index.db")]
        sizes |= {str(path.relative_to(place.folder)): path.stat().st_size for path in files}
    ordered = sorted(sizes.items(), key=lambda item: -item[1])
    return dict(ordered[:_LARGEST]) | {"the rest": sum(used for _, used in ordered[_LARGEST:])}


def server_cpu(address: str) -> float:
    """Return the CPU seconds of the server of a database so far.

    It is 0 for a folder, and for a server on another machine. Other work of the same server counts too.
    """
    place = IndexPlace.at(address)
    if not place.database:
        return 0.0
    with closing(connect(place)) as connection:
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
        backend = _read_stat(Path("/proc", str(row[0] if row else 0)))
    if not backend or not backend[0].startswith("postgres"):
        return 0.0
    server = backend[1]
    ticks = 0
    for process in Path("/proc").glob("[0-9]*"):
        stat = _read_stat(process)
        if stat and (stat[1] == server or process.name == str(server)):
            ticks += sum(stat[2][:2] if stat[1] == server else stat[2])  # the server has counted those that ended
    return ticks / _TICKS


def _read_stat(process: Path) -> tuple[str, int, list[int]] | None:
    """Return name, parent, and ticks (user, system, and those of ended children) of a process."""
    try:
        text = (process / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it has ended
        return None
    name, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
    return name, int(fields[1]), [int(ticks) for ticks in fields[11:15]]


class TreeMemory:
    """The peak memory of this process and its children together, in MB, sampled while the context is open."""

    def __init__(self, interval: float = 0.5) -> None:
        self.peak, self._interval, self._stop = 0.0, interval, Event()
        self._thread = Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        own = Path("/proc/self/status").read_text(encoding="ascii")
        highest = next(int(line.split()[1]) for line in own.splitlines() if line.startswith("VmHWM"))
        self.peak = max(self.peak, highest / 1024)

    def _sample(self) -> None:
        while True:
            self.peak = max(self.peak, _tree_mb(os.getpid()))
            if self._stop.wait(self._interval):
                return


def _tree_mb(root: int) -> float:
    """Return the resident MB of a process and its descendants; shared pages count for each."""
    pids, pages = [root], 0
    for pid in pids:
        try:
            pages += int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
            for task in Path(f"/proc/{pid}/task").iterdir():
                pids += map(int, (task / "children").read_text(encoding="ascii").split())
        except OSError:  # it has ended
            continue
    return pages * _PAGE / 2**20
