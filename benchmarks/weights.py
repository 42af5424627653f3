"""The weights of `braid`: learned on some sets of questions and measured on another; what each part adds.

DATA/multihop: MuSiQue, HotpotQA, 2WikiMultiHopQA. DATA/japanese, DATA/chinese: JSQuAD, DRCD, one passage a question.
DATA/podcasts: words of a sentence, of which the chunk is sought that it stands in. No chat model. The table gives
recall@5, its 95 % interval (bootstrap over questions), and the share of questions all of whose gold is among the first
5 chunks, each set with weights learned on the others; of the podcasts each half with weights learned on the other, too.
--extracted: MuSiQue again, the entities those that GPT-3.5 extracted (DATA/replies) instead of those found by rule.
--write: learn on all sets and write src/kumihimo/methods/braid/weights.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from statistics import fmean
from tempfile import TemporaryDirectory

from benchmarks.instant import Instant, beginning
from benchmarks.meter import least, measured
from benchmarks.options import bench_parser, read_options
from benchmarks.passages import SETS, questions
from benchmarks.replies import openie
from kumihimo import Kumihimo
from kumihimo.app.snapshot import Snapshot
from kumihimo.evaluate.records import EvalQuestion, Gold
from kumihimo.evaluate.statistics import bootstrap_interval
from kumihimo.evaluate.weight_fitting import TOP_K, FittingExample, build_examples, learn_weights
from kumihimo.methods.braid import WEIGHTS_PATH
from kumihimo.methods.braid.ppr import top_ids
from kumihimo.text.sentences import split_sentences
from kumihimo.text.tokens import subject_terms

FLOORS = {"musique": (0.66, 0.40), "hotpot": (0.88, 0.78), "2wiki": (0.88, 0.70)}
PLAIN = {"jsquad": 0.967, "drcd": 0.973}  # recall@5 of bm25 (benchmarks/recall.py)
SHARES = {"jsquad": 0.1, "drcd": 0.1}  # what a question counts; these are many, and need one passage each
IDLE = ("words rank",)  # no help here; for questions of one's own
PARTS = {
    "all of it": (),
    "without the graph": ("graph rank", "onward rank"),
    "without bridges": ("adds", "shares", "named", "bridges", "new"),
    "without titles": ("titled", "named"),
    "without entities": ("graph rank", "onward rank", "shares", "named", "bridges", "titled"),
    "without meaning": ("meaning",),
    "without covers": ("covers",),
}
FURTHER = 20
TALKS = "podcasts"
DRAWN = 150  # questions of words
WORDS = 5  # each
MARKS = '.,;:!?"()“”'
LETTERS = 60  # of the sentence, at least

Sets = Mapping[str, Sequence[FittingExample]]


def opened(
    stack: ExitStack, data: Path, name: str, known: Mapping[str, list[str]] | None = None
) -> list[FittingExample]:
    """The examples of a set, from an index that stays open with the stack. known: what a model found in which text."""
    folder = stack.enter_context(TemporaryDirectory())
    kumi = stack.enter_context(Kumihimo.open(Path(folder, ".kumi")))
    if known is not None:
        kumi.models = Instant(kumi.models.settings, kumi.models.cache, known=known)
    with measured() as cost:
        kumi.index(data / source(name), methods=["braid"])
    print(f"{name}: indexed for braid in {cost.cpu:.1f} CPU s", flush=True)
    reading = stack.enter_context(kumi.snapshot())
    return build_examples(reading, list(drawn(reading) if name == TALKS else asked(data, name)))


def source(name: str) -> str:
    return "podcasts/kevin_scott_podcasts.jsonl" if name == TALKS else f"{SETS[name]}_corpus.jsonl"


def asked(data: Path, name: str) -> Iterator[EvalQuestion]:
    for row in questions(data / f"{SETS[name]}_questions.jsonl"):
        yield EvalQuestion(f"{name} {row['id']}", row["question"], gold=tuple(map(Gold, row["gold_passage_ids"])))


def drawn(reading: Snapshot) -> Iterator[EvalQuestion]:
    """Of some chunks the words of a sentence, by chance."""
    chance = Random(1)
    chunks = sorted(reading.table("chunks"), key=lambda chunk: chunk.id)
    for chunk in chance.sample(chunks, min(DRAWN, len(chunks))):
        said = [text for start, end in split_sentences(chunk.text) if len(text := chunk.text[start:end]) > LETTERS]
        words = [word.strip(MARKS) for word in chance.choice(said or [chunk.text]).split() if subject_terms(word)]
        few = sorted(chance.sample(range(len(words)), min(WORDS, len(words))))
        yield EvalQuestion(f"{TALKS} {chunk.id}", " ".join(words[i] for i in few), gold=(Gold(chunk.id),))


def extracted(data: Path) -> dict[str, list[str]]:
    """What GPT-3.5 found in each passage of MuSiQue, as records."""
    return {beginning(text): reply.splitlines()[:-1] for text, reply in openie(data / "replies").items()}


def share(id: str) -> float:
    return SHARES.get(id.partition(" ")[0], 1.0)


def measured_on(
    tested: Sequence[FittingExample], others: Sequence[FittingExample], drop: Sequence[str], k: int
) -> list[float]:
    """The recall of each question, by weights learned on others."""
    weights = learn_weights(others, drop=(*IDLE, *drop), question_weight=share)
    return [example.recall(weights, k) for example in tested]


def kept(
    sets: Sets, name: str, tested: Sequence[FittingExample], drop: Sequence[str] = (), k: int = TOP_K
) -> list[float]:
    """The recall of each question by weights that it was kept from."""
    others = [example for other, of in sets.items() if other != name for example in of]
    if name != TALKS:
        return measured_on(tested, others, drop, k)
    halves = tested[::2], tested[1::2]  # nothing else is like it
    return [x for i in (0, 1) for x in measured_on(halves[i], [*others, *halves[1 - i]], drop, k)]


def by_words(example: FittingExample) -> float:
    """Recall of plain words."""
    top = top_ids(example.first_pass.rankings["words"], TOP_K)
    return fmean(any(example.overlaps(id, one) for id in top) for one in example.gold)


def said(found: Sequence[float]) -> str:
    low, high = bootstrap_interval(found, [str(i) for i in range(len(found))])
    return f"{fmean(found):.3f} [{low:.2f}–{high:.2f}], {fmean(x == 1 for x in found):.2f}"


def table(sets: Sets, tested: Sets) -> None:
    print(f"\n| recall@5, all @5 | {' | '.join(tested)} |\n|---|{'---|' * len(tested)}")
    print(f"| plain words | {' | '.join(said(list(map(by_words, of))) for of in tested.values())} |", flush=True)
    for part, drop in PARTS.items():
        found = {name: kept(sets, name.split()[0], of, drop) for name, of in tested.items()}
        print(f"| {part} | {' | '.join(map(said, found.values()))} |", flush=True)
        if not drop:
            whole = found
    deeper = (fmean(kept(sets, name.split()[0], of, k=FURTHER)) for name, of in tested.items())
    print(f"| all of it, recall@{FURTHER} | {' | '.join(f'{x:.3f}' for x in deeper)} |", flush=True)
    for name in tested.keys() & FLOORS.keys():
        least(f"{name}: recall@5", fmean(whole[name]), FLOORS[name][0])
        least(f"{name}: all @5", fmean(x == 1 for x in whole[name]), FLOORS[name][1])
    for name in tested.keys() & PLAIN.keys():
        least(f"{name}: recall@5", round(fmean(whole[name]), 3), PLAIN[name])


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--sets", default=",".join((*SETS, TALKS)))
    parser.add_argument("--extracted", action="store_true")
    parser.add_argument("--write", action="store_true")
    given = read_options(parser, argv)
    with ExitStack() as stack:
        sets = {name: opened(stack, given.data, name) for name in given.sets.split(",")}
        if given.write:
            weights = learn_weights([e for of in sets.values() for e in of], drop=IDLE, question_weight=share)
            WEIGHTS_PATH.write_text(json.dumps(weights, indent=2) + "\n", encoding="utf-8")
        if given.extracted:
            named = "musique by GPT-3.5"
            table(sets, {named: opened(stack, given.data, "musique", extracted(given.data))})
        table(sets, sets)


if __name__ == "__main__":
    main()
