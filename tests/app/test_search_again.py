"""replies that ask for searches -> further rounds of search, and an answer from all that was found."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kumihimo import AsyncKumihimo, Kumihimo
from kumihimo.core.answer import Answer
from kumihimo.core.cancel import CancelToken
from kumihimo.core.context import Context, Evidence
from kumihimo.core.errors import Cancelled
from kumihimo.core.records import Chunk
from kumihimo.core.task import ProgressEvent
from kumihimo.generation import search_again
from kumihimo.generation.search_again import MAX_PASSAGES, NO_SEARCH, OFFER, SearchFilter, add_found, split_reply
from kumihimo.llm.budget import Caps
from kumihimo.llm.cached_llm import Chat
from kumihimo.llm.registry import ModelRegistry
from kumihimo.testing.fake_models import FakeChat

QUESTION = "Where was the builder of the Long Arm born?"
TEXTS = {
    "wall.md": "The Long Arm is a wall. The builder of the Long Arm is Tobit Garrow.",
    "mason.md": "Tobit Garrow, a mason, came from Selby. In Selby he learned to cut stone.",
    "town.md": "Selby lies in the county of Ashmark, on the river Ouse.",
    **{f"other-{n}.md": f"Where the long road bends, inn {n} was born of an old barn." for n in range(20)},
}
FIRST = "SEARCH: Where does Tobit Garrow come from?"
SECOND = "SEARCH: In which county is Selby?"
ANSWER = "In Selby, in the county of Ashmark [1]."


@dataclass
class Script:
    """Replies in their order, the last one for all further requests; and the prompts."""

    replies: list[str]
    prompts: list[str] = field(default_factory=list)

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return self.replies[min(len(self.prompts), len(self.replies)) - 1]

    @property
    def offers(self) -> list[bool]:
        return [OFFER in prompt for prompt in self.prompts]


class OneAnswerer(ModelRegistry):
    """A chat model that writes answers only."""

    script: Script

    def chat(self, scope: str) -> Chat | None:
        return FakeChat(self.script) if scope == "answer" else None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("again")
    (folder / "notes").mkdir()
    for name, text in TEXTS.items():
        (folder / "notes" / name).write_text(text, encoding="utf-8")
    with Kumihimo(folder / ".kumi") as kumi:
        kumi.index(folder / "notes", methods=["bm25", "naive", "braid"])
    return folder


@pytest.fixture
def kumi(folder: Path, tmp_path: Path) -> Iterator[Kumihimo]:
    with Kumihimo(folder / ".kumi", cache=tmp_path / "cache.db") as kumi:
        yield kumi


def scripted(kumi: Kumihimo, *replies: str) -> Script:
    """Give the index a model with these replies."""
    kumi.models = models = OneAnswerer(kumi.models.settings, kumi.models.cache)
    models.script = Script([*replies])
    return models.script


def ask(kumi: Kumihimo, **options: Any) -> Answer:
    return kumi.ask(QUESTION, "bm25", k=2, **options)


def test_two_rounds_then_an_answer(kumi: Kumihimo) -> None:
    script = scripted(kumi, FIRST, SECOND, ANSWER)
    result = ask(kumi)
    assert (result.text, result.usage.calls) == (ANSWER, 3)
    first, second = FIRST.removeprefix("SEARCH: "), SECOND.removeprefix("SEARCH: ")
    assert result.context.rounds == ((QUESTION,), (first,), (second,))
    assert result.context.queries == (first, second)
    assert script.offers == [True, True, False]
    held = [[TEXTS[name] in prompt for name in ("wall.md", "mason.md", "town.md")] for prompt in script.prompts]
    assert held == [[True, False, False], [True, True, False], [True, True, True]]
    assert f"- {first}\n- {second}" in script.prompts[-1]
    assert result.to_dict()["rounds"] == [{"queries": [QUESTION]}, {"queries": [first]}, {"queries": [second]}]
    assert {item.uri for item in result.context} >= {f"notes/{name}" for name in ("wall.md", "mason.md", "town.md")}


def test_what_was_shown_stays_after_a_search(folder: Path, tmp_path: Path) -> None:
    """The searches bring passages with better scores, beside which those of before would have none."""
    settings = {"answer": {"score_share": 0.01, "sources": 9}}
    with Kumihimo(folder / ".kumi", settings, cache=tmp_path / "cache.db") as kumi:
        script = scripted(kumi, "SEARCH: Where does Selby lie?\nSEARCH: Where does Tobit Garrow come from?", ANSWER)
        kumi.ask(QUESTION, "bm25", k=9)
    shown = [text for text in TEXTS.values() if text in script.prompts[0]]
    assert len(shown) == 9
    assert all(text in script.prompts[1] for text in shown)


def test_an_answer_costs_no_further_call(kumi: Kumihimo) -> None:
    script = scripted(kumi, "Tobit Garrow built it [1].")
    result = ask(kumi)
    assert (result.usage.calls, script.offers, result.context.rounds) == (1, [True], ((QUESTION,),))
    assert script.prompts[0].endswith(f"</question>\n\n{OFFER}")


def test_a_model_that_always_searches_ends_with_the_last_prompt(kumi: Kumihimo) -> None:
    queries = ["SEARCH: Where is Selby?", "SEARCH: On which river is Selby?", "SEARCH: Who cut stone?"]
    script = scripted(kumi, *queries, ANSWER)
    result = ask(kumi)
    assert script.offers == [True, True, False, False]
    assert script.prompts[-1] == f"{NO_SEARCH} Reply again, in full."
    assert (result.text, len(result.context.rounds), result.usage.calls) == (ANSWER, 3, 4)


WAYS = [
    "SEARCH: Who cut stone?",
    "**SEARCH:** Who cut stone?",
    "**SEARCH**: *Who cut stone?*",
    "search: Who cut stone?",
    "Search: Who cut stone?",
    "```\nSEARCH: Who cut stone?\n```",
    "```text\nSEARCH: Who cut stone?\n```",
    "The notes do not say. SEARCH: Who cut stone?",
    "I have to look further:\n\n**SEARCH:** Who cut stone?",
    "SEARCH：誰が石を切りましたか。",
    "1. SEARCH: Who cut stone?\n2. SEARCH: Where was it cut?",
    "- `SEARCH:` Who cut stone?",
    "> SEARCH: Who cut stone?",
    "[SEARCH: Who cut stone?]",
    "<SEARCH>Who cut stone?</SEARCH>",
    "<think>It is missing.</think>\n\nSEARCH: Who cut stone?",
    "SEARCH:\n- Who cut stone?",
    "## SEARCH: Who cut stone?",
    "“SEARCH: Who cut stone?”",
    "SEARCH: ALL",
    "Not enough. **SEARCH: all.**",
]


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("method", ["bm25", "mapreduce"])
@pytest.mark.parametrize("way", WAYS)
def test_a_search_is_never_the_answer(way: str, method: str, is_streamed: bool, folder: Path, tmp_path: Path) -> None:
    """A model that only searches: after its last prompt, passages of the documents stand there."""
    told: list[str] = []
    with Kumihimo(folder / ".kumi", {"answer": {"rounds": 1}}, cache=tmp_path / "cache.db") as kumi:
        script = scripted(kumi, way)
        options: dict[str, Any] = {"on_token": told.append} if is_streamed else {}
        result = kumi.ask(QUESTION, method, **options) if method == "bm25" else ask_points(kumi, **options)
    assert result.parts
    assert (result.model, result.approach) == ("", "passages" if method == "bm25" else "points")
    assert result.usage.calls == len(script.prompts) <= 3
    for text in (result.text, "".join(told)):
        assert "search" not in text.casefold()
        assert "cut stone?" not in text
        assert "石" not in text


def ask_points(kumi: Kumihimo, **options: Any) -> Answer:
    """Ask by a method with a prompt of its own, over one point."""
    script: Script = kumi.models.script  # type: ignore[attr-defined]

    def reply(prompt: str) -> str:
        if "score" not in prompt:
            return script(prompt)
        script.prompts.append(prompt)
        return '[{"description": "Tobit Garrow built it.", "score": 90, "sources": [1]}]'

    kumi.models.chat = lambda scope: FakeChat(reply)  # type: ignore[method-assign]
    return kumi.ask(QUESTION, "mapreduce", **options)


@pytest.mark.parametrize("caps", [None, Caps(calls=2)])
def test_passages_answer_where_no_call_is_left(caps: Caps | None, kumi: Kumihimo) -> None:
    script = scripted(kumi, FIRST)
    result = ask(kumi, caps=caps)
    assert len(script.prompts) == (2 if caps else 4)
    assert (result.approach, result.model) == ("passages", "")
    assert "Tobit Garrow" in result.text


@pytest.mark.parametrize("is_streamed", [False, True])
def test_an_answer_before_a_search_is_the_answer(is_streamed: bool, kumi: Kumihimo) -> None:
    told: list[str] = []
    script = scripted(kumi, f"{ANSWER}\n\nSEARCH: Who cut stone?")
    result = ask(kumi, **({"on_token": told.append} if is_streamed else {}))
    assert (result.text, len(script.prompts)) == (ANSWER, 1)
    assert "".join(told) == (ANSWER if is_streamed else "")


def test_a_reply_after_text_that_cites_nothing(kumi: Kumihimo) -> None:
    """A stream cannot take it back; without one, the search is made."""
    before = "The notes do not say."
    scripted(kumi, f"{before}\n{FIRST}", ANSWER)
    assert ask(kumi).text == ANSWER
    told: list[str] = []
    scripted(kumi, f"{before}\n{FIRST}", ANSWER)
    result = ask(kumi, on_token=told.append, length="brief")
    assert result.text == "".join(told) == f"{before}\n\n{ANSWER}"


@pytest.mark.parametrize(
    "text",
    [
        "- SEARCH: finds mail [1].\n- FETCH: reads it [1].",
        "Search: the field on top [1].",
        "It knows FETCH and SEARCH: both are fast [1].",
        "SEARCH parties left at nine [1].",
    ],
)
def test_an_answer_may_hold_the_word(text: str, kumi: Kumihimo) -> None:
    scripted(kumi, text)
    told: list[str] = []
    assert ask(kumi, on_token=told.append).text == "".join(told) == text


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_the_setting_limits_the_rounds(rounds: int, folder: Path, tmp_path: Path) -> None:
    with Kumihimo(folder / ".kumi", {"answer": {"rounds": rounds}}, cache=tmp_path / "cache.db") as kumi:
        script = scripted(kumi, *[FIRST, SECOND, "SEARCH: Which river passes Selby?"][:rounds], ANSWER)
        result = ask(kumi)
        assert script.offers == [*[True] * rounds, False]
        assert (result.text, len(result.context.rounds), result.usage.calls) == (ANSWER, rounds + 1, rounds + 1)


def test_queries_without_a_chance_are_dropped(kumi: Kumihimo) -> None:
    """A name that stands nowhere, or the words of the question again: the next prompt has no offer."""
    script = scripted(kumi, f"SEARCH: Where was Berta Quill born?\nSEARCH: {QUESTION}", "Nobody says.")
    result = ask(kumi)
    assert (script.offers, result.context.rounds, result.usage.calls) == ([True, False], ((QUESTION,),), 2)
    script = scripted(
        kumi, "SEARCH: Where was Berta Quill born?\nSEARCH: Where was Tobit Garrow born?", "In Selby [1]."
    )
    assert ask(kumi, length="brief").context.queries == ("Where was Tobit Garrow born?",)


def test_a_query_in_german_may_have_nouns_that_no_document_has(kumi: Kumihimo) -> None:
    scripted(kumi, "SEARCH: Wo ist der Geburtsort von Tobit Garrow?", ANSWER)
    assert ask(kumi).context.queries == ("Wo ist der Geburtsort von Tobit Garrow?",)


def test_a_stream_holds_back_a_search_and_begins_with_the_answer(kumi: Kumihimo) -> None:
    script = scripted(kumi, FIRST, ANSWER)
    told: list[str | Context] = []
    result = ask(kumi, on_token=told.append, on_context=told.append)
    assert isinstance(told[0], Context)
    assert told[0] == result.context
    assert told[1:3] == ["In", " Selby,"]
    assert "".join(map(str, told[1:])) == ANSWER
    assert script.offers == [True, True]


def test_the_events_of_a_question_show_each_round(kumi: Kumihimo) -> None:
    scripted(kumi, FIRST, SECOND, ANSWER)

    async def collect() -> list[Any]:
        async with AsyncKumihimo(kumi) as questions:
            return [event async for event in questions.events(QUESTION, "bm25", k=2)]

    events = asyncio.run(collect())
    assert [event.step for event in events if isinstance(event, ProgressEvent)] == ["search", "answer"] * 3
    assert "".join(event for event in events if isinstance(event, str)) == ANSWER
    assert [len(event.rounds) for event in events if isinstance(event, Context)] == [3]


def test_a_question_that_is_cancelled_between_rounds_asks_no_more(kumi: Kumihimo) -> None:
    cancel = CancelToken()
    script = scripted(kumi, FIRST, ANSWER)
    read = script.__call__

    def cancel_and_reply(prompt: str) -> str:
        cancel.cancel()
        return read(prompt)

    kumi.models.script = cancel_and_reply  # type: ignore[attr-defined]
    with pytest.raises(Cancelled):
        ask(kumi, cancel=cancel)
    assert len(script.prompts) == 1


@pytest.mark.parametrize(("caps", "offers"), [(Caps(calls=1), [False]), (Caps(calls=2), [True, False])])
def test_an_offer_needs_room_for_the_next_call(caps: Caps, offers: list[bool], kumi: Kumihimo) -> None:
    script = scripted(kumi, *[FIRST] * offers.count(True), ANSWER)
    assert ask(kumi, caps=caps).text == ANSWER
    assert script.offers == offers


def test_an_answer_from_the_cache_needs_no_room(kumi: Kumihimo) -> None:
    script = scripted(kumi, FIRST, SECOND, ANSWER)
    ask(kumi)
    cached = ask(kumi, caps=Caps(calls=0))
    assert (cached.text, cached.usage.calls, cached.saved.calls, len(script.prompts)) == (ANSWER, 0, 3, 3)


def test_a_cap_on_tokens_leaves_an_answer(kumi: Kumihimo) -> None:
    """The prompt has some 1,700 bytes, and a reply is taken for 1,000 tokens."""
    script = scripted(kumi, ANSWER)
    assert ask(kumi, caps=Caps(tokens=2000)).text == ANSWER
    assert script.offers == [False]


def test_the_explanations_name_each_round(kumi: Kumihimo) -> None:
    scripted(kumi, FIRST, ANSWER)
    result = ask(kumi, explain=True)
    assert all(item.explanation and item.source.uri for item in result.context)


def test_further_searches_stay_within_the_filter(kumi: Kumihimo) -> None:
    script = scripted(kumi, FIRST, "Nobody says.")
    result = ask(kumi, filter='uri != "notes/mason.md"')
    assert TEXTS["mason.md"] not in "".join(script.prompts)
    assert "notes/mason.md" not in {item.uri for item in result.context}


def test_a_question_begins_again_if_the_index_changes_between_rounds(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for name in ("wall.md", "mason.md"):
        (notes / name).write_text(TEXTS[name], encoding="utf-8")
    contexts: list[Context] = []
    with Kumihimo(tmp_path / ".kumi") as kumi, Kumihimo(tmp_path / ".kumi") as builder:
        kumi.index(notes, methods=["bm25"])
        script = scripted(kumi, FIRST, ANSWER)

        def build_and_reply(prompt: str) -> str:
            if not script.prompts:
                (notes / "town.md").write_text(TEXTS["town.md"], encoding="utf-8")
                builder.index(notes, methods=["bm25"])
            return script(prompt)

        kumi.models.script = build_and_reply  # type: ignore[attr-defined]
        result = kumi.ask(QUESTION, "bm25", k=1, on_context=contexts.append)
    assert (result.text, len(script.prompts)) == (ANSWER, 2)  # the first reply is cached
    assert contexts == [result.context]
    assert len(result.context.rounds) == 2


# -- reading replies


@pytest.mark.parametrize(
    ("reply", "queries"),
    [
        ("SEARCH: Who built it?", ["Who built it?"]),
        ("SEARCH：誰が建てましたか。", ["誰が建てましたか。"]),
        ("**SEARCH:** Who?\n\n**SEARCH:** When?\nSEARCH: Why?", ["Who?", "When?"]),
        ('- `SEARCH:` "Who?"\n- `SEARCH:` Who?', ["Who?"]),
        ("SEARCH:\n- Who?", ["Who?"]),
        ("SEARCH:", []),
        (f"SEARCH: {'a' * 600}", []),
        ("They lack it.\nSEARCH: Who?", ["Who?"]),
        ("SEARCH parties left at nine [1].", None),
        ("search: no", ["no"]),
    ],
)
def test_a_reply_is_a_search_or_an_answer(reply: str, queries: list[str] | None) -> None:
    text, found = split_reply(reply)
    assert found == queries
    for size in range(1, len(reply) + 1):
        pieces: list[str] = []
        stream = SearchFilter(pieces.append, partial(pieces.append, "<"))
        for start in range(0, len(reply), size):
            stream(reply[start : start + size])
        stream.end()
        assert "".join(pieces) == (f"<{text}" if text else "")


def test_an_answer_streams_from_its_first_token() -> None:
    for first in ("In ", "The ", "Search ", "SEAL "):
        pieces: list[str] = []
        SearchFilter(pieces.append, lambda: None)(first)
        assert pieces == [first]


# -- merging


def evidence(*texts: str, score: float = 1.0) -> Context:
    rows = [Chunk(id=f"{text}.00000", text=text, title="", start=0, end=0, tokens=9) for text in texts]
    return Context(tuple(Evidence("chunks", row, score / (n + 1)) for n, row in enumerate(rows)))


def texts(context: Context) -> list[str]:
    return [item.text for item in context]


def test_the_best_of_each_search_comes_first() -> None:
    words = ["one", "two", "three", "four", "five", "six"]
    merged = add_found(
        evidence("old pier", "oak"), {"q": evidence(*words, score=9), "r": evidence("oak", "elm", score=9)}
    )
    assert texts(merged) == ["one", "oak", "old pier", "two", "elm", "three", "four"]
    assert [item.score for item in merged] == [1, 1, 1, 0.5, 0.5, 0.5, 0.5]
    assert (merged.queries, merged.rounds) == (("q", "r"), (("q", "r"),))


def test_a_round_adds_few_passages_and_no_repeats() -> None:
    old = "The Long Arm was built by Tobit Garrow in 1911 for 900 crowns."
    again = "The Long Arm was built by Tobit Garrow in 1911, for 900 crowns."
    other_year = "The Long Arm was built by Tobit Garrow in 1912 for 900 crowns."
    numbers = [f"inn {n} sells {n} beds" for n in range(20)]
    merged = texts(add_found(evidence(old), {"q": evidence(again, other_year, *numbers)}))
    assert again not in merged
    assert len(merged) == MAX_PASSAGES + 1
    assert merged[:2] == [other_year, old]


def test_a_long_request_is_looked_at_in_its_beginning_and_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, passed, find = [0], list[str](), search_again._find_mark

    def counted(*args: Any) -> Any:
        looks[0] += 1
        return find(*args)

    monkeypatch.setattr(search_again, "_find_mark", counted)
    stream = SearchFilter(passed.append, None)
    for piece in ["SEARCH: ", *["word"] * 10_000]:
        stream(piece)
    stream.end()
    assert (passed, looks[0] < 600) == ([], True)
    answer = SearchFilter(passed.append, None)
    for piece in ["SEARCH: ", *["word"] * 10_000, " [1]."]:  # a line that cites is an answer
        answer(piece)
    answer.end()
    assert len("".join(passed)) == 40_013
