"""a method's name -> which question it suits, in a line, and what was measured of it where it asks no model."""

from __future__ import annotations

from collections.abc import Mapping

BEST_FOR: Mapping[str, str] = {
    "braid": "any question: a detail, what takes several documents to answer, the whole",
    "bm25": "words that stand in the documents as they are asked: a name, a number, a term",
    "naive": "a detail that stands in one place",
    "hyde": "a question that shares no words with its answer",
    "rq": "a question of several parts, or one that may mean several things",
    "mapreduce": "the whole, whatever it costs: reads everything for each question",
    "global": "the whole: main themes, what recurs",
    "local": "all about a person, a place, a thing",
    "drift": "something broad that takes several steps",
    "light": "a thing and what it is after, its relations",
    "meta": "many documents of one kind, asked by what they say of themselves",
    "discourse": "why, how, when: what stands beside a fact rather than in it",
}

# Recall@5 of those that ask no model, on 100, 100, 164, 300 and 300 questions: benchmarks/recall.py, and of braid, with
# weights learned on the other sets, benchmarks/weights.py.
RECALL_SETS = ("MuSiQue", "HotpotQA", "2WikiMultiHopQA", "JSQuAD", "DRCD")
RECALL: Mapping[str, tuple[float, ...]] = {
    "braid": (0.708, 0.970, 0.936, 0.970, 0.977),
    "bm25": (0.531, 0.795, 0.698, 0.967, 0.973),
    "naive": (0.545, 0.810, 0.721, 0.960, 0.973),
    "local": (0.557, 0.815, 0.733, 0.973, 0.980),
    "light": (0.578, 0.810, 0.720, 0.970, 0.983),
}
