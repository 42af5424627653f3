"""index folders -> `kumi serve` in a process of its own, with its memory, its CPU seconds and its files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A server that runs, at an address."""

    address: str
    pid: int

    def megabytes(self) -> float:
        """Return the resident memory of the server itself."""
        return resident(self.pid)

    def children_megabytes(self) -> float:
        """Return the resident memory of its children, and of theirs."""
        return sum(map(resident, descendants(self.pid)))

    def cpu(self) -> float:
        """Return the CPU seconds of the server itself."""
        user, system, *_ = cpu_times(self.pid)
        return user + system

    def children_cpu(self) -> float:
        """Return the CPU seconds of its children, past and present."""
        _, _, *ended = cpu_times(self.pid)
        return sum(ended) + sum(sum(cpu_times(pid)) for pid in descendants(self.pid))

    def descriptors(self) -> int:
        """Return how many files and connections it has open."""
        return len([*Path(f"/proc/{self.pid}/fd").iterdir()])


@contextmanager
def run_server(
    *folders: Path, options: tuple[str, ...] = (), files: int = 0, environment: Mapping[str, str] | None = None
) -> Iterator[ServerProcess]:
    """Run `kumi serve` on a free port; stop it at the end.

    files: its limit of open files; 0: that of this process. environment: None for that of this process. Raises
    AssertionError if it does not end well.
    """
    indexes = [text for folder in folders for text in ("--index", str(folder))]
    command = [sys.executable, "-m", "kumihimo.cli.entry", "serve", "--no-browser", "--port", "0", *indexes, *options]
    if files:
        command = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *command]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            assert "http://" in line, line or (process.stderr.read() if process.stderr else "")
            yield ServerProcess(next(word for word in line.split() if word.startswith("http://")), process.pid)
        finally:
            process.terminate()
            _, errors = process.communicate(timeout=60)
            print("".join(f"  server: {line}\n" for line in errors.splitlines()[-20:]), end="")
    assert process.returncode in (0, -15, 143), f"the server ended with {process.returncode}"


def resident(pid: int) -> float:
    """Return the resident memory of a process in MB; 0 if it has ended."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE / 2**20
    return 0.0


def cpu_times(pid: int) -> tuple[float, float, float, float]:
    """Return the user and system seconds of a process, and those of its ended children."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:15]
        user, system, ended_user, ended_system = (int(field) / _TICKS for field in fields)
        return user, system, ended_user, ended_system
    return 0.0, 0.0, 0.0, 0.0


def descendants(pid: int) -> list[int]:
    """Return the ids of the children of a process, and of theirs."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]
            children.setdefault(int(parent), []).append(int(folder.name))
    found, waiting = list[int](), [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found, waiting = found + below, waiting + below
    return found


def file_bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
