"""books and their questions (UltraDomain, GraphRAG-Bench) -> whole books, and questions with the book as gold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.data.sources import Row, Sample, Tables, read_json, read_rows, select


def convert_ultradomain(files: Sequence[Path], sample: Sample) -> Tables:
    """Convert questions with `context`; equal contexts are one document, as LightRAG reads them."""
    documents: dict[str, Row] = {}
    questions = {}
    for row in read_rows(files[0]):
        title = (row.get("meta") or {}).get("title")
        document = {"id": f"{sample.name}-{len(documents)}"} | ({"title": title} if title else {})
        document = documents.setdefault(row["context"], document | {"text": row["context"]})
        questions[row["_id"]] = {
            "id": row["_id"],
            "question": row["input"],
            "answers": row["answers"],
            "gold_passage_ids": [document["id"]],
        }
    return {"_corpus.jsonl": list(documents.values()), "_questions.jsonl": select(questions, sample.questions)}


def convert_graphrag_bench(files: Sequence[Path], sample: Sample) -> Tables:
    """Convert a book or a list of them, and the questions, each of one book."""
    books = read_json(files[0])
    corpus = [
        {"id": book["corpus_name"], "text": book["context"]} for book in (books if isinstance(books, list) else [books])
    ]
    ids = {book["id"]: [book["id"]] for book in corpus}
    questions = {
        row["id"]: {"id": row["id"], "question": row["question"], "answer": row["answer"]}
        | {"type": row["question_type"], "gold_passage_ids": ids[row["source"]]}
        for row in read_rows(files[1])
    }
    return {"_corpus.jsonl": corpus, "_questions.jsonl": select(questions, sample.questions)}
