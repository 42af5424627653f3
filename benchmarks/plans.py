"""a plan before anything was asked -> whether a build stays within it, step by step.

Builds: the examples and a made-up town by `tests/fake_graph_reader.py`, and podcasts (DATA/podcasts) by the stub model
of `benchmarks/instant.py`. Each is planned and built before anything was asked, or after a sample of its chunks; and
again with more documents. One line a build: whether its total lies within the plan, and how many of the calls, prompt
tokens, reply tokens and costs of its steps; then the others. Tokens are counted by the built-in tokenizer.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests import fake_graph_reader
from tests.laws.factories_town import sentences_of

from benchmarks.instant import InstantRegistry, count_tokens, use_instant_model
from benchmarks.meter import check_at_least
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo import Kumihimo
from kumihimo.app.opened.results import Built, Estimate, Plan
from kumihimo.core.usage import Usage
from kumihimo.llm.cached_llm import Chat
from kumihimo.llm.protocols import ChatRequest, Prices, Reply
from kumihimo.testing.fake_models import FakeChat

METHODS = ("local", "meta", "discourse")
GRAPH_METHODS = ("local",)  # the stub model has no replies for the others
PRICES = Prices(prompt=0.4, completion=1.6)
COUNTS = ("calls", "prompt_tokens", "completion_tokens", "cost")
REPOSITORY = Path(__file__).parents[1]


class TokenCountingChat(FakeChat):
    """A fake chat model that counts tokens as the built-in tokenizer does."""

    def __call__(self, request: ChatRequest) -> Reply:
        reply = super().__call__(request)
        prompt, completion = sum(count_tokens(m["content"]) for m in request.messages), count_tokens(reply.text)
        return replace(reply, usage=Usage(1, prompt, 0, completion, PRICES.cost(prompt, 0, completion)))


class PricedReaders(fake_graph_reader.Readers):
    """The model that reads a graph, with prices."""

    def chat(self, _: str) -> Chat | None:
        if not hasattr(self, "reader"):
            self.reader = TokenCountingChat(fake_graph_reader.answer, join_messages=True, prices=PRICES)
        return self.reader


class PricedInstants(InstantRegistry):
    """The stub model, with prices."""

    def chat(self, scope: str) -> Chat | None:
        return self.models.setdefault(scope, TokenCountingChat(self.answer, join_messages=True, prices=PRICES))


@dataclass(frozen=True)
class Corpus:
    """Documents in two parts, and the methods to build for."""

    name: str
    source: Path
    parts: Sequence[dict[str, str]]  # file name -> text
    methods: Sequence[str] = METHODS
    settings: dict[str, dict[str, Any]] | None = None
    instant: bool = False

    def write(self, count: int) -> None:
        """Write the first parts."""
        self.source.mkdir(exist_ok=True)
        for part in self.parts[:count]:
            for name, text in part.items():
                (self.source / name).write_text(text, encoding="utf-8")

    def open(self, home: Path) -> Kumihimo:
        """Open a new index with the fake model."""
        kumi = Kumihimo(home / ".kumi", self.settings or {})
        if self.instant:
            stub = use_instant_model(kumi, *sorted(self.source.iterdir()))
            kumi.models = PricedInstants(stub.settings, stub.cache, records_by_text=stub.records_by_text)
        else:
            kumi.models = PricedReaders(kumi.models.settings, kumi.models.cache)
        return kumi


@dataclass(frozen=True)
class Comparison:
    """A plan and what its build asked."""

    name: str
    plan: Plan
    built: Built

    def misses(self) -> list[str]:
        """Return each count outside its range."""
        planned = {estimate.step: estimate for estimate in self.plan.estimates}
        missing = [f"{step}: not planned" for step in self.built.spent if step not in planned]
        return missing + [miss for step, estimate in planned.items() for miss in self._step_misses(step, estimate)]

    def _step_misses(self, step: str, estimate: Estimate) -> Iterator[str]:
        usage = self.built.spent.get(step, Usage())
        for name in COUNTS:
            low, high = getattr(estimate, name)
            if not low <= getattr(usage, name) <= high:
                yield f"{step}: {name} {getattr(usage, name):,.6g}, planned {low:,.6g} to {high:,.6g}"

    @property
    def checked(self) -> int:
        return len(COUNTS) * len({*self.built.spent, *(estimate.step for estimate in self.plan.estimates)})

    @property
    def total_is_within(self) -> bool:
        usage, cost = sum(self.built.spent.values(), Usage()), self.plan.cost or (0, 0)
        within = [self.plan.calls[0] <= usage.calls <= self.plan.calls[1], cost[0] <= usage.cost <= cost[1]]
        return all(within) and self.plan.total.tokens[0] <= usage.tokens <= self.plan.total.tokens[1]


def compare(corpus: Corpus, folder: Path, *, sample: int = 0) -> Iterator[Comparison]:
    """Yield a plan and a build of the first part, then of both."""
    corpus.write(len(corpus.parts))  # all of them: the stub model prepares its replies
    with corpus.open(folder) as kumi:
        shutil.rmtree(corpus.source)
        for count in range(1, 1 + len(corpus.parts)):
            corpus.write(count)
            size = sample if count == 1 else 0
            plan = kumi.plan(corpus.source, methods=corpus.methods, sample=size)
            built = kumi.index(corpus.source, methods=corpus.methods)
            part = "sampled" if size else "more documents" if count > 1 else "nothing asked yet"
            yield Comparison(f"{corpus.name}, {part}", plan, built)


def town(folder: Path, days: int) -> Corpus:
    """Return events in a made-up town, two of its eight documents later."""
    documents = [{f"{n}.txt": sentences_of(range(n, days, 8))} for n in range(8)]
    first, more = ({k: v for d in part for k, v in d.items()} for part in (documents[:6], documents[6:]))
    return Corpus(f"town of {days} days", folder / "town", (first, more))


def examples(folder: Path) -> Corpus:
    """Return the prose among the examples, three files of it later."""
    texts = {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted((REPOSITORY / "examples").iterdir())
        if path.suffix in (".md", ".txt", ".jsonl", ".eml", ".html")
    }
    items = list(texts.items())
    return Corpus("examples", folder / "texts", (dict(items[:-3]), dict(items[-3:])))


def podcasts(folder: Path, data: Path, count: int) -> Corpus:
    """Return so many transcripts, and five more later."""
    lines = (data / "podcasts" / "kevin_scott_podcasts.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    parts = [{"first.jsonl": "".join(lines[:count])}, {"more.jsonl": "".join(lines[count : count + 5])}]
    return Corpus(f"{count} podcasts", folder / "podcasts", parts, GRAPH_METHODS, instant=True)


def main(argv: Sequence[str] | None = None) -> None:
    options = read_options(bench_parser(__doc__), argv)
    print("Plans and what the builds asked")
    sizes = (20,) if options.quick else (20, 200)
    comparisons: list[Comparison] = []
    for sample in (0, 4):
        with TemporaryDirectory() as name:
            folder = Path(name)
            corpora = [town(folder, 120)]
            corpora += (
                [] if options.quick else [town(folder, 600), examples(folder)]
            )  # tests/app/test_plans.py has them
            corpora += [podcasts(folder, options.data, size) for size in sizes]
            for number, corpus in enumerate(corpora):
                (folder / f"{number}").mkdir()
                for comparison in compare(corpus, folder / f"{number}", sample=sample):
                    comparisons.append(comparison)
                    misses = comparison.misses()
                    calls = sum(usage.calls for usage in comparison.built.spent.values())
                    low, high = comparison.plan.calls
                    print(
                        f"  {comparison.name}: {calls:,} calls, planned {low:,.0f} to {high:,.0f}; total "
                        f"{'within' if comparison.total_is_within else 'OUTSIDE'}; "
                        f"{comparison.checked - len(misses)} of {comparison.checked} counts within"
                    )
                    for miss in misses:
                        print(f"    {miss}")
    checked, missed = sum(c.checked for c in comparisons), sum(len(c.misses()) for c in comparisons)
    check_at_least("totals within the plan", sum(c.total_is_within for c in comparisons) / len(comparisons), 1.0)
    check_at_least("counts of a step within the plan", (checked - missed) / checked, 0.95)


if __name__ == "__main__":
    run_benchmark(main)
