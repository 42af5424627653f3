"""125 questions, 6 systems, 4 criteria, a stub judge -> calls, seconds and memory of a study, killed and resumed.

Data: none; the answers are generated. 15 pairs x 125 x 4 x 6 calls, each system against itself, and a second judge on a
tenth: through the command, the response cache and the files. First a run is killed half way, resumed and repeated; then
a whole run gives CPU seconds, ms a call, wall seconds, peak memory and the size of the files.
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

from benchmarks.meter import check_at_most, measured
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo.cli import main as cli
from kumihimo.core.usage import Usage
from kumihimo.evaluate.records import AnswerSource, EvalQuestion, SystemAnswer
from kumihimo.evaluate.study import Study
from kumihimo.llm.cached_llm import Chat
from kumihimo.llm.registry import ModelRegistry
from kumihimo.testing.fake_models import FakeChat

SYSTEMS = ("bm25", "naive", "global:C0", "global:C2", "light:hybrid", "drift")
SENTENCE = "the harbour keeps a ledger of tides, cords, sailings and of whoever mended the breakwater in which year"
WORDS = SENTENCE.split()
ANSWER_WORDS = 400  # on average
WORKERS = 8
PAIRS = len(SYSTEMS) * (len(SYSTEMS) - 1) // 2


def write_study(folder: Path, questions: int) -> Study:
    """Write a study: 5 questions a task, answered twice by each system."""
    study = Study(folder / "eval")
    eval_questions = [
        EvalQuestion(f"q{i}", f"What is said of {WORDS[i % 18]} {i}?", task=f"task {i // 5}") for i in range(questions)
    ]
    study.write("questions", eval_questions)
    for system in SYSTEMS:
        for generation in (0, 1):
            rng = random.Random(f"{system} {generation}")
            rows = [_make_answer(system, question, generation, rng) for question in eval_questions]
            study.write_answers(system, generation, rows)
    return study


def _make_answer(system: str, question: EvalQuestion, generation: int, rng: random.Random) -> SystemAnswer:
    text = " ".join(rng.choices(WORDS, k=rng.randrange(ANSWER_WORDS // 2, ANSWER_WORDS * 3 // 2)))
    sources = (AnswerSource(1, text[:200]),)
    return SystemAnswer(
        system, question.id, f"## {system}\n\n{text} [1]", sources, sources, Usage(1, 900, 0, 300), 1.0, "m", generation
    )


class NullCounter(Counter[str]):
    """A counter without entries: 70,000 prompts would be most of the memory."""

    def __setitem__(self, prompt: str, count: int) -> None: ...


class InstantJudge(ModelRegistry):
    """A judge that answers at once and writes a line to a file for each reply, as a bill would."""

    charge_file: Path
    _lock = Lock()

    def chat(self, scope: str) -> Chat | None:
        return FakeChat(
            lambda conversation: self.answer(scope, conversation),
            scope,
            workers=WORKERS,
            join_messages=True,
            prompt_counts=NullCounter(),
        )

    def answer(self, scope: str, conversation: str) -> str:
        digest = blake2b(f"{scope} {conversation}".encode(), digest_size=8).hexdigest()
        with self._lock, self.charge_file.open("a", encoding="ascii") as file:
            file.write(f"{digest}\n")
        choice = ("first", "second", "tie")[int(digest[:6], 16) % 3]
        return json.dumps({"reasoning": f"By this criterion, {SENTENCE}. " * 3, "choice": choice})


def judge(folder: Path) -> None:
    """Run `kumi eval judge` in that folder with the stub judge."""
    InstantJudge.charge_file = folder / "charged"
    arguments = ["eval", "judge", "--yes", "--json", "--study", str(folder / "eval"), "--index", str(folder / ".kumi")]
    arguments += ["--set", "chat.model=m", "--set", "second_judge.model=n"]
    with (
        patch.object(sys, "argv", ["kumi", *arguments]),
        patch("kumihimo.app.opened.open_index.ModelRegistry", InstantJudge),
    ):
        cli.main()


def count_charged(folder: Path) -> int:
    path = folder / "charged"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def run_judge(folder: Path) -> dict[str, Any]:
    """Judge in another process; return the output and the cost."""
    command = [sys.executable, "-m", "benchmarks.judging", "--judge", str(folder)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    printed, _, cost = output.rpartition("\nCOST ")
    return {**json.loads(printed), "cost": json.loads(cost)}


def judge_and_print_cost(folder: Path) -> None:
    with measured() as cost:
        try:
            judge(folder)
        except SystemExit as stop:
            if stop.code:
                raise
    print("\nCOST", json.dumps({"cpu": cost.cpu, "wall": cost.wall, "peak": cost.peak}))


def kill_run(folder: Path, after: int) -> int:
    """Kill a run after that many replies; return the replies charged."""
    command = [sys.executable, "-m", "benchmarks.judging", "--judge", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while count_charged(folder) < after:
            if process.poll() is not None:
                sys.exit("the run ended before it could be killed: raise --questions")
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
    return count_charged(folder)


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--questions", type=int, default=125)
    parser.add_argument("--judge", type=Path, help="only judge the study in this folder")
    options = read_options(parser, argv, questions=1)
    if options.judge:
        judge_and_print_cost(options.judge)
        return
    expected = (PAIRS + len(SYSTEMS)) * options.questions * 4 * 6
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        study = write_study(folder, options.questions)
        charged_before = kill_run(folder, expected // 2)
        has_verdicts = study.has("verdicts")
        resumed = run_judge(folder)
        total = resumed["rows"]["ok"]
        print(f"{expected:,} calls, {total - expected:,} of the second judge; killed after {charged_before:,}")
        check_at_most("verdicts written by the killed run", float(has_verdicts), 0)
        check_at_most("calls charged twice", count_charged(folder) - total, WORKERS)
        repeated = run_judge(folder)
        check_at_most("calls charged twice after another run", count_charged(folder) - total, WORKERS)
        print(f"  all from the cache: {repeated['cost']['wall']:.0f} s, {repeated['cost']['peak']:.0f} MB peak")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_study(folder, options.questions)
        cost = (repeated if options.quick else run_judge(folder))["cost"]
        print(f"  without interruption: {cost['cpu']:.0f} CPU s, {1000 * cost['wall'] / total:.2f} ms a call")
        check_at_most("wall", cost["wall"], 180, " s")
        check_at_most("peak", cost["peak"], 500, " MB")
        print(f"  files: {folder_mb(folder):.0f} MB")


def folder_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


if __name__ == "__main__":
    run_benchmark(main)
