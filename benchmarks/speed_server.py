"""a running server + questions -> questions per second, p95, CPU and memory: for `speed`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from time import perf_counter

import httpx2

from benchmarks.server_process import ServerProcess, descendants, run_server

AT_ONCE, WARM = 8, 5  # questions that wait at one time; questions of each that are not measured
TIMEOUT = 120.0


async def ask_all(address: str, questions: Sequence[str]) -> list[float]:
    """Return the seconds of each question; eight wait at one time."""
    waiting, seconds = iter(questions), list[float]()
    limits = httpx2.Limits(max_connections=AT_ONCE)
    async with httpx2.AsyncClient(base_url=address, timeout=TIMEOUT, limits=limits) as http:

        async def ask() -> None:
            for question in waiting:
                start = perf_counter()
                response = await http.post("/api/v1/ask", json={"question": question})
                assert response.status_code == 200, response.text
                seconds.append(perf_counter() - start)

        await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
    return seconds


async def visit(address: str, count: int) -> None:
    """Send requests that ask nothing, one after the other."""
    async with httpx2.AsyncClient(base_url=address, timeout=TIMEOUT) as http:
        for _ in range(count):
            assert (await http.get("/health")).status_code == 200


def memory_megabytes(server: ServerProcess) -> tuple[float, float]:
    """Return RSS and PSS of a server and its children (Linux)."""
    sums = {"Rss": 0, "Pss": 0}
    for pid in (server.pid, *descendants(server.pid)):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]:
            name, _, rest = line.partition(":")
            if name in sums:
                sums[name] += int(rest.split()[0])
    return sums["Rss"] / 1024, sums["Pss"] / 1024


def measure_server(
    index: Path, workers: int, kinds: Mapping[str, Sequence[str]], count: int, most: int, environment: Mapping[str, str]
) -> dict[str, float]:
    """Return the figures of `kumi serve` by kind of question.

    count: questions of each kind. most: questions of the first kind in all, after which memory is read again.
    """
    figures: dict[str, float] = {}
    with run_server(index, options=("--workers", f"{workers}"), environment=environment) as server:
        for kind, questions in kinds.items():
            asyncio.run(ask_all(server.address, [*islice(cycle(questions), WARM * AT_ONCE)]))
            cpu, start = server.cpu() + server.children_cpu(), perf_counter()
            seconds = sorted(asyncio.run(ask_all(server.address, [*islice(cycle(questions), count)])))
            wall, cpu = perf_counter() - start, server.cpu() + server.children_cpu() - cpu
            figures |= {f"{kind}, a second": count / wall, f"{kind}, p95": seconds[int(0.95 * len(seconds))]}
            figures[f"{kind}, CPU"] = cpu / count
        cpu = server.cpu()
        asyncio.run(visit(server.address, count))
        figures["nothing, CPU"] = (server.cpu() - cpu) / count
        first = next(iter(kinds.values()))
        rss, pss = memory_megabytes(server)
        asyncio.run(ask_all(server.address, [*islice(cycle(first), count, max(count, most))]))
        later_rss, later_pss = memory_megabytes(server)
        figures |= {"RSS": later_rss, "PSS": later_pss, "PSS, growth": later_pss / pss, "RSS, growth": later_rss / rss}
    return figures
