"""Passages and questions with gold: what each method that works without a model finds, by `kumi eval retrieval`.

DATA/multihop: MuSiQue, HotpotQA; with --sets 2WikiMultiHopQA, DATA/japanese: JSQuAD, DATA/chinese: DRCD. Prints tables
of Markdown: means over questions, each with its 95 % interval (bootstrap). Rankings are of documents: all that a method
finds is followed to the chunks that it was made of. The graph is made by rule. CPU ms: of a search, not of following.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.meter import bound, least, measured
from benchmarks.options import bench_parser, read_options
from benchmarks.passages import SETS, questions
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


def asked(path: Path) -> list[EvalQuestion]:
    return [
        EvalQuestion(row["id"], row["question"], "linked", gold=tuple(map(Gold, row["gold_passage_ids"])))
        for row in questions(path)
    ]


def table(data: Path, name: str) -> None:
    rows = asked(data / f"{SETS[name]}_questions.jsonl")
    compared = parse_systems(SYSTEMS)
    with TemporaryDirectory() as folder, Kumihimo.open(Path(folder, ".kumi")) as kumi:
        with measured() as cost:
            kumi.index(data / f"{SETS[name]}_corpus.jsonl", methods=list(dict.fromkeys(s.method for s in compared)))
        print(f"\n{name}: {len(rows)} questions; indexed in {cost.cpu:.1f} CPU s\n")
        head = ("system", *MEASURES, "tokens", "chunks", "CPU ms")
        print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
        with measured() as cost:
            of = {system.name: figures(kumi, system, rows) for system in compared}
        print()
    bound(f"{name}, CPU s of {len(compared)} systems", cost.cpu, 400)
    for system, floor in FLOORS.get(name, {}).items():
        least(f"{name}, recall@5 of {system}", of[system], floor)


def figures(kumi: Kumihimo, system: System, rows: list[EvalQuestion]) -> float:
    """Print the line of a system; gives its recall@5."""
    with kumi.snapshot() as reading:
        there = read_index_layout(reading)
        meant = resolve_gold(reading, there, rows)
        each = retrieve_all(reading, system, rows, ChunkTracer(reading, there), Budget(), clock=time.process_time)
        said: list[Score] = [score for row in each for score in score_result(row, meant[row.question], there, KS)]
    mean: Mapping[str, MeasureMean] = average_measures(said, rows)[system.name]
    cells = [f"{_bare(mean[m].value)} ({_bare(mean[m].low, 2)}–{_bare(mean[m].high, 2)})" for m in MEASURES]
    counts = [f"{mean[m].value:,.0f}" for m in ("tokens", "chunks")]
    spent = 1000 * sum(row.seconds for row in each) / len(each)
    print(f"| `{system.name}` | {' | '.join([*cells, *counts, f'{spent:.0f}'])} |", flush=True)
    return mean["recall@5"].value


def _bare(value: float, digits: int = 3) -> str:
    """
    >>> _bare(0.5), _bare(1.0, 2)
    ('.500', '1.00')
    """
    return f"{value:.{digits}f}".removeprefix("0")


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--sets", default="musique,hotpot")
    given = read_options(parser, argv)
    for name in given.sets.split(","):
        table(given.data, name)


if __name__ == "__main__":
    main()
