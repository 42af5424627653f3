"""passages, five in each chunk by chance -> recall@5 of chunks on many topics.

Data: DATA/multihop (MuSiQue, HotpotQA) and DATA/japanese (JSQuAD). No model. One line for each set and method. `braid`
uses its published weights, which were learned on these questions too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.options import bench_parser, read_options, run_benchmark
from benchmarks.passages import SETS, read_rows
from kumihimo import Kumihimo

PASSAGES_PER_CHUNK = 5
QUESTION_COUNTS = {"musique": 100, "hotpot": 100, "jsquad": 150}


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    data = read_options(parser, argv).data
    for name in QUESTION_COUNTS:
        measure(data, name)


def measure(data: Path, name: str) -> None:
    passages = list(read_rows(data / f"{SETS[name]}_corpus.jsonl"))
    Random(7).shuffle(passages)
    groups = [passages[i : i + PASSAGES_PER_CHUNK] for i in range(0, len(passages), PASSAGES_PER_CHUNK)]
    documents = {str(passage["id"]): f"d{n}" for n, group in enumerate(groups) for passage in group}
    texts = ["\n\n".join(f"{p.get('title') or ''}\n{p['text']}".strip() for p in group) for group in groups]
    rows = [json.dumps({"id": f"d{n}", "text": text}, ensure_ascii=False) for n, text in enumerate(texts)]
    with TemporaryDirectory() as folder:
        path = Path(folder, "corpus.jsonl")
        path.write_text("\n".join(rows), encoding="utf-8")
        settings = {"chunks": {"size": 2000, "overlap": 0}}
        with Kumihimo.open(Path(folder, ".kumi"), settings=settings) as kumi:
            kumi.index(path, methods=["bm25", "naive", "braid"])
            questions = list(read_rows(data / f"{SETS[name]}_questions.jsonl"))[: QUESTION_COUNTS[name]]
            for method in ("bm25", "naive", "braid"):
                recalls = [
                    recall(kumi, method, row["question"], row["gold_passage_ids"], documents) for row in questions
                ]
                print(f"{name}: {method} {fmean(recalls):.3f}", flush=True)


def recall(kumi: Kumihimo, method: str, question: str, gold: list[str], documents: dict[str, str]) -> float:
    settings: dict[str, Any] = {} if method == "bm25" else {"budget": 100_000}
    with kumi.snapshot() as snapshot:
        context = snapshot.retrieve(question, method, k=5, **settings)
        retrieved = {span.uri.rpartition("#")[2] for item in context for span in snapshot.trace(item)}
    gold_documents = {documents[str(id)] for id in gold}
    return len(gold_documents & retrieved) / len(gold_documents)


if __name__ == "__main__":
    run_benchmark(main)
