"""questions with gold -> recall of `braid` with weights that never saw the set, beside `bm25` and `naive`.

Data and kinds: benchmarks/question_sets.py. No chat model. Prints a Markdown table, one set a line: recall@5 of each
method and its 95 % interval (bootstrap over questions), the share of questions with all gold among the first 5, and the
paired difference of `braid` to the better plain method with its interval and the p of a signed-rank test. Each set gets
weights learned on the others, each of which counts the same.
--by kind: on sets of other kinds only, without floors. Leaves out the kind that alone teaches the weights of the graph.
--ablate: also the recall without parts of `braid`.
--extracted: MuSiQue again, with the entities that GPT-3.5 extracted (DATA/replies) instead of those found by rule.
--index-cache DIR: keep the indexes there. A later run builds again what the code has changed.
--write: learn on all sets and write src/kumihimo/methods/braid/weights.json.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from benchmarks.instant import text_key
from benchmarks.meter import check_at_least
from benchmarks.options import bench_parser, read_options, run_benchmark
from benchmarks.question_sets import KINDS, LEARNED_ONLY, open_set
from benchmarks.replies import openie
from benchmarks.weight_fitting import TOP_K, FittingExample, build_examples, learn_weights
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.evaluate.gold import found_share, read_index_layout, resolve_gold
from kumihimo.evaluate.records import EvalQuestion
from kumihimo.evaluate.retrieval import ChunkTracer
from kumihimo.evaluate.statistics import bootstrap_interval, signed_rank
from kumihimo.methods.braid import WEIGHTS_PATH
from kumihimo.methods.braid.two_pass import BraidWeights

PLAIN = ("bm25", "naive")
FLOORS = {"musique": 0.71, "hotpot": 0.96, "2wiki": 0.93, "fiqa": 0.46, "news": 0.46}  # recall@5 of braid
ALL_FLOORS = {"musique": 0.42, "hotpot": 0.93, "2wiki": 0.83}  # share of questions with all gold
MARGIN = 0.01  # below the better plain method, on any set; above it, on the mean of the sets with room
ROOM = 0.95  # recall@5 of the better plain method, at most
SET_WEIGHT = 100  # the sum of the weights of a set's questions
PARTS = {
    "without words": ("words", "clause"),
    "without clauses": ("clause",),
    "without windows": ("window",),
    "without phrases": ("phrase",),
    "without meaning": ("meaning",),
    "without similar words": ("similar",),
    "without topic": ("topic",),
    "without documents": ("document",),
    "without the graph": ("graph rank", "onward rank"),
    "without bridges": ("adds", "shares", "named", "bridges", "new"),
    "without titles": ("titled", "named"),
}

Recalls = Sequence[float]  # of each question


@dataclass(frozen=True)
class MeasuredSet:
    """A set: its examples for `braid`, and the recall of the plain methods."""

    examples: Sequence[FittingExample]
    plain: Mapping[str, Recalls]


def measure_set(snapshot: Snapshot, questions: Sequence[EvalQuestion], *, plain: bool) -> MeasuredSet:
    layout = read_index_layout(snapshot)
    gold, tracer = resolve_gold(snapshot, layout, questions), ChunkTracer(snapshot, layout)
    recalls = {
        method: [found_share(list(tracer(snapshot.retrieve(q.text, method))), gold[q.id], TOP_K) for q in questions]
        for method in (PLAIN if plain else ())
    }
    return MeasuredSet(build_examples(snapshot, questions), recalls)


def read_extracted(data: Path) -> dict[str, list[str]]:
    """Read the records that GPT-3.5 extracted from MuSiQue."""
    return {text_key(text): reply.splitlines()[:-1] for text, reply in openie(data / "replies").items()}


def learn(sets: Mapping[str, MeasuredSet], names: Collection[str], drop: Sequence[str] = ()) -> BraidWeights:
    """Learn weights on these sets, each of which counts the same."""
    examples = [example for name in names for example in sets[name].examples]
    sizes = Counter(example.id.partition(" ")[0] for example in examples)
    return learn_weights(examples, drop=drop, question_weight=lambda id: SET_WEIGHT / sizes[id.partition(" ")[0]])


class HeldOut:
    """Weights by tested set, learned without the set or without its kind."""

    def __init__(self, sets: Mapping[str, MeasuredSet], by: str, drop: Sequence[str] = ()) -> None:
        self.sets, self.by, self.drop = sets, by, drop
        self.weights: dict[tuple[str, ...], BraidWeights] = {}  # by the sets that they were learned on

    def recalls(self, label: str, tested: MeasuredSet) -> Recalls:
        name = label.partition(" ")[0]
        names = tuple(n for n in self.sets if n != name and (self.by == "set" or KINDS.get(n) != KINDS[name]))
        if names not in self.weights:
            self.weights[names] = learn(self.sets, names, self.drop)
        return [example.recall(self.weights[names], TOP_K) for example in tested.examples]


def format_interval(values: Recalls, sign: str = "") -> str:
    low, high = bootstrap_interval(values, [str(i) for i in range(len(values))])
    return f"{fmean(values):{sign}.3f} [{low:{sign}.2f}, {high:{sign}.2f}]"


def teaches_graph(example: FittingExample) -> bool:
    """Return whether the weights of the graph are learned on a question."""
    return bool(example.first_pass.walk) and len(example.gold) > 1


def all_share(recalls: Recalls) -> float:
    return fmean(recall == 1 for recall in recalls)


def best_plain(tested: MeasuredSet) -> str:
    return max(PLAIN, key=lambda method: fmean(tested.plain[method]))


def differences(tested: MeasuredSet, recalls: Recalls) -> list[float]:
    """Return the gain of `braid` over the better plain method, by question."""
    return [ours - plain for ours, plain in zip(recalls, tested.plain[best_plain(tested)], strict=True)]


def print_table(tested: Mapping[str, MeasuredSet], recalls: Mapping[str, Recalls]) -> None:
    columns = ("recall@5", "n", *PLAIN, "braid", "all @5", "braid - better plain", "p")
    print(f"\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for name, one in tested.items():
        methods = [*(one.plain[method] for method in PLAIN), recalls[name]]
        gain = differences(one, recalls[name])
        cells = [*map(format_interval, methods), ", ".join(f"{all_share(values):.2f}" for values in methods)]
        cells += [f"{format_interval(gain, '+')} {best_plain(one)}", f"{signed_rank(gain).p:.3f}"]
        print(f"| {name} | {len(gain)} | {' | '.join(cells)} |", flush=True)


def print_ablations(sets: Mapping[str, MeasuredSet], tested: Mapping[str, MeasuredSet], by: str) -> None:
    print(f"\n| recall@5, all @5 | {' | '.join(tested)} |\n|---|{'---|' * len(tested)}")
    for part, drop in PARTS.items():
        held_out = HeldOut(sets, by, drop)
        rows = [held_out.recalls(name, one) for name, one in tested.items()]
        cells = [f"{format_interval(row)}, {all_share(row):.2f}" for row in rows]
        print(f"| {part} | {' | '.join(cells)} |", flush=True)


def check_floors(tested: Mapping[str, MeasuredSet], recalls: Mapping[str, Recalls]) -> None:
    """Check the mean gain, each set against the plain methods, and the floors."""
    plain = {name: fmean(one.plain[best_plain(one)]) for name, one in tested.items()}
    if gains := [fmean(recalls[name]) - plain[name] for name in tested if plain[name] < ROOM]:
        check_at_least(f"mean gain over the better plain method, {len(gains)} sets", fmean(gains), MARGIN)
    for name in tested:
        check_at_least(f"{name}: braid - better plain", round(fmean(recalls[name]) - plain[name], 6), -MARGIN)
    for name in tested.keys() & FLOORS.keys():
        check_at_least(f"{name}: recall@5", fmean(recalls[name]), FLOORS[name])
    for name in tested.keys() & ALL_FLOORS.keys():
        check_at_least(f"{name}: all @5", all_share(recalls[name]), ALL_FLOORS[name])


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--sets", default=",".join((*KINDS, *LEARNED_ONLY)))
    parser.add_argument("--by", choices=("set", "kind"), default="set")
    parser.add_argument("--index-cache", type=Path, metavar="DIR")
    for name in ("--ablate", "--extracted", "--write"):
        parser.add_argument(name, action="store_true")
    options = read_options(parser, argv, sets="musique,jsquad,podcasts,news,finance,essays,scenes,novel")
    data: Path = options.data
    with ExitStack() as stack:
        names: Iterable[str] = options.sets.split(",")
        sets = {
            name: measure_set(*open_set(stack, data, name, options.index_cache), plain=name in KINDS) for name in names
        }
        if options.write:
            WEIGHTS_PATH.write_text(json.dumps(learn(sets, sets), indent=2) + "\n", encoding="utf-8")
        tested = {name: one for name, one in sets.items() if name in KINDS}
        if options.by == "kind":  # the weights of the graph cannot be learned without the only kind that teaches them
            teaching = {KINDS.get(name) for name, one in sets.items() if any(map(teaches_graph, one.examples))}
            tested = {name: one for name, one in tested.items() if teaching != {KINDS[name]}}
        if options.extracted:
            opened = open_set(stack, data, "musique", records_by_text=read_extracted(data))
            tested["musique by GPT-3.5"] = measure_set(*opened, plain=True)
        held_out = HeldOut(sets, options.by)
        recalls = {label: held_out.recalls(label, one) for label, one in tested.items()}
        print_table(tested, recalls)
        if options.ablate:
            print_ablations(sets, tested, options.by)
        if options.by == "set":
            check_floors(tested, recalls)


if __name__ == "__main__":
    run_benchmark(main)
