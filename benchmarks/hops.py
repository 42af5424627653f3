"""How long `braid` takes for a question as an index grows, and whether its local walk ranks as a whole one does.

The corpora of DATA/multihop together, and up to --sizes passages made up of their sentences: each keeps its form, and
every name in it is one drawn anew by Zipf's law, so that there are hubs as in real text. Questions are
those that come with the corpora. Kendall's tau is of the passages that either walk ranks among its first 20.
"""

from __future__ import annotations

import json
import re
import time
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from random import Random
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.stats import kendalltau

from benchmarks.meter import bound, least, measured
from benchmarks.options import bench_parser, read_options
from benchmarks.passages import SETS, questions
from kumihimo import Kumihimo
from kumihimo.app.snapshot import Snapshot
from kumihimo.methods.braid.ppr import HUB_MENTIONS, PassageGraph, Scores, expand_graph, personalized_pagerank, top_ids
from kumihimo.methods.shared import entity_linking

CORPORA = ("musique", "hotpot", "2wiki")
NAME = re.compile(r"[A-Z][\w'’-]+(?: [A-Z][\w'’-]+)*")
NAMES = 50_000
FLAT = 20  # so that the commonest name stands in one passage of twenty, as in real text (Mandelbrot)
MOST = {6_000: 60.0, 100_000: 150.0}  # ms of a question, p95
STEPS = 60  # of a whole walk, after which it stands still
FIRST = 20


def passages(data: Path, size: int) -> Iterator[dict[str, Any]]:
    """All that there are, then made-up ones."""
    real = [row for name in CORPORA for row in questions(data / f"{SETS[name]}_corpus.jsonl")]
    yield from ({"id": row["id"], "title": row["title"], "text": row["text"]} for row in real[:size])
    chance = Random(9)
    said = [sentence for row in real for sentence in re.split(r"(?<=[.!?]) ", row["text"]) if len(sentence) > 20]
    words = sorted({word for row in real for word in NAME.findall(row["title"])})
    names = [f"{chance.choice(words).split()[0]} {chance.choice(words).split()[-1]}" for _ in range(NAMES)]
    names[: len(words)] = chance.sample(words, len(words))
    shares = list(accumulate(1 / (rank + FLAT) for rank in range(NAMES)))

    def drawn(_: object = None) -> str:
        return names[bisect(shares, chance.random() * shares[-1])]

    for i in range(len(real), size):
        text = " ".join(NAME.sub(drawn, chance.choice(said)) for _ in range(chance.randint(2, 6)))
        yield {"id": f"made-{i}", "title": names[i % NAMES], "text": text}


def asked(data: Path) -> list[str]:
    return [row["question"] for name in CORPORA for row in questions(data / f"{SETS[name]}_questions.jsonl")]


@dataclass(frozen=True, slots=True)
class Whole:
    """The whole entity graph as matrices: what one step carries from entities to passages, and back."""

    passages: dict[str, int]
    entities: dict[str, int]
    df: Any
    onto: Any
    into: Any

    def reached(self, seeds: Scores, spoken: list[str], *, text: float, further: float) -> dict[str, float]:
        """As `hops.reached` says it, along every edge that there is, until it stands still."""
        home, asked = np.zeros(len(self.passages)), np.zeros(len(self.entities))
        share = 0.0 if not seeds else text if spoken else 1.0
        for passage, weight in seeds.items():
            home[self.passages[passage]] = share * weight / sum(seeds.values())
        for entity in spoken:
            asked[self.entities[entity]] = 1 / max(1.0, np.log(1 + self.df[self.entities[entity]]))
        asked *= (1 - share) / (asked.sum() or 1.0)
        passages, entities = home, asked
        for _ in range(STEPS):
            passages, entities = (
                further * (self.onto @ entities) + (1 - further) * home,
                further * (self.into @ passages) + (1 - further) * asked,
            )
        arrived = (passages - (1 - further) * home).round(12)
        return {passage: float(arrived[i]) for passage, i in self.passages.items() if arrived[i] > 0}


