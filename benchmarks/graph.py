"""The whole entity graph of the podcasts by a model that answers at once: CPU per 1,000 calls, memory, growth, updates.

The replies are as long as real ones: eight entities and eight relations a chunk, a gleaning round, reports of five
findings. What the peers take for the same is told in DESIGN; here all is included, start-up too for the update.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.instant import connected
from benchmarks.meter import bound
from benchmarks.options import bench_parser, read_options
from kumihimo import Kumihimo

METHODS = ("global", "local")


def build(home: Path, source: Path) -> dict[str, float]:
    """One command in this process: what it cost, and did."""
    began = cpu()
    with Kumihimo.open(home) as kumi:
        model = connected(kumi, source)
        thought = cpu() - began
        built = kumi.index(source, methods=METHODS)
        calls = model.asked
        return {
            "cpu": cpu() - thought,
            "calls": sum(calls.values()),
            "extractions": sum(n for said, n in calls.items() if "<|>NAME<|>" in said),
            "reports": built.rows["reports"],
            "reports_asked": sum(n for said, n in calls.items() if '"findings"' in said.rpartition("JSON schema:")[2]),
            "chunks": built.rows["chunks"],
            "entities": built.rows["entities"],
            "relations": built.rows["relations"],
            "failed": len(built.failed),
            "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


def cpu() -> float:
    """Seconds of this process, since it began: start-up is in it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run(home: Path, source: Path) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.graph", str(home), str(source)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    cost: dict[str, float] = json.loads(said)
    print(
        f"  {cost['chunks']:,} chunks, {cost['entities']:,} entities, {cost['relations']:,} relations, "
        f"{cost['reports']:,} reports: {cost['calls']:,} calls, {cost['cpu']:.1f} CPU s, {cost['peak']:.0f} MB"
    )
    return cost


def main(argv: Sequence[str] | None = None) -> None:
    options = read_options(bench_parser(__doc__), argv)
    print("The entity graph of the podcasts, by a model that answers at once")
    lines = (
        (options.data / "podcasts" / "kevin_scott_podcasts.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    )
    with TemporaryDirectory() as folder:
        source = Path(folder, "podcasts.jsonl")
        costs = []
        for count in (len(lines) // 2, len(lines) - 5):
            source.write_text("".join(lines[:count]), encoding="utf-8")
            costs.append(run(Path(folder, f"{count}", ".kumi"), source))
        each = [1000 * cost["cpu"] / cost["calls"] for cost in costs]
        bound("CPU s for 1,000 calls", each[1], 4)
        bound("peak", costs[1]["peak"], 700, " MB")
        bound("CPU for a call, of twice the documents for that of once", each[1] / each[0], 1.2)
        source.write_text("".join(lines), encoding="utf-8")
        more = run(Path(folder, f"{len(lines) - 5}", ".kumi"), source)
        print(f"  5 more documents: {more['calls']:,} calls, {more['extractions']:,} of them for new chunks")
        print(f"  reports asked for again, or anew: {more['reports_asked']:,} of {more['reports']:,}")
        bound("5 more documents, start-up included", more["cpu"], 1.5, " CPU s")


if __name__ == "__main__":
    if len(sys.argv) == 3 and not sys.argv[1].startswith("-"):
        print(json.dumps(build(Path(sys.argv[1]), Path(sys.argv[2]))))
    else:
        main()
