"""question -> the nearest passages, passages linked by needed senses, and passages with its 5W1H, in this order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kumihimo.core.context import Context, Evidence
from kumihimo.core.errors import MalformedReply, UnparsableReply
from kumihimo.core.records import DiscourseRelation
from kumihimo.index.pdtb_senses import senses_by_label
from kumihimo.methods.discourse import (
    Fallback,
    discourse,
    expand_by_discourse,
    infer_senses,
    rank_by_slots,
)
from tests.factories_discourse import LINKS, SHARING, TIED, P, tables
from tests.factories_tables import table
from tests.methods.factories_search import ScriptedLLM, keyword_search, rerank, tokenizer, vector_search

THOUGHT = "It asks why.\nSo a reason is wanted, or a precedence.\n\nSenses: cause"
FRAME = "[1]\nwho: the Tern\nwhen: Tuesday\nwhat: none"


def scripted_llm(senses: str = THOUGHT, frame: str = FRAME) -> ScriptedLLM:
    return ScriptedLLM(lambda prompt: senses if "Penn Discourse" in prompt else frame)


SCRIPTED = scripted_llm()


def returns_passages(*places: int) -> Callable[..., Context]:
    """Return a search that finds these passages, whatever the query."""

    def search(rows: Any, text: Any, *, k: int, among: Any = None) -> Context:
        hits = [(rows[P[n]], 1.0 - i / 10) for i, n in enumerate(places)][:k]
        return Context(tuple(Evidence(rows.name, row, score) for row, score in hits))

    return search


def search(
    question: str = "Why did the Tern wait?", first: Sequence[int] = (0, 5, 3), llm: Any = SCRIPTED, **settings: Any
) -> list[int]:
    """Return the positions of the passages found; `first`: those that are nearest."""
    inputs: dict[str, Any] = {name: tables()[name] for name in ("passages", "frames", "links")}
    searches: dict[str, Any] = {
        "keyword_search": returns_passages(),
        "vector_search": PassageSearch(returns_passages(*first)),
    }
    context = discourse(question, **inputs, **searches, tokenizer=tokenizer, rerank=rerank, llm=llm, **settings)
    assert {item.table for item in context} <= {"passages"}
    scores = [item.score for item in context]
    assert scores == sorted(scores, reverse=True)
    return [P.index(item.record.id) for item in context]


class PassageSearch:
    """`VectorSearch` that scripts passages and searches values."""

    def __init__(self, search: Callable[..., Context]) -> None:
        self.search = search

    def __call__(self, rows: Any, text: Any, **kw: Any) -> Context:
        return self.search(rows, text, **kw) if rows.name == "passages" else vector_search(rows, text, **kw)

    def search_many(self, rows: Any, texts: Sequence[str], **kw: Any) -> list[Context]:
        return [self(rows, text, **kw) for text in texts]


# -- Listing 1


@pytest.mark.parametrize(("case", "expected"), TIED.items(), ids=lambda value: str(value))
def test_senses_and_narrower_ones_link_in_both_directions(case: tuple[int, str], expected: tuple[int, ...]) -> None:
    all_tables = tables()
    place, sense = case
    linked = expand_by_discourse(all_tables["passages"][P[place]], [sense], all_tables["links"], all_tables["passages"])
    assert [P.index(passage.id) for passage in linked] == list(expected)


@pytest.mark.parametrize(
    ("place", "sense", "fallback", "expected"),
    [
        (0, "result", "none", []),
        (0, "result", "parent", [1]),  # via cause
        (1, "reason", "parent", [0]),  # a link of this sense exists
        (3, "succession", "parent", [4]),  # via asynchronous
        (3, "reason", "parent", []),
        (3, "reason", "any", [2, 4]),
        (3, "reason", "neighbours", [2, 4]),
        (3, "precedence", "any", [4]),
        (5, "reason", "parent", [4]),  # via contigency, two levels up
    ],
)
def test_fallback_senses(place: int, sense: str, fallback: Fallback, expected: list[int]) -> None:
    all_tables = tables()
    linked = expand_by_discourse(
        all_tables["passages"][P[place]], [sense], all_tables["links"], all_tables["passages"], fallback=fallback
    )
    assert [P.index(passage.id) for passage in linked] == expected


@pytest.mark.parametrize(("place", "beside"), [(0, [1]), (2, [1, 3]), (3, [2, 4]), (7, [6])])
def test_fallback_to_adjacent_passages(place: int, beside: list[int]) -> None:
    all_tables = tables() | {"links": table(DiscourseRelation, [])}
    passage = all_tables["passages"][P[place]]
    assert expand_by_discourse(passage, ["cause"], all_tables["links"], all_tables["passages"], fallback="any") == []
    linked = expand_by_discourse(passage, [], all_tables["links"], all_tables["passages"], fallback="neighbours")
    assert [P.index(other.id) for other in linked] == beside


def test_broken_and_self_links_are_ignored() -> None:
    all_tables = tables()
    odd = [replace(LINKS[0], second="gone"), replace(LINKS[0], id="x.00000", second=P[0])]
    assert (
        expand_by_discourse(
            all_tables["passages"][P[0]], ["cause"], table(DiscourseRelation, odd), all_tables["passages"]
        )
        == []
    )


# -- Listing 2


@pytest.mark.parametrize(("slots", "expected"), SHARING)
def test_passages_rank_by_matching_slots(slots: Sequence[tuple[str, str]], expected: Sequence[tuple[int, int]]) -> None:
    assert rank_by_slots(slots, tables()["frames"]) == [(P[n], float(hits)) for n, hits in expected]


# -- the whole method


def test_order_of_results_follows_the_paper() -> None:
    assert search(paper=True) == [0, 1, 4, 7]
    assert search(paper=True, k=3, top_up=True, fallback="any", words=True) == [0, 1, 4, 7]


def test_linked_passages_follow_their_passage_once() -> None:
    assert search(k=2, top_up=False, fallback="none") == [0, 1, 5, 4, 7]
    assert search(first=(1, 2, 0), k=3, top_up=False) == [1, 0, 2, 4, 7]


def test_nearest_passages_fill_the_budget() -> None:
    assert search() == [0, 1, 4, 7, 5, 3]
    words = {n: len(text.split()) for n, text in enumerate(t.text for t in tables()["passages"])}
    budget = words[0] + words[1] + words[4] + words[7]
    assert search(budget=budget) == [0, 1, 4, 7]
    assert search(budget=words[0]) == [0]
    assert search(framed=1) == [0, 1, 4, 5, 3]
    assert search(framed=0, top_up=False) == [0, 1]


def test_several_senses_and_none() -> None:
    assert search(llm=scripted_llm("cause, specification"), framed=0, top_up=False) == [0, 1]
    assert search(first=(3,), llm=scripted_llm("Senses: *Temporal*, Condition"), framed=0, top_up=False) == [3, 2, 4]
    assert search(llm=scripted_llm("none"), framed=0, top_up=False) == [0]


def test_keyword_search_is_optional() -> None:
    all_tables = {name: each for name, each in tables().items() if name in ("passages", "frames", "links")}

    def first(**settings: Any) -> str:
        llm = scripted_llm("none", "[1]")
        ports = {
            "keyword_search": keyword_search,
            "vector_search": PassageSearch(returns_passages(5)),
            "tokenizer": tokenizer,
            "rerank": rerank,
            "llm": llm,
        }
        return next(iter(discourse("Who mended the winch?", **all_tables, **ports, **settings))).text  # type: ignore[arg-type]

    assert first() == "Ada mended the winch meanwhile."
    assert first(words=False) == first(paper=True) == "Had the winch failed, it would have stayed."


# -- needed senses


def test_one_call_lists_every_sense() -> None:
    llm = scripted_llm("Step by step.\n1. reason\nSo: Reason, result and Contra-Expectation.")
    assert infer_senses("Why?", llm) == ("reason", "result", "contra-expectation")
    [text] = llm.prompts
    assert all(f"- {label}: " in text for label in senses_by_label())
    assert "    - reason: Arg2 is why Arg1 is so" in text
    assert text.endswith("<question>\nWhy?\n</question>")


@pytest.mark.parametrize("reply", ["", "I do not know.", "reason\nThat is all.", "Senses:"])
def test_last_line_without_senses_is_malformed(reply: str) -> None:
    with pytest.raises(MalformedReply, match="last line"):
        infer_senses("Why?", scripted_llm(reply))


def never(*_: Any, **__: Any) -> Any:
    raise UnparsableReply("no")


def test_without_usable_replies_passages_answer_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert search(llm=never) == [0, 5, 3]
    assert "discourse follows no relations: no" in caplog.text
    assert "discourse compares no who, when or where: no" in caplog.text


def test_without_a_model_the_nearest_passages_answer() -> None:
    assert search(llm=None) == [0, 5, 3]
    assert search(llm=None, paper=True) == [0]
    assert search(llm=None, fallback="neighbours", top_up=False) == [0, 1]
