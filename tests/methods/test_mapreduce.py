"""question -> points from every chunk, each read once, in shuffled order."""

from __future__ import annotations

from kumihimo.core.context import KeyPoint
from kumihimo.core.records import Chunk
from kumihimo.methods.mapreduce import mapreduce
from tests.factories_tables import hide_rows
from tests.methods.factories_search import ScriptedLLM, chunk, rerank, table, tokenizer

TEXTS = {f"d{n}.00000": chunk(f"text {n} of all") for n in range(9)}


def answer(text: str) -> object:
    return [{"description": f"Number {text.count('of all')}.", "score": 50, "sources": [1, 2]}]


def test_every_chunk_is_read_and_cited() -> None:
    llm = ScriptedLLM(answer)
    points = mapreduce("What?", table("chunks", Chunk, TEXTS), llm, tokenizer, rerank, window=12)
    text = "\n".join(llm.prompts)
    assert len(llm.prompts) == 3
    assert all(text.count(one.text) == 1 for one in TEXTS.values())
    records = [item.record for item in points]
    assert all(isinstance(record, KeyPoint) and len(record.sources) == 2 for record in records)
    assert all(not record.verbatim for record in records if isinstance(record, KeyPoint))


def test_prompts_do_not_depend_on_chunk_order() -> None:
    one, other = ScriptedLLM(answer), ScriptedLLM(answer)
    mapreduce("What?", table("chunks", Chunk, TEXTS), one, tokenizer, rerank, window=12)
    mapreduce("What?", table("chunks", Chunk, dict(reversed(TEXTS.items()))), other, tokenizer, rerank, window=12)
    assert sorted(one.prompts) == sorted(other.prompts)
    assert all(id not in text for text in one.prompts for id in TEXTS)
    again = ScriptedLLM(answer)
    mapreduce("What?", table("chunks", Chunk, TEXTS), again, tokenizer, rerank, window=12, seed=1)
    assert sorted(again.prompts) != sorted(one.prompts)


def test_filtered_chunks_are_not_read() -> None:
    llm = ScriptedLLM(answer)
    mapreduce("What?", hide_rows(table("chunks", Chunk, TEXTS), lambda id: id < "d4"), llm, tokenizer, rerank)
    assert len(llm.prompts) == 1
    assert llm.prompts[0].count("of all") == 4
