"""what a model extracted from passages (HippoRAG) -> one row a passage, with its entities and triples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.data.sources import Sample, Tables, read_json


def convert_openie(files: Sequence[Path], sample: Sample) -> Tables:
    """Convert the passages in their order, which is that of the corpus."""
    corpus = sample.name.rpartition("_gpt35_")[2]
    rows = [
        {"passage_id": f"{corpus}-{n}", "title": row["title"], "text": row["text"]}
        | {"entities": row["extracted_entities"], "triples": row["extracted_triples"]}
        for n, row in enumerate(read_json(files[0])["docs"])
    ]
    return {".jsonl": rows}
