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
from kumihimo.methods.wide import wide
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
    tables: dict[str, Any] = {"chunks": chunks, "reports": options.get("reports")}
    tables["descriptions"] = options.get("descriptions", dates(0))
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
    reduce = len(tokenizer(REDUCE_PROMPT.read_text(encoding="utf-8")))
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


def test_one_passage_that_is_much_nearer_than_the_others_does_not_stand_alone() -> None:
    rows = passages(60, 1, 60) | {"e0000.00000": chunk("passage-e-0 the price of coal changed over the years " * 8)}
    assert len(read_places(read(TOPIC, held(rows), reads=3000)[0])) >= 10


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
    prompt = REDUCE_PROMPT.read_text(encoding="utf-8")
    assert "documents do not say" not in prompt
    assert "never write that something is missing" in prompt


# -- what is chosen


def test_each_aspect_that_the_question_lists_is_searched_for() -> None:
    rows = {f"d{n:04}.00000": chunk(f"passage-{n}-0 the port and its coal " + f"w{n} " * 40) for n in range(60)}
    rows |= {f"e{n}.00000": chunk(f"passage-{word}-0 {word} {'x' * n} " * 20) for n, word in enumerate(("tin", "salt"))}
    places = read_places(read("How does the port handle coal, tin and salt?", held(rows), reads=1000)[0])
    assert {"passage-tin-0", "passage-salt-0"} <= places
    assert len(places) < 20


def test_a_document_is_found_by_its_name() -> None:
    rows = passages(40, 2, 60) | {"e0000.00000": chunk("passage-e-0 " + "Keep two copies elsewhere. " * 12)}
    names = {f"d{n:04}": Description(text="Notes", dates=()) for n in range(40)}
    names["e0000"] = Description(text="Coal prices", dates=())
    descriptions = table("descriptions", Description, names)
    assert "passage-e-0" not in read_places(read(TOPIC, held(rows), reads=3000)[0])
    assert "passage-e-0" in read_places(read(TOPIC, held(rows), reads=3000, descriptions=descriptions)[0])


@pytest.mark.parametrize(
    ("period", "first", "last"), [("between 1990 and 1999", 1990, 1999), ("since 2010", 2010, 2019)]
)
def test_documents_of_the_period_are_preferred(period: str, first: int, last: int) -> None:
    question = f"How did the price of coal change {period}?"
    prompts, _ = read(question, held(passages(40, 2, 100)), descriptions=dates(40), reads=1200)
    years = [1980 + int(place.split("-")[1]) for place in read_places(prompts)]
    assert len(years) >= 7
    assert sum(first <= year <= last for year in years) >= 0.75 * len(years)


def test_no_document_fills_the_budget() -> None:
    rows = passages(90, 1, 60) | {f"e{n:04}.00001": row for n, row in enumerate(passages(9, 2, 60).values()) if n % 2}
    rows |= {
        f"f0000.{n:05}": chunk(f"passage-f-{n} coal price coal price " + f"f{n} g{n} h{n} " * 20) for n in range(80)
    }
    places = read_places(read(TOPIC, held(rows), reads=3000)[0])
    assert 1 <= len([place for place in places if place.startswith("passage-f-")]) <= 4
    assert {f"passage-{n}-1" for n in range(9)} <= places


# -- the points


def points_of(question: str, reply: list[dict[str, Any]]) -> Context:
    llm, rows = ScriptedLLM(lambda _: reply), held(passages(3, 1, 30))
    ports: dict[str, Any] = {"tokenizer": tokenizer, "llm": llm, "rerank": rerank}
    ports |= {"keyword_search": keyword_search, "vector_search": vector_search}
    return wide(ParsedQuestion(question), chunks=rows, descriptions=dates(3), reports=None, **ports)


REPLY = [
    {"description": "The price of coal fell by half in May.", "score": 60, "sources": [3]},
    {"description": "In May the price of coal fell by half.", "score": 50, "sources": [1]},
    {"description": "The price of coal rose by 3 in May.", "score": 55, "sources": [2]},
    {"description": "The price of coal rose by 4 in May.", "score": 90, "sources": [3]},
    {"description": "Coal is black.", "score": 10, "sources": [1]},
]


def test_points_that_say_the_same_are_one_and_background_is_dropped() -> None:
    found = points_of("What are the main prices of coal?", REPLY)
    assert [(item.text, len(item.record.parents())) for item in found] == [
        ("The price of coal rose by 4 in May.", 1),
        ("The price of coal fell by half in May.", 2),
        ("The price of coal rose by 3 in May.", 1),
    ]


def test_points_on_changes_stand_in_the_order_of_their_dates() -> None:
    found = points_of(TOPIC, REPLY)
    assert [item.text.split(" coal ")[1][:9] for item in found] == ["fell by h", "rose by 3", "rose by 4"]
