"""answer + evidence -> follow-up questions: one call within the caps, or an error without a model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.core.answer import Answer, Part
from kumihimo.core.context import Context, Evidence
from kumihimo.core.errors import BudgetExceeded, SettingsError
from kumihimo.core.records import Record
from kumihimo.core.usage import Usage
from kumihimo.generation.answer import suggest_questions
from kumihimo.llm.budget import Caps
from kumihimo.llm.cached_llm import create_llm
from kumihimo.llm.local_embedder import LocalTokenizer
from kumihimo.storage.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat
from tests import cli_runner
from tests.factories_paid_steps import notes, opened
from tests.fake_server import FakeServer
from tests.fenced_texts import fenced_texts

NEXT = ["When does the ferry leave?", "Who  keeps harbour 2?", "when does the ferry leave?", "", "Which ferry?"]
REPLIES = [("</answer>", json.dumps({"answer": NEXT})), ("<question>", "It leaves. [1]")]
EXPECTED = ("When does the ferry leave?", "Who keeps harbour 2?")


def answer_from(*texts: str) -> Answer:
    items = (Evidence("notes", Record(id=str(n), text=text), 1.0) for n, text in enumerate(texts))
    part = Part("sentence", "That of nine. [1]")
    return Answer("Which ferry?", "bm25", (part,), Context(tuple(items)), Usage())


def suggest(tmp_path: Path, answer: Answer) -> tuple[tuple[str, ...], list[str]]:
    """Return the suggestions and the prompts."""
    prompts: list[str] = []

    def reply_to(text: str) -> str:
        prompts.append(text)
        return REPLIES[0][1]

    memo = ResponseCache(tmp_path / "cache.db")
    suggestions = suggest_questions(answer, create_llm(FakeChat(reply_to), memo), LocalTokenizer())
    memo.close()
    return suggestions, prompts


def test_suggestions_are_distinct_and_new(tmp_path: Path) -> None:
    suggested, (prompts,) = suggest(tmp_path, answer_from("The ferry leaves at nine.", "It is kept by Ada."))
    assert suggested == EXPECTED
    assert fenced_texts(prompts, "source") == ["The ferry leaves at nine.", "It is kept by Ada."]
    assert (fenced_texts(prompts, "question"), fenced_texts(prompts, "answer")) == (
        ["Which ferry?"],
        ["That of nine. [1]"],
    )


def test_no_evidence_no_suggestions(tmp_path: Path) -> None:
    assert suggest(tmp_path, answer_from()) == ((), [])


def test_evidence_in_the_prompt_is_limited(tmp_path: Path) -> None:
    _, (prompts,) = suggest(tmp_path, answer_from(*(f"{n} " + "ferry " * 500 for n in range(20))))
    assert len(prompts) < 30_000


@pytest.fixture
def kumi(tmp_path: Path, server: FakeServer) -> Iterator[Kumihimo]:
    server.configure(replies=REPLIES)
    with opened(tmp_path, server) as kumi:
        kumi.index(notes(tmp_path / "notes", 3), methods=["bm25"])
        yield kumi


def test_suggestions_take_one_counted_call(kumi: Kumihimo, server: FakeServer) -> None:
    answer = kumi.ask("Which ferry?")
    more = kumi.suggest(answer)
    assert (answer.followups, more.followups, more.text) == ((), EXPECTED, answer.text)
    assert (answer.usage.calls, more.usage.calls, server.counts()["requests"]) == (1, 2, 2)
    assert kumi.suggest(answer).usage.calls == 1  # cached


def test_cap_covers_answer_and_suggestions(kumi: Kumihimo, server: FakeServer) -> None:
    answer = kumi.ask("Which ferry?", caps=Caps(calls=1))
    with pytest.raises(BudgetExceeded, match="--max-calls 1 was reached"):
        kumi.suggest(answer, caps=Caps(calls=1))
    assert kumi.suggest(answer, caps=Caps(calls=2)).followups == EXPECTED


def command(tmp_path: Path, *words: str, typed: str = "", code: int = 0) -> tuple[str, str]:
    result = cli_runner.kumi(tmp_path, "ask", *words, typed=typed)
    assert result.returncode == code, result.stderr
    return result.stdout, result.stderr


def connected(tmp_path: Path, server: FakeServer) -> Path:
    (tmp_path / "kumi.toml").write_text(f'[chat]\nmodel = "m"\nbase_url = "{server.url}"\n', "utf-8")
    return tmp_path


@pytest.mark.usefixtures("kumi")
def test_on_the_command_line(tmp_path: Path, server: FakeServer) -> None:
    connected(tmp_path, server)
    out, stderr = command(tmp_path, "Which ferry?", "--suggest")
    assert out.startswith("It leaves. [1]\n")
    assert out.endswith("\nYou could ask next:\n  When does the ferry leave?\n  Who keeps harbour 2?\n")
    assert "2 calls" in stderr
    assert json.loads(command(tmp_path, "Which ferry?", "--suggest", "--json")[0])["followups"] == [*EXPECTED]
    assert json.loads(command(tmp_path, "Which ferry?", "--json")[0])["followups"] == []


@pytest.mark.usefixtures("kumi")
def test_answer_is_shown_if_suggestions_fail(tmp_path: Path, server: FakeServer) -> None:
    connected(tmp_path, server)
    out, stderr = command(tmp_path, "Which ferry?", "--suggest", "--max-calls", "1", code=1)
    assert out.startswith("It leaves. [1]\n\n[1] notes/")
    assert "kumi: no follow-up questions: capped" in stderr
    out, _ = command(tmp_path, "Which harbour?", "--suggest", "--max-calls", "1", "--json", code=1)
    assert json.loads(out)["text"] == "It leaves. [1]"


@pytest.mark.usefixtures("kumi")
def test_in_a_conversation(tmp_path: Path, server: FakeServer) -> None:
    connected(tmp_path, server)
    out, stderr = command(tmp_path, typed="/suggest\nWhich ferry?\n/suggest\n", code=1)
    assert "/suggest: nothing has been asked yet" in stderr
    assert out.count("You could ask next:\n  When") == 1
    out, _ = command(tmp_path, "--suggest", typed="Which ferry?\nWhich harbour?\n")
    assert out.count("You could ask next:\n  When") == 2
    out, _ = command(tmp_path, "--suggest", "--json", typed="Which ferry?\n")
    assert json.loads(out)["followups"] == [*EXPECTED]


def test_missing_model_is_reported_before_any_payment(tmp_path: Path, server: FakeServer) -> None:
    with opened(tmp_path, server, hyde={"model": "m"}, chat={"model": ""}) as kumi:
        kumi.index(notes(tmp_path / "notes", 3), methods=["hyde"])
        answer = kumi.ask("Which ferry?", "hyde")
        requests = server.counts()["requests"]
        with pytest.raises(SettingsError, match="answer needs a chat model"):
            kumi.suggest(answer)
    (tmp_path / "kumi.toml").write_text(f'[hyde]\nmodel = "m"\nbase_url = "{server.url}"\n', "utf-8")
    for words in (("Which harbour?", "--suggest"), ("Which harbour?", "--suggest", "--json")):
        out, stderr = command(tmp_path, *words, "--method", "hyde", code=2)
        assert (out, "answer needs a chat model" in stderr) == ("", True)
    assert server.counts()["requests"] == requests
