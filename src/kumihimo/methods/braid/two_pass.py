"""question -> two passes over its candidates: as they are found, and as they go on from what is read first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kumihimo.core.context import Context
from kumihimo.core.records import Chunk, Mention
from kumihimo.core.table import Table
from kumihimo.methods.braid.features import Candidates, Features, features
from kumihimo.methods.braid.ppr import Graph, Scores, around, best, reached
from kumihimo.methods.shared import entity_linking
from kumihimo.search.protocols import Match, Near

POOL = 40  # the best of each ranking, which are candidates
ANCHORS = 2  # the best of the first pass, which the second goes on from
_SEARCHED = 100  # passages of each search
_SEEDS = 2  # the best of each search, from which the graph is entered
_READ = 3  # the best by words, which the first pass goes on from
FIRST = ("words rank", "covers", "meaning", "graph rank", "titled", "adds", "shares", "named", "bridges")
SECOND = ("words rank", "covers", "meaning", "before", "onward rank", "new", "adds", "named", "bridges")


@dataclass(frozen=True)
class Pass:
    """Candidates, the rankings they are in, the passages they go on from, and what speaks for each.

    told: the features of each candidate.
    """

    candidates: Candidates
    rankings: Mapping[str, Scores]
    anchors: tuple[str, ...]
    told: Mapping[str, Features]


def first(
    question: str, chunks: Table[Chunk], mentions: Table[Mention], match: Match, near: Near, *, pool: int = POOL
) -> Pass:
    """What words, meaning and the graph around the best of both find, each going on from the best by words."""
    by_words, by_meaning = match(chunks, question, k=_SEARCHED), near(chunks, question, k=_SEARCHED)
    words, meaning = _scores(by_words), _scores(by_meaning)
    graph, spoken = Graph(mentions), entity_linking.ids(question, mentions)
    part = around(graph, [*best(words, _SEEDS), *best(meaning, _SEEDS)], spoken)
    seeds = {id: words[id] ** 2 for id in best(words, _SEEDS)}
    rankings = {"words": words, "meaning": meaning, "graph": reached(part, seeds, text=0.8, further=0.6)}
    known = {item.record.id: item.record for item in (*by_words, *by_meaning) if isinstance(item.record, Chunk)}
    of = Candidates(question, _candidates(rankings, pool, chunks, known), graph, frozenset(spoken))
    return _passed(of, rankings, best(words, _READ))


def second(before: Pass, scores: Scores, chunks: Table[Chunk], *, anchors: int = ANCHORS, pool: int = POOL) -> Pass:
    """The same candidates, and what the graph reaches from the best of them, each going on from those.

    scores: what the first pass came to.
    """
    start, was = best(scores, anchors), before.candidates
    part = around(was.graph, start, sorted(was.spoken))
    onward = reached(part, {id: scores[id] for id in start}, text=1.0, further=0.5)
    rankings = {**before.rankings, "before": scores, "onward": onward}
    chosen = was.chunks | _candidates({"onward": onward}, pool, chunks, was.chunks)
    of = replace(was, chunks=dict(sorted(chosen.items())))
    return _passed(of, rankings, start)


def _passed(of: Candidates, rankings: Mapping[str, Scores], anchors: Iterable[str]) -> Pass:
    read = tuple(id for id in anchors if id in of.chunks)
    return Pass(of, rankings, read, features(of, rankings, read))


def _scores(found: Context) -> dict[str, float]:
    return {item.record.id: max(item.score, 0.0) for item in found}


def _candidates(
    rankings: Mapping[str, Scores], pool: int, chunks: Table[Chunk], known: Mapping[str, Chunk]
) -> dict[str, Chunk]:
    """The best of each ranking, sorted by id; those are read that are not known yet."""
    wanted = {id for scores in rankings.values() for id in best(scores, pool)}
    read = chunks.some(sorted(wanted - known.keys()))
    return {id: chunk for id in sorted(wanted) if (chunk := known.get(id) or read.get(id))}
