"""The weights of `braid`: learned on some sets of questions and measured on another; what each part adds.

DATA/multihop: MuSiQue, HotpotQA, 2WikiMultiHopQA. DATA/japanese, DATA/chinese: JSQuAD, DRCD, one passage a question.
No chat model. The table gives recall@5, its 95 % interval (bootstrap over questions), and the share of questions all of
whose gold is among the first 5 chunks, each set with weights learned on the others. --extracted: MuSiQue again, the
entities those that GPT-3.5 extracted (DATA/replies) instead of those found by rule. --write: learn on all sets and
write src/kumihimo/methods/braid.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from benchmarks.instant import Instant, beginning
from benchmarks.meter import least, measured
from benchmarks.passages import SETS, questions
from benchmarks.replies import openie
from kumihimo import Kumihimo
from kumihimo.evaluate.fitting import Example, examples, learned
from kumihimo.evaluate.records import Gold, Question
from kumihimo.evaluate.statistics import interval
from kumihimo.methods.braid import WEIGHTS

FLOORS = {"musique": (0.66, 0.40), "hotpot": (0.88, 0.78), "2wiki": (0.88, 0.70)}
PLAIN = {"jsquad": 0.967, "drcd": 0.973}  # recall@5 of bm25 (benchmarks/recall.py)
SHARES = {"jsquad": 0.1, "drcd": 0.1}  # what a question counts; these are many, and need one passage each
PARTS = {
    "all of it": (),
    "without the graph": ("graph", "graph rank", "onward", "onward rank"),
    "without bridges": ("adds", "shares", "named", "bridges", "new"),
    "without titles": ("titled", "named"),
    "without entities": ("graph", "graph rank", "onward", "onward rank", "shares", "named", "bridges", "titled"),
    "without meaning": ("meaning",),
    "without words": ("words", "words rank"),
}

Sets = Mapping[str, Sequence[Example]]


def opened(stack: ExitStack, data: Path, name: str, known: Mapping[str, list[str]] | None = None) -> list[Example]:
    """The examples of a set, from an index that stays open with the stack. known: what a model found in which text."""
    folder = stack.enter_context(TemporaryDirectory())
    kumi = stack.enter_context(Kumihimo.open(Path(folder, ".kumi")))
    if known is not None:
        kumi.models = Instant(kumi.models.settings, kumi.models.memo, known=known)
    with measured() as cost:
        kumi.index(data / f"{SETS[name]}_corpus.jsonl", methods=["braid"])
    print(f"{name}: indexed for braid in {cost.cpu:.1f} CPU s", flush=True)
    reading = stack.enter_context(kumi.reading())
    asked = [
        Question(f"{name} {row['id']}", row["question"], gold=tuple(map(Gold, row["gold_passage_ids"])))
        for row in questions(data / f"{SETS[name]}_questions.jsonl")
    ]
    return examples(reading, asked)


def extracted(data: Path) -> dict[str, list[str]]:
    """What GPT-3.5 found in each passage of MuSiQue, as records."""
    return {beginning(text): reply.splitlines()[:-1] for text, reply in openie(data / "replies").items()}


def share(id: str) -> float:
    return SHARES.get(id.partition(" ")[0], 1.0)


def measured_on(tested: Sequence[Example], others: Sequence[Example], drop: Sequence[str] = ()) -> list[float]:
    """The recall of each question, by weights learned on others."""
    weights = learned(others, drop=drop, weigh=share)
    return [example.recall(weights) for example in tested]


def besides(sets: Sets, name: str) -> list[Example]:
    return [example for other, of in sets.items() if other != name for example in of]


def said(found: Sequence[float]) -> str:
    low, high = interval(found, [str(i) for i in range(len(found))])
    return f"{fmean(found):.3f} [{low:.2f}–{high:.2f}], {fmean(x == 1 for x in found):.2f}"


def table(sets: Sets, tested: Sets) -> None:
    print(f"\n| recall@5, all @5 | {' | '.join(tested)} |\n|---|{'---|' * len(tested)}")
    for part, drop in PARTS.items():
        found = {name: measured_on(of, besides(sets, name.split()[0]), drop) for name, of in tested.items()}
        print(f"| {part} | {' | '.join(map(said, found.values()))} |", flush=True)
        if not drop:
            whole = found
    for name in tested.keys() & FLOORS.keys():
        least(f"{name}: recall@5", fmean(whole[name]), FLOORS[name][0])
        least(f"{name}: all @5", fmean(x == 1 for x in whole[name]), FLOORS[name][1])
    for name in tested.keys() & PLAIN.keys():
        least(f"{name}: recall@5", round(fmean(whole[name]), 3), PLAIN[name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--extracted", action="store_true")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    with ExitStack() as stack:
        sets = {name: opened(stack, given.data, name) for name in given.sets.split(",")}
        if given.write:
            weights = learned([e for of in sets.values() for e in of], weigh=share)
            WEIGHTS.write_text(json.dumps(weights, indent=2) + "\n", encoding="utf-8")
        if given.extracted:
            named = "musique by GPT-3.5"
            table(sets, {named: opened(stack, given.data, "musique", extracted(given.data))})
        table(sets, sets)


if __name__ == "__main__":
    main()
