"""podcasts, three questions, a stub model -> calls and tokens of a question by method, and CPU seconds of ours.

Data: DATA/podcasts. The stub model answers at once with replies of realistic length; tokens are those of the built-in
tokenizer; the call that writes the answer counts. Prints a Markdown table, means over the questions: calls, prompt
tokens, completion tokens, rows of evidence, CPU seconds without the model.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.instant import InstantRegistry, count_tokens, use_instant_model
from benchmarks.meter import check_at_most
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo import Kumihimo
from kumihimo.methods import METHODS

QUESTIONS = (
    "What do the speakers hope, and what do they fear, of machines that learn?",
    "How did Kevin Scott and Jacob Collier come to music and to computers?",
    "Which advice is given to young engineers who want to found a company?",
)
Settings = dict[str, Any]
VARIANTS: dict[str, list[Settings]] = {  # methods measured with several settings
    "naive": [{}, {"words": False}],
    "rq": [{"depth": 1}, {"depth": 2}],
    "global": [{"level": 0}, {"level": 1}, {"level": 2}, {"dynamic": True}],
    "light": [{"mode": mode} for mode in ("hybrid", "low", "high", "mix")] + [{"source": False}],
}
PROMPT_TOKENS = {"local": 9900, "light": 8100}  # at most; without packing the sources 16,500 and 13,600
CALLS = {"bm25": 1, "naive": 1, "local": 1, "hyde": 2, "light": 2}  # with that of the answer


@dataclass(frozen=True, slots=True)
class QuestionCost:
    """The cost of one question."""

    calls: int
    prompt: int  # tokens
    completion: int
    rows: int  # of evidence
    seconds: float  # of CPU, without the model


def method_settings(methods: Sequence[str]) -> Iterator[tuple[str, Settings]]:
    """Yield each method with each of its settings."""
    for method in methods:
        for settings in VARIANTS.get(method, [{}]):
            yield method, settings


def measure_question(home: Path, cache: Path, question: str, method: str, settings: Settings) -> QuestionCost:
    """Return the cost of one question with an empty cache."""
    with Kumihimo.open(home, cache=cache) as kumi:
        model = InstantRegistry(kumi.models.settings, kumi.models.cache)
        kumi.models = model
        kumi.retrieve("Who?", "naive")  # load the embedder, which is not measured
        start = time.process_time()
        answer = kumi.ask(question, method, **settings)
        seconds = time.process_time() - start - sum(model.cpu_seconds)
    prompts = model.prompt_counts
    return QuestionCost(
        calls=sum(prompts.values()),
        prompt=sum(n * count_tokens(prompt) for prompt, n in prompts.items()),
        completion=sum(n * count_tokens(model.answer(prompt)) for prompt, n in prompts.items()),
        rows=len(answer.context),
        seconds=seconds,
    )


def print_table(home: Path, methods: Sequence[str], questions: Sequence[str] = QUESTIONS) -> None:
    """Print the table, a row for each method and settings."""
    print("| method | calls | prompt tokens | completion tokens | rows of evidence | CPU s without the model |")
    print("|---|---|---|---|---|---|")
    prompts: list[tuple[str, str, float]] = []
    for method, settings in method_settings(methods):
        with TemporaryDirectory() as caches:
            costs = [
                measure_question(home, Path(caches, f"{n}.db"), q, method, settings) for n, q in enumerate(questions)
            ]
        label = "".join(f", `{name}={str(value).lower()}`" for name, value in settings.items())
        cells = [
            f"{mean(getattr(cost, name) for cost in costs):,.0f}" for name in ("calls", "prompt", "completion", "rows")
        ]
        print(f"| `{method}`{label} | {' | '.join(cells)} | {mean(cost.seconds for cost in costs):.3f} |", flush=True)
        if method in CALLS:
            assert {cost.calls for cost in costs} == {CALLS[method]}, (method, settings, costs)
        prompts.append((method, label, mean(cost.prompt for cost in costs)))
    print()
    for method, label, tokens in prompts:
        if method in PROMPT_TOKENS:
            check_at_most(f"{method}{label}, prompt tokens", tokens, PROMPT_TOKENS[method])


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="share of the podcasts")
    parser.add_argument("--methods", default=",".join(METHODS))
    options = read_options(parser, argv)
    methods = options.methods.split(",")
    lines = (
        (options.data / "podcasts" / "kevin_scott_podcasts.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    )
    with TemporaryDirectory() as folder:
        source, home = Path(folder, "podcasts.jsonl"), Path(folder, ".kumi")
        source.write_text("".join(lines[: int(options.share * len(lines))]), encoding="utf-8")
        with Kumihimo.open(home) as kumi:
            use_instant_model(kumi, source)
            built = kumi.index(source, methods=["naive", *methods])
        counts = ", ".join(
            f"{built.rows.get(name, 0):,} {name}" for name in ("chunks", "entities", "relations", "reports")
        )
        print(f"{counts}; means of {len(QUESTIONS)} questions\n")
        print_table(home, methods, QUESTIONS[:1] if options.quick else QUESTIONS)


if __name__ == "__main__":
    run_benchmark(main)
