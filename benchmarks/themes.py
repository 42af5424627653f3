"""Questions across the podcasts and about the whole of them -> how many are told, and what their answers cover.

DATA/podcasts with the 125 questions that GraphRAG's authors wrote for it; DATA/multihop, japanese, chinese for ordinary
ones. No model. --index: an index of DATA/podcasts that is there, built for braid and global; else one is built.
"""

from __future__ import annotations

import csv
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.options import bench_parser, read_options
from benchmarks.passages import SETS, questions
from kumihimo import Kumihimo
from kumihimo.app.snapshot import Snapshot
from kumihimo.core.context import Answer
from kumihimo.methods.braid.query_type import detect_topic
from kumihimo.methods.braid.topic_extracts import assign_communities

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "braid": ("braid", {}),
    "braid, whole=never": ("braid", {"whole": "never"}),
    "global": ("global", {}),
}
THEMES = "What are the main themes?"
LARGEST = (10, 20)  # communities, of which an answer about the whole should speak


def kind(question: str) -> str:
    """What braid takes a question for."""
    topic = detect_topic(question)
    return "one" if topic is None else "broad" if topic else "whole"


def told(data: Path, asked: list[str]) -> None:
    """What questions of each sort are taken for."""
    print(f"podcasts: {dict(Counter(map(kind, asked)))}")
    for name in ("whole", "broad"):
        rows = [line.split("\t") for line in (GOLDEN / f"{name}.tsv").read_text(encoding="utf-8").splitlines()]
        print(f"{name}.tsv: {dict(sorted(Counter((said, kind(question)) for said, question in rows).items()))}")
    for name, path in SETS.items():
        said = [row["question"] for row in questions(data / f"{path}_questions.jsonl")]
        print(f"{name}: {dict(Counter(map(kind, said)))}")


def covers(reading: Snapshot, answer: Answer) -> tuple[int, int]:
    """How many episodes its citations stand in, and how many communities of level 0 those passages belong to."""
    episodes = {citation.span.uri.rpartition("-part")[0] for citation in answer.citations}
    return len(episodes), len(cited(reading, answer))


def cited(reading: Snapshot, answer: Answer) -> set[str]:
    ids = sorted({citation.span.chunk for citation in answer.citations})
    tables = (reading.table("mentions"), reading.table("members"), reading.table("communities"))
    return set(assign_communities(ids, *tables).values())


def sentences(answers: Iterable[Answer]) -> str:
    """Of how many sentences those are that were not searched for as any other."""
    counts = [len(answer.citations) for answer in answers if answer.context.query_type]
    many, few = sum(count >= 10 for count in counts), sum(count <= 2 for count in counts)
    return f"{len(counts)} by sentences of many, {many} of these by ten or more, {few} by one or two"


def timed(reading: Snapshot, asked: list[str]) -> list[float]:
    """CPU ms of each search, sorted; the first, which reads files, is asked twice."""
    spent = []
    for question in [asked[0], *asked]:
        began = time.process_time()
        reading.retrieve(question, "braid")
        spent.append(1000 * (time.process_time() - began))
    return sorted(spent[1:])


def of_the_whole(reading: Snapshot) -> None:
    reports = reading.table("reports").get_many(reading.table("communities").ids(level=0)).values()
    largest = [report.id for report in sorted(reports, key=lambda report: (-report.elements, report.id))]
    answer = reading.ask(THEMES, "braid")
    episodes, communities = covers(reading, answer)
    print(f"{THEMES} {len(answer.citations)} sentences of {episodes} episodes, {communities} communities")
    for many in LARGEST:
        print(f"  of the {many} largest communities {len(cited(reading, answer) & set(largest[:many]))} are cited")


def measure(reading: Snapshot, asked: list[str]) -> None:
    across = [question for question in asked if kind(question) != "one"]
    for name, (method, settings) in WAYS.items():
        answers = [reading.ask(question, method, **settings) for question in across]
        has = [covers(reading, answer) for answer in answers if answer.citations]
        mean = ", ".join(f"{fmean(column):.1f}" for column in zip(*has, strict=True)) if has else "-"
        print(f"{name:20} of {len(across)} {len(has)} answered; of these episodes, communities cited: {mean}")
        print(f"  {sentences(answers)}", flush=True)
    spent = timed(reading, across)
    print(f"CPU ms of a search across: p50 {median(spent):.0f}, p95 {spent[int(0.95 * len(spent))]:.0f}")
    of_the_whole(reading)


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--index", type=Path, help="the .kumi of an index that is there")
    given = read_options(parser, argv)
    held = given.data / "podcasts"
    with (held / "kevin_scott_questions.csv").open(encoding="utf-8-sig", newline="") as rows:
        asked = [row["question_text"] for row in csv.DictReader(rows)]
    told(given.data, asked)
    with TemporaryDirectory() as folder, Kumihimo.open(given.index or Path(folder, ".kumi")) as kumi:
        if not given.index:
            kumi.index(held / "kevin_scott_podcasts.jsonl", methods=["braid", "global", "local"])
        with kumi.snapshot() as reading:
            measure(reading, asked)


if __name__ == "__main__":
    main()
