"""Earlier answers + a question -> the question alone: one call where there is something to point back to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.context import Answer, Context
from kumihimo.core.errors import IndexUnavailable, SettingsError
from kumihimo.core.usage import Usage
from kumihimo.generation.standalone_question import PROMPT, rewrite_standalone
from kumihimo.llm.budget import Budget
from kumihimo.llm.cached_llm import CachedLLM
from kumihimo.llm.prompts import render_prompt
from kumihimo.storage.sqlite.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat
from kumihimo.testing.fake_server import FakeServer
from tests.factories_paid_steps import notes, opened


def answer(question: str, text: str) -> Answer:
    return Answer(question, "naive", text, (), Context(), Usage())


def asked(tmp_path: Path, reply: str, question: str, *before: Answer) -> tuple[str, list[str]]:
    """What the question becomes, and what the model was told."""
    told: list[str] = []

    def said(text: str) -> str:
        told.append(text)
        return reply

    memo = ResponseCache(tmp_path / "cache.db")
    found = rewrite_standalone(question, before, CachedLLM(FakeChat(said), memo, Budget(), "answer"))
    memo.close()
    return found, told


def test_a_first_question_is_as_it_is(tmp_path: Path) -> None:
    assert asked(tmp_path, "other", "And then?") == ("And then?", [])


def test_what_it_points_back_to_is_told(tmp_path: Path) -> None:
    before = answer("Who wound the cord?", "Ruta did. [1]")
    found, told = asked(tmp_path, " When did Ruta\nwind the cord? ", "When was that?", before)
    assert found == "When did Ruta wind the cord?"
    ((only,),) = [told]
    assert "Asked: Who wound the cord?\nAnswered: Ruta did. [1]" in only
    assert only.endswith("The last question: When was that?")


def test_only_so_much_is_told(tmp_path: Path) -> None:
    before = [answer(f"question {n}?", f"{n} " + "long " * 1000) for n in range(9)]
    _, (told,) = asked(tmp_path, "So?", "And?", *before)
    assert [f"question {n}?" in told for n in range(9)] == [False] * 3 + [True] * 6
    assert len(told) < 6000


def test_the_prompt_depends_on_what_was_said_alone() -> None:
    assert render_prompt(PROMPT, before="b", question="q") == render_prompt(PROMPT, question="q", before="b")


def test_a_model_is_asked_once_more_for_a_later_question(tmp_path: Path, server: FakeServer) -> None:
    with opened(tmp_path, server) as kumi:
        kumi.index(notes(tmp_path / "notes", 3), methods=["bm25"])
        server.configure(replies=[("The last question:", "Tell of harbour 2."), ("Question:", "It leaves. [1]")])
        first = kumi.ask("What does note 1 tell of?", "bm25")
        second = kumi.ask("And the last one?", "bm25", history=[first])
    assert (first.usage.calls, second.usage.calls) == (1, 2)
    assert (first.question, second.question) == ("What does note 1 tell of?", "Tell of harbour 2.")


@pytest.mark.parametrize("question", ["And the ferry?", "それは?"])
def test_without_a_model_each_question_stands_alone(tmp_path: Path, question: str) -> None:
    from kumihimo import Kumihimo

    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(notes(tmp_path / "notes", 3))
        first = kumi.ask("What does note 1 tell of?")
        assert kumi.ask(question, history=[first]).question == question


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"filter": "auther = 1"}, "no field 'auther'"),
        ({"filter": "("}, "the filter ends too early"),
        ({"kk": 3}, "bm25 has no setting 'kk'; did you mean 'k'"),
        ({"k": "three"}, r"bm25\.k is a whole number"),
        ({"name": "bm52"}, "no method 'bm52'; did you mean 'bm25'"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_paid(
    tmp_path: Path, server: FakeServer, wrong: dict[str, Any], said: str
) -> None:
    with opened(tmp_path, server) as kumi:
        kumi.index(notes(tmp_path / "notes", 3), methods=["bm25"])
        asked = {"name": "bm25", **wrong}
        with kumi.snapshot() as reading, pytest.raises(SettingsError, match=said):
            reading.ask("And the last one?", history=[answer("What is it?", "A note.")], **asked)
    assert server.counts()["requests"] == 0


def test_a_method_that_is_not_built_is_told_before_anything_is_paid(tmp_path: Path, server: FakeServer) -> None:
    with opened(tmp_path, server) as kumi:
        kumi.index(notes(tmp_path / "notes", 3), methods=["bm25"])
        with pytest.raises(IndexUnavailable, match="not built for naive"):
            kumi.ask("And the last one?", "naive", history=[answer("What is it?", "A note.")])
    assert server.counts()["requests"] == 0


@pytest.mark.parametrize("question", ["", " \n", "\u3000"])
def test_an_empty_question_is_not_paid_for(tmp_path: Path, server: FakeServer, question: str) -> None:
    with opened(tmp_path, server) as kumi:
        kumi.index(notes(tmp_path / "notes", 3), methods=["bm25"])
        with pytest.raises(SettingsError, match="write what you want to know"):
            kumi.ask(question, "bm25", history=[answer("What is it?", "A note.")])
    assert server.counts()["requests"] == 0
