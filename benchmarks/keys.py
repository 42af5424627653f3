"""What `light` adds to a question apart from the model: ms and memory over made-up graphs, two keywords of each level.

10,000 entities and 40,000 relations, and ten times as many; the commonest entity has hundreds of relations in the one,
thousands in the other. Relations are judged, with keywords; vectors are those of the built-in embedder.
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

from benchmarks.hubs import KINDS, fill, words
from benchmarks.meter import bound
from benchmarks.options import bench_parser, read_options
from kumihimo.core.records import Chunk, Entity, Mention, Record, Relation, RelationMention
from kumihimo.core.table import Table, codec
from kumihimo.llm.local_embedder import LocalEmbedder, LocalTokenizer
from kumihimo.llm.rerank import CandidateReranker
from kumihimo.methods import METHODS
from kumihimo.search.fulltext import SqliteKeywordSearch
from kumihimo.search.vectors import Matrices, SqliteVectorSearch, load_matrices
from kumihimo.storage.sqlite.store import Db, SqlRows, Store
from kumihimo.text.name_keys import entity_id, name_key, relation_id

METHOD = "light"
SIZES = ((10_000, 25), (100_000, 100))  # entities, and the ms that 95 % of questions may take
EACH = 4  # relations for each entity
TOLD = 12  # relations that a chunk tells of
MODES = ("hybrid", "low", "high", "mix")


def names(entities: int) -> list[str]:
    rng = random.Random(entities)
    return [f"{words(rng, 2).title()} {n}" for n in range(entities)]


def tables(entities: int) -> dict[str, Iterator[tuple[str, Record]]]:
    """The rows as a build would leave them, made while they are written: 400,000 relations are many."""
    called, rng = names(entities), random.Random(entities + 1)
    ids = [entity_id(name_key(name)) for name in called]
    pairs: set[tuple[int, int]] = set()
    while len(pairs) < EACH * entities:
        one, other = sorted((int(entities * rng.random() ** 2), rng.randrange(entities)))
        if one != other:
            pairs.add((one, other))
    edges = sorted(pairs)
    rng.shuffle(edges)
    return {
        "chunks": _chunks(-(-len(edges) // TOLD)),
        "mentions": _mentions(edges, called, ids),
        "ties": _ties(edges, called, ids),
        "entities": _entities(called, ids),
        "relations": _relations(edges, called, ids),
    }


def _chunk(n: int) -> str:
    """Its id, of which 50 are in a document; in the order of n."""
    return f"{n // 50:016x}.{n % 50:05}"


def _chunks(count: int) -> Iterator[tuple[str, Record]]:
    rng = random.Random(1)
    for n in range(count):
        text = words(rng, 150)
        yield _chunk(n), Chunk(text=text, title="", start=0, end=len(text), tokens=600)


def _mentions(edges: list[tuple[int, int]], called: list[str], ids: list[str]) -> Iterator[tuple[str, Record]]:
    for n, edge in enumerate(edges):
        for at, end in enumerate(edge):
            id = f"{_chunk(n // TOLD)}.{2 * (n % TOLD) + at:05}"
            yield id, Mention(text="", entity=ids[end], name=called[end], type="person")


def _ties(edges: list[tuple[int, int]], called: list[str], ids: list[str]) -> Iterator[tuple[str, Record]]:
    for n, (one, other) in enumerate(edges):
        source, target = sorted((ids[one], ids[other]))
        pair = (called[one], called[other])
        made = RelationMention(text="", relation=relation_id(source, target), source=source, target=target, names=pair)
        yield f"{_chunk(n // TOLD)}.{n % TOLD:05}", made


def _entities(called: list[str], ids: list[str]) -> Iterator[tuple[str, Record]]:
    rng = random.Random(2)
    for id, name in sorted(zip(ids, called, strict=True)):
        text = f"{name} {words(rng, 12)}."
        yield id, Entity(text=text, name=name, type="person", forms=(name,), types=("person",), mentions=8, tokens=60)


def _relations(edges: list[tuple[int, int]], called: list[str], ids: list[str]) -> Iterator[tuple[str, Record]]:
    rng = random.Random(3)
    for id, (one, other) in sorted((relation_id(*sorted((ids[a], ids[b]))), (a, b)) for a, b in edges):
        source, target = sorted((ids[one], ids[other]))
        pair = (called[one], called[other])
        text = f"{called[one]} {words(rng, 12)} {called[other]}."
        yield (
            id,
            Relation(
                text=text,
                source=source,
                target=target,
                names=pair,
                keywords=(words(rng, 2), words(rng, 2)),
                weight=1,
                strength=7.0,
                tokens=70,
            ),
        )


def build(home: Path, entities: int) -> None:
    store = Store(home)
    fill(store, home, tables(entities), LocalEmbedder())
    store.close()


def questions(entities: int, count: int) -> list[tuple[str, list[str], list[str]]]:
    """Questions, with two names, of entities with many relations as often as of others, and two themes."""
    rng, called = random.Random(7), names(entities)
    found = []
    for _ in range(count):
        low = [called[int(entities * rng.random() ** 2)], called[int(entities * rng.random() ** 2)]]
        high = [words(rng, 2), words(rng, 2)]
        found.append((f"How did {' and '.join(low)} {' and '.join(high)}?", low, high))
    return found


def answered(low: list[str], high: list[str]) -> Callable[..., Any]:
    """A model whose reply is there already."""
    return lambda _, *, schema, **__: schema(low=low, high=high)


def asked(db: Db, vectors: Matrices, mode: str, told: list[tuple[str, list[str], list[str]]]) -> Iterator[float]:
    """Milliseconds of each question."""
    method = METHODS[METHOD]
    given = {name: Table(name, codec(KINDS[name]), SqlRows(db, name)) for name in method.tables}
    ruler, rank = LocalTokenizer(), CandidateReranker({})
    for question, low, high in told:
        match, near = SqliteKeywordSearch(db), SqliteVectorSearch(db, LocalEmbedder(), vectors)
        began = perf_counter()
        found = method.function(
            question,
            **given,
            keyword_search=match,
            vector_search=near,
            tokenizer=ruler,
            rerank=rank,
            llm=answered(low, high),
            mode=mode,
        )
        yield (perf_counter() - began) * 1000
        assert found


def measured(home: Path, entities: int, mode: str, rounds: int) -> list[float]:
    """Milliseconds at half and at 95 % of the questions, of each the best of three times; of CPU, the mean."""
    store = Store(home)
    told = questions(entities, rounds)
    with store.read_transaction() as db:
        vectors = load_matrices(db, home, {})
        list(asked(db, vectors, mode, told[:5]))
        began = process_time()
        spent = [min(times) for times in zip(*(asked(db, vectors, mode, told) for _ in range(3)), strict=True)]
        cpu = (process_time() - began) * 1000 / (3 * rounds)
    store.close()
    return [median(spent), quantiles(spent, n=20)[-1], cpu]


def run(home: Path, entities: int, most: float, rounds: int) -> None:
    """One size; its index is made in a process of its own, so that the memory is that of whoever asks."""
    if not (home / "index.db").exists():
        subprocess.run([sys.executable, "-m", "benchmarks.keys", "--build", str(home), str(entities)], check=True)
    print(f"{entities:,} entities, {EACH * entities:,} relations", flush=True)
    found = {}
    for mode in MODES:
        p50, found[mode], cpu = measured(home, entities, mode, rounds)
        print(f"  {mode}: p50 {p50:.1f} ms, p95 {found[mode]:.1f} ms, {cpu:.1f} CPU ms", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  memory at most {peak:,.0f} MB, of which vectors mapped from files {vectors_mb(home):,.0f} MB")
    for mode, p95 in found.items():
        bound(f"{METHOD}, mode {mode}, p95", p95, most, " ms")


def vectors_mb(home: Path) -> float:
    return sum(path.stat().st_size for path in (home / "vectors").iterdir()) / 1e6


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--sizes", type=int, nargs="*", default=[size for size, _ in SIZES])
    parser.add_argument("--keep", type=Path, help="a folder for the indexes, which are made once")
    parser.add_argument("--build", nargs=2, metavar=("FOLDER", "ENTITIES"), help="make one index, ask nothing")
    given = read_options(parser, argv, rounds=2, sizes=[200])
    if given.build:
        build(Path(given.build[0]), int(given.build[1]))
        return
    with TemporaryDirectory() as temporary:
        for entities in given.sizes:
            home = (given.keep or Path(temporary)) / str(entities) / ".kumi"
            run(home, entities, dict(SIZES).get(entities, SIZES[-1][1]), given.rounds)


if __name__ == "__main__":
    main()
