"""questions whose answer has a known place -> how often the passages of an answer without a model show that place.

Data: DATA/japanese, DATA/chinese, DATA/ordinary (finance, pubmed, chatlogs), the single steps of the questions of
DATA/multihop (musique), as far as they exist. For each set: the share of the questions whose answer is in the first
passage, in one of the three, and in a window of the evidence at all. Then how many first passages are called
`answered`, how many of these are right, and how many questions are still called `answered` if the evidence with the
answer is hidden. --weights also shows the shares for other weights of the rank of the evidence, on the other sets and
on this one. A last part asks the questions of DATA/asked of indexes over examples/, podcasts and JSQuAD: the words of a
good answer, and the status.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.meter import check_at_least, check_at_most
from benchmarks.options import bench_parser, read_options, run_benchmark
from benchmarks.passages import read_rows
from benchmarks.question_sets import STEMS, open_set
from kumihimo import Kumihimo
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.core.context import Context, Evidence
from kumihimo.core.spans import Span
from kumihimo.generation.quoting.ranking import RANK, Passage, find_windows, select_passages
from kumihimo.text.question import ParsedQuestion

SETS = ("jsquad", "drcd", "finance", "pubmed", "chatlogs", "musique")
ASKED_CORPORA = {
    "examples": "examples",
    "podcasts": "podcasts/kevin_scott_podcasts.jsonl",
    "jsquad": "japanese/jsquad_valid_corpus.jsonl",
}
ASKED, FIRST = 18, 14  # of 22
WEIGHTS = (0.0, 0.4, 0.8, RANK, 1.6, 2.4, 4.0)  # of the rank, to compare

Place = tuple[str, int, int]  # the end of a uri, start, end


@dataclass(frozen=True)
class Case:
    """A question, the places of its answer, and the windows of its evidence.

    hidden: the windows without those of evidence that holds the answer.
    """

    places: Sequence[Place]
    windows: Sequence[Passage]
    hidden: Sequence[Passage]

    def is_shown(self, passage: Passage) -> bool:
        """Return whether a passage shows the answer."""
        span = passage.span
        return any(
            span.uri.endswith(uri) and span.start <= start and end <= span.end for uri, start, end in self.places
        )

    def shown(self, weight: float = RANK) -> list[bool]:
        """Return for each passage whether it shows the answer."""
        windows = [replace(window, score=window.match + weight / (2 + window.rank)) for window in self.windows]
        return list(map(self.is_shown, select_passages(windows)))


def read_places(data: Path, name: str) -> dict[str, list[Place]]:
    """Return the places of the answer to each question."""
    places: dict[str, list[Place]] = {}
    texts = {row["id"]: row["text"] for row in read_rows(data / f"{STEMS[name]}_corpus.jsonl")}
    for row in read_rows(data / f"{STEMS[name]}_questions.jsonl"):
        if "question_decomposition" in row:
            places |= _step_places(row, texts)
        elif "gold" in row:
            places[row["question"]] = [(uri, start, end) for uri, start, end in row["gold"]]
        elif row["answers"] and (start := texts[row["gold_passage_ids"][0]].find(row["answers"][0])) >= 0:
            places[row["question"]] = [(f"#{row['gold_passage_ids'][0]}", start, start + len(row["answers"][0]))]
    return places


def _step_places(row: Mapping[str, Any], texts: Mapping[str, str]) -> Iterator[tuple[str, list[Place]]]:
    """Yield the questions for the single steps of a question, with the places of their answers."""
    answers: list[str] = []
    gold = {id: texts[id].casefold() for id in row["gold_passage_ids"]}
    for step in row["question_decomposition"]:
        question = re.sub(r"#(\d)", lambda match: answers[int(match[1]) - 1], step["question"])
        answers.append(step["answer"])
        answer = step["answer"].casefold()
        found = [(f"#{id}", text.find(answer), text.find(answer) + len(answer)) for id, text in gold.items()]
        if (places := [place for place in found if place[1] >= 0]) and ">>" not in question:
            yield question, places  # without `Gisvi >> place of birth`


def read_cases(snapshot: Snapshot, places: Mapping[str, Sequence[Place]]) -> Iterator[Case]:
    """Yield the questions with the windows of the evidence of `braid`."""
    reader, index = snapshot.tracer, snapshot.indexed_words()

    def has_answer(item: Evidence, answer_places: Sequence[Place]) -> bool:
        return any(_meets(span, place) for span in reader.spans(item) for place in answer_places)

    for text, answer_places in places.items():
        asked, context = ParsedQuestion(text), snapshot.retrieve(text)
        rest = Context(tuple(item for item in context if not has_answer(item, answer_places)))
        windows, hidden = (list(find_windows(asked, found, reader, index)) for found in (context, rest))
        yield Case(answer_places, windows, hidden)


def _meets(span: Span, place: Place) -> bool:
    uri, start, end = place
    return span.uri.endswith(uri) and span.start < end and start < span.end


def shares(cases: Sequence[Case], weight: float = RANK) -> tuple[float, float]:
    """Return the shares of questions whose answer is in the first passage, and in any."""
    shown = [case.shown(weight) for case in cases]
    return fmean(found[:1] == [True] for found in shown), fmean(map(any, shown))


def answered_figures(cases: Sequence[Case]) -> tuple[int, float, int]:
    """Return how many first passages answer, the share that is right, and how many answer without their evidence."""
    first = [(case, selected[0]) for case in cases if (selected := select_passages(case.windows))]
    right = [case.is_shown(passage) for case, passage in first if passage.answers]
    hidden = [selected[0].answers for case in cases if (selected := select_passages(case.hidden))]
    return len(right), fmean(right or [False]), sum(hidden)


def measure_sets(data: Path, cache: Path | None, show_weights: bool) -> None:
    """Print the table of all sets."""
    by_set: dict[str, list[Case]] = {}
    for name in SETS:
        if (data / f"{STEMS[name]}_questions.jsonl").exists():
            with ExitStack() as stack:
                snapshot, _ = open_set(stack, data, name, cache)
                if places := read_places(data, name):
                    by_set[name] = list(read_cases(snapshot, places))
    print(f"{'':10} {'n':>4} {'first':>7} {'three':>7} {'at all':>7} {'answered':>9} {'right':>7} {'hidden':>7}")
    for name, cases in by_set.items():
        at_all = fmean(any(map(case.is_shown, case.windows)) for case in cases)
        figures = (*shares(cases), at_all, *answered_figures(cases))
        print(f"{name:10} {len(cases):4} " + "{:7.3f} {:7.3f} {:7.3f} {:9} {:7.3f} {:7}".format(*figures))
    for name in by_set if show_weights else ():
        for weight in WEIGHTS:
            others = [shares(cases, weight) for other, cases in by_set.items() if other != name]
            unseen = (
                fmean(first for first, _ in others or [(0.0, 0.0)]),
                fmean(any_ for _, any_ in others or [(0.0, 0.0)]),
            )
            by_weight = weight, *unseen, *shares(by_set[name], weight)
            print("{:10} rank {:4.2f}: others {:.3f} {:.3f}, own {:.3f} {:.3f}".format(name, *by_weight))


def measure_asked(data: Path) -> None:
    """Print and check how the questions of DATA/asked are answered."""
    rows = list(read_rows(data / "asked/questions.jsonl"))
    first, shown, wrong = [], [], []
    with ExitStack() as stack:
        for name, path in ASKED_CORPORA.items():
            kumi = stack.enter_context(Kumihimo.open(Path(stack.enter_context(TemporaryDirectory())) / ".kumi"))
            kumi.index(Path(path) if name == "examples" else data / path)
            for row in (row for row in rows if row["index"] == name):
                answer = kumi.ask(row["question"])
                parts = [" ".join(part.text.casefold().split()) for part in answer.parts if part.kind != "note"]
                found = [any(" ".join(word.casefold().split()) in part for word in row["must"]) for part in parts]
                if row["must"]:
                    first.append(found[:1] == [True])
                    shown.append(any(found))
                else:
                    wrong.append(answer.status == "answered")
                place = str(found.index(True) + 1) if any(found) else "-"
                print(f"{answer.status:9} {place if row['must'] else '':2} {row['question']}")
    check_at_least("questions answered", sum(shown), ASKED)
    check_at_least("with the words in the first excerpt", sum(first), FIRST)
    check_at_most("absent facts called answered", sum(wrong), 0)


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--index-cache", type=Path, help="a folder that keeps the indexes for later runs")
    parser.add_argument("--weights", action="store_true", help="compare weights of the rank")
    options = read_options(parser, argv)
    measure_sets(options.data, options.index_cache, options.weights)
    if (options.data / "asked/questions.jsonl").exists():
        measure_asked(options.data)


if __name__ == "__main__":
    run_benchmark(main)
