"""A number of questions -> a study of six systems: all files, generated from a seed.

The judge prefers some of the systems. As a program: `python -m tests.evaluate.factories_study FOLDER [QUESTIONS]`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from pathlib import Path
from random import Random

from kumihimo.core.usage import Usage
from kumihimo.evaluate.records import (
    AnswerClaim,
    AnswerSource,
    EvalQuestion,
    Gold,
    Rating,
    Score,
    SourceSpan,
    SystemAnswer,
    Verdict,
)
from kumihimo.evaluate.study import Study

GOOD = {"global:C0": 0.63, "global:C2": 0.68, "mapreduce": 0.55, "light:hybrid": 0.3, "naive": 0.05, "bm25": -0.05}
COST = {
    "global:C0": 4_000,
    "global:C2": 60_000,
    "mapreduce": 130_000,
    "light:hybrid": 9_000,
    "naive": 3_200,
    "bm25": 3_000,
}
CRITERIA = ("comprehensiveness", "diversity", "empowerment", "directness")
WORDS = [
    "the",
    "harbour",
    "fund",
    "paid",
    "for",
    "nets",
    "boats",
    "winter",
    "repairs",
    "letters",
    "minutes",
    "accounts",
    "tide",
    "crew",
    "council",
    "loans",
]
HARMFUL = '</script><img src=x onerror="alert(1)"> & "quoted" <b>'
JAPANESE = "港の基金は冬の修理に支払われました。議事録によると、網と船の費用は毎年増えています。[1]"


def build_study(
    folder: Path, questions: int = 10, *, seed: int = 7, words: int = 60, systems: Sequence[str] = tuple(GOOD)
) -> Study:
    """Write tasks of two questions each, answers of GOOD, verdicts in both orders, A/A of the first."""
    rng = Random(seed)
    study = Study(folder)
    question_rows = [_question(i) for i in range(questions)]
    study.write("questions", question_rows)
    for system, generation in product(systems, range(2)):
        if generation == 0 or system == systems[0]:
            rows = [_answer(rng, system, generation, q, i, words) for i, q in enumerate(question_rows)]
            study.write_answers(system, generation, rows)
    study.write("verdicts", _verdicts(rng, question_rows, systems))
    study.write("ratings", _ratings(rng, question_rows, systems))
    study.write("claims", _claims(rng, question_rows, systems))
    study.write("scores", _scores(rng, question_rows, systems))
    study.write("retrieval", _retrieval(rng, question_rows, systems))
    study.record_stage("run", systems=list(systems), model="a-model-of-7b", temperature=0)
    study.record_stage(
        "judge", protocol="debiased", model="another-model", prompts={"criteria.md": "4f1c8a"}, replicates=3
    )
    return study


def _question(i: int) -> EvalQuestion:
    text = f"Which themes run through the papers of year {i}? {HARMFUL if i == 1 else ''}".strip()
    if i == 2:
        text = "港の基金についてのおもな話題は何ですか。"
    return EvalQuestion(
        f"q{i:03}", text, persona=f"auditor {i // 10}", task=f"task {i // 2}", gold=(Gold("a.md", 0, 9),)
    )


def _answer_text(rng: Random, words: int) -> str:
    lines = [" ".join(rng.choices(WORDS, k=14)).capitalize() + f". [{n % 3 + 1}]" for n in range(max(1, words // 14))]
    return "\n\n".join(["## What they tell", *lines[:2], "\n".join(f"- **{line[:9]}** {line}" for line in lines[2:])])


def _answer(rng: Random, system: str, generation: int, q: EvalQuestion, i: int, words: int) -> SystemAnswer:
    size = int(COST[system] * rng.uniform(0.8, 1.2))
    calls = 1 + size // 8000
    usage = Usage(calls, size, 0, 400, size * 4e-7, size / 4000)
    if i == 3 and system == "bm25":
        return SystemAnswer(system, q.id, "", usage=usage, failed="the server gave no reply", generation=generation)
    text = {1: HARMFUL, 2: JAPANESE}.get(i, "") + _answer_text(rng, words)
    places = [SourceSpan(f"papers/{n}.md", 10 * n, 10 * n + 90, f"line {n + 1}") for n in range(3)]
    sources = tuple(
        AnswerSource(n + 1, " ".join(rng.choices(WORDS, k=30)), f"c{n}", "chunks", 0, (places[n],)) for n in range(3)
    )
    return SystemAnswer(
        system, q.id, text, sources, sources, usage, None if i % 7 == 0 else size / 4000, "m", generation
    )


def _verdicts(rng: Random, questions: list[EvalQuestion], systems: Sequence[str]) -> Iterator[Verdict]:
    pairs = [*combinations(systems, 2), (systems[0], systems[0])]
    for q, criterion, (a, b) in product(questions, CRITERIA, pairs):
        preference = GOOD[a] - GOOD[b] + rng.gauss(0, 0.5)
        preference = -0.5 * preference if criterion == "directness" else preference
        for replicate, first in product(range(3), ("a", "b")):
            noisy = preference + rng.gauss(0, 0.6) + (0.1 if first == "a" else -0.1)
            winner = "tie" if abs(noisy) < 0.2 else "a" if noisy > 0 else "b"
            reason = f"Answer {winner} names more of what was asked for, {' '.join(rng.choices(WORDS, k=40))}."
            ok = rng.random() > 0.005
            yield Verdict(
                "debiased", criterion, q.id, a, b, "a" if first == "a" else "b", replicate,
                winner if ok else "",  # type: ignore[arg-type]
                (HARMFUL if q.id == "q001" else "") + reason if ok else "", "ok" if ok else "invalid",
                "" if ok else "no JSON", judge="another-model",
            )  # fmt: skip
            if rng.random() < 0.1 and a != b:
                second = winner if rng.random() < 0.75 else "tie"
                yield Verdict(
                    "debiased", criterion, q.id, a, b, "a" if first == "a" else "b", replicate,
                    second,  # type: ignore[arg-type]
                    "So it is.", role="second_judge", judge="a-third-model",
                )  # fmt: skip


def _ratings(rng: Random, questions: list[EvalQuestion], systems: Sequence[str]) -> Iterator[Rating]:
    metrics = ("recall", "precision", "specificity", "breadth", "depth", "relevancy")
    for q, metric, (place, system) in product(questions, metrics, enumerate(systems, 1)):
        value = min(100.0, max(0.0, 60 + 20 * GOOD[system] + rng.gauss(0, 12)))
        yield Rating(
            "mk", metric, q.id, system, place, 0, round(value), "It covers what is asked.", judge="another-model"
        )


def _claims(rng: Random, questions: list[EvalQuestion], systems: Sequence[str]) -> Iterator[AnswerClaim]:
    for q, system in product(questions, systems):
        for n in range(max(1, int(8 + 6 * GOOD[system] + rng.gauss(0, 2)))):
            text = " ".join(rng.choices(WORDS, k=8))
            yield AnswerClaim(
                system, q.id, n // 2, text, rng.random() < 0.8, rng.random() < 0.9, round(rng.random() / 2, 2)
            )


def _scores(rng: Random, questions: list[EvalQuestion], systems: Sequence[str]) -> Iterator[Score]:
    for (i, q), system in product(enumerate(questions), systems):
        for name in ("faithfulness", "answer_correctness"):
            value = min(1.0, max(0.0, 0.7 + 0.2 * GOOD[system] + rng.gauss(0, 0.1)))
            undefined = i == 3 or (name == "answer_correctness" and i % 5 == 0)
            why = "no statements" if name == "faithfulness" else "no reference"
            yield Score(name, system, q.id, None if undefined else round(value, 3), why if undefined else "")


def _retrieval(rng: Random, questions: list[EvalQuestion], systems: Sequence[str]) -> Iterator[Score]:
    for (i, q), system, name in product(enumerate(questions), systems, ("recall@5", "recall@20", "rr", "ndcg@5")):
        value = min(1.0, max(0.0, 0.5 + 0.3 * GOOD[system] + rng.gauss(0, 0.2)))
        yield Score(name, system, q.id, None if i == 4 else round(value, 3), "no gold" if i == 4 else "")


if __name__ == "__main__":
    build_study(Path(sys.argv[1]), int((sys.argv[2:] or ["10"])[0]), words=600)