def whole(reading: Snapshot) -> Whole:
    edges = {(id.rpartition(".")[0], entity) for id, entity in reading.table("mentions").columns("id", "entity")}
    passages = {passage: i for i, passage in enumerate(sorted({passage for passage, _ in edges}))}
    entities = {entity: i for i, entity in enumerate(sorted({entity for _, entity in edges}))}
    rows = np.array([passages[passage] for passage, _ in sorted(edges)])
    columns = np.array([entities[entity] for _, entity in sorted(edges)])
    df = np.bincount(columns, minlength=len(entities))
    weights = df[columns] ** -0.5
    given = np.bincount(rows, weights, len(passages))
    onto = csr_array((weights / np.sqrt(df)[columns], (rows, columns)), shape=(len(passages), len(entities)))
    into = csr_array((weights / given[rows], (columns, rows)), shape=(len(entities), len(passages)))
    return Whole(passages, entities, df, onto, into)


def alike(reading: Snapshot, graph: Whole, question: str) -> tuple[float, float, float] | None:
    """Share of the first 20 that both walks have, tau, and seconds of the whole walk; None where nothing is reached."""
    found = reading.keyword_search()(reading.table("chunks"), question, k=2)
    seeds = {item.record.id: item.score**2 for item in found if item.record.id in graph.passages}
    spoken = entity_linking.link_entity_ids(question, reading.table("mentions"))
    near = personalized_pagerank(
        expand_graph(PassageGraph(reading.table("mentions")), seeds, spoken), seeds, passage_share=0.8, damping=0.6
    )
    began = time.process_time()
    far = graph.reached(seeds, spoken, text=0.8, further=0.6)
    spent = time.process_time() - began
    firsts = top_ids(near, FIRST), top_ids(far, FIRST)
    if not firsts[1]:
        return None
    either = sorted({*firsts[0], *firsts[1]})
    tau = kendalltau([near.get(id, 0.0) for id in either], [far.get(id, 0.0) for id in either]).statistic
    return len({*firsts[0]} & {*firsts[1]}) / len(firsts[1]), float(np.nan_to_num(tau, nan=1.0)), spent


def timed(reading: Snapshot, said: list[str], method: str) -> tuple[float, float, float, float]:
    """ms of a question: CPU p50, p95; wall p50, p95."""
    cpu, wall = [], []
    reading.retrieve(said[0], method)
    for question in said:
        began, worked = time.perf_counter(), time.process_time()
        reading.retrieve(question, method)
        cpu.append(1000 * (time.process_time() - worked))
        wall.append(1000 * (time.perf_counter() - began))
    high = int(0.95 * len(said))
    return median(cpu), sorted(cpu)[high], median(wall), sorted(wall)[high]


def measure(data: Path, size: int, count: int, folder: Path) -> None:
    source = folder / f"{size}.jsonl"
    source.write_text("".join(f"{json.dumps(row)}\n" for row in passages(data, size)), encoding="utf-8")
    said = asked(data)
    with Kumihimo.open(folder / f"{size}" / ".kumi") as kumi:
        with measured() as cost:
            kumi.index(source, methods=["braid"])
        print(f"\n{size:,} passages: indexed for braid {cost}", flush=True)
        if size <= 6_000:
            bound("CPU s of the index", cost.cpu, 30)
        with kumi.snapshot() as reading:
            for method in ("bm25", "naive", "braid"):
                each = timed(reading, Random(1).sample(said, min(count, len(said))), method)
                print(
                    "  {:6} CPU p50 {:5.1f} ms  p95 {:5.1f} ms   wall p50 {:5.1f} ms  p95 {:5.1f} ms".format(
                        method, *each
                    )
                )
            graph = whole(reading)
            hubs = int((graph.df > HUB_MENTIONS).sum())
            entities = f"{len(graph.entities):,} entities, {hubs} of them in more than {HUB_MENTIONS} passages"
            print(f"  {entities}, one in {max(graph.df):,}", flush=True)
            both = [found for question in said[:100] if (found := alike(reading, graph, question))]
    overlap, tau, spent = (fmean(column) for column in zip(*both, strict=True))
    print(f"  a whole walk: {1000 * spent:.0f} ms; first {FIRST} in common {overlap:.3f}, tau {tau:.3f}", flush=True)
    least("overlap of the first 20", overlap, 0.7)
    bound("p95 of a question, CPU ms", each[1], MOST.get(size, 150.0))


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--sizes", default="6000,100000")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--folder", type=Path, help="where the indexes are kept, for the next time")
    given = read_options(parser, argv, sizes="40", questions=3)
    with TemporaryDirectory() as folder:
        for size in map(int, given.sizes.split(",")):
            kept = given.folder or Path(folder)
            kept.mkdir(parents=True, exist_ok=True)
            measure(given.data, size, given.questions, kept)


if __name__ == "__main__":
    main()
