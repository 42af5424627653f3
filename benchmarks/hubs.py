"""questions over generated graphs -> ms that `local` adds without the model, on a graph with hubs too.

Data: none. One line a graph: entities, relations, chunks, and the ms of a question at p50 and p95. The second graph has
hubs of degree 1,000.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks.growth import WORDS
from benchmarks.meter import check_at_most
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo.core.digests import hash_parts
from kumihimo.core.records import (
    Chunk,
    Claim,
    Community,
    Entity,
    Member,
    Mention,
    Record,
    Relation,
    RelationMention,
    Report,
)
from kumihimo.core.table import Table, codec
from kumihimo.llm.local_embedder import LocalTokenizer
from kumihimo.llm.protocols import Embedder
from kumihimo.llm.rerank import CandidateReranker
from kumihimo.methods.local import local
from kumihimo.search.fulltext import Bm25Search, KeywordIndex, SearchIndex
from kumihimo.search.vectors import CosineSearch, VectorIndex, load_matrices
from kumihimo.storage.database import SqlRows
from kumihimo.storage.ledger import SqlLedger
from kumihimo.storage.sqlite.connection import Db
from kumihimo.storage.sqlite.store import SqliteStore
from kumihimo.text.name_keys import entity_id, name_key, relation_id

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KINDS: dict[str, type[Record]] = {
    "chunks": Chunk,
    "mentions": Mention,
    "ties": RelationMention,
    "entities": Entity,
    "relations": Relation,
    "claims": Claim,
    "communities": Community,
    "members": Member,
    "reports": Report,
}
Tables = dict[str, dict[str, Record]]
VOCABULARY = [one + other for one in WORDS for other in WORDS]
SHARES = list(
    accumulate(1 / (rank + 500) for rank in range(len(VOCABULARY)))
)  # so that the commonest word is in a quarter of the chunks


class RandomEmbedder:
    """An embedder with random vectors of 256 dimensions, seeded by the text: only the search takes time."""

    fingerprint, batch, workers = "thrown", 256, 1

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        vectors = np.stack([np.random.default_rng(int(hash_parts(text), 16)).standard_normal(256) for text in texts])
        return np.asarray(vectors / np.sqrt((vectors**2).sum(axis=1, keepdims=True)), dtype=np.float32)


def draw_words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(VOCABULARY, cum_weights=SHARES, k=count))


def make_graph(entities: int, edges: int, hubs: int, degree: int, chunks: int) -> tuple[Tables, list[str]]:
    """Return generated tables and the entity names, hubs first."""
    rng = random.Random(entities)
    names = [f"{draw_words(rng, 2).title()} {n}" for n in range(entities)]
    ids = [entity_id(name_key(name)) for name in names]
    chunk_ids = [f"{hash_parts(str(n // 50))}.{n % 50:05}" for n in range(chunks)]
    pairs = {(hub, rng.randrange(hubs, entities)) for hub in range(hubs) for _ in range(degree)}
    while len(pairs) < edges:
        pairs.add((rng.randrange(hubs, entities), rng.randrange(hubs, entities)))
    tables: Tables = {name: {} for name in KINDS}
    for id in chunk_ids:
        text = draw_words(rng, 300)
        tables["chunks"][id] = Chunk(text=text, title="", start=0, end=len(text), tokens=600)
    for n, (one, other) in enumerate(sorted(pairs)):
        _add_relation(tables, names, ids, one, other, rng.choice(chunk_ids), rng)
        if n % 10 == 0:
            _add_claim(tables, ids[one], names[one], rng)
    for n, id in enumerate(ids):
        text = f"{names[n]} {draw_words(rng, 12)}."
        tables["entities"][id] = Entity(
            text=text, name=names[n], type="", forms=(names[n],), types=(), mentions=1, tokens=30
        )
        leaf = f"leaf{n // 8:05}"
        tables["members"][f"{leaf}.{n % 8:05}"] = Member(entity=id)
    _add_communities(tables, entities, rng)
    return tables, names


def _add_relation(
    tables: Tables, names: list[str], ids: list[str], one: int, other: int, chunk: str, rng: random.Random
) -> None:
    source, target = sorted((ids[one], ids[other]))
    ends = (names[one], names[other])
    text = f"{names[one]} {draw_words(rng, 12)} {names[other]}."
    row = Relation(text=text, source=source, target=target, names=ends, keywords=(), weight=1, strength=None, tokens=40)
    relation = relation_id(source, target)
    tables["relations"][relation] = row
    ordinal = len(tables["ties"])
    tables["ties"][f"{chunk}.{ordinal:06}"] = RelationMention(
        text=text, relation=relation, source=source, target=target, names=ends
    )
    for end in (one, other):
        mention = Mention(text=text, entity=ids[end], name=names[end], type="")
        tables["mentions"][f"{chunk}.{len(tables['mentions']):06}"] = mention


def _add_claim(tables: Tables, subject: str, name: str, rng: random.Random) -> None:
    text = draw_words(rng, 12)
    row = Claim(
        text=text,
        subject=subject,
        object="",
        names=(name,),
        type="fact",
        statuses=("TRUE",),
        start="",
        end="",
        quotes=(),
        tokens=20,
    )
    tables["claims"][hash_parts(subject, text)] = row


def _add_communities(tables: Tables, entities: int, rng: random.Random) -> None:
    """Add three levels of communities with eight members each."""
    leaves = -(-entities // 8)
    groups = {f"leaf{n:05}": (2, f"mid{n // 8:05}") for n in range(leaves)}
    groups |= {f"mid{n:05}": (1, f"top{n // 8:05}") for n in range(-(-leaves // 8))}
    groups |= {f"top{n:05}": (0, "") for n in range(-(-leaves // 64))}
    for id, (level, parent) in groups.items():
        tables["communities"][id] = Community(level=level, parent=parent, children=(), members=())
        text = draw_words(rng, 300)
        tables["reports"][id] = Report(
            text=text,
            title=id,
            summary="",
            rating=5.0,
            reason="",
            findings=(),
            sources=(),
            dropped=0,
            level=level,
            elements=1000,
            tokens=450,
        )


def build(store: SqliteStore, folder: Path, tables: Tables) -> None:
    fill(store, folder, {name: iter(sorted(rows.items())) for name, rows in tables.items()}, RandomEmbedder())


def fill(
    store: SqliteStore, folder: Path, tables: Mapping[str, Iterator[tuple[str, Record]]], embedder: Embedder
) -> None:
    """Write an index as a build does: tables, keywords, vectors.

    The rows of each table come sorted by id.
    """
    with store.write_transaction() as db:
        ledger = SqlLedger(db)
        for name, kind in KINDS.items():
            ledger.ensure_table(name, codec(kind), "documents", "id")
            views: list[SearchIndex] = [
                KeywordIndex(db, name, codec(kind)),
                VectorIndex(db, folder, name, codec(kind), embedder),
            ]
            for view in views if kind.SEARCHED_BY else ():
                view.ensure("1")
                ledger.views[name].append(view)
            encoded = (codec(kind).encode(id, record) for id, record in tables.get(name, iter(())))
            while page := list(islice(encoded, 1000)):
                ledger.change(name, [], page)
            ledger.settle(name)
            for view in views if kind.SEARCHED_BY else ():
                view.finish()


def time_questions(db: Db, folder: Path, questions: Iterable[str]) -> Iterator[float]:
    """Yield the wall milliseconds of each question."""
    tables: dict[str, Any] = {name: Table(name, codec(kind), SqlRows(db, name)) for name, kind in KINDS.items()}
    keyword_search, vector_search, tokenizer = (
        Bm25Search(db),
        CosineSearch(db, lambda *_: RandomEmbedder(), load_matrices(db, folder, {})),
        LocalTokenizer(),
    )
    for question in questions:
        start = perf_counter()
        ports: dict[str, Any] = {
            "keyword_search": keyword_search,
            "vector_search": vector_search,
            "tokenizer": tokenizer,
        }
        context = local(question, **tables, **ports, rerank=CandidateReranker({}))
        yield (perf_counter() - start) * 1000
        assert context


def measure(name: str, entities: int, edges: int, hubs: int, degree: int, chunks: int, rounds: int) -> list[float]:
    """Print and return p50 and p95 of a question in ms.

    Questions name one to three entities, hubs among them; each counts with the best of three runs.
    """
    with TemporaryDirectory() as temporary:
        folder = Path(temporary, ".kumi")
        tables, names = make_graph(entities, edges, hubs, degree, chunks)
        store = SqliteStore(folder)
        build(store, folder, tables)
        rng = random.Random(7)
        subjects = [rng.sample(names[: 4 * max(hubs, 25)], rng.randint(1, 3)) for _ in range(rounds + 5)]
        questions = [f"How did {' and '.join(sample)} {draw_words(rng, 3)}?" for sample in subjects]
        with store.read_transaction() as db:
            best_ms = [
                min(times)
                for times in zip(*(list(time_questions(db, folder, questions))[5:] for _ in range(3)), strict=True)
            ]
        store.close()
    p50, p95 = median(best_ms), quantiles(best_ms, n=20)[-1]
    print(
        f"  {name}: {entities:,} entities, {edges:,} relations, {chunks:,} chunks: p50 {p50:.1f} ms, p95 {p95:.1f} ms"
    )
    return [p50, p95]


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    options = read_options(parser, argv, rounds=2)
    part = 40 if options.quick else 1  # divides all sizes
    p50, _ = measure("without hubs", 8_000 // part, 20_000 // part, 0, 0, 1_700 // part, options.rounds)
    _, p95 = measure("with hubs", 20_000 // part, 80_000 // part, 20, 1_000 // part, 8_000 // part, options.rounds)
    check_at_most("local, p50", p50, 10, " ms")
    check_at_most("local on hubs, p95", p95, 60, " ms")


if __name__ == "__main__":
    run_benchmark(main)
