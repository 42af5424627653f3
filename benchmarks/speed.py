"""builds, questions, starts, updates, sizes and the server -> their figures in units of a loop, with the bounds.

Most figures are CPU seconds of whole processes, divided by those of a loop of 12 million steps that runs just before:
one unit. So figures of two machines can be compared. Each is the median of `--runs` runs. `--against PATH` measures
another checkout in turn, so that other load on the machine falls on both. Data: DATA/podcasts and DATA/japanese as far
as they exist, else the pages of this repository.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from argparse import Namespace
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from tests.fake_server import run_fake_server

from benchmarks import speed_corpora
from benchmarks.made_up import documents, questions, write_folder
from benchmarks.meter import check_at_most, command_cpu
from benchmarks.options import bench_parser, read_options, run_benchmark
from benchmarks.speed_server import measure_server

STEPS = 12_000_000  # of the loop
METHODS = {
    "bm25": "bm25",
    "default tables": "bm25,naive,braid",
    "all free methods": "bm25,naive,braid,global,local,light,discourse",
}
WITH_MODEL = "braid,global,local,light"
PASSAGE = "How did the gap in the Long Arm come to cost the tide station electricity?"
WHOLE = (
    "What are the main themes of these documents?",
    "Give an overview of the documents.",
    "Which people are named most often?",
    "What do the documents have in common?",
)
LIMITS = ("hash each file", "find the words", "index the words", "store 100,000 rows")
BEGIN, END = "<!-- speed: begin -->", "<!-- speed: end -->"
Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Unit:
    """How a figure is shown, and its bound."""

    name: str
    at_most: float = 0.0  # 0: none
    digits: int = 2


UNITS = {  # by measurement and figure; the units are those of the loop
    "build, bm25": Unit("units", 1.5),
    "build, default tables": Unit("units", 2.8),
    "build, all free methods": Unit("units", 7.0),
    **{f"limit, {name}": Unit("units", digits=3) for name in LIMITS},
    "model, a call": Unit("CPU ms", 3.0),
    "model, calls": Unit("calls", digits=0),
    "start, --version": Unit("units", 0.12, 3),
    "start, --help": Unit("units", 0.12, 3),
    "start, import": Unit("units", 0.12, 3),
    "start, ask a passage": Unit("units", 0.35),
    "start, ask on the whole": Unit("units", 0.55),
    "update, 5 more of 100 articles": Unit("units", 0.33),
    "update, 1 changed of 10,000 notes": Unit("units", 0.2),
    "size, English": Unit("times the text", 4.0),
    "size, Japanese": Unit("times the text", 8.0),
    "server, passage, a second": Unit("questions/s", digits=1),
    "server, passage, p95": Unit("s"),
    "server, passage, CPU": Unit("units", digits=3),
    "server, whole, a second": Unit("questions/s", digits=1),
    "server, whole, p95": Unit("s"),
    "server, whole, CPU": Unit("units", digits=3),
    "server, nothing, CPU": Unit("units", digits=4),
    "server, RSS": Unit("MB", digits=0),
    "server, PSS": Unit("MB", digits=0),
    "server, RSS, growth": Unit("times", 1.1),
    "server, PSS, growth": Unit("times", 1.1),
}
MOST_PASSAGE, MOST_WHOLE = {1_400: 0.0267}, {10_000: 0.267, 100_000: 0.667}  # p95 by chunks, in units


def unit_of(name: str) -> Unit:
    """Return the unit of a figure."""
    if not name.startswith("ask, "):
        return UNITS[name]
    kind, chunks = name.split(", ")[1], int(name.split()[-2].replace(",", ""))
    return Unit("units", {"passage": MOST_PASSAGE, "whole": MOST_WHOLE}[kind].get(chunks, 0.0), 4)


@dataclass(frozen=True)
class Code:
    """A checkout that is measured, and a folder of its own for indexes."""

    name: str
    path: Path
    home: Path

    @cached_property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("KUMI_", "PYTHONDONT"))}
        path = os.pathsep.join(str(each) for each in (self.path / "src", speed_corpora.ROOT))
        return {**kept, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}

    def cpu(self, *arguments: str, **variables: str) -> float:
        """Return the CPU seconds of a `kumi` command, as its script runs it."""
        script = "from kumihimo.cli.entry import run_kumi; run_kumi()"
        return command_cpu([sys.executable, "-P", "-c", script, *arguments], {**self.environment, **variables})

    def index(self, folder: Path, name: str, methods: str = METHODS["default tables"], **variables: str) -> float:
        """Build a new index of a folder; return the CPU seconds."""
        shutil.rmtree(self.home / name, ignore_errors=True)
        command = ("index", str(folder), "--index", str(self.home / name), "--methods", methods, "--yes")
        return self.cpu(*command, **variables)

    def work(self, work: str, **values: Any) -> list[float]:
        """Return what a function of `speed_work` returns, in a process of its own."""
        command = [sys.executable, "-P", str(Path(__file__).with_name("speed_work.py"))]
        request = json.dumps({"work": work, **values})
        done = subprocess.run(
            command, input=request, stdout=subprocess.PIPE, check=True, text=True, env=self.environment
        )
        seconds: list[float] = json.loads(done.stdout)
        return seconds


@dataclass(frozen=True)
class Corpora:
    """The folders that are measured on, each written when it is first used."""

    home: Path
    options: Namespace

    @cached_property
    def articles(self) -> Path:
        return speed_corpora.write_articles(self.home / "articles", self.options.data, self.options.articles)

    @cached_property
    def some_articles(self) -> Path:
        return speed_corpora.write_articles(self.home / "some", self.options.data, self.options.some)

    @cached_property
    def notes(self) -> Path:
        return speed_corpora.write_notes(self.home / "notes", self.options.data, self.options.notes)

    @cached_property
    def japanese(self) -> Path | None:
        return speed_corpora.write_japanese(self.home / "japanese", self.options.data)

    @cached_property
    def examples(self) -> Path:
        """Return a copy of examples/; a part of it with --quick."""
        ignored = shutil.ignore_patterns("*[!d]") if self.options.quick else None
        return shutil.copytree(speed_corpora.ROOT / "examples", self.home / "examples", ignore=ignored)


def measure_unit(steps: int = STEPS) -> float:
    """Return the CPU seconds of the loop."""
    start, total = process_time(), 0
    for i in range(steps):
        total += i * i % 7
    return process_time() - start


def once(code: Code, corpus: Path, name: str) -> Path:
    """Return an index with the default tables that is built once and used by all runs."""
    if not (code.home / name).exists():
        code.index(corpus, name)
    return code.home / name


# -- measurements: of one code, once


def measure_builds(code: Code, corpora: Corpora) -> Figures:
    return {name: code.index(corpora.articles, "built", methods) for name, methods in METHODS.items()}


def measure_limits(code: Code, corpora: Corpora) -> Figures:
    """Return what no build of the same articles can avoid."""
    return dict(zip(LIMITS, code.work("limits", folder=str(corpora.articles)), strict=True))


def measure_model(code: Code, corpora: Corpora) -> Figures:
    """Return the CPU of a build for each call of a model that answers at once, in another process."""
    with run_fake_server(reads_graph=True) as server:
        address = {"MODEL": "m", "BASE_URL": server.url}
        chat = {f"KUMI_CHAT_{name}": value for name, value in address.items()}
        embedding = {f"KUMI_EMBEDDING_{name}": value for name, value in address.items()}
        cpu = code.index(corpora.articles, "modelled", WITH_MODEL, **chat, **embedding)
        calls = server.counts()["answered"]
    return {"a call": 1000 * cpu / calls, "calls": calls}


def measure_start(code: Code, corpora: Corpora) -> Figures:
    index = str(once(code, corpora.examples, "examples"))
    return {
        "--version": code.cpu("--version"),
        "--help": code.cpu("--help"),
        "import": command_cpu([sys.executable, "-P", "-c", "import kumihimo"], code.environment),
        "ask a passage": code.cpu("ask", PASSAGE, "--index", index),
        "ask on the whole": code.cpu("ask", WHOLE[0], "--index", index),
    }


def measure_questions(code: Code, corpora: Corpora) -> Figures:
    figures: Figures = {}
    for chunks in map(int, corpora.options.sizes.split(",")):
        folder = corpora.home / f"made-up-{chunks}"
        if not folder.exists():
            write_folder(folder, documents(0, chunks))
        count = sum(path.is_file() for path in folder.rglob("*"))
        asked = [question.text for question in questions(0, count, corpora.options.questions)]
        index = str(once(code, folder, folder.name))
        for kind, texts in {"passage": asked, "whole": WHOLE * (1 + len(asked) // 10)}.items():
            seconds = sorted(code.work("ask", index=index, questions=texts))
            figures[f"{kind}, p95 at {chunks:,} chunks"] = seconds[int(0.95 * len(seconds))]
    return figures


def measure_updates(code: Code, corpora: Corpora) -> Figures:
    """Return the CPU of builds in a process that has built before."""
    texts = speed_corpora.split_text(speed_corpora.read_text(corpora.options.data), speed_corpora.FILE_SIZE)
    more = {f"more-{n}.txt": f"Number {n}. {text}" for n, text in enumerate([*texts][-5:])}
    first = next(iter(sorted(corpora.notes.iterdir())))
    changed = {first.name: f"A changed note about Captain Mary Lorne. {first.read_text(encoding='utf-8')}"}
    work = {
        "5 more of 100 articles": (corpora.some_articles, "some", more),
        "1 changed of 10,000 notes": (corpora.notes, "notes", changed),
    }
    figures: Figures = {}
    for label, (folder, name, files) in work.items():
        index = str(once(code, folder, name))
        figures[label] = median(code.work("update", index=index, folder=str(folder), files=files, times=3))
    return figures


def measure_sizes(code: Code, corpora: Corpora) -> Figures:
    sizes: Figures = {}
    for name, folder in {"English": corpora.articles, "Japanese": corpora.japanese}.items():
        if folder:
            index = once(code, folder, f"sized-{name}")
            used = sum(path.stat().st_size for path in index.rglob("*") if path.is_file())
            sizes[name] = used / speed_corpora.text_bytes(folder)
    return sizes


def measure_serving(code: Code, corpora: Corpora) -> Figures:
    options, index = corpora.options, once(code, corpora.examples, "examples")
    kinds = {"passage": speed_corpora.draw_questions(corpora.examples, options.most_served), "whole": WHOLE}
    return measure_server(index, options.workers, kinds, options.served, options.most_served, code.environment)


MEASUREMENTS: dict[str, Callable[[Code, Corpora], Figures]] = {
    "start": measure_start,
    "size": measure_sizes,
    "build": measure_builds,
    "limit": measure_limits,
    "model": measure_model,
    "update": measure_updates,
    "server": measure_serving,
    "ask": measure_questions,
}


# -- the table


def measure(names: Sequence[str], codes: Sequence[Code], corpora: Corpora) -> dict[str, dict[str, float]]:
    """Return the median of each figure by code; the codes take turns."""
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for code in () if corpora.options.quick else codes:
        measure_start(code, corpora)  # writes byte code, which is not measured
    for name in names:
        for _ in range(corpora.options.runs):
            for code in codes:
                unit = measure_unit(corpora.options.steps)
                values["unit"][code.name].append(unit)
                for figure, value in MEASUREMENTS[name](code, corpora).items():
                    label = f"{name}, {figure}"
                    values[label][code.name].append(value / unit if unit_of(label).name == "units" else value)
    return {label: {code: median(each) for code, each in by_code.items()} for label, by_code in values.items()}


def write_table(figures: Mapping[str, Mapping[str, float]], codes: Sequence[Code], runs: int) -> str:
    """Return the figures as a Markdown table, after a line on the machine."""
    shown = [code.name for code in codes]
    lines = [
        f"Python {platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} processors; "
        f"one unit is {figures['unit'][shown[-1]]:.2f} CPU s; medians of {runs}.\n",
        f"| | {' | '.join(shown)} | in | at most | |",
        f"|{'---|' * (len(shown) + 4)}",
    ]
    for label, values in figures.items():
        if label == "unit":
            continue
        unit = unit_of(label)
        cells = " | ".join(f"{values[name]:,.{unit.digits}f}" for name in shown)
        bound = f"{unit.at_most:g}" if unit.at_most else ""
        met = "" if not unit.at_most else "met" if values[shown[-1]] <= unit.at_most else "not met"
        lines.append(f"| {label} | {cells} | {unit.name} | {bound} | {met} |")
    return "\n".join(lines) + "\n"


def replace_table(page: Path, table: str) -> None:
    """Write the table between the markers of a page, or as the whole of a new file."""
    text = page.read_text(encoding="utf-8") if page.exists() else f"{BEGIN}\n{END}\n"
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        sys.exit(f"{page} has no place for the table: write the lines {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{table}\n{END}{after}", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--only", default=",".join(MEASUREMENTS), help="measurements, separated by commas")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--against", type=Path, help="another checkout, which is measured in turn")
    parser.add_argument("--markdown", type=Path, help="a page to write the table into, between its markers")
    parser.add_argument("--steps", type=int, default=STEPS, help="of the loop that is one unit")
    parser.add_argument("--articles", type=int, default=609, help="files of 4,600 characters to build")
    parser.add_argument("--some", type=int, default=100, help="articles before 5 more come")
    parser.add_argument("--notes", type=int, default=10_000, help="small files of which one changes")
    parser.add_argument("--sizes", default="1400,10000", help="chunks of the indexes that are asked")
    parser.add_argument("--questions", type=int, default=100, help="on passages, of each size")
    parser.add_argument("--workers", type=int, default=2, help="processes of the server")
    parser.add_argument("--served", type=int, default=400, help="questions of each kind to the server")
    parser.add_argument("--most-served", type=int, default=2_000, help="questions until the memory is read again")
    quick = {"runs": 1, "articles": 3, "some": 3, "notes": 5, "sizes": "20", "questions": 3, "workers": 1}
    options = read_options(parser, argv, served=2, most_served=2, steps=10_000, **quick)
    names = options.only.split(",")
    if unknown := set(names) - set(MEASUREMENTS):
        parser.error(f"no measurement {', '.join(sorted(unknown))}; choose among {', '.join(MEASUREMENTS)}")
    with TemporaryDirectory() as folder:
        paths = {"before": options.against.resolve()} if options.against else {}
        codes = [Code(name, path, Path(folder, name)) for name, path in {**paths, "now": speed_corpora.ROOT}.items()]
        figures = measure(names, codes, Corpora(Path(folder), options))
    table = write_table(figures, codes, options.runs)
    print(table)
    for label, values in figures.items():
        if label != "unit" and (unit := unit_of(label)).at_most:
            check_at_most(label, values["now"], unit.at_most, f" {unit.name}")
    if options.markdown:
        replace_table(options.markdown, table)


if __name__ == "__main__":
    run_benchmark(main)
