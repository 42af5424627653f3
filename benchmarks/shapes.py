"""generated documents -> cost of the engine: row and group steps over toy entities and ties.

Data: none. 10,000 and 100,000 chunks of 1.2 kB, ten to a document, with eight mentions and eight ties each; 30 % of the
names come from a Pareto pool, so that there are hubs. With `--model` the row steps ask a model that answers at once, in
8 threads. A line for each step: rows, CPU us a row. Then a line for each build: CPU, wall time, bytes written, peak
memory.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from benchmarks.meter import check_at_most, measured
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo.core.digests import hash_parts
from kumihimo.core.engine import build_tables, watch_tables
from kumihimo.core.records import Document, Record
from kumihimo.core.signature import Signature, collect_signatures
from kumihimo.core.table import Group, codec
from kumihimo.core.task import Pool, ProgressEvent
from kumihimo.core.wiring import ROOT, Port, order_steps
from kumihimo.llm.cached_llm import create_llm
from kumihimo.llm.concurrency import thread_pool
from kumihimo.llm.protocols import LLM
from kumihimo.storage.database import SqlRows
from kumihimo.storage.ledger import SqlLedger
from kumihimo.storage.response_cache import ResponseCache
from kumihimo.storage.sqlite.store import SqliteStore
from kumihimo.testing.fake_models import FakeChat

FILLER = "lorem ipsum dolor sit amet consectetur " * 28


@dataclass(frozen=True, slots=True)
class Piece(Record):
    BIG: ClassVar[bool] = True
    names: str


@dataclass(frozen=True, slots=True)
class Mention(Record):
    GROUP: ClassVar[str] = "entity"
    entity: str
    name: str


@dataclass(frozen=True, slots=True)
class Tie(Record):
    GROUP: ClassVar[str] = "relation"
    relation: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Entity(Record):
    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Relation(Record):
    source: str
    target: str
    weight: int


def pieces(document: Document) -> Iterable[Piece]:
    """Yield the ten pieces of a document."""
    for line in document.text.splitlines():
        names, _, text = line.partition("|")
        yield Piece(text=text, names=names)


def _mentions(names: list[str]) -> Iterator[Mention]:
    for name in names:
        yield Mention(text=f"{name} is here", entity=hash_parts("entity", name), name=name)


def _ties(names: list[str]) -> Iterator[Tie]:
    ids = [hash_parts("entity", name) for name in names]
    for (a, source), (b, target) in pairwise(zip([*names, names[0]], [*ids, ids[0]], strict=True)):
        yield Tie(text=f"{a} knows {b}", relation=hash_parts("relation", source, target), source=source, target=target)


def mentions(piece: Piece) -> Iterable[Mention]:
    """Read the mentions by rule."""
    return _mentions(piece.names.split())


def ties(piece: Piece) -> Iterable[Tie]:
    """Read the ties by rule."""
    return _ties(piece.names.split())


def entities(mentions: Group[Mention]) -> Entity:
    """Merge all mentions of one name."""
    return Entity(text=" ".join(m.text for m in mentions[:5]), name=mentions[0].name, count=len(mentions))


def relations(ties: Group[Tie]) -> Relation:
    """Merge all ties of one pair."""
    return Relation(text=ties[0].text, source=ties[0].source, target=ties[0].target, weight=len(ties))


def _use_model(steps: dict[str, Signature]) -> dict[str, Signature]:
    """Return the steps with mentions and ties from a model's reply."""

    def mentions(piece: Piece, llm: LLM) -> Iterable[Mention]:
        return _mentions(llm(f"names: {piece.names}").split())

    def ties(piece: Piece, llm: LLM) -> Iterable[Tie]:
        return _ties(llm(f"names: {piece.names}").split())

    scope = {"Piece": Piece, "Ask": LLM, "Iterable": Iterable, "Mention": Mention, "Tie": Tie}
    for function in (mentions, ties):
        function.__globals__.update(scope)
    return {**steps, **collect_signatures(mentions, ties)}


STEPS = collect_signatures(pieces, mentions, ties, entities, relations)


