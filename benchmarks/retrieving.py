"""passages, questions with gold passages -> measures of each method without a model, by `kumi eval retrieval`.

Data: DATA/multihop (MuSiQue, HotpotQA); with --sets also 2WikiMultiHopQA, DATA/japanese (JSQuAD), DATA/chinese (DRCD).
Prints a Markdown table for each set: means over the questions, each with its 95 % interval (bootstrap); tokens and
chunks; CPU ms of a search without tracing. Rankings are of documents: each item is traced to its chunks. The graph is
built by rule.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.meter import check_at_least, check_at_most, measured
from benchmarks.options import bench_parser, read_options, run_benchmark
from benchmarks.passages import SETS, read_rows
from kumihimo import Kumihimo
from kumihimo.evaluate.gold import read_index_layout, resolve_gold
from kumihimo.evaluate.records import EvalQuestion, Gold, Score
from kumihimo.evaluate.retrieval import ChunkTracer, MeasureMean, average_measures, retrieve_all, score_result
from kumihimo.evaluate.systems import System, parse_systems
from kumihimo.llm.budget import Budget

SYSTEMS = (
    "bm25,naive,naive:words=false,global:C0,global:C1,global:C2,local,"
    "light:hybrid,light:low,light:high,light:mix,discourse,braid"
)
KS = (5, 10, 20)
MEASURES = ("recall@5", "recall@20", "all-gold@5", "MAP", "MRR", "nDCG@10", "recall@2000tokens")
FLOORS = {"musique": {"bm25": 0.48, "naive": 0.52}, "hotpot": {"bm25": 0.74, "naive": 0.79}}  # recall@5


def read_questions(path: Path) -> list[EvalQuestion]:
    return [
        EvalQuestion(row["id"], row["question"], "linked", gold=tuple(map(Gold, row["gold_passage_ids"])))
        for row in read_rows(path)
    ]


def print_table(data: Path, name: str) -> None:
    rows = read_questions(data / f"{SETS[name]}_questions.jsonl")
    systems = parse_systems(SYSTEMS)
    with TemporaryDirectory() as folder, Kumihimo.open(Path(folder, ".kumi")) as kumi:
        with measured() as cost:
            kumi.index(data / f"{SETS[name]}_corpus.jsonl", methods=list(dict.fromkeys(s.method for s in systems)))
        print(f"\n{name}: {len(rows)} questions; indexed in {cost.cpu:.1f} CPU s\n")
        columns = ("system", *MEASURES, "tokens", "chunks", "CPU ms")
        print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
        with measured() as cost:
            recalls = {system.name: print_row(kumi, system, rows) for system in systems}
        print()
    check_at_most(f"{name}, CPU s of {len(systems)} systems", cost.cpu, 400)
    for system, floor in FLOORS.get(name, {}).items():
        check_at_least(f"{name}, recall@5 of {system}", recalls[system], floor)


def print_row(kumi: Kumihimo, system: System, rows: list[EvalQuestion]) -> float:
    """Print the row of a system and return its recall@5."""
    with kumi.snapshot() as snapshot:
        layout = read_index_layout(snapshot)
        gold = resolve_gold(snapshot, layout, rows)
        results = retrieve_all(snapshot, system, rows, ChunkTracer(snapshot, layout), Budget(), clock=time.process_time)
        scores: list[Score] = [score for row in results for score in score_result(row, gold[row.question], KS)]
    means: Mapping[str, MeasureMean] = average_measures(scores, rows)[system.name]
    cells = [
        f"{_format_share(means[m].value)} ({_format_share(means[m].low, 2)}–{_format_share(means[m].high, 2)})"
        for m in MEASURES
    ]
    counts = [f"{means[m].value:,.0f}" for m in ("tokens", "chunks")]
    cpu_ms = 1000 * sum(row.seconds for row in results) / len(results)
    print(f"| `{system.name}` | {' | '.join([*cells, *counts, f'{cpu_ms:.0f}'])} |", flush=True)
    return means["recall@5"].value


def _format_share(value: float, digits: int = 3) -> str:
    """Return a share without its leading zero.

    >>> _format_share(0.5), _format_share(1.0, 2)
    ('.500', '1.00')
    """
    return f"{value:.{digits}f}".removeprefix("0")


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--sets", default="musique,hotpot")
    options = read_options(parser, argv)
    for name in options.sets.split(","):
        print_table(options.data, name)


if __name__ == "__main__":
    run_benchmark(main)
