"""chunk sizes and gleaning rounds -> references to entities (GraphRAG, section 3.1.2, figure 3).

Data: the documents of `--index`, read by the model of its `[mentions]`; without it, generated notes and a stub model
that finds one entity a turn. Chunks of 600, 1,200 and 2,400 tokens are read with 0 to 3 gleanings. A conversation with
fewer gleanings is the beginning of one with more, so only the longest is paid. Entities that occur only as ends of
relations are not counted. A document that fails is named and counts 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo import Kumihimo
from kumihimo.core.context import Tokenizer
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import Chunk, Document
from kumihimo.core.table import NO_ROWS, Table, codec
from kumihimo.core.wiring import ROOT
from kumihimo.index.chunk_background import Description
from kumihimo.index.chunks import chunks
from kumihimo.index.imports import ImportedUnit
from kumihimo.index.mentions import ExtractionSettings, mentions
from kumihimo.index.name_records import ChunkNames, NameMerges
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.local_embedder import LocalTokenizer
from kumihimo.llm.protocols import LLM, Reply

CHUNK_SIZES = (600, 1200, 2400)
ROUNDS = (0, 1, 2, 3)
OVERLAP = 100
NO_NAMES = Table("names", codec(ChunkNames), NO_ROWS)
NO_MERGES = Table("merges", codec(NameMerges), NO_ROWS)
NO_IMPORTS = Table("imported_units", codec(ImportedUnit), NO_ROWS)
NO_CHUNKS = Table("chunks", codec(Chunk), NO_ROWS)
NO_DESCRIPTIONS = Table("descriptions", codec(Description), NO_ROWS)


class StubReader:
    """A model that finds one entity in each turn."""

    fingerprint, workers = "stub", 1

    def __call__(self, prompt: Any, *, parse: Any, **_: Any) -> Any:
        """Return one entity more."""
        turn = sum(message["role"] == "assistant" for message in prompt)
        name = ("Ada", "Bo", "Cleo", "Dan")[turn]
        return parse(Reply(f"entity<|>{name}<|>person<|>{name} mends.\nEND"))


def count_references(documents: Sequence[Document], llm: LLM, tokenizer: Tokenizer, size: int, rounds: int) -> int:
    """Return the number of described entities in all chunks of the documents."""

    def count_in_document(document: Document) -> int:
        found, settings = 0, ExtractionSettings(gleanings=rounds, glean_below=1000)
        for n, chunk in enumerate(chunks(document, tokenizer, size=size, overlap=OVERLAP)):
            named = replace(chunk, id=f"{document.id}.{n:05}")
            tables = (NO_CHUNKS, NO_NAMES, NO_MERGES, NO_DESCRIPTIONS, NO_IMPORTS)
            found += sum(bool(mention.text) for mention in mentions(named, *tables, llm, extraction=settings))
        return found

    def count_or_skip(document: Document) -> int:
        try:
            return count_in_document(document)
        except ItemFailed as failure:
            print(f"{document.uri}: {failure}")
            return 0

    return sum(map_concurrent(count_or_skip, documents, llm.workers))


@contextmanager
def open_documents(index: Path | None, count: int) -> Iterator[tuple[list[Document], Any, Tokenizer]]:
    """Yield documents, always the same, with the model that reads them and its tokenizer."""
    if index is None:
        text = " ".join(f"Ada mends wall {n} by the sea." for n in range(250))
        document = Document(id="note", text=text, uri="note", file="note", title="", media_type="")
        yield [document], StubReader(), LocalTokenizer()
        return
    with Kumihimo.open(index) as kumi:
        llm = kumi.models.llm("mentions", kumi.models.budget())
        with kumi.snapshot() as snapshot:
            documents = sorted(snapshot.table(ROOT), key=lambda document: hash_parts(document.uri))[: count or None]
        yield documents, llm, kumi.tokenizer


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--index", type=Path, help="an index with a chat model in its settings")
    parser.add_argument("--documents", type=int, default=10, help="number of documents; 0: all")
    options = read_options(parser, argv)
    print("chunks of", *(f"{n} gleanings" for n in ROUNDS), sep="\t")
    with open_documents(options.index, options.documents) as (documents, llm, tokenizer):
        for size in CHUNK_SIZES:
            counts = {n: count_references(documents, llm, tokenizer, size, n) for n in reversed(ROUNDS)}
            print(f"{size:,}", *(f"{counts[n]:,}" for n in ROUNDS), sep="\t")


if __name__ == "__main__":
    run_benchmark(main)