def make_documents(count: int, seed: int = 1, hubs: float = 0.3) -> Iterator[tuple[object, ...]]:
    """Yield rows of the table `documents`.

    hubs: share of the names from the pool.
    """
    rng = random.Random(seed)
    encode = codec(Document).encode
    for number in range(count):
        lines = []
        for _ in range(10):
            names = [
                f"hub{int(rng.paretovariate(1)) % 5000}" if rng.random() < hubs else f"n{rng.randrange(count * 50)}"
                for _ in range(8)
            ]
            lines.append(f"{' '.join(names)}|{FILLER}{number}")
        uri = f"{seed}/{number}"
        document = Document(uri=uri, file=uri, title=uri, media_type="text/plain", text="\n".join(lines))
        yield encode(hash_parts(uri), document)


def run(
    store: SqliteStore,
    cache: ResponseCache,
    steps: dict[str, Signature],
    new_rows: Iterator[tuple[object, ...]],
    pool: Pool,
    first: bool = False,
) -> None:
    """Add documents and build; on the first run print each step's cost."""
    ports: dict[str, Port] = {"llm": create_llm(FakeChat(lambda prompt: prompt.partition(": ")[2]), cache)}
    starts: dict[str, float] = {}
    ends: dict[str, float] = {}

    def clock(event: ProgressEvent) -> None:
        starts.setdefault(event.step, time.process_time())
        ends[event.step] = time.process_time()

    with store.write_transaction() as db:
        ledger = SqlLedger(db)
        order = order_steps(steps)
        watch_tables(order, ledger)
        ledger.ensure_table(ROOT, codec(Document))
        batch: list[tuple[object, ...]] = []
        for row in new_rows:
            batch.append(row)
            if len(batch) == 200:
                ledger.change(ROOT, [], batch)
                batch = []
        ledger.change(ROOT, [], batch)
        starts["documents"] = time.process_time()
        build_tables(order, ledger, settings={}, ports=lambda _: ports, code=lambda _: "1", pool=pool, progress=clock)
        if first:
            previous_end = starts["documents"]
            for step in STEPS:
                rows = SqlRows(db, step).count()
                cpu_us = 1e6 * (ends[step] - previous_end) / rows
                print(f"    {step:10} {rows:9,} rows {cpu_us:7.1f} CPU us a row")
                if STEPS[step].shape == "row" and "llm" not in steps[step].ports:
                    check_at_most(f"{step}, a row step", cpu_us, 15, " CPU us a row")
                previous_end = ends[step]


def measure(chunks: int, model: bool) -> None:
    steps = _use_model(STEPS) if model else STEPS
    pool = thread_pool(8) if model else map
    with TemporaryDirectory() as folder:
        store, cache = SqliteStore(Path(folder) / "index"), ResponseCache(Path(folder) / "cache.db")
        print(f"{chunks:,} chunks, {'a model that answers at once, 8 threads' if model else 'by rule'}")
        with measured() as cost:
            run(store, cache, steps, make_documents(chunks // 10), pool, first=True)
        print(f"  whole build   {cost}")
        with measured() as cost:
            run(store, cache, steps, iter(()), pool)
        print(f"  no change     {cost}")
        with measured() as cost:
            run(store, cache, steps, make_documents(1, seed=2, hubs=0), pool)
        print(f"  +1 document   {cost}")
        check_at_most("one more document, without hubs", cost.cpu * 1000, 50, " CPU ms")
        with measured() as cost:
            run(store, cache, steps, make_documents(1, seed=3), pool)
        print(f"  +1 with hubs  {cost}")
        with measured() as cost:
            run(store, cache, steps, make_documents(chunks // 1000, seed=4), pool)
        print(f"  +1 %          {cost}")
        cache.close()
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        print(f"  on disk {size / 1e6:.0f} MB")


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--chunks", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--model", action="store_true")
    options = read_options(parser, argv, chunks=[40])
    for chunks in options.chunks:
        measure(chunks, options.model)


if __name__ == "__main__":
    run_benchmark(main)
