"""articles with paragraphs and their questions (the form of SQuAD: JSQuAD, DRCD) -> all paragraphs, and questions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.data.sources import Row, Sample, Tables, read_json, select


def convert_squad(files: Sequence[Path], sample: Sample) -> Tables:
    """Convert the paragraphs; the gold of a question is the one it stands under."""
    corpus: list[Row] = []
    questions: dict[str, Row] = {}
    for article in read_json(files[0])["data"]:
        for paragraph in article["paragraphs"]:
            id = f"{sample.name}-{len(corpus)}"
            corpus.append({"id": id, "title": article["title"], "text": paragraph["context"]})
            for row in paragraph["qas"]:
                answers = row["answers"]
                questions[row["id"]] = {
                    "id": row["id"],
                    "question": row["question"],
                    "answers": sorted({answer["text"] for answer in answers}),
                    "answer_start": answers[0]["answer_start"],
                    "gold_passage_ids": [id],
                }
    return {"_corpus.jsonl": corpus, "_questions.jsonl": select(questions, sample.questions)}
