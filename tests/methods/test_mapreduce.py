"""Every chunk is read once, in an order that is nobody's."""

from __future__ import annotations

from kumihimo.core.records import Chunk, KeyPoint
from kumihimo.methods.mapreduce import mapreduce
from tests.methods.factories_search import Scripted, chunk, rank, ruler, table

TEXTS = {f"d{n}.00000": chunk(f"text {n} of all") for n in range(9)}


def answer(told: str) -> object:
    return [{"description": f"Number {told.count('of all')}.", "score": 50, "sources": [1, 2]}]


def test_every_chunk_is_read_and_named() -> None:
    ask = Scripted(answer)
    found = mapreduce("What?", table("chunks", Chunk, TEXTS), ask, ruler, rank, window=12)
    told = "\n".join(ask.asked)
    assert len(ask.asked) == 3
    assert all(told.count(one.text) == 1 for one in TEXTS.values())
    records = [item.record for item in found]
    assert all(isinstance(record, KeyPoint) and len(record.sources) == 2 for record in records)
    assert all(not record.verbatim for record in records if isinstance(record, KeyPoint))


def test_the_order_in_which_chunks_came_changes_no_prompt() -> None:
    one, other = Scripted(answer), Scripted(answer)
    mapreduce("What?", table("chunks", Chunk, TEXTS), one, ruler, rank, window=12)
    mapreduce("What?", table("chunks", Chunk, dict(reversed(TEXTS.items()))), other, ruler, rank, window=12)
    assert sorted(one.asked) == sorted(other.asked)
    assert all(id not in told for told in one.asked for id in TEXTS)
    again = Scripted(answer)
    mapreduce("What?", table("chunks", Chunk, TEXTS), again, ruler, rank, window=12, seed=1)
    assert sorted(again.asked) != sorted(one.asked)


def test_what_a_filter_hides_is_not_read() -> None:
    ask = Scripted(answer)
    mapreduce("What?", table("chunks", Chunk, TEXTS).filtered(lambda id: id < "d4"), ask, ruler, rank)
    assert len(ask.asked) == 1
    assert ask.asked[0].count("of all") == 4
