"""podcasts -> the whole entity graph by a stub model: CPU per 1,000 calls, memory, growth, update.

Data: DATA/podcasts: one half, all but five documents, then these five as an update. The stub model answers at once with
replies of realistic length: eight entities and eight relations a chunk, reports of five findings. One
line a build, each in its own process: rows by table, calls, CPU seconds, peak memory; then the calls for reports and
their prompt tokens. Start-up is included, for the update too; a build of nothing new measures it.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.instant import count_tokens, use_instant_model
from benchmarks.meter import check_at_most
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo import Kumihimo

METHODS = ("global", "local")
FEW_DOCUMENTS = 600


def build(home: Path, source: Path, *, own: bool) -> dict[str, float]:
    """Build the graph in this process; return its cost and row counts.

    own: each text describes a name differently.
    """
    start = cpu()
    with Kumihimo.open(home) as kumi:
        model = use_instant_model(kumi, source, own=own)
        setup = cpu() - start
        built = kumi.index(source, methods=METHODS)
        used, calls = cpu() - setup, model.prompt_counts
        return {
            "cpu": used,
            "calls": sum(calls.values()),
            "extractions": sum(n for prompt, n in calls.items() if "<|>NAME<|>" in prompt),
            "reports": built.rows["reports"],
            "reports_asked": sum(n for prompt, n in calls.items() if is_report(prompt)),
            "report_tokens": sum(n * count_tokens(prompt) for prompt, n in calls.items() if is_report(prompt)),
            "chunks": built.rows["chunks"],
            "entities": built.rows["entities"],
            "relations": built.rows["relations"],
            "failed": len(built.failed),
            "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


def is_report(prompt: str) -> bool:
    """Return whether a prompt asks for a report."""
    return '"findings"' in prompt.rpartition("JSON schema:")[2]


def cpu() -> float:
    """Return the CPU seconds of this process, start-up included."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run(home: Path, source: Path, *, own: bool = False) -> dict[str, float]:
    """Run `build` in its own process and print its figures."""
    command = [sys.executable, "-m", "benchmarks.graph", str(home), str(source), str(int(own))]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    cost: dict[str, float] = json.loads(output)
    print(
        f"  {cost['chunks']:,} chunks, {cost['entities']:,} entities, {cost['relations']:,} relations, "
        f"{cost['reports']:,} reports: {cost['calls']:,} calls, {cost['cpu']:.1f} CPU s, {cost['peak']:.0f} MB"
    )
    print(f"  reports written: {cost['reports_asked']:,} calls, {cost['report_tokens']:,} prompt tokens")
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
        updates = ((len(lines) - 5, False), (FEW_DOCUMENTS, True))
        for count, own in updates[1:] if options.quick else updates:
            measure_update(Path(folder, f"{count}", ".kumi"), source, lines[: count + 5], own=own)


def measure_update(home: Path, source: Path, lines: Sequence[str], *, own: bool) -> None:
    """Measure the last five documents as an update.

    own: each text describes a name differently, as a real model does, so that any mention changes a report.
    """
    source.write_text("".join(lines[:-5]), encoding="utf-8")
    nothing_new = run(home, source, own=own)
    if nothing_new["calls"]:
        nothing_new = run(home, source, own=own)
    source.write_text("".join(lines), encoding="utf-8")
    update = run(home, source, own=own)
    print(f"  5 more documents: {update['calls']:,} calls, {update['extractions']:,} of them for new chunks")
    print(f"  reports rewritten or new: {update['reports_asked']:,} of {update['reports']:,}")
    check_at_most("share of reports written for 5 more documents", update["reports_asked"] / update["reports"], 0.03)
    check_at_most("5 more documents, above a build of nothing new", update["cpu"] - nothing_new["cpu"], 1, " CPU s")


if __name__ == "__main__":
    if len(sys.argv) == 4 and not sys.argv[1].startswith("-"):
        print(json.dumps(build(Path(sys.argv[1]), Path(sys.argv[2]), own=sys.argv[3] == "1")))
    else:
        run_benchmark(main)
