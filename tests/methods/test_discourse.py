"""Passages near a question, what is tied to them by the senses it needs, what shares its 5W1H, in that order."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kumihimo.core.context import Context, Evidence
from kumihimo.core.errors import MalformedReply, SettingsError, UnparsableReply
from kumihimo.core.records import DiscourseRelation
from kumihimo.index.pdtb_senses import sense_labels
from kumihimo.methods.discourse import _extract_slots, discourse
from kumihimo.methods.shared.discourse_expand import Fallback, expand_by_discourse
from kumihimo.methods.shared.discourse_senses import infer_senses, senses_by_cues
from kumihimo.methods.shared.slot_search import rank_by_slots
from tests.factories_discourse import LINKS, SHARING, TIED, P, tables
from tests.factories_tables import table
from tests.methods.factories_search import Scripted, match, near, rank, ruler

THOUGHT = "It asks why.\nSo a reason is wanted, or a precedence.\n\nSenses: cause"
FRAME = {"who": ["the Tern"], "when": "Tuesday", "what": "none"}


def model(senses: str = THOUGHT, frame: object = FRAME) -> Scripted:
    return Scripted(lambda told: senses if "Penn Discourse" in told else json.dumps(frame))


def only(*places: int) -> Callable[..., Context]:
    """A search that finds these passages, whatever is asked."""

    def search(found: Any, text: Any, *, k: int, among: Any = None) -> Context:
        rows = [(found[P[n]], 1.0 - i / 10) for i, n in enumerate(places)][:k]
        return Context(tuple(Evidence(found.name, row, score) for row, score in rows))

    return search


def found(
    question: str = "Why did the Tern wait?", first: Sequence[int] = (0, 5, 3), llm: Any = None, **settings: Any
) -> list[int]:
    """The places of the passages that are found, in order. first: those that are nearest."""
    held = {name: each for name, each in tables().items() if name in ("passages", "frames", "values", "links")}
    searches = {"keyword_search": only(), "vector_search": Near(only(*first))}
    context = discourse(question, **held, **searches, tokenizer=ruler, rerank=rank, llm=llm or model(), **settings)  # type: ignore[arg-type]
    assert {item.table for item in context} <= {"passages"}
    scores = [item.score for item in context]
    assert scores == sorted(scores, reverse=True)
    return [P.index(item.record.id) for item in context]


class Near:
    """A search by meaning: of passages as it is told, of values as `small.near` has it."""

    def __init__(self, search: Callable[..., Context]) -> None:
        self.search = search

    def __call__(self, rows: Any, text: Any, **kw: Any) -> Context:
        return self.search(rows, text, **kw) if rows.name == "passages" else near(rows, text, **kw)

    def search_many(self, rows: Any, texts: Sequence[str], **kw: Any) -> list[Context]:
        return [self(rows, text, **kw) for text in texts]


# -- Listing 1


@pytest.mark.parametrize(("asked", "tied"), TIED.items(), ids=lambda value: str(value))
def test_what_a_sense_or_a_kind_of_it_ties_either_way(asked: tuple[int, str], tied: tuple[int, ...]) -> None:
    held = tables()
    place, sense = asked
    hang = expand_by_discourse(held["passages"][P[place]], [sense], held["links"], held["passages"])
    assert [P.index(passage.id) for passage in hang] == list(tied)


@pytest.mark.parametrize(
    ("place", "sense", "fallback", "tied"),
    [
        (0, "result", "none", []),
        (0, "result", "parent", [1]),  # by cause
        (1, "reason", "parent", [0]),  # it is there itself
        (3, "succession", "parent", [4]),  # by asynchronous
        (3, "reason", "parent", []),
        (3, "reason", "any", [2, 4]),
        (3, "reason", "neighbours", [2, 4]),
        (3, "precedence", "any", [4]),
        (5, "reason", "parent", [4]),  # by contigency, two levels up
    ],
)
def test_what_ties_instead(place: int, sense: str, fallback: Fallback, tied: list[int]) -> None:
    held = tables()
    hang = expand_by_discourse(held["passages"][P[place]], [sense], held["links"], held["passages"], fallback=fallback)
    assert [P.index(passage.id) for passage in hang] == tied


@pytest.mark.parametrize(("place", "beside"), [(0, [1]), (2, [1, 3]), (3, [2, 4]), (7, [6])])
def test_at_last_the_passages_beside_it(place: int, beside: list[int]) -> None:
    held = tables() | {"links": table(DiscourseRelation, [])}
    passage = held["passages"][P[place]]
    assert expand_by_discourse(passage, ["cause"], held["links"], held["passages"], fallback="any") == []
    hang = expand_by_discourse(passage, [], held["links"], held["passages"], fallback="neighbours")
    assert [P.index(other.id) for other in hang] == beside


def test_links_that_nobody_is_sure_of_do_not_count() -> None:
    held = tables()

    def tied(place: int, least: float) -> list[int]:
        sense = ["contigency", "expansion", "temporal"]
        hang = expand_by_discourse(
            held["passages"][P[place]], sense, held["links"], held["passages"], min_confidence=least
        )
        return [P.index(other.id) for other in hang]

    assert [tied(1, least) for least in (0.0, 0.85, 0.95)] == [[0, 2], [0], []]
    assert tied(3, 0.9) == [4], "nobody has judged that one"


def test_a_link_that_leads_nowhere_or_to_itself_ties_nothing() -> None:
    held = tables()
    odd = [replace(LINKS[0], second="gone"), replace(LINKS[0], id="x.00000", second=P[0])]
    assert expand_by_discourse(held["passages"][P[0]], ["cause"], table(DiscourseRelation, odd), held["passages"]) == []


# -- Listing 2


@pytest.mark.parametrize(("asked", "sharing"), SHARING)
def test_what_shares_most(asked: Sequence[tuple[str, str]], sharing: Sequence[tuple[int, int]]) -> None:
    assert rank_by_slots(asked, tables()["frames"]) == [(P[n], float(hits)) for n, hits in sharing]


# -- all of it


def test_the_order_of_the_paper() -> None:
    assert found(paper=True) == [0, 1, 4, 7]
    assert found(paper=True, k=3, top_up=True, fallback="any", words=True, alike=0.1) == [0, 1, 4, 7]


def test_each_stands_after_what_it_hangs_on_and_once() -> None:
    assert found(k=2, top_up=False, fallback="none") == [0, 1, 5, 4, 7]
    assert found(first=(1, 2, 0), k=3, top_up=False) == [1, 0, 2, 4, 7]


def test_the_rest_of_the_nearest_fills_the_budget() -> None:
    assert found() == [0, 1, 4, 7, 5, 3]
    words = {n: len(text.split()) for n, text in enumerate(t.text for t in tables()["passages"])}
    budget = words[0] + words[1] + words[4] + words[7]
    assert found(budget=budget) == [0, 1, 4, 7]
    assert found(budget=words[0]) == [0]
    assert found(framed=1) == [0, 1, 4, 5, 3]
    assert found(framed=0, top_up=False) == [0, 1]


def test_several_senses_and_none() -> None:
    assert found(llm=model("cause, specification"), framed=0, top_up=False) == [0, 1]
    assert found(first=(3,), llm=model("Senses: *Temporal*, Condition"), framed=0, top_up=False) == [3, 2, 4]
    assert found(llm=model("none"), framed=0, top_up=False) == [0]


def test_values_that_are_nearly_the_same() -> None:
    asked = {"what": ["winch rope"]}
    assert found(llm=model(frame=asked), top_up=False) == [0, 1]
    assert found(llm=model(frame=asked), top_up=False, alike=0.5) == [0, 1, 3, 5]


def test_rare_values_count_more() -> None:
    frame = {"who": ["the Tern"], "where": ["Oban"], "predicate": ["left"]}
    common = {"who": ["the Tern"]}
    assert found(first=(2,), llm=model("none", frame), top_up=False)[1:] == [0, 4, 7]
    assert found(first=(2,), llm=model("none", common), top_up=False, weights="rare")[1:] == [0, 4, 7]


def test_by_words_and_meaning_or_meaning_alone() -> None:
    held = {name: each for name, each in tables().items() if name in ("passages", "frames", "values", "links")}

    def first(**settings: Any) -> str:
        ask = model("none", {"who": "none"})
        given = {
            "keyword_search": match,
            "vector_search": Near(only(5)),
            "tokenizer": ruler,
            "rerank": rank,
            "llm": ask,
        }
        return next(iter(discourse("Who mended the winch?", **held, **given, **settings))).text  # type: ignore[arg-type]

    assert first() == "Ada mended the winch meanwhile."
    assert first(words=False) == first(paper=True) == "Had the winch failed, it would have stayed."


@pytest.mark.parametrize("settings", [{"k": 0}, {"framed": -1}])
def test_settings_are_checked(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"discourse\.k"):
        found(**settings)


# -- what a question needs


def test_one_call_that_shows_every_sense() -> None:
    ask = model("Step by step.\n1. reason\nSo: Reason, result and Contra-Expectation.")
    assert infer_senses("Why?", ask) == ("reason", "result", "contra-expectation")
    [told] = ask.asked
    assert all(f"- {label}: " in told for label in sense_labels())
    assert "    - reason: Arg2 is why Arg1 is so" in told
    assert told.endswith("Question: Why?")


@pytest.mark.parametrize("said", ["", "I do not know.", "reason\nThat is all.", "Senses:"])
def test_a_last_line_without_names_is_asked_again(said: str) -> None:
    with pytest.raises(MalformedReply, match="last line"):
        infer_senses("Why?", model(said))


def test_where_nobody_can_be_read_words_decide_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise UnparsableReply("no")

    by_model = infer_senses("Why did it wait?", never)  # type: ignore[arg-type]
    assert by_model == infer_senses("Why did it wait?", None) == senses_by_cues("Why did it wait?")
    assert "discourse takes the senses that the question's words ask for: no" in caplog.text
    assert _extract_slots("Why did Bo wait?", never) == _extract_slots("Why did Bo wait?", None)  # type: ignore[arg-type]
    assert "discourse reads who, when, where of the question by rule: no" in caplog.text


@pytest.mark.parametrize(
    ("question", "senses"),
    [
        ("Why did the Tern wait?", ("cause", "pragmatic cause")),
        ("What was the effect of the tide?", ("cause", "pragmatic cause")),
        ("When did the Tern leave?", ("temporal",)),
        ("Give an example of a ferry.", ("instantiation",)),
        ("How does it differ?", ("comparison", "restatement")),
        ("Under what conditions does it wait?", ("condition", "pragmatic condition")),
        ("What is the alternative?", ("alternative", "restatement")),
        ("Who mended the winch?", ()),
        ("Iffy whenever showy butter", ()),
        ("船はなぜ遅れたのですか。", ("cause", "pragmatic cause")),
        ("船はいつ出ましたか。", ("temporal",)),
        ("例えば何ですか", ("instantiation",)),
        ("雨の場合はどうなりますか", ("condition", "pragmatic condition")),
        ("船为什么晚了？", ("cause", "pragmatic cause")),
        ("船什么时候走？", ("temporal",)),
        ("有什么区别？", ("comparison",)),
        ("", ()),
    ],
)
def test_what_one_asks_with(question: str, senses: tuple[str, ...]) -> None:
    assert senses_by_cues(question) == senses
    assert set(senses) <= set(sense_labels())
