"""What a question asks of the model, by method: calls and tokens over the podcasts, and our own seconds.

By a model that answers at once, with replies as long as real ones; tokens are those of the built-in tokenizer; the call
that writes the answer is counted. Prints a table of Markdown.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.instant import Instant, connected, tokens
from benchmarks.options import bench_parser, read_options
from kumihimo import Kumihimo
from kumihimo.methods import METHODS

QUESTIONS = (
    "What do the speakers hope, and what do they fear, of machines that learn?",
    "How did Kevin Scott and Jacob Collier come to music and to computers?",
    "Which advice is given to young engineers who want to found a company?",
)
Settings = dict[str, Any]
WAYS: dict[str, list[Settings]] = {  # those beside the defaults
    "naive": [{}, {"words": False}],
    "rq": [{"depth": 1}, {"depth": 2}],
    "global": [{"level": 0}, {"level": 1}, {"level": 2}, {"dynamic": True}],
    "light": [{"mode": mode} for mode in ("hybrid", "low", "high", "mix")] + [{"source": False}],
}
CALLS = {"bm25": 1, "naive": 1, "local": 1, "hyde": 2, "light": 2}  # the answer's included


@dataclass(frozen=True, slots=True)
class Asked:
    """What one question took."""

    calls: int
    prompt: int  # tokens
    completion: int
    rows: int  # of evidence
    seconds: float  # of CPU, without the model


def ways() -> Iterator[tuple[str, Settings]]:
    """Every method, in each way that it is asked here."""
    for method in METHODS:
        for settings in WAYS.get(method, [{}]):
            yield method, settings


def asked(home: Path, memo: Path, question: str, method: str, settings: Settings) -> Asked:
    """One question, with nothing remembered."""
    with Kumihimo.open(home, cache=memo) as kumi:
        model = Instant(kumi.models.settings, kumi.models.cache)
        kumi.models = model
        kumi.retrieve("Who?", "naive")  # loads the embedder
        began = time.process_time()
        answer = kumi.ask(question, method, **settings)
        spent = time.process_time() - began - sum(model.spent)
    prompts = model.asked
    return Asked(
        calls=sum(prompts.values()),
        prompt=sum(n * tokens(prompt) for prompt, n in prompts.items()),
        completion=sum(n * tokens(model.answer(prompt)) for prompt, n in prompts.items()),
        rows=len(answer.context),
        seconds=spent,
    )


def table(home: Path, questions: Sequence[str] = QUESTIONS) -> None:
    """Print a line for each way to ask, means over the questions."""
    print("| method | calls | prompt tokens | completion tokens | rows of evidence | CPU s of our own |")
    print("|---|---|---|---|---|---|")
    for method, settings in ways():
        with TemporaryDirectory() as memos:
            found = [asked(home, Path(memos, f"{n}.db"), q, method, settings) for n, q in enumerate(questions)]
        said = "".join(f", `{name}={str(value).lower()}`" for name, value in settings.items())
        told = [
            f"{mean(getattr(one, name) for one in found):,.0f}" for name in ("calls", "prompt", "completion", "rows")
        ]
        print(f"| `{method}`{said} | {' | '.join(told)} | {mean(one.seconds for one in found):.3f} |", flush=True)
        if method in CALLS:
            assert {one.calls for one in found} == {CALLS[method]}, (method, settings, found)


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the podcasts")
    given = read_options(parser, argv)
    lines = (
        (given.data / "podcasts" / "kevin_scott_podcasts.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    )
    with TemporaryDirectory() as folder:
        source, home = Path(folder, "podcasts.jsonl"), Path(folder, ".kumi")
        source.write_text("".join(lines[: int(given.share * len(lines))]), encoding="utf-8")
        with Kumihimo.open(home) as kumi:
            connected(kumi, source)
            built = kumi.index(source, methods=list(METHODS))
        told = ", ".join(f"{built.rows[name]:,} {name}" for name in ("chunks", "entities", "relations", "reports"))
        print(f"{told}; means of {len(QUESTIONS)} questions\n")
        table(home)


if __name__ == "__main__":
    main()
