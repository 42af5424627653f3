"""long documents and places in them (chunking_evaluation) -> one document each, and questions with places as gold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.data.sources import Sample, Tables, read_table, read_text


def convert_places(files: Sequence[Path], sample: Sample) -> Tables:
    """Convert one document; its questions stand among those of all."""
    name = sample.name
    rows = [row for row in read_table(files[1]) if row["corpus_id"] == name]
    questions = [
        {"id": f"{name}-{n}", "question": row["question"]}
        | {"gold": [[name, place["start_index"], place["end_index"]] for place in json.loads(row["references"])]}
        for n, row in enumerate(rows)
    ]
    return {"_corpus.jsonl": [{"id": name, "text": read_text(files[0])}], "_questions.jsonl": questions}
