"""podcasts -> the whole entity graph by a stub model: CPU per 1,000 calls, memory, growth, update.

Data: DATA/podcasts: one half, all but five documents, then these five as an update. The stub model answers at once with
replies of realistic length: eight entities and eight relations a chunk, a gleaning round, reports of five findings. One
line a build, each in its own process: rows by table, calls, CPU seconds, peak memory. Start-up is included, for the
update too.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.instant import use_instant_model
from benchmarks.meter import check_at_most
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo import Kumihimo

METHODS = ("global", "local")


def build(home: Path, source: Path) -> dict[str, float]:
    """Build the graph in this process; return its cost and row counts."""
    start = cpu()
    with Kumihimo.open(home) as kumi:
        model = use_instant_model(kumi, source)
        setup = cpu() - start
        built = kumi.index(source, methods=METHODS)
        calls = model.prompt_counts
        return {
            "cpu": cpu() - setup,
            "calls": sum(calls.values()),
            "extractions": sum(n for prompt, n in calls.items() if "<|>NAME<|>" in prompt),
            "reports": built.rows["reports"],
            "reports_asked": sum(
                n for prompt, n in calls.items() if '"findings"' in prompt.rpartition("JSON schema:")[2]
            ),
            "chunks": built.rows["chunks"],
            "entities": built.rows["entities"],
            "relations": built.rows["relations"],
            "failed": len(built.failed),
            "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


def cpu() -> float:
    """Return the CPU seconds of this process, start-up included."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run(home: Path, source: Path) -> dict[str, float]:
    """Run `build` in its own process and print its figures."""
    command = [sys.executable, "-m", "benchmarks.graph", str(home), str(source)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    cost: dict[str, float] = json.loads(output)
    print(
        f"  {cost['chunks']:,} chunks, {cost['entities']:,} entities, {cost['relations']:,} relations, "
        f"{cost['reports']:,} reports: {cost['calls']:,} calls, {cost['cpu']:.1f} CPU s, {cost['peak']:.0f} MB"
    )
    return cost


def main(argv: Sequence[str] | None = None) -> None:
    options = read_options(bench_parser(__doc__), argv)
    print("Entity graph of the podcasts, by a stub model")
    lines = (
        (options.data / "podcasts" / "kevin_scott_podcasts.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    )
    with TemporaryDirectory() as folder:
        source = Path(folder, "podcasts.jsonl")
        costs = []
        for count in (len(lines) // 2, len(lines) - 5):
            source.write_text("".join(lines[:count]), encoding="utf-8")
            costs.append(run(Path(folder, f"{count}", ".kumi"), source))
        cpu_per_1000 = [1000 * cost["cpu"] / cost["calls"] for cost in costs]
        check_at_most("CPU s for 1,000 calls", cpu_per_1000[1], 4)
        check_at_most("peak", costs[1]["peak"], 700, " MB")
        check_at_most("CPU of a call, all documents by half of them", cpu_per_1000[1] / cpu_per_1000[0], 1.2)
        source.write_text("".join(lines), encoding="utf-8")
        update = run(Path(folder, f"{len(lines) - 5}", ".kumi"), source)
        print(f"  5 more documents: {update['calls']:,} calls, {update['extractions']:,} of them for new chunks")
        print(f"  reports rewritten or new: {update['reports_asked']:,} of {update['reports']:,}")
        check_at_most("5 more documents, start-up included", update["cpu"], 1.5, " CPU s")


if __name__ == "__main__":
    if len(sys.argv) == 3 and not sys.argv[1].startswith("-"):
        print(json.dumps(build(Path(sys.argv[1]), Path(sys.argv[2]))))
    else:
        run_benchmark(main)
