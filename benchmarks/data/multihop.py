"""questions with their own passages (MuSiQue, HotpotQA, 2WikiMultiHopQA) -> a corpus, and questions with gold.

With a file of the corpus, as HippoRAG has it for its 1,000 questions, that is the corpus; without one, the passages of
the questions are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.data.sources import Row, Sample, SourceError, Tables, read_json, read_rows, select

Passage = tuple[str, str]  # title, text


def convert_musique(files: Sequence[Path], sample: Sample) -> Tables:
    """Convert questions with `paragraphs`; the supporting ones are the gold."""
    rows = select({row["id"]: row for row in read_rows(files[0])}, sample.questions)
    passages = [[(p["title"], p["paragraph_text"]) for p in row["paragraphs"]] for row in rows]
    corpus = _Corpus(sample.name, files[1:], (passage for own in passages for passage in own))
    questions = [
        {key: row[key] for key in ("id", "question", "answer", "answer_aliases")}
        | {"hops": row["id"][0], "question_decomposition": row["question_decomposition"]}
        | {
            "gold_passage_ids": corpus.ids(
                passage for passage, p in zip(own, row["paragraphs"], strict=True) if p["is_supporting"]
            )
        }
        for row, own in zip(rows, passages, strict=True)
    ]
    return {"_corpus.jsonl": corpus.rows, "_questions.jsonl": questions}


def convert_wikipedia(files: Sequence[Path], sample: Sample) -> Tables:
    """Convert questions with `context` and `supporting_facts`, which name the gold."""
    rows = select({row["_id"]: row for row in read_rows(files[0])}, sample.questions)
    contexts = [{title: _join(sentences) for title, sentences in row["context"]} for row in rows]
    corpus = _Corpus(sample.name, files[1:], (passage for own in contexts for passage in own.items()))
    questions = [
        {"id": row["_id"], "question": row["question"], "answer": row["answer"], "type": row["type"]}
        | {"level": row.get("level"), "supporting_facts": row["supporting_facts"]}
        | {"gold_passage_ids": corpus.ids((title, own[title]) for title, _ in row["supporting_facts"])}
        | ({"evidence_triples": row["evidences"]} if "evidences" in row else {})
        for row, own in zip(rows, contexts, strict=True)
    ]
    return {"_corpus.jsonl": corpus.rows, "_questions.jsonl": questions}


class _Corpus:
    """The passages, numbered in their order, each once."""

    def __init__(self, name: str, files: Sequence[Path], passages: Iterable[Passage]) -> None:
        numbered: dict[Passage, Row] = {}
        for title, text in _read_corpus(files[0]) if files else passages:
            row = {"id": f"{name}-{len(numbered)}", "title": title, "text": text}
            numbered.setdefault(_key(title, text), row)
        self.rows = list(numbered.values())
        self._by_key = numbered

    def ids(self, passages: Iterable[Passage]) -> list[str]:
        """Return the ids of passages, each once."""
        try:
            return list(dict.fromkeys(self._by_key[_key(*passage)]["id"] for passage in passages))
        except KeyError as error:
            raise SourceError(f"the corpus lacks the passage {error.args[0][0]!r} of a question") from None


def _read_corpus(path: Path) -> Iterable[Passage]:
    """Read a list of passages, or an object of sentences by title."""
    rows = read_json(path)
    if isinstance(rows, dict):
        return [(title, _join(sentences)) for title, sentences in rows.items()]
    return [(row["title"], row["text"]) for row in rows]


def _join(sentences: Iterable[str]) -> str:
    """Join sentences; all white space becomes single spaces."""
    return " ".join("".join(sentences).split())


def _key(title: str, text: str) -> Passage:
    """Return what equal passages have alike, however their sentences were joined."""
    return title, "".join(text.split())
