"""Sets of questions with gold -> the weights of `braid`: learned on some sets, measured on another; what each part adds.

DATA/multihop: MuSiQue, HotpotQA, 2WikiMultiHopQA. DATA/japanese, DATA/chinese: JSQuAD, DRCD, one passage a question.
No chat model. The tables give recall@5 and the share of questions all of whose gold is among the first 5 chunks, each with
weights learned on the other sets. --write: learn on all of them and write src/kumihimo/methods/braid.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from benchmarks.meter import least, measured
from benchmarks.passages import SETS, questions
from kumihimo import Kumihimo
from kumihimo.evaluate.fitting import Example, examples, learned
from kumihimo.evaluate.records import Gold, Question
from kumihimo.evaluate.statistics import interval
from kumihimo.methods.braid import WEIGHTS

FLOORS = {"musique": (0.66, 0.40), "hotpot": (0.88, 0.78), "2wiki": (0.88, 0.70)}
SHARES = {"jsquad": 0.3, "drcd": 0.3}  # of questions with one passage each, which are many
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


def opened(stack: ExitStack, data: Path, name: str) -> list[Example]:
    """The examples of a set, from an index that stays open with the stack."""
    folder = stack.enter_context(TemporaryDirectory())
    kumi = stack.enter_context(Kumihimo.open(Path(folder, ".kumi")))
    with measured() as cost:
        kumi.index(data / f"{SETS[name]}_corpus.jsonl", methods=["braid"])
    print(f"{name}: indexed for braid in {cost.cpu:.1f} CPU s", flush=True)
    reading = stack.enter_context(kumi.reading())
    asked = [
        Question(f"{name} {row['id']}", row["question"], gold=tuple(map(Gold, row["gold_passage_ids"])))
        for row in questions(data / f"{SETS[name]}_questions.jsonl")
    ]
    return examples(reading, asked)


def share(id: str) -> float:
    return SHARES.get(id.partition(" ")[0], 1.0)


def measure(sets: Sets, name: str, drop: Sequence[str] = ()) -> list[float]:
    """The recall of each question of a set, by weights learned on the others."""
    weights = learned([e for other, of in sets.items() if other != name for e in of], drop=drop, weigh=share)
    return [example.recall(weights) for example in sets[name]]


def table(sets: Sets) -> None:
    print(f"\n| recall@5, all @5 | {' | '.join(sets)} |\n|---|{'---|' * len(sets)}")
    for part, drop in PARTS.items():
        cells = []
        for name in sets:
            found = measure(sets, name, drop)
            low, high = interval(found, [str(i) for i in range(len(found))])
            cells.append(f"{fmean(found):.3f} [{low:.2f}–{high:.2f}], {fmean(x == 1 for x in found):.2f}")
            if not drop and name in FLOORS:
                least(f"{name}: recall@5", fmean(found), FLOORS[name][0])
                least(f"{name}: all @5", fmean(x == 1 for x in found), FLOORS[name][1])
        print(f"| {part} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    with ExitStack() as stack:
        sets = {name: opened(stack, given.data, name) for name in given.sets.split(",")}
        table(sets)
        if given.write:
            weights = learned([e for of in sets.values() for e in of], weigh=share)
            WEIGHTS.write_text(json.dumps(weights, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
