"""corpus, queries and qrels (the form of BEIR: FiQA) -> passages, and questions with gold.

Files: `corpus.jsonl`, `queries.jsonl`, then the qrels. Without a list of ids, the questions are those of the last
qrels, the test.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from benchmarks.data.sources import Sample, Tables, read_rows, read_table, select


def convert_beir(files: Sequence[Path], sample: Sample) -> Tables:
    """Convert the posts, and the questions that have relevant ones."""
    passages = {
        row["_id"]: {"id": row["_id"]} | ({"title": row["title"]} if row.get("title") else {}) | {"text": row["text"]}
        for row in read_rows(files[0])
    }
    texts = {row["_id"]: row["text"] for row in read_rows(files[1])}
    gold: dict[str, list[str]] = {}
    for path in files[2:]:
        tested: dict[str, list[str]] = defaultdict(list)
        for row in read_table(path, "\t"):
            if int(row["score"]) > 0:
                tested[row["query-id"]].append(row["corpus-id"])
        gold |= tested
    rows = {id: {"id": id, "question": texts[id], "gold_passage_ids": ids} for id, ids in gold.items()}
    questions = select(rows, sample.questions) if sample.questions else [rows[id] for id in tested]
    return {"_corpus.jsonl": select(passages, sample.passages), "_questions.jsonl": questions}
