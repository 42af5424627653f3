"""125 questions, 6 systems, 4 criteria, judged whole by an instant model: calls, seconds, memory; killed and resumed.

15 pairs x 125 x 4 x 6 calls, each system against itself, and a second judge on a tenth: through the command, memo and
files. No data.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any
from unittest.mock import patch

from benchmarks.meter import bound, measured
from benchmarks.options import bench_parser, read_options
from kumihimo.cli import main as cli
from kumihimo.core.usage import Usage
from kumihimo.evaluate.records import AnswerSource, EvalQuestion, SystemAnswer
from kumihimo.evaluate.study import Study
from kumihimo.llm.protocols import Chat
from kumihimo.llm.registry import ModelRegistry
from kumihimo.testing.fake_models import FakeChat

SYSTEMS = ("bm25", "naive", "global:C0", "global:C2", "light:hybrid", "drift")
SENTENCE = "the harbour keeps a ledger of tides, cords, sailings and of whoever mended the breakwater in which year"
WORDS = SENTENCE.split()
LENGTH = 400  # words of an answer
WORKERS = 8
PAIRS = len(SYSTEMS) * (len(SYSTEMS) - 1) // 2


def made(folder: Path, questions: int) -> Study:
    """A study of so many questions, 5 of a task, answered twice by each system."""
    study = Study(folder / "eval")
    asked = [
        EvalQuestion(f"q{i}", f"What is said of {WORDS[i % 18]} {i}?", task=f"task {i // 5}") for i in range(questions)
    ]
    study.write("questions", asked)
    for system in SYSTEMS:
        for generation in (0, 1):
            rng = random.Random(f"{system} {generation}")
            rows = [_answered(system, question, generation, rng) for question in asked]
            study.write_answers(system, generation, rows)
    return study


def _answered(system: str, question: EvalQuestion, generation: int, rng: random.Random) -> SystemAnswer:
    text = " ".join(rng.choices(WORDS, k=rng.randrange(LENGTH // 2, LENGTH * 3 // 2)))
    found = (AnswerSource(1, text[:200]),)
    return SystemAnswer(
        system, question.id, f"## {system}\n\n{text} [1]", found, found, Usage(1, 900, 0, 300), 1.0, "m", generation
    )


class Forgetful(Counter[str]):
    """Counts nothing: 70,000 prompts would be most of the memory."""

    def __setitem__(self, prompt: str, count: int) -> None: ...


class Instant(ModelRegistry):
    """A judge that has made up its mind before it is asked; each reply is told to a file, as one is charged."""

    charged: Path
    _lock = Lock()

    def chat(self, scope: str) -> Chat | None:
        return FakeChat(
            lambda conversation: self.answer(scope, conversation),
            scope,
            workers=WORKERS,
            join_messages=True,
            prompt_counts=Forgetful(),
        )

    def answer(self, scope: str, conversation: str) -> str:
        seen = blake2b(f"{scope} {conversation}".encode(), digest_size=8).hexdigest()
        with self._lock, self.charged.open("a", encoding="ascii") as bill:
            bill.write(f"{seen}\n")
        choice = ("first", "second", "tie")[int(seen[:6], 16) % 3]
        return json.dumps({"reasoning": f"By this criterion, {SENTENCE}. " * 3, "choice": choice})


def judge(folder: Path) -> None:
    """`kumi eval judge` in that folder, with that judge in place of a server."""
    Instant.charged = folder / "charged"
    words = ["eval", "judge", "--yes", "--json", "--study", str(folder / "eval"), "--index", str(folder / ".kumi")]
    words += ["--set", "chat.model=m", "--set", "second_judge.model=n"]
    with patch.object(sys, "argv", ["kumi", *words]), patch("kumihimo.app.facade.ModelRegistry", Instant):
        cli.main()


def charged(folder: Path) -> int:
    path = folder / "charged"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def run(folder: Path) -> dict[str, Any]:
    """Judge it in a process of its own; what it printed, and what it took."""
    command = [sys.executable, "-m", "benchmarks.judging", "--judge", str(folder)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    printed, _, cost = said.rpartition("\nCOST ")
    return {**json.loads(printed), "cost": json.loads(cost)}


def one(folder: Path) -> None:
    with measured() as cost:
        try:
            judge(folder)
        except SystemExit as stop:
            if stop.code:
                raise
    print("\nCOST", json.dumps({"cpu": cost.cpu, "wall": cost.wall, "peak": cost.peak}))


def killed(folder: Path, after: int) -> int:
    """Kill a run when that many replies were charged for; how many were in the end."""
    command = [sys.executable, "-m", "benchmarks.judging", "--judge", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while charged(folder) < after:
            if process.poll() is not None:
                sys.exit("it was done before it could be killed")
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
    return charged(folder)


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--questions", type=int, default=125)
    parser.add_argument("--judge", type=Path, help="only judge the study of this folder")
    options = read_options(parser, argv, questions=2)
    if options.judge:
        one(options.judge)
        return
    wanted = (PAIRS + len(SYSTEMS)) * options.questions * 4 * 6
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held)
        study = made(folder, options.questions)
        before = killed(folder, wanted // 2)
        written = study.has("verdicts")
        found = run(folder)
        total = found["rows"]["ok"]
        print(f"{wanted:,} calls, {total - wanted:,} of the second judge; {before:,} before it was killed")
        bound("verdicts of a run that was killed", float(written), 0)
        bound("calls charged for again", charged(folder) - total, WORKERS)
        again = run(folder)
        bound("calls of a run after that", charged(folder) - total, WORKERS)
        print(f"  remembered, all of it: {again['cost']['wall']:.0f} s, {again['cost']['peak']:.0f} MB peak")
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held)
        made(folder, options.questions)
        cost = run(folder)["cost"]
        print(f"  whole: {cost['cpu']:.0f} CPU s, {1000 * cost['wall'] / total:.2f} ms a call")
        bound("wall", cost["wall"], 180, " s")
        bound("peak", cost["peak"], 500, " MB")
        print(f"  files: {study_size(folder):.0f} MB")


def study_size(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


if __name__ == "__main__":
    main()
