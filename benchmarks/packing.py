"""questions with gold passages -> the gold that packing keeps in a prompt, and the tokens that it saves.

`answer.score_share` was chosen on `finance`, `pubmed` and `musique`; the other sets test it. Data: DATA/ordinary,
DATA/multihop, DATA/japanese, DATA/chinese. No chat model; the graph is built by rule. Prints a Markdown table for each
set, a row for each method: gold passages in the evidence that fits into `answer.budget`, the share of them in the
packed prompt, tokens of the sources as a list of the evidence and packed, their number before and after, CPU ms of
packing. The last table has the means of the sets that test it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import mean

from benchmarks.meter import check_at_least
from benchmarks.options import bench_parser, read_options, run_benchmark
from benchmarks.question_sets import open_set
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.core.context import Evidence
from kumihimo.core.records import Chunk
from kumihimo.evaluate.gold import GoldPassages, is_found, read_index_layout, resolve_gold
from kumihimo.evaluate.records import SourceSpan
from kumihimo.generation.answer import number_packed_sources
from kumihimo.llm.prompts import Source, fence_text

METHODS = ("braid", "naive", "local", "light")
CHOSEN_ON = ("finance", "pubmed", "musique")
TESTED_ON = ("news", "fiqa", "chatlogs", "hotpot", "jsquad", "drcd")
MAX_QUESTIONS = 60  # of a set
KEPT = 0.98  # of the gold, mean of the tested sets, for each method
KEPT_BY_METHOD = {"local": 0.95, "light": 0.97}  # their evidence may have 60 short passages, and 25 are given
SAVED = 0.4  # of the tokens, mean of the tested sets and methods


@dataclass(frozen=True, slots=True)
class Packed:
    """The effect of packing on one question, or the mean effect on several."""

    gold: float
    kept: float
    tokens_before: float
    tokens_after: float
    rows: float
    sources: float
    cpu_ms: float


def measure(snapshot: Snapshot, question: str, method: str, gold: GoldPassages) -> Packed:
    """Return the effect of packing on one question."""
    context = snapshot.retrieve(question, method)
    items = context.fit(int(snapshot.settings["answer"]["budget"]), snapshot.tokenizer).evidence  # type: ignore[call-overload]
    start = time.process_time()
    packed = snapshot.prompt_sources(question, context)
    cpu_ms = 1000 * (time.process_time() - start)
    listed = [Source(n, item.prompt_text, item.uri) for n, item in enumerate(items, 1)]
    numbered = number_packed_sources(packed, snapshot.tracer.describe_document)
    before, after = (
        len(snapshot.tokenizer(fence_text("source", "", sources))) if sources else 0 for sources in (listed, numbered)
    )
    found = [places for places in gold.values() if is_found(places, _places(items))]
    kept = [places for places in found if is_found(places, _places(row for one in packed for row in one.rows))]
    return Packed(len(found), len(kept), before, after, len(items), len(packed), cpu_ms)


def _places(items: Iterable[Evidence]) -> list[SourceSpan]:
    return [SourceSpan(item.uri, item.start, item.end) for item in items if isinstance(item.record, Chunk)]


def average(rows: Sequence[Packed]) -> Packed:
    """Return the mean of each figure."""
    return Packed(*(mean(getattr(row, field.name) for row in rows) for field in fields(Packed)))


def format_row(label: str, row: Packed) -> str:
    share, saved = row.kept / row.gold if row.gold else 1.0, 1 - row.tokens_after / max(row.tokens_before, 1)
    tokens = f"{row.tokens_before:,.0f} | {row.tokens_after:,.0f} | {saved:.0%}"
    return (
        f"| {label} | {row.gold:.2f} | {share:.3f} | {tokens} | {row.rows:.0f} | {row.sources:.0f} | {row.cpu_ms:.0f} |"
    )


def measure_set(data: Path, name: str, cache: Path | None) -> dict[str, Packed]:
    """Print the table of a set; return its rows by method."""
    with ExitStack() as stack:
        snapshot, questions = open_set(stack, data, name, cache, methods=METHODS)
        questions = [question for question in questions if question.gold][:MAX_QUESTIONS]
        gold = resolve_gold(snapshot, read_index_layout(snapshot), questions)
        print(f"\n{name}: {len(questions)} questions\n")
        print("| method | gold | kept | tokens before | after | saved | rows | sources | CPU ms |")
        print("|---|---|---|---|---|---|---|---|---|")
        means = {}
        for method in METHODS:
            means[method] = average([measure(snapshot, q.text, method, gold[q.id]) for q in questions])
            print(format_row(f"`{method}`", means[method]), flush=True)
        return means


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--sets", default=",".join((*CHOSEN_ON, *TESTED_ON)))
    parser.add_argument("--indexes", type=Path, help="a folder that keeps the indexes")
    options = read_options(parser, argv, sets="musique,hotpot,jsquad,drcd")
    by_set = {name: measure_set(options.data, name, options.indexes) for name in options.sets.split(",")}
    tested = [by_set[name] for name in TESTED_ON if name in by_set] or list(by_set.values())
    print("\nmeans of the tested sets\n")
    saved = []
    for method in METHODS:
        row = average([means[method] for means in tested])
        kept = mean(means[method].kept / means[method].gold if means[method].gold else 1.0 for means in tested)
        saved.append(1 - row.tokens_after / max(row.tokens_before, 1))
        print(f"{method}: {row.tokens_before:,.0f} tokens before, {row.tokens_after:,.0f} after, {saved[-1]:.0%} saved")
        check_at_least(f"{method}, share of the gold kept", kept, KEPT_BY_METHOD.get(method, KEPT))
    check_at_least("share of the tokens saved, mean of the methods", mean(saved), SAVED)


if __name__ == "__main__":
    run_benchmark(main)
