"""earlier answers + a question -> a standalone question: one call if there is a history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.answer import Answer
from kumihimo.core.errors import IndexUnavailable, SettingsError
from kumihimo.generation.answer import STANDALONE_PROMPT, rewrite_standalone
from kumihimo.llm.budget import Budget
from kumihimo.llm.cached_llm import create_llm
from kumihimo.llm.prompts import render_prompt
from kumihimo.storage.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat
from tests.factories_paid_steps import notes, opened
from tests.fake_server import FakeServer


def rewrite(tmp_path: Path, reply: str, question: str, *history: Answer) -> tuple[str, list[str]]:
    """Return the rewritten question and the prompts."""
    prompts: list[str] = []

    def reply_to(text: str) -> str:
        prompts.append(text)
        return reply

    memo = ResponseCache(tmp_path / "cache.db")
    rewritten = rewrite_standalone(question, history, create_llm(FakeChat(reply_to), memo, Budget(), "answer"))
    memo.close()
    return rewritten, prompts


def test_first_question_is_unchanged(tmp_path: Path) -> None:
    assert rewrite(tmp_path, "other", "And then?") == ("And then?", [])


def test_history_is_in_the_prompt(tmp_path: Path) -> None:
    history = Answer.of_text("Who wound the cord?", "Ruta did. [1]")
    question_found, prompts = rewrite(tmp_path, " When did Ruta\nwind the cord? ", "When was that?", history)
    assert question_found == "When did Ruta wind the cord?"
    ((prompt_text,),) = [prompts]
    assert "Asked: Who wound the cord?\nAnswered: Ruta did. [1]" in prompt_text
    assert prompt_text.endswith("<question>\nWhen was that?\n</question>")


def test_history_is_limited(tmp_path: Path) -> None:
    history = [Answer.of_text(f"question {n}?", f"{n} " + "long " * 1000) for n in range(9)]
    _, (prompts,) = rewrite(tmp_path, "So?", "And?", *history)
    assert [f"question {n}?" in prompts for n in range(9)] == [False] * 3 + [True] * 6
    assert len(prompts) < 6000


def test_prompt_does_not_depend_on_argument_order() -> None:
    assert render_prompt(STANDALONE_PROMPT, turns="b", question="q") == render_prompt(
        STANDALONE_PROMPT, question="q", turns="b"
    )


def test_later_question_takes_one_more_call(tmp_path: Path, server: FakeServer) -> None:
    with opened(tmp_path, server) as kumi:
        kumi.index(notes(tmp_path / "notes", 3), methods=["bm25"])
        server.configure(replies=[("<turn ", "Tell of harbour 2."), ("<question>", "It leaves. [1]")])
        first = kumi.ask("What does note 1 tell of?", "bm25")
        second = kumi.ask("And the last one?", "bm25", history=[first])
    assert (first.usage.calls, second.usage.calls) == (1, 2)
    assert (first.question, second.question) == ("What does note 1 tell of?", "Tell of harbour 2.")


@pytest.mark.parametrize("question", ["Where is the ferry?", "渡し船はどこですか"])
def test_without_model_questions_that_stand_alone_are_unchanged(tmp_path: Path, question: str) -> None:
    from kumihimo import Kumihimo

    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(notes(tmp_path / "notes", 3))
        first = kumi.ask("What does note 1 tell of?")
        assert kumi.ask(question, history=[first]).question == question


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"filter": "auther = 1"}, "no field 'auther'"),
        ({"filter": "("}, "the filter ends too early"),
        ({"kk": 3}, "bm25 has no setting 'kk'; did you mean 'k'"),
        ({"k": "three"}, r"bm25\.k is a whole number"),
        ({"name": "bm52"}, "no method 'bm52'; did you mean 'bm25'"),
    ],
)
def test_invalid_arguments_are_reported_before_any_payment(
    tmp_path: Path, server: FakeServer, wrong: dict[str, Any], message: str
) -> None:
    with opened(tmp_path, server) as kumi:
        kumi.index(notes(tmp_path / "notes", 3), methods=["bm25"])
        arguments = {"name": "bm25", **wrong}
        with kumi.snapshot() as reading, pytest.raises(SettingsError, match=message):
            reading.ask("And the last one?", history=[Answer.of_text("What is it?", "A note.")], **arguments)
    assert server.counts()["requests"] == 0


def test_missing_index_is_reported_before_any_payment(tmp_path: Path, server: FakeServer) -> None:
    with opened(tmp_path, server) as kumi:
        kumi.index(notes(tmp_path / "notes", 3), methods=["bm25"])
        with kumi.snapshot() as snapshot, pytest.raises(IndexUnavailable, match="not built for naive"):
            snapshot.ask("And the last one?", "naive", history=[Answer.of_text("What is it?", "A note.")])
    assert server.counts()["requests"] == 0


@pytest.mark.parametrize("question", ["", " \n", "\u3000"])
def test_empty_question_costs_nothing(tmp_path: Path, server: FakeServer, question: str) -> None:
    with opened(tmp_path, server) as kumi:
        kumi.index(notes(tmp_path / "notes", 3), methods=["bm25"])
        with pytest.raises(SettingsError, match="write what you want to know"):
            kumi.ask(question, "bm25", history=[Answer.of_text("What is it?", "A note.")])
    assert server.counts()["requests"] == 0
