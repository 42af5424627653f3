"""a plan before anything was asked, and after 20 calls -> whether the total of the build lies within it.

Builds: the examples, a made-up town, and texts of DATA, by models of several habits (`benchmarks/habits.py`). One line
a build: its calls and tokens, those planned, and how far the ends of the plan are apart. The margins in
`app/build/cost.py` were set on podcasts, minutes, news, musique and the examples, with the terse, the usual and the
wordy habit (steps without a graph: the usual one); other texts and the habits of recorded replies were left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.laws.factories_town import sentences_of

from benchmarks.habits import HABITS, Habit, HabitModels
from benchmarks.meter import check_at_least
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo import Kumihimo
from kumihimo.app.opened.results import Built, Plan, Range
from kumihimo.core.usage import Usage
from kumihimo.llm.budget import Caps

METHODS = (("local", "global"), ("light",), ("meta",), ("discourse",))
FIRST_CALLS = 20
REPOSITORY = Path(__file__).parents[1]
ROWS = {  # corpus -> the file under DATA, and the step between the rows that are taken
    "podcasts": ("podcasts/kevin_scott_podcasts.jsonl", 25),
    "news": ("ordinary/news_corpus.jsonl", 1),
    "musique": ("multihop/musique_train100_corpus.jsonl", 10),
    "hotpot": ("multihop/hotpot_train100_corpus.jsonl", 10),
    "2wiki": ("multihop/2wiki_dev164_corpus.jsonl", 15),
    "jsquad": ("japanese/jsquad_valid_corpus.jsonl", 10),
    "drcd": ("chinese/drcd_dev_corpus.jsonl", 10),
    **{name: (f"ordinary/{name}_corpus.jsonl", 5) for name in ("pubmed", "finance", "chatlogs")},
}
FOLDERS = ("tsc-minutes", "mastodon-docs")
MAX_ROWS, MAX_CHARACTERS = 80, 75_000
Corpus = dict[str, str]  # file name -> text


@dataclass(frozen=True)
class Comparison:
    """A plan and what its build asked."""

    name: str
    plan: Plan
    built: Built

    @property
    def usage(self) -> Usage:
        return sum(self.built.spent.values(), Usage())

    @property
    def total_is_within(self) -> bool:
        total = self.plan.total
        return _contains(total.calls, self.usage.calls) and _contains(total.tokens, self.usage.tokens)

    def widths(self) -> tuple[float, float]:
        """Return how many times the greatest calls and tokens are the least."""
        total = self.plan.total
        return total.calls[1] / max(total.calls[0], 1), total.tokens[1] / max(total.tokens[0], 1)

    def __str__(self) -> str:
        total, widths = self.plan.total, self.widths()
        pairs = zip((self.usage.calls, self.usage.tokens), (total.calls, total.tokens), widths, strict=True)
        counts = "; ".join(
            f"{n:,}, planned {low:,.0f} to {high:,.0f} (x{width:.1f})" for n, (low, high), width in pairs
        )
        return f"{self.name}: {counts}{'' if self.total_is_within else ' OUTSIDE'}"


def _contains(ends: Range, amount: float) -> bool:
    return ends[0] <= amount <= ends[1]


def compare(name: str, corpus: Corpus, folder: Path, habit: Habit, methods: Sequence[str]) -> Iterator[Comparison]:
    """Yield a plan and a build of a new index, then those after some calls of another."""
    for first_calls in (0, FIRST_CALLS):
        home = folder / f"{first_calls}"
        source = home / "texts"
        source.mkdir(parents=True)
        for file, text in corpus.items():
            (source / file).write_text(text, encoding="utf-8")
        with Kumihimo(home / ".kumi", {}) as kumi:
            kumi.models = HabitModels(kumi.models.settings, kumi.models.cache)
            kumi.models.habit = habit
            if first_calls:
                kumi.index(source, methods=methods, caps=Caps(calls=first_calls))
            plan = kumi.plan(source, methods=methods)
            built = kumi.index(source, methods=methods)
        yield Comparison(f"{name}, {habit.name}, {','.join(methods)}, after {first_calls} calls", plan, built)


def town(days: int) -> Corpus:
    """Return events in a made-up town, in eight documents."""
    return {name: text for n in range(8) for name, text in {f"{n}.txt": sentences_of(range(n, days, 8))}.items()}


def examples() -> Corpus:
    """Return the prose among the examples."""
    return _read_files(REPOSITORY / "examples", (".md", ".txt", ".jsonl", ".eml", ".html"))


def rows(path: Path, step: int) -> Corpus:
    """Return some texts of a file of rows."""
    lines = path.read_text(encoding="utf-8").splitlines()[::step][:MAX_ROWS]
    return {f"{n}.txt": str(json.loads(line)["text"])[:MAX_CHARACTERS] for n, line in enumerate(lines)}


def _read_files(folder: Path, suffixes: Sequence[str]) -> Corpus:
    """Return the files of a folder, up to a size."""
    texts: Corpus = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in suffixes and sum(map(len, texts.values())) < MAX_CHARACTERS:
            texts[f"{len(texts)}-{path.name}"] = path.read_text(encoding="utf-8")
    return texts


def corpora(data: Path) -> dict[str, Corpus]:
    """Return all corpora, those of the data by their files."""
    return {
        "town": town(120),
        "examples": examples(),
        **{name: rows(data / file, step) for name, (file, step) in ROWS.items()},
        **{name: _read_files(data / "folders" / name, (".md",)) for name in FOLDERS},
    }


def main(argv: Sequence[str] | None = None) -> None:
    options = read_options(bench_parser(__doc__), argv)
    print("Plans and what the builds asked: calls; tokens")
    chosen = {"town": town(120)} if options.quick else corpora(options.data)
    within: dict[str, list[bool]] = {}  # by habit
    for name, corpus in chosen.items():
        for habit in HABITS.values():
            for methods in METHODS if habit.name == "usual" and not options.quick else METHODS[:1]:
                with TemporaryDirectory() as folder:
                    for comparison in compare(name, corpus, Path(folder), habit, methods):
                        within.setdefault(habit.name, []).append(comparison.total_is_within)
                        print(f"  {comparison}", flush=True)
    for habit_name, hits in within.items():
        print(f"{habit_name}: {sum(hits)} of {len(hits)} totals within the plan")
    check_at_least("totals within the plan, usual habit", sum(within["usual"]) / len(within["usual"]), 0.8)


if __name__ == "__main__":
    run_benchmark(main)
