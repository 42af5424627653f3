"""questions over generated graphs -> ms and memory that `light` adds without the model, two keywords of each level.

Data: none. 10,000 entities and 40,000 relations, and ten times as many; the commonest entity has hundreds of relations
in the first graph, thousands in the second. Relations have keywords and a strength; vectors are those of the built-in
embedder. One line a mode: wall ms of a question at p50 and p95, mean CPU ms; then peak memory.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

from benchmarks.hubs import KINDS, draw_words, fill
from benchmarks.meter import check_at_most
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo.core.records import Chunk, Entity, Mention, Record, Relation, RelationMention
from kumihimo.core.table import Table, codec
from kumihimo.llm.local_embedder import LocalEmbedder, LocalTokenizer
from kumihimo.llm.rerank import CandidateReranker
from kumihimo.methods import METHODS
from kumihimo.search.fulltext import Bm25Search
from kumihimo.search.protocols import Matrices
from kumihimo.search.vectors import CosineSearch, load_matrices
from kumihimo.storage.database import SqlRows
from kumihimo.storage.sqlite.connection import Db
from kumihimo.storage.sqlite.store import SqliteStore
from kumihimo.text.name_keys import entity_id, name_key, relation_id

METHOD = "light"
SIZES = ((10_000, 25), (100_000, 100))  # entities, and the limit of p95 in ms
RELATIONS_PER_ENTITY = 4
RELATIONS_PER_CHUNK = 12
MODES = ("hybrid", "low", "high", "mix")


def make_names(entities: int) -> list[str]:
    rng = random.Random(entities)
    return [f"{draw_words(rng, 2).title()} {n}" for n in range(entities)]


def tables(entities: int) -> dict[str, Iterator[tuple[str, Record]]]:
    """Return the rows of each table, sorted by id.

    They are generated while they are written: 400,000 relations would fill the memory.
    """
    entity_names, rng = make_names(entities), random.Random(entities + 1)
    ids = [entity_id(name_key(name)) for name in entity_names]
    pairs: set[tuple[int, int]] = set()
    while len(pairs) < RELATIONS_PER_ENTITY * entities:
        one, other = sorted((int(entities * rng.random() ** 2), rng.randrange(entities)))
        if one != other:
            pairs.add((one, other))
    edges = sorted(pairs)
    rng.shuffle(edges)
    return {
        "chunks": _chunks(-(-len(edges) // RELATIONS_PER_CHUNK)),
        "mentions": _mentions(edges, entity_names, ids),
        "ties": _ties(edges, entity_names, ids),
        "entities": _entities(entity_names, ids),
        "relations": _relations(edges, entity_names, ids),
    }


def _chunk_id(n: int) -> str:
    """Return the id of chunk `n`: 50 a document, sorted by `n`."""
    return f"{n // 50:016x}.{n % 50:05}"


def _chunks(count: int) -> Iterator[tuple[str, Record]]:
    rng = random.Random(1)
    for n in range(count):
        text = draw_words(rng, 150)
        yield _chunk_id(n), Chunk(text=text, title="", start=0, end=len(text), tokens=600)


def _mentions(edges: list[tuple[int, int]], entity_names: list[str], ids: list[str]) -> Iterator[tuple[str, Record]]:
    for n, edge in enumerate(edges):
        for at, end in enumerate(edge):
            id = f"{_chunk_id(n // RELATIONS_PER_CHUNK)}.{2 * (n % RELATIONS_PER_CHUNK) + at:05}"
            yield id, Mention(text="", entity=ids[end], name=entity_names[end], type="person")


def _ties(edges: list[tuple[int, int]], entity_names: list[str], ids: list[str]) -> Iterator[tuple[str, Record]]:
    for n, (one, other) in enumerate(edges):
        source, target = sorted((ids[one], ids[other]))
        pair = (entity_names[one], entity_names[other])
        row = RelationMention(text="", relation=relation_id(source, target), source=source, target=target, names=pair)
        yield f"{_chunk_id(n // RELATIONS_PER_CHUNK)}.{n % RELATIONS_PER_CHUNK:05}", row


def _entities(entity_names: list[str], ids: list[str]) -> Iterator[tuple[str, Record]]:
    rng = random.Random(2)
    for id, name in sorted(zip(ids, entity_names, strict=True)):
        text = f"{name} {draw_words(rng, 12)}."
        yield id, Entity(text=text, name=name, type="person", forms=(name,), types=("person",), mentions=8, tokens=60)


def _relations(edges: list[tuple[int, int]], entity_names: list[str], ids: list[str]) -> Iterator[tuple[str, Record]]:
    rng = random.Random(3)
    for id, (one, other) in sorted((relation_id(*sorted((ids[a], ids[b]))), (a, b)) for a, b in edges):
        source, target = sorted((ids[one], ids[other]))
        pair = (entity_names[one], entity_names[other])
        text = f"{entity_names[one]} {draw_words(rng, 12)} {entity_names[other]}."
        yield (
            id,
            Relation(
                text=text,
                source=source,
                target=target,
                names=pair,
                keywords=(draw_words(rng, 2), draw_words(rng, 2)),
                weight=1,
                strength=7.0,
                tokens=70,
            ),
        )


def build(home: Path, entities: int) -> None:
    store = SqliteStore(home)
    fill(store, home, tables(entities), LocalEmbedder())
    store.close()


def questions(entities: int, count: int) -> list[tuple[str, list[str], list[str]]]:
    """Return questions with their two names and two themes.

    Names of entities with many relations are preferred.
    """
    rng, entity_names = random.Random(7), make_names(entities)
    rows = []
    for _ in range(count):
        low = [entity_names[int(entities * rng.random() ** 2)], entity_names[int(entities * rng.random() ** 2)]]
        high = [draw_words(rng, 2), draw_words(rng, 2)]
        rows.append((f"How did {' and '.join(low)} {' and '.join(high)}?", low, high))
    return rows


def make_keyword_llm(low: list[str], high: list[str]) -> Callable[..., Any]:
    """Return a stub LLM that replies with these keywords."""
    return lambda _, *, schema, **__: schema(low=low, high=high)


def time_questions(
    db: Db, vectors: Matrices, mode: str, rows: list[tuple[str, list[str], list[str]]]
) -> Iterator[float]:
    """Yield the wall milliseconds of each question."""
    method = METHODS[METHOD]
    tables = {name: Table(name, codec(KINDS[name]), SqlRows(db, name)) for name in method.tables}
    tokenizer, reranker = LocalTokenizer(), CandidateReranker({})
    for question, low, high in rows:
        keyword_search, vector_search = (
            Bm25Search(db),
            CosineSearch(db, lambda *_: LocalEmbedder(), vectors),
        )
        start = perf_counter()
        context = method.function(
            question,
            **tables,
            keyword_search=keyword_search,
            vector_search=vector_search,
            tokenizer=tokenizer,
            rerank=reranker,
            llm=make_keyword_llm(low, high),
            mode=mode,
        )
        yield (perf_counter() - start) * 1000
        assert context


def measure(home: Path, entities: int, mode: str, rounds: int) -> list[float]:
    """Return p50 and p95 in wall ms, and mean CPU ms.

    Each question counts with the best of three wall times.
    """
    store = SqliteStore(home)
    rows = questions(entities, rounds)
    with store.read_transaction() as db:
        vectors = load_matrices(db, home, {})
        list(time_questions(db, vectors, mode, rows[:5]))
        start = process_time()
        best_ms = [
            min(times) for times in zip(*(time_questions(db, vectors, mode, rows) for _ in range(3)), strict=True)
        ]
        cpu = (process_time() - start) * 1000 / (3 * rounds)
    store.close()
    return [median(best_ms), quantiles(best_ms, n=20)[-1], cpu]


def measure_size(home: Path, entities: int, limit: float, rounds: int) -> None:
    """Print the figures of one size.

    Another process builds the index, so that the peak memory is that of the questions.
    """
    if not (home / "index.db").exists():
        subprocess.run([sys.executable, "-m", "benchmarks.keys", "--build", str(home), str(entities)], check=True)
    print(f"{entities:,} entities, {RELATIONS_PER_ENTITY * entities:,} relations", flush=True)
    p95_by_mode = {}
    for mode in MODES:
        p50, p95_by_mode[mode], cpu = measure(home, entities, mode, rounds)
        print(f"  {mode}: p50 {p50:.1f} ms, p95 {p95_by_mode[mode]:.1f} ms, {cpu:.1f} CPU ms", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  peak memory {peak:,.0f} MB; vectors mapped from files {vectors_mb(home):,.0f} MB")
    for mode, p95 in p95_by_mode.items():
        check_at_most(f"{METHOD}, mode {mode}, p95", p95, limit, " ms")


def vectors_mb(home: Path) -> float:
    return sum(path.stat().st_size for path in (home / "vectors").iterdir()) / 1e6


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--sizes", type=int, nargs="*", default=[size for size, _ in SIZES])
    parser.add_argument("--keep", type=Path, help="keep the indexes in this folder for the next run")
    parser.add_argument("--build", nargs=2, metavar=("FOLDER", "ENTITIES"), help="only build one index")
    options = read_options(parser, argv, rounds=2, sizes=[200])
    if options.build:
        build(Path(options.build[0]), int(options.build[1]))
        return
    with TemporaryDirectory() as temporary:
        for entities in options.sizes:
            home = (options.keep or Path(temporary)) / str(entities) / ".kumi"
            measure_size(home, entities, dict(SIZES).get(entities, SIZES[-1][1]), options.rounds)


if __name__ == "__main__":
    run_benchmark(main)
