"""questions with gold passages -> a sample, and the share of gold passages that each prompt for an answer holds.

The server keeps the prompts, so no library has to say what it found: a passage counts where its first letters stand in
the prompt, in the order of the prompt.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.passages import read_rows
from benchmarks.peers.extraction import passage_key, text_letters
from kumihimo.evaluate.statistics import bootstrap_interval

STEM = "multihop/musique_train100"
K = 5


@dataclass(frozen=True, slots=True)
class Sample:
    """Questions with their gold passages, among distractors drawn from the other passages of the set."""

    questions: list[dict[str, Any]]
    documents: list[list[str]]  # id, title and text
    distractors: int


def draw_sample(data: Path, questions: int, passages: int) -> Sample:
    """Return a sample, the same at each run."""
    rng = random.Random(1)
    rows = list(read_rows(data / f"{STEM}_questions.jsonl"))
    corpus = {row["id"]: f"{row['title']}\n{row['text']}" for row in read_rows(data / f"{STEM}_corpus.jsonl")}
    drawn = rng.sample(rows, min(questions, len(rows)))
    gold = sorted({id for row in drawn for id in row["gold_passage_ids"]})
    rest = sorted(corpus.keys() - set(gold))
    distractors = rng.sample(rest, min(max(0, passages - len(gold)), len(rest)))
    return Sample(drawn, [[id, corpus[id]] for id in sorted([*gold, *distractors])], len(distractors))


def find_passages(prompt: str, documents: Sequence[Sequence[str]]) -> list[str]:
    """Return the ids of the passages that a prompt quotes, in the order of the prompt."""
    letters = text_letters(prompt.replace("\\n", "\n"))
    places = {id: letters.find(passage_key(text)) for id, text in documents}
    return sorted((id for id, place in places.items() if place >= 0), key=lambda id: places[id])


def measure(sample: Sample, prompts: Sequence[str]) -> dict[str, Any]:
    """Return the recall of the prompts with its 95 % interval; a question without a prompt counts as 0."""
    of_question = {row["id"]: _find_prompt(row["question"], prompts) for row in sample.questions}
    found = {id: find_passages(prompt, sample.documents) for id, prompt in of_question.items()}
    first = [_share(row, found[row["id"]][:K]) for row in sample.questions]
    low, high = bootstrap_interval(first, list(found))
    return {
        "recall@5": mean(first),
        "low": low,
        "high": high,
        "recall": mean(_share(row, found[row["id"]]) for row in sample.questions),
        "passages": mean(len(ids) for ids in found.values()),
        "prompts": sum(map(bool, of_question.values())),
    }


def _find_prompt(question: str, prompts: Sequence[str]) -> str:
    return next((prompt for prompt in prompts if question in prompt), "")


def _share(row: Mapping[str, Any], ids: Sequence[str]) -> float:
    gold = set(row["gold_passage_ids"])
    return len(gold & set(ids)) / len(gold)
