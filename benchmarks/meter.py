"""a piece of work -> what it cost: CPU seconds, wall seconds, bytes written, peak memory."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class Cost:
    """Of one piece of work; peak is that of the whole process so far, in MB."""

    cpu: float = 0.0
    wall: float = 0.0
    written: float = 0.0  # MB handed to files (wchar), however often the same place is written
    disk: float = 0.0  # MB of pages made dirty (write_bytes): less where one is written again before the disk has it
    peak: float = 0.0

    def __str__(self) -> str:
        return f"{self.cpu:8.2f} CPU s {self.wall:8.2f} s {self.written:9.1f} MB written {self.peak:7.0f} MB peak"


@contextmanager
def measured() -> Iterator[Cost]:
    cost = Cost()
    cpu, wall, written, disk = _cpu(), time.perf_counter(), _written("wchar"), _written("write_bytes")
    yield cost
    cost.cpu, cost.wall = _cpu() - cpu, time.perf_counter() - wall
    cost.written, cost.disk = _written("wchar") - written, _written("write_bytes") - disk
    cost.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _written(what: str) -> float:
    """MB written by this process so far, by that count (Linux)."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1e6


def child_cpu(command: list[str]) -> float:
    """CPU seconds of a command, the least of five runs."""
    return min(once(command) for _ in range(5))


def once(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


_enforced = True


def enforce_limits(*, enabled: bool) -> None:
    """Say whether a figure beyond its limit ends the benchmark; tiny data meet no limit."""
    global _enforced
    _enforced = enabled


def bound(name: str, value: float, most: float, unit: str = "") -> None:
    """Print a figure beside its upper limit; exit where it is above."""
    print(f"  {name}: {value:.3g}{unit} (at most {most:g}{unit})")
    if _enforced and value > most:
        sys.exit(f"{name} is {value:.4g}{unit}, above {most:g}{unit}")


def least(name: str, value: float, floor: float) -> None:
    """Print a figure beside its lower limit; exit where it is below."""
    print(f"  {name}: {value:.4f} (at least {floor:g})")
    if _enforced and value < floor:
        sys.exit(f"{name} is {value:.4f}, below {floor:g}")
