"""What is ours when a model over HTTP does the work: the podcasts asked about and embedded, beside the bare SDK.

One chat call and one vector for each of the 1,669 parts, from a server in another process that answers after 50 ms, 16
at a time. The bare SDK sends the same requests from the same number of threads, and keeps nothing. Both run in turns,
so that whatever else the machine does falls on both. What the index does besides (reading, cutting, words) is
measured by the same build without a model, and told apart.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.meter import Cost, bound, measured
from benchmarks.options import bench_parser, read_options
from kumihimo.app.facade import Kumihimo
from kumihimo.core.context import Context
from kumihimo.core.records import Chunk, Record
from kumihimo.core.signature import collect_signatures
from kumihimo.core.table import Table
from kumihimo.index import RECORD_TYPES, STEPS
from kumihimo.llm.protocols import LLM
from kumihimo.methods import METHODS
from kumihimo.search.protocols import VectorSearch
from kumihimo.testing.fake_server import run_fake_server

WORKERS, LATENCY, BATCH, ROUNDS = 16, 0.05, 64, 3
PROMPT = "Say in one sentence what this is about.\n\n"


@dataclass(frozen=True, slots=True)
class Gist(Record):
    """What a chunk is about."""


def gists(chunk: Chunk, llm: LLM) -> Gist:
    """What a chunk is about, by a model."""
    return Gist(text=llm(f"{PROMPT}{chunk.text}"))


def told(
    question: str, chunks: Table[Chunk], gists: Table[Gist], vector_search: VectorSearch, *, k: int = 5
) -> Context:
    """Chunks and gists near the question."""
    return vector_search(chunks, question, k=k) + vector_search(gists, question, k=k)


def first(question: str, chunks: Table[Chunk], *, k: int = 5) -> Context:
    """Some chunks, for which nothing is searched."""
    raise NotImplementedError(question, chunks, k)


STEPS.update(collect_signatures(gists))
METHODS.update(collect_signatures(told, first))
RECORD_TYPES.update({"gists": Gist})


def indexed(podcasts: Path, url: str) -> tuple[Cost, list[str], list[str]]:
    """The cost of building, and then the prompts and the texts that were asked for."""
    model = {"model": "m", "base_url": url, "workers": WORKERS}
    settings: dict[str, dict[str, object]] = {
        "chat": model,
        "embedding": {**model, "batch": BATCH},
        "chunks": {"size": 100_000},
    }
    with TemporaryDirectory() as folder, Kumihimo(Path(folder, ".kumi"), settings) as kumi:
        with measured() as cost:
            built = kumi.index(podcasts, methods=["told"])
        assert not built.failed
        assert built.rows["gists"] == built.rows["chunks"]
        with kumi.snapshot() as reading:
            prompts = [f"{PROMPT}{chunk.text}" for chunk in reading.table("chunks")]
            texts = [r.index_text for table in ("chunks", "gists") for r in reading.table(table)]
    return cost, prompts, texts


def without(podcasts: Path) -> Cost:
    """The cost of the same index as far as it needs no model."""
    with TemporaryDirectory() as folder:
        kumi = Kumihimo(Path(folder, ".kumi"), {"chunks": {"size": 100_000}})
        with kumi, measured() as cost:
            kumi.index(podcasts, methods=["first"])
    return cost


def bare(url: str, prompts: list[str], texts: list[str]) -> Cost:
    """The cost of the same requests by the SDK alone."""
    import openai

    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
    batches = [texts[i : i + BATCH] for i in range(0, len(texts), BATCH)]

    def ask(prompt: str) -> str | None:
        messages = [{"role": "user", "content": prompt}]
        return client.chat.completions.create(model="m", messages=messages, temperature=0).choices[0].message.content  # type: ignore[arg-type]

    def embed(batch: list[str]) -> int:
        return len(client.embeddings.create(model="m", input=batch).data)

    with measured() as cost, ThreadPoolExecutor(WORKERS) as pool:
        assert all(pool.map(ask, prompts))
        assert sum(pool.map(embed, batches)) == len(texts)
    return cost


def rounds(podcasts: Path, url: str) -> Iterator[tuple[Cost, Cost, Cost]]:
    for _ in range(ROUNDS):
        ours, prompts, texts = indexed(podcasts, url)
        yield ours, without(podcasts), bare(url, prompts, texts)


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    podcasts = read_options(parser, argv).data / "podcasts" / "kevin_scott_podcasts.jsonl"
    with run_fake_server(latency=LATENCY) as server:
        found = list(rounds(podcasts, server.url))
    for ours, free, sdk in found:
        print(f"  index with the model  {ours}\n  without it            {free}\n  bare SDK              {sdk}")
    for unit in ("cpu", "wall"):
        shares = [(getattr(a, unit) - getattr(b, unit)) / getattr(c, unit) for a, b, c in found]
        whole = median(getattr(a, unit) / getattr(c, unit) for a, _, c in found)
        print(f"  {unit}: the whole index, reading and cutting the documents too: {whole:.2f} times the bare SDK")
        bound(f"{unit}: what the model adds to the index, in terms of the bare SDK", median(shares), 1.15)
    loaded = "from kumihimo import Kumihimo; import sys; sys.exit('openai' in sys.modules)"
    subprocess.run([sys.executable, "-c", loaded], check=True)
    print("  importing kumihimo does not import openai")


if __name__ == "__main__":
    main()
