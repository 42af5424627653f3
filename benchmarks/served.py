"""podcasts, a model over HTTP -> our time to ask about and embed each part, beside the bare SDK.

Data: DATA/podcasts. One chat call and one vector for each of the 1,669 parts, from a server in another process that
answers after 50 ms, 16 at a time. The bare SDK sends the same requests from the same number of threads and stores
nothing. Both run in turns, so that other load on the machine falls on both. The same build without a model measures
reading, chunking and full text, which are subtracted. Three lines a round: CPU, wall time, bytes written, peak memory.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from unittest.mock import patch

from tests.fake_server import run_fake_server

from benchmarks.meter import Cost, check_at_most, measured
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo.app.facade import Kumihimo
from kumihimo.app.opened import catalogue as catalogue_module
from kumihimo.app.opened.catalogue import extend_catalogue
from kumihimo.core.context import Context
from kumihimo.core.records import Chunk, Record
from kumihimo.core.table import Table
from kumihimo.llm.protocols import LLM
from kumihimo.search.protocols import VectorSearch

WORKERS, LATENCY, BATCH, ROUNDS = 16, 0.05, 64, 3
PROMPT = "Say in one sentence what this is about.\n\n"


@dataclass(frozen=True, slots=True)
class Gist(Record):
    """A summary of a chunk in one sentence."""


def gists(chunk: Chunk, llm: LLM) -> Gist:
    """Summarize a chunk with the model."""
    return Gist(text=llm(f"{PROMPT}{chunk.text}"))


def search_both(
    question: str, chunks: Table[Chunk], gists: Table[Gist], vector_search: VectorSearch, *, k: int = 5
) -> Context:
    """Return chunks and gists close to the question."""
    return vector_search(chunks, question, k=k) + vector_search(gists, question, k=k)


def chunks_only(question: str, chunks: Table[Chunk], *, k: int = 5) -> Context:
    """Stand for a method without any search; never called."""
    raise NotImplementedError(question, chunks, k)


@contextmanager
def extended_catalogues() -> Iterator[None]:
    """Add the step and the methods of this benchmark."""
    extended = extend_catalogue(
        catalogue_module.installed_catalogue(), steps=[gists], methods=[search_both, chunks_only]
    )
    with patch.object(catalogue_module, "installed_catalogue", lambda: extended):
        yield


def index_with_model(podcasts: Path, url: str) -> tuple[Cost, list[str], list[str]]:
    """Return the cost of a build, with its prompts and embedded texts."""
    model = {"model": "m", "base_url": url, "workers": WORKERS}
    settings: dict[str, dict[str, object]] = {
        "chat": model,
        "embedding": {**model, "batch": BATCH},
        "chunks": {"size": 100_000},
    }
    with TemporaryDirectory() as folder, Kumihimo(Path(folder, ".kumi"), settings) as kumi:
        with measured() as cost:
            built = kumi.index(podcasts, methods=["search_both"])
        assert not built.failed
        assert built.rows["gists"] == built.rows["chunks"]
        with kumi.snapshot() as snapshot:
            prompts = [f"{PROMPT}{chunk.text}" for chunk in snapshot.table("chunks")]
            texts = [r.index_text for table in ("chunks", "gists") for r in snapshot.table(table)]
    return cost, prompts, texts


def index_without_model(podcasts: Path) -> Cost:
    """Return the cost of the same index without a model."""
    with TemporaryDirectory() as folder:
        kumi = Kumihimo(Path(folder, ".kumi"), {"chunks": {"size": 100_000}})
        with kumi, measured() as cost:
            kumi.index(podcasts, methods=["chunks_only"])
    return cost


def send_bare_requests(url: str, prompts: list[str], texts: list[str]) -> Cost:
    """Return the cost of the same requests by the SDK alone."""
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


def run_rounds(podcasts: Path, url: str) -> Iterator[tuple[Cost, Cost, Cost]]:
    for _ in range(ROUNDS):
        ours, prompts, texts = index_with_model(podcasts, url)
        yield ours, index_without_model(podcasts), send_bare_requests(url, prompts, texts)


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    podcasts = read_options(parser, argv).data / "podcasts" / "kevin_scott_podcasts.jsonl"
    with extended_catalogues(), run_fake_server(latency=LATENCY) as server:
        costs = list(run_rounds(podcasts, server.url))
    for ours, no_model, sdk in costs:
        print(f"  index with the model  {ours}\n  without it            {no_model}\n  bare SDK              {sdk}")
    for unit in ("cpu", "wall"):
        shares = [(getattr(a, unit) - getattr(b, unit)) / getattr(c, unit) for a, b, c in costs]
        ratio = median(getattr(a, unit) / getattr(c, unit) for a, _, c in costs)
        print(f"  {unit}: whole index, with reading and chunking: {ratio:.2f} times the bare SDK")
        check_at_most(f"{unit}: cost of the model in the index, as a multiple of the bare SDK", median(shares), 1.15)
    script = "from kumihimo import Kumihimo; import sys; sys.exit('openai' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)
    print("  importing kumihimo does not import openai")


if __name__ == "__main__":
    run_benchmark(main)
