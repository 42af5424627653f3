"""an index -> the statistics of its text and names, to compare a made-up corpus with real ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from math import log2
from pathlib import Path
from statistics import mean

from benchmarks.made_up import documents, write_folder
from kumihimo import Kumihimo
from kumihimo.app.ask.snapshot import Snapshot

REAL = {
    "MuSiQue": "multihop/musique_train100_corpus.jsonl",
    "podcasts": "podcasts/kevin_scott_podcasts.jsonl",
    "news": "ordinary/news_corpus.jsonl",
}
_WORD = re.compile(r"\w+")


def describe(snapshot: Snapshot) -> dict[str, float]:
    """Return the statistics of an index."""
    texts = {document.id: _WORD.findall(document.text.lower()) for document in snapshot.table("documents")}
    chunks = [len(_WORD.findall(text)) for (text,) in snapshot.table("chunks").columns("text")]
    mentions = [(id.partition(".")[0], entity) for id, entity in snapshot.table("mentions").columns("id", "entity")]
    relations = sum(1 for _ in snapshot.table("relations").columns("id"))
    ties = sum(1 for _ in snapshot.table("ties").columns("id"))
    ids = sorted(texts)  # digests: an order by chance
    half = set(ids[: len(ids) // 2])
    lengths = sorted(map(len, texts.values()))
    counts = Counter(entity for _, entity in mentions)
    document_counts = Counter(entity for _, entity in set(mentions))
    return {
        "documents": len(texts),
        "chunks": len(chunks),
        "words of a document, 5 %": lengths[len(lengths) // 20],
        "50 %": lengths[len(lengths) // 2],
        "95 %": lengths[int(0.95 * len(lengths))],
        "words of a chunk": mean(chunks),
        "different words / √words": len(_types(texts.values())) / sum(lengths) ** 0.5,
        "exponent of the growth of words": _exponent(_types(texts.values()), _types(texts[id] for id in half)),
        "mentions of a chunk": len(mentions) / len(chunks),
        "relation mentions of a chunk": ties / len(chunks),
        "entities for each chunk": len(counts) / len(chunks),
        "exponent of the growth of entities": _exponent(set(counts), {entity for id, entity in mentions if id in half}),
        "relations for each chunk": relations / len(chunks),
        "share of entities named once": _share(counts, lambda number: number == 1),
        "share in several documents": _share(document_counts, lambda number: number > 1),
        "mentions of the most frequent": max(counts.values(), default=0) / max(1, len(mentions)),
    }


def _types(texts: Iterable[list[str]]) -> set[str]:
    return {word for text in texts for word in text}


def _exponent(all_types: set[str], half: set[str]) -> float:
    """Return the exponent of Heaps' law between half of the documents and all of them."""
    return log2(len(all_types) / len(half)) if half else 0.0


def _share(counts: Counter[str], fits: Callable[[int], bool]) -> float:
    return sum(map(fits, counts.values())) / max(1, len(counts))


def print_comparison(home: Path, data: Path, seed: int, chunks: int) -> None:
    """Build a made-up corpus and the real ones for `local`; print their statistics side by side."""
    write_folder(home / "made-up", documents(seed, chunks))
    sources = {"made up": home / "made-up"} | {name: data / path for name, path in REAL.items()}
    columns: dict[str, dict[str, float]] = {}
    for name, source in sources.items():
        if not source.exists():
            continue
        with Kumihimo.open(home / name) as kumi:
            kumi.index(source, methods=["local"])
            with kumi.snapshot() as snapshot:
                columns[name] = describe(snapshot)
    print(f"| | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    for row in columns["made up"]:
        values = [column[row] for column in columns.values()]
        cells = " | ".join(f"{value:,.2f}" if value < 100 else f"{value:,.0f}" for value in values)
        print(f"| {row} | {cells} |")
