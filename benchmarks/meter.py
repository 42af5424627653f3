"""a piece of work -> what it cost: CPU seconds, wall seconds, bytes written, peak memory."""

from __future__ import annotations

import resource
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class Cost:
    """The cost of one piece of work; `peak` is that of the whole process so far, in MB."""

    cpu: float = 0.0
    wall: float = 0.0
    written: float = 0.0  # MB handed to files (wchar), counted at each write
    disk: float = 0.0  # MB of dirty pages (write_bytes): a page rewritten before it reaches the disk counts once
    peak: float = 0.0

    def __str__(self) -> str:
        return f"{self.cpu:8.2f} CPU s {self.wall:8.2f} s {self.written:9.1f} MB written {self.peak:7.0f} MB peak"


@contextmanager
def measured() -> Iterator[Cost]:
    """Fill in the cost of a block when it ends."""
    cost = Cost()
    cpu, wall, written, disk = _cpu(), time.perf_counter(), _written_mb("wchar"), _written_mb("write_bytes")
    yield cost
    cost.cpu, cost.wall = _cpu() - cpu, time.perf_counter() - wall
    cost.written, cost.disk = _written_mb("wchar") - written, _written_mb("write_bytes") - disk
    cost.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _cpu() -> float:
    """Return the CPU seconds of this process and of its finished children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _written_mb(counter: str) -> float:
    """Return MB written by this process so far, by that counter (Linux)."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(counter)) / 1e6


def command_cpu(command: list[str], environment: Mapping[str, str] | None = None) -> float:
    """Return the CPU seconds of a command; environment: None for that of this process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


_enforced = True
unmet: list[str] = []  # bounds of this process


def enforce_limits(*, enabled: bool) -> None:
    """Choose whether a figure beyond its limit fails the benchmark."""
    global _enforced
    _enforced = enabled


def check_at_most(name: str, value: float, limit: float, unit: str = "") -> None:
    """Print a figure and its upper limit; record it as unmet if it is above."""
    print(f"  {name}: {value:.3g}{unit} (at most {limit:g}{unit})")
    if _enforced and not value <= limit:  # no number is unmet too
        unmet.append(f"{name} is {value:.4g}{unit}, above {limit:g}{unit}")


def check_at_least(name: str, value: float, floor: float) -> None:
    """Print a figure and its lower limit; record it as unmet if it is below."""
    print(f"  {name}: {value:.4f} (at least {floor:g})")
    if _enforced and not value >= floor:
        unmet.append(f"{name} is {value:.4f}, below {floor:g}")
