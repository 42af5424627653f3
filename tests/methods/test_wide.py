"""question on many documents -> passages that cover them, within a bound, the same in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from kumihimo.core.context import Context
from kumihimo.core.records import Chunk, Record, Report
from kumihimo.core.table import Table
from kumihimo.index.chunk_background import Description
from kumihimo.methods.shared.map_step import REDUCE_PROMPT
from kumihimo.methods.wide import SAMPLE_PROMPT, wide
from kumihimo.text.question import ParsedQuestion
from tests.factories_tables import hide_rows
from tests.methods.factories_search import (
    ScriptedLLM,
    chunk,
    keyword_search,
    report,
    rerank,
    table,
    tokenizer,
    vector_search,
)

ALL, TOPIC = "What are the main themes?", "How has the price of coal changed over the years?"
POINT = [{"description": "Coal was dear.", "score": 50, "sources": [1]}]
MAX_TOKENS = 30_000


def passages(documents: int, parts: int, words: int) -> dict[str, Record]:
    """Return passages with words of their own; each names its place, and every other one is on coal."""

    def text(document: int, part: int) -> str:
        own = [f"w{document}", f"w{document}x", f"w{document}y{part}", f"w{document}z{part}"]
        return f"passage-{document}-{part} {'coal price' if part % 2 else 'wood'} " + " ".join(own * (words // 4))

    return {f"d{n:04}.{part:05}": chunk(text(n, part)) for n in range(documents) for part in range(parts)}


def dates(documents: int) -> Table[Any]:
    rows = {f"d{n:04}": Description(text="", dates=(f"{1980 + n % 40}-05",)) for n in range(documents)}
    return table("descriptions", Description, rows)


def read(question: str, chunks: Table[Any], **options: Any) -> tuple[list[str], Context]:
    """Return the prompts and the points."""
    llm, settings = ScriptedLLM(lambda _: POINT), {k: v for k, v in options.items() if k in ("reads", "window")}
    names = ("descriptions", "mentions", "members", "communities", "reports")
    tables: dict[str, Any] = {"chunks": chunks, **{name: options.get(name) for name in names}}
    ports: dict[str, Any] = {"tokenizer": tokenizer, "llm": llm, "rerank": rerank}
    ports |= {"keyword_search": keyword_search, "vector_search": vector_search}
    return llm.prompts, wide(ParsedQuestion(question), **tables, **ports, **settings)


def read_places(prompts: list[str]) -> set[str]:
    return {word for prompt in prompts for word in prompt.split() if word.startswith("passage-")}


def held(rows: Mapping[str, Record]) -> Table[Any]:
    return table("chunks", Chunk, rows)


@pytest.mark.parametrize("question", [ALL, TOPIC])
@pytest.mark.parametrize("words", [30, 400])
def test_the_prompts_are_bounded_whatever_the_size_of_the_index(question: str, words: int) -> None:
    prompts, points = read(question, held(passages(100, 4, words)), descriptions=dates(100))
    points_tokens = sum(item.tokens(tokenizer) for item in points)
    reduce = len(tokenizer(SAMPLE_PROMPT.read_text(encoding="utf-8")))
    assert 1 <= len(prompts) <= 4
    assert sum(len(tokenizer(prompt)) for prompt in prompts) + reduce + points_tokens <= MAX_TOKENS
    assert len(read_places(prompts)) >= 40


@pytest.mark.parametrize("question", [ALL, TOPIC])
def test_passages_cover_documents_and_times(question: str) -> None:
    prompts, points = read(question, held(passages(24, 6, 100)), descriptions=dates(24), reads=3600)
    places = read_places(prompts)
    read_documents = {place.split("-")[1] for place in places}
    assert len(read_documents) >= 20
    assert {f"({1980 + int(n)}-05)" for n in read_documents} <= set(" ".join(prompts).replace(">", " ").split())
    count = f"{len(places)} passages of {len(read_documents)} documents"
    assert points.query_type == f"broad question: {count} were read"


def test_passages_far_from_the_topic_are_read_if_all_fit() -> None:
    rows = passages(10, 1, 50) | {"e0000.00000": chunk("passage-e-0 The price of coal doubled in May.")}
    some, whole = (read_places(read(TOPIC, held(rows), reads=reads)[0]) for reads in (500, 20_000))
    assert "passage-e-0" in some
    assert len(some) <= 4
    assert len(whole) == 11


def test_near_duplicates_are_read_once() -> None:
    same = {f"e{n:04}.00000": chunk("The price of coal doubled in May, and again in June.") for n in range(5)}
    prompts, _ = read(TOPIC, held(same))
    assert sum(prompt.count("doubled in May") for prompt in prompts) == 1


def test_hidden_passages_are_not_read() -> None:
    rows = held(passages(20, 2, 60))
    for question in (ALL, TOPIC):
        prompts, points = read(question, hide_rows(rows, lambda id: id < "d0010"), descriptions=dates(20))
        assert {int(place.split("-")[1]) for place in read_places(prompts)} <= set(range(10))
        assert all(id < "d0010" for item in points for _, id in item.record.parents())


@pytest.mark.parametrize("question", [ALL, TOPIC])
def test_reports_are_read(question: str) -> None:
    rows = {"r1": report("The written report on the price of coal.")}
    prompts, points = read(question, held(passages(3, 1, 30)), reports=table("reports", Report, rows))
    text = "\n".join(prompts)
    assert "The written report" in text
    assert [item.record.parents() for item in points] == [(("reports", "r1"),)]


def test_without_passages_no_model_is_asked() -> None:
    assert read(TOPIC, held({})) == ([], Context(query_type="broad question: 0 passages of 0 documents were read"))


def test_the_same_passages_are_read_in_every_process() -> None:
    rows = passages(40, 3, 60)
    code = (
        "from tests.methods.test_wide import *\n"
        "rows = dict(reversed(passages(40, 3, 60).items()))\n"
        "for q in (ALL, TOPIC): print('\\n'.join(read(q, held(rows), descriptions=dates(40), reads=2500)[0]))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "4242", "PYTHONPATH": os.pathsep.join(sys.path)}
    other = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    here = [prompt for q in (ALL, TOPIC) for prompt in read(q, held(rows), descriptions=dates(40), reads=2500)[0]]
    assert sorted(other.stdout.splitlines()) == sorted("\n".join(here).splitlines())


def test_the_answer_to_a_sample_does_not_conclude_absence() -> None:
    """Its prompt is the one for points, but for what it says of absence."""
    lines = [path.read_text(encoding="utf-8").splitlines() for path in (REDUCE_PROMPT, SAMPLE_PROMPT)]
    dropped = [line for line in lines[0] if line not in lines[1]]
    added = " ".join(line for line in lines[1] if line not in lines[0])
    assert len(dropped) == 2
    assert all("documents do not say" in line for line in dropped)
    assert "documents do not say" not in added
    assert "never write that something is missing" in added
