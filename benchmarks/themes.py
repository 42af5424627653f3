"""thematic questions on the podcasts -> how many `braid` recognizes, and how much of the corpus their answers cite.

Data: DATA/podcasts with the 125 questions of GraphRAG's authors; the questions of DATA/multihop, japanese and chinese
as ordinary ones. No model. First lines: questions by type ("one": ordinary, "broad": on a topic, "whole": on the
corpus); for the golden files by expected and detected type. Then for each method: questions answered, mean number of
episodes and of communities cited; CPU ms of a search. Last line: CPU ms of a search where each episode is one document
in chunks of 1,200 tokens. --index: use an index of DATA/podcasts built for braid, global and local.
"""

from __future__ import annotations

import csv
import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.meter import check_at_most
from benchmarks.options import bench_parser, read_options, run_benchmark
from benchmarks.passages import SETS, read_rows
from kumihimo import Kumihimo
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.core.answer import Answer
from kumihimo.methods.shared.spread import assign_communities
from kumihimo.text.question import ParsedQuestion

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "braid": ("braid", {}),
    "braid, whole=never": ("braid", {"whole": "never"}),
    "global": ("global", {}),
}
THEMES = "What are the main themes?"
LONG_CHUNKS = {"chunks": {"size": 1200}}
MOST = 80.0  # CPU ms of a thematic search over long chunks, at p95
LARGEST = (10, 20)  # communities that an answer on the whole corpus should cite


def detect_type(question: str) -> str:
    """Return the question type that braid detects."""
    topic = ParsedQuestion(question).topic
    return "one" if topic is None else "broad" if topic else "whole"


def print_types(data: Path, questions: list[str]) -> None:
    """Print the detected types of each set of questions."""
    print(f"podcasts: {dict(Counter(map(detect_type, questions)))}")
    for name in ("whole", "broad"):
        rows = [line.split("\t") for line in (GOLDEN / f"{name}.tsv").read_text(encoding="utf-8").splitlines()]
        print(
            f"{name}.tsv: {dict(sorted(Counter((texts, detect_type(question)) for texts, question in rows).items()))}"
        )
    for name, path in SETS.items():
        texts = [row["question"] for row in read_rows(data / f"{path}_questions.jsonl")]
        print(f"{name}: {dict(Counter(map(detect_type, texts)))}")


def count_cited(snapshot: Snapshot, answer: Answer) -> tuple[int, int]:
    """Return the number of episodes and level 0 communities cited."""
    episodes = {citation.span.uri.rpartition("-part")[0] for citation in answer.citations}
    return len(episodes), len(cited_communities(snapshot, answer))


def cited_communities(snapshot: Snapshot, answer: Answer) -> set[str]:
    ids = sorted({citation.span.chunk for citation in answer.citations})
    tables = (snapshot.table("mentions"), snapshot.table("members"), snapshot.table("communities"))
    return set(assign_communities(ids, *tables).values())


def describe_lengths(answers: Iterable[Answer]) -> str:
    """Count the thematic answers by number of sentences."""
    counts = [len(answer.citations) for answer in answers if answer.context.query_type]
    many, few = sum(count >= 10 for count in counts), sum(count <= 2 for count in counts)
    return f"{len(counts)} thematic answers: {many} of ten sentences or more, {few} of one or two"


def time_searches(snapshot: Snapshot, questions: list[str]) -> list[float]:
    """Return the sorted CPU ms of the searches, after a warm-up."""
    cpu_ms = []
    for question in [questions[0], *questions]:
        start = time.process_time()
        snapshot.retrieve(question, "braid")
        cpu_ms.append(1000 * (time.process_time() - start))
    return sorted(cpu_ms[1:])


def print_theme_coverage(snapshot: Snapshot) -> None:
    reports = snapshot.table("reports").get_many(snapshot.table("communities").ids(level=0)).values()
    largest = [report.id for report in sorted(reports, key=lambda report: (-report.elements, report.id))]
    answer = snapshot.ask(THEMES, "braid")
    episodes, communities = count_cited(snapshot, answer)
    print(f"{THEMES} cites {len(answer.citations)} sentences of {episodes} episodes, {communities} communities")
    in_answer = cited_communities(snapshot, answer)
    for many in LARGEST:
        print(f"  cited of the {many} largest communities: {len(in_answer & set(largest[:many]))}")


def measure(snapshot: Snapshot, questions: list[str]) -> None:
    thematic = [question for question in questions if detect_type(question) != "one"]
    for name, (method, settings) in VARIANTS.items():
        answers = [snapshot.ask(question, method, **settings) for question in thematic]
        counts = [count_cited(snapshot, answer) for answer in answers if answer.citations]
        mean = ", ".join(f"{fmean(column):.1f}" for column in zip(*counts, strict=True)) if counts else "-"
        print(f"{name:20} answered {len(counts)} of {len(thematic)}; mean episodes, communities cited: {mean}")
        print(f"  {describe_lengths(answers)}", flush=True)
    cpu_ms = time_searches(snapshot, thematic)
    print(f"CPU ms of a thematic search: p50 {median(cpu_ms):.0f}, p95 {cpu_ms[int(0.95 * len(cpu_ms))]:.0f}")
    print_theme_coverage(snapshot)


def measure_long_chunks(podcasts: Path, questions: list[str], folder: Path) -> None:
    """Join the parts of each episode, and time the thematic questions."""
    parts_by_episode: dict[str, list[str]] = {}
    for row in read_rows(podcasts / "kevin_scott_podcasts.jsonl"):
        parts_by_episode.setdefault(row["id"].partition("-part")[0], []).append(row["text"])
    rows = [{"id": id, "title": id, "text": "\n".join(parts)} for id, parts in parts_by_episode.items()]
    source = folder / "episodes.jsonl"
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    with Kumihimo.open(folder / "episodes" / ".kumi", settings=LONG_CHUNKS) as kumi:
        kumi.index(source, methods=["braid"])
        with kumi.snapshot() as snapshot:
            cpu_ms = time_searches(snapshot, [question for question in questions if detect_type(question) != "one"])
            print(f"{len(snapshot.table('chunks')):,} chunks of 1,200 tokens: CPU ms p50 {median(cpu_ms):.0f}")
    check_at_most("p95 of a thematic search, CPU ms", cpu_ms[int(0.95 * len(cpu_ms))], MOST)


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--index", type=Path, help="the .kumi of an existing index")
    options = read_options(parser, argv)
    podcasts = options.data / "podcasts"
    with (podcasts / "kevin_scott_questions.csv").open(encoding="utf-8-sig", newline="") as rows:
        questions = [row["question_text"] for row in csv.DictReader(rows)]
    print_types(options.data, questions)
    with TemporaryDirectory() as folder, Kumihimo.open(options.index or Path(folder, ".kumi")) as kumi:
        if not options.index:
            kumi.index(podcasts / "kevin_scott_podcasts.jsonl", methods=["braid", "global", "local"])
        with kumi.snapshot() as snapshot:
            measure(snapshot, questions)
        measure_long_chunks(podcasts, questions, Path(folder))


if __name__ == "__main__":
    run_benchmark(main)
