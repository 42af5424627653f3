"""articles and questions of news (MultiHop-RAG, BenchmarkQED) -> articles, and questions with answers or assertions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from selectolax.lexbor import LexborHTMLParser

from benchmarks.data.sources import Row, Sample, SourceError, Tables, read_json, read_rows, select


def convert_multihop_rag(files: Sequence[Path], sample: Sample) -> Tables:
    """Convert articles; the gold of a question is the articles of its evidence.

    The file has no ids: a list of ids holds the first 12 digits of the SHA-256 of each question.
    """
    articles = read_rows(files[1])
    ids = {article["url"]: f"{sample.name}-{n}" for n, article in enumerate(articles)}
    corpus = [
        {"id": ids[article["url"]], "title": article["title"], "text": article["body"]}
        | {"source": article["source"], "published_at": article["published_at"]}
        for article in articles
    ]
    questions = {}
    for n, row in enumerate(read_rows(files[0])):
        addresses = dict.fromkeys(evidence["url"] for evidence in row["evidence_list"])
        questions[hashlib.sha256(row["query"].encode()).hexdigest()[:12]] = {
            "id": f"{sample.name}-q{n}",
            "question": row["query"],
            "answer": row["answer"],
            "type": row["question_type"],
            "gold_passage_ids": [ids[address] for address in addresses],
        }
    return {"_corpus.jsonl": corpus, "_questions.jsonl": select(questions, sample.questions)}


def convert_associated_press(files: Sequence[Path], _sample: Sample) -> Tables:
    """Convert a folder of articles and files of questions with assertions.

    The gold of a question is the articles that its claims quote; a quote begins with the headline and the time. Global
    questions are about all articles: they have none.
    """
    articles = [read_json(path) for path in sorted(files[0].rglob("*.json"))]
    if not articles:
        raise SourceError(f"{files[0]} holds no articles (*.json)")
    corpus = [
        {"id": article["altids"]["itemid"], "title": article["headline"]}
        | {"text": _paragraphs(article["body_nitf"]), "published_at": article["firstcreated"]}
        for article in articles
    ]
    ids = {(row["title"], row["published_at"]): row["id"] for row in corpus}
    questions = []
    for path in files[1:]:
        source, scope, *_ = path.stem.split("_")  # data_local_questions_assertions
        questions += [
            {"id": row["question_id"], "question": row["question_text"], "source": source, "scope": scope}
            | {"assertions": [assertion["statement"] for assertion in row["assertions"]]}
            | {"gold_passage_ids": [] if scope == "global" else list(dict.fromkeys(ids[q] for q in _quotes(row)))}
            for row in read_rows(path)
        ]
    return {"_corpus.jsonl": corpus, "_questions.jsonl": questions}


def _paragraphs(markup: str) -> str:
    """Return the paragraphs of an article, without tags."""
    body = LexborHTMLParser(markup).body
    parts = body.iter() if body else ()
    return "\n\n".join(text for part in parts if (text := " ".join(part.text().split())))


def _quotes(row: Row) -> Iterator[tuple[str, str]]:
    """Yield the headline and the time of each article that is quoted."""
    for claim in row["claims"]:
        for source in claim["sources"]:
            headline, time, *_ = source["text"].split("\n")
            yield headline.removeprefix("headline: "), time.removeprefix("firstcreated: ").strip()
