"""questions whose answer has a known place -> how often the excerpts of an answer without a model show that place.

Data: DATA/japanese, DATA/chinese, DATA/ordinary (finance, pubmed, chatlogs), the single steps of the questions of
DATA/multihop (musique), as far as they exist. For each set: the
share of the questions whose answer is in the first excerpt, and in any; with weights of features learned on the other
sets, and with those of the package. Then how many of the right first excerpts are called `answered`, and how many
questions are still called `answered` if the passages with the answer are hidden. A last part asks the questions of
DATA/asked of indexes over examples/, podcasts and JSQuAD: the words of a good answer, and the status.
--learn prints the weights learned on all sets, as multiples of the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
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
from kumihimo.evaluate.weight_fitting import fit_choice
from kumihimo.generation.quoting import judge_excerpts
from kumihimo.generation.quoting.answer_kinds import AnswerRules
from kumihimo.generation.quoting.excerpts import WEIGHTS, Candidate, Excerpt, Features, find_candidates, select_excerpts
from kumihimo.llm.local_embedder import LocalEmbedder
from kumihimo.text.question import ParsedQuestion

SETS = ("jsquad", "drcd", "finance", "pubmed", "chatlogs", "musique")
ASKED_CORPORA = {
    "examples": "examples",
    "podcasts": "podcasts/kevin_scott_podcasts.jsonl",
    "jsquad": "japanese/jsquad_valid_corpus.jsonl",
}
SET_BY_HAND = ("definition",)  # no question of these sets asks for one
SET_WEIGHT = 200  # of the questions of a set together
ASKED, FIRST = 18, 14  # of 22

Place = tuple[str, int, int]  # the end of a uri, start, end


Candidates = list[tuple[Candidate, Features]]


@dataclass(frozen=True)
class Case:
    """A question, the places of its answer, and its candidates.

    hidden: the candidates without the passages that hold the answer.
    """

    question: AnswerRules
    places: Sequence[Place]
    candidates: Candidates
    hidden: Candidates

    def is_shown(self, excerpt: Excerpt) -> bool:
        """Return whether an excerpt shows the answer."""
        span = excerpt.span
        return any(
            span.uri.endswith(uri) and span.start <= start and end <= span.end for uri, start, end in self.places
        )

    def is_gold(self, candidate: Candidate) -> bool:
        """Return whether the sentence of a candidate has a part of the answer."""
        span = candidate.excerpt.span
        sentence_start = span.start + max(0, span.text.find(candidate.sentence))
        sentence_end = sentence_start + len(candidate.sentence)
        return any(
            span.uri.endswith(uri) and sentence_start < end and start < sentence_end for uri, start, end in self.places
        )


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


def read_cases(snapshot: Snapshot, places: Mapping[str, Sequence[Place]]) -> list[Case]:
    """Return the questions with the candidates in the evidence of `braid`."""
    reader, embed, cases = snapshot.tracer, LocalEmbedder(), []

    def has_answer(item: Evidence, answer_places: Sequence[Place]) -> bool:
        return any(
            span.uri.endswith(uri) and span.start < end and start < span.end
            for span in reader.spans(item)
            for uri, start, end in answer_places
        )

    for text, answer_places in places.items():
        question, context = AnswerRules(ParsedQuestion(text)), snapshot.retrieve(text)
        rest = Context(tuple(item for item in context if not has_answer(item, answer_places)))
        candidates, hidden = (find_candidates(question, found, reader, embed) for found in (context, rest))
        cases.append(Case(question, answer_places, candidates, hidden))
    return cases


def learn(sets: Iterable[Sequence[Case]], names: Sequence[str]) -> dict[str, float]:
    """Return weights that make the sentences with the answer likelier than the others of their question.

    Each set weighs the same. Too few questions leave the weights of the package.
    """
    rows = []
    for cases in sets:
        for case in cases:
            gold = {str(i) for i, (candidate, _) in enumerate(case.candidates) if case.is_gold(candidate)}
            if gold:
                features = {str(i): row for i, (_, row) in enumerate(case.candidates)}
                rows.append((features, gold.__contains__, SET_WEIGHT / len(cases)))
    weights = fit_choice(rows, names)
    if not weights[names[0]]:
        return dict(WEIGHTS)
    return {name: weights[name] / weights[names[0]] for name in names} | {name: WEIGHTS[name] for name in SET_BY_HAND}


def shown_shares(cases: Sequence[Case], weights: Mapping[str, float]) -> tuple[float, float]:
    """Return the shares of questions whose answer is in the first excerpt, and in any."""
    found = [[case.is_shown(e) for e in select_excerpts(case.question, case.candidates, weights)] for case in cases]
    return fmean(shown[:1] == [True] for shown in found), fmean(map(any, found))


def answered_shares(cases: Sequence[Case]) -> tuple[float, float]:
    """Return how many right first excerpts are called `answered`, and how many questions without their passages."""
    right, hidden = [], []
    for case in cases:
        excerpts = select_excerpts(case.question, case.candidates)
        if excerpts and case.is_shown(excerpts[0]):
            right.append(judge_excerpts(excerpts) == "answered")
        hidden.append(judge_excerpts(select_excerpts(case.question, case.hidden)) == "answered")
    return fmean(right or [0]), fmean(hidden)


def measure_sets(data: Path, cache: Path | None, show_weights: bool) -> None:
    """Print the table of all sets."""
    by_set: dict[str, list[Case]] = {}
    for name in SETS:
        if (data / f"{STEMS[name]}_questions.jsonl").exists():
            with ExitStack() as stack:
                snapshot, _ = open_set(stack, data, name, cache)
                if places := read_places(data, name):
                    by_set[name] = read_cases(snapshot, places)
    names = [name for name in WEIGHTS if name not in SET_BY_HAND]
    print(f"{'':10} {'n':>4} {'first':>7} {'any':>7} {'first, own':>11} {'any, own':>9} {'answered':>9} {'hidden':>7}")
    for name, cases in by_set.items():
        others = [its_cases for other, its_cases in by_set.items() if other != name]
        unseen = learn(others, names) if others else dict(WEIGHTS)
        figures = (*shown_shares(cases, unseen), *shown_shares(cases, WEIGHTS), *answered_shares(cases))
        print(f"{name:10} {len(cases):4} " + "{:7.3f} {:7.3f} {:11.3f} {:9.3f} {:9.3f} {:7.3f}".format(*figures))
    if show_weights:
        print(learn(by_set.values(), names))


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
                parts = [part.text.casefold() for part in answer.parts if not part.text.endswith((":", "："))]
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
    parser.add_argument("--learn", action="store_true", help="print the weights learned on all sets")
    options = read_options(parser, argv)
    measure_sets(options.data, options.index_cache, options.learn)
    if (options.data / "asked/questions.jsonl").exists():
        measure_asked(options.data)


if __name__ == "__main__":
    run_benchmark(main)
