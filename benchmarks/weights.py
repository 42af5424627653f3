"""questions with gold passages -> recall of `braid` with weights learned on other sets, and the share of each feature.

Data: DATA/multihop (MuSiQue, HotpotQA, 2WikiMultiHopQA); DATA/japanese (JSQuAD) and DATA/chinese (DRCD), one passage a
question; DATA/podcasts, where the words of a sentence are the question and its chunk is the gold. No chat model. Prints
a Markdown table: recall@5, its 95 % interval (bootstrap over questions), and the share of questions with all gold among
the first 5 chunks. Each set gets weights learned on the others; each half of the podcasts also learns from the other
half.
--extracted: MuSiQue again, with the entities that GPT-3.5 extracted (DATA/replies) instead of those found by rule.
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

from benchmarks.instant import InstantRegistry, text_key
from benchmarks.meter import check_at_least, measured
from benchmarks.options import bench_parser, read_options
from benchmarks.passages import SETS, read_rows
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
BM25_FLOORS = {"jsquad": 0.967, "drcd": 0.973}  # recall@5 of bm25 (benchmarks/recall.py)
SHARES = {"jsquad": 0.1, "drcd": 0.1}  # weight of a question: these sets are large, with one gold passage a question
IDLE = ("words rank",)  # of no use on these sets; for other people's questions
PARTS = {
    "all of it": (),
    "without the graph": ("graph rank", "onward rank"),
    "without bridges": ("adds", "shares", "named", "bridges", "new"),
    "without titles": ("titled", "named"),
    "without entities": ("graph rank", "onward rank", "shares", "named", "bridges", "titled"),
    "without meaning": ("meaning",),
    "without covers": ("covers",),
}
DEEPER_K = 20  # k of the last row
TALKS = "podcasts"
QUESTION_COUNT = 150  # questions from the podcasts
WORDS = 5  # of such a question
MARKS = '.,;:!?"()“”'
LETTERS = 60  # characters of a sentence, at least

Sets = Mapping[str, Sequence[FittingExample]]


def open_examples(
    stack: ExitStack, data: Path, name: str, records_by_text: Mapping[str, list[str]] | None = None
) -> list[FittingExample]:
    """Index a set and return its examples.

    The index stays open with the stack. records_by_text: extraction records, as of a model; None: by rule.
    """
    folder = stack.enter_context(TemporaryDirectory())
    kumi = stack.enter_context(Kumihimo.open(Path(folder, ".kumi")))
    if records_by_text is not None:
        kumi.models = InstantRegistry(kumi.models.settings, kumi.models.cache, records_by_text=records_by_text)
    with measured() as cost:
        kumi.index(data / corpus_path(name), methods=["braid"])
    print(f"{name}: indexed for braid in {cost.cpu:.1f} CPU s", flush=True)
    snapshot = stack.enter_context(kumi.snapshot())
    return build_examples(snapshot, list(draw_questions(snapshot) if name == TALKS else read_questions(data, name)))


def corpus_path(name: str) -> str:
    return "podcasts/kevin_scott_podcasts.jsonl" if name == TALKS else f"{SETS[name]}_corpus.jsonl"


def read_questions(data: Path, name: str) -> Iterator[EvalQuestion]:
    for row in read_rows(data / f"{SETS[name]}_questions.jsonl"):
        yield EvalQuestion(f"{name} {row['id']}", row["question"], gold=tuple(map(Gold, row["gold_passage_ids"])))


def draw_questions(snapshot: Snapshot) -> Iterator[EvalQuestion]:
    """Yield questions of random words from sentences of random chunks."""
    rng = Random(1)
    chunks = sorted(snapshot.table("chunks"), key=lambda chunk: chunk.id)
    for chunk in rng.sample(chunks, min(QUESTION_COUNT, len(chunks))):
        sentences = [text for start, end in split_sentences(chunk.text) if len(text := chunk.text[start:end]) > LETTERS]
        words = [word.strip(MARKS) for word in rng.choice(sentences or [chunk.text]).split() if subject_terms(word)]
        positions = sorted(rng.sample(range(len(words)), min(WORDS, len(words))))
        yield EvalQuestion(f"{TALKS} {chunk.id}", " ".join(words[i] for i in positions), gold=(Gold(chunk.id),))


def read_extracted(data: Path) -> dict[str, list[str]]:
    """Read the records that GPT-3.5 extracted from MuSiQue."""
    return {text_key(text): reply.splitlines()[:-1] for text, reply in openie(data / "replies").items()}


def question_share(id: str) -> float:
    return SHARES.get(id.partition(" ")[0], 1.0)


def recall_with_weights_of(
    tested: Sequence[FittingExample], others: Sequence[FittingExample], drop: Sequence[str], k: int
) -> list[float]:
    """Return the recall of each question with weights learned on others."""
    weights = learn_weights(others, drop=(*IDLE, *drop), question_weight=question_share)
    return [example.recall(weights, k) for example in tested]


def cross_validate(
    sets: Sets, name: str, tested: Sequence[FittingExample], drop: Sequence[str] = (), k: int = TOP_K
) -> list[float]:
    """Return the recall of each question with held-out weights."""
    others = [example for other, examples in sets.items() if other != name for example in examples]
    if name != TALKS:
        return recall_with_weights_of(tested, others, drop, k)
    halves = tested[::2], tested[1::2]  # no other set has such questions
    return [x for i in (0, 1) for x in recall_with_weights_of(halves[i], [*others, *halves[1 - i]], drop, k)]


def keyword_recall(example: FittingExample) -> float:
    """Return the recall@5 of keyword search."""
    top = top_ids(example.first_pass.rankings["words"], TOP_K)
    return fmean(any(example.overlaps(id, one) for id in top) for one in example.gold)


def format_cell(recalls: Sequence[float]) -> str:
    low, high = bootstrap_interval(recalls, [str(i) for i in range(len(recalls))])
    return f"{fmean(recalls):.3f} [{low:.2f}–{high:.2f}], {fmean(x == 1 for x in recalls):.2f}"


def print_table(sets: Sets, tested: Sets) -> None:
    print(f"\n| recall@5, all @5 | {' | '.join(tested)} |\n|---|{'---|' * len(tested)}")
    plain = [format_cell(list(map(keyword_recall, examples))) for examples in tested.values()]
    print(f"| plain words | {' | '.join(plain)} |", flush=True)
    for part, drop in PARTS.items():
        recalls = {name: cross_validate(sets, name.split()[0], examples, drop) for name, examples in tested.items()}
        print(f"| {part} | {' | '.join(map(format_cell, recalls.values()))} |", flush=True)
        if not drop:
            full_recalls = recalls
    deeper = (fmean(cross_validate(sets, name.split()[0], examples, k=DEEPER_K)) for name, examples in tested.items())
    print(f"| all of it, recall@{DEEPER_K} | {' | '.join(f'{x:.3f}' for x in deeper)} |", flush=True)
    for name in tested.keys() & FLOORS.keys():
        check_at_least(f"{name}: recall@5", fmean(full_recalls[name]), FLOORS[name][0])
        check_at_least(f"{name}: all @5", fmean(x == 1 for x in full_recalls[name]), FLOORS[name][1])
    for name in tested.keys() & BM25_FLOORS.keys():
        check_at_least(f"{name}: recall@5", round(fmean(full_recalls[name]), 3), BM25_FLOORS[name])


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--sets", default=",".join((*SETS, TALKS)))
    parser.add_argument("--extracted", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = read_options(parser, argv, sets=f"musique,jsquad,{TALKS}")
    with ExitStack() as stack:
        sets = {name: open_examples(stack, options.data, name) for name in options.sets.split(",")}
        if options.write:
            weights = learn_weights(
                [e for examples in sets.values() for e in examples], drop=IDLE, question_weight=question_share
            )
            WEIGHTS_PATH.write_text(json.dumps(weights, indent=2) + "\n", encoding="utf-8")
        if options.extracted:
            label = "musique by GPT-3.5"
            print_table(sets, {label: open_examples(stack, options.data, "musique", read_extracted(options.data))})
        print_table(sets, sets)


if __name__ == "__main__":
    main()
