"""Sets of questions, five passages of them in each chunk, by chance -> recall@5 where a chunk speaks of many things.

DATA/multihop and DATA/japanese; no model. Weights of `braid` as published, which have seen these questions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.options import bench_parser, read_options
from benchmarks.passages import SETS, questions
from kumihimo import Kumihimo

TOGETHER = 5  # passages
ASKED = {"musique": 100, "hotpot": 100, "jsquad": 150}  # questions


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    data = read_options(parser, argv).data
    for name in ASKED:
        measure(data, name)


def measure(data: Path, name: str) -> None:
    passages = list(questions(data / f"{SETS[name]}_corpus.jsonl"))
    Random(7).shuffle(passages)
    groups = [passages[i : i + TOGETHER] for i in range(0, len(passages), TOGETHER)]
    where = {str(passage["id"]): f"d{n}" for n, group in enumerate(groups) for passage in group}
    texts = ["\n\n".join(f"{p.get('title') or ''}\n{p['text']}".strip() for p in group) for group in groups]
    rows = [json.dumps({"id": f"d{n}", "text": text}, ensure_ascii=False) for n, text in enumerate(texts)]
    with TemporaryDirectory() as folder:
        path = Path(folder, "corpus.jsonl")
        path.write_text("\n".join(rows), encoding="utf-8")
        whole = {"chunks": {"size": 2000, "overlap": 0}}
        with Kumihimo.open(Path(folder, ".kumi"), settings=whole) as kumi:
            kumi.index(path, methods=["bm25", "naive", "braid"])
            asked = list(questions(data / f"{SETS[name]}_questions.jsonl"))[: ASKED[name]]
            for method in ("bm25", "naive", "braid"):
                shares = [recall(kumi, method, row["question"], row["gold_passage_ids"], where) for row in asked]
                print(f"{name}: {method} {fmean(shares):.3f}", flush=True)


def recall(kumi: Kumihimo, method: str, question: str, gold: list[str], where: dict[str, str]) -> float:
    room: dict[str, Any] = {} if method == "bm25" else {"budget": 100_000}
    with kumi.snapshot() as reading:
        found = reading.retrieve(question, method, k=5, **room)
        got = {span.uri.rpartition("#")[2] for item in found for span in reading.trace(item)}
    wanted = {where[str(id)] for id in gold}
    return len(wanted & got) / len(wanted)


if __name__ == "__main__":
    main()
