"""An answer and its evidence -> what to ask next: one call more, within the caps, or a word that there is no model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.core.context import Answer, Context, Evidence
from kumihimo.core.errors import BudgetExceeded, SettingsError
from kumihimo.core.records import Record
from kumihimo.core.usage import Usage
from kumihimo.generation.followups import suggest_questions
from kumihimo.llm.budget import Caps
from kumihimo.llm.cached_llm import CachedLLM
from kumihimo.llm.local_embedder import LocalTokenizer
from kumihimo.storage.sqlite.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat
from kumihimo.testing.fake_server import FakeServer
from tests import cli_runner
from tests.factories_paid_steps import notes, opened

NEXT = ["When does the ferry leave?", "Who  keeps harbour 2?", "when does the ferry leave?", "", "Which ferry?"]
REPLIES = [("Answered:", json.dumps({"answer": NEXT})), ("Question:", "It leaves. [1]")]
WANTED = ("When does the ferry leave?", "Who keeps harbour 2?")


def given(*texts: str) -> Answer:
    items = (Evidence("notes", Record(id=str(n), text=text), 1.0) for n, text in enumerate(texts))
    return Answer("Which ferry?", "bm25", "That of nine. [1]", (), Context(tuple(items)), Usage())


def asked(tmp_path: Path, answer: Answer) -> tuple[tuple[str, ...], list[str]]:
    """What is suggested, and what the model was told."""
    told: list[str] = []

    def said(text: str) -> str:
        told.append(text)
        return REPLIES[0][1]

    memo = ResponseCache(tmp_path / "cache.db")
    found = suggest_questions(answer, CachedLLM(FakeChat(said), memo), LocalTokenizer())
    memo.close()
    return found, told


def test_what_was_asked_already_is_not_suggested_and_nothing_twice(tmp_path: Path) -> None:
    found, (told,) = asked(tmp_path, given("The ferry leaves at nine.", "It is kept by Ada."))
    assert found == WANTED
    assert "The ferry leaves at nine.\n\n---\n\nIt is kept by Ada." in told
    assert "Asked: Which ferry?\nAnswered: That of nine. [1]" in told


def test_nothing_is_suggested_of_nothing(tmp_path: Path) -> None:
    assert asked(tmp_path, given()) == ((), [])


def test_only_so_much_evidence_is_told(tmp_path: Path) -> None:
    _, (told,) = asked(tmp_path, given(*(f"{n} " + "ferry " * 500 for n in range(20))))
    assert len(told) < 30_000


@pytest.fixture
def kumi(tmp_path: Path, server: FakeServer) -> Iterator[Kumihimo]:
    server.configure(replies=REPLIES)
    with opened(tmp_path, server) as kumi:
        kumi.index(notes(tmp_path / "notes", 3), methods=["bm25"])
        yield kumi


def test_one_call_more_is_made_and_counted(kumi: Kumihimo, server: FakeServer) -> None:
    answer = kumi.ask("Which ferry?")
    more = kumi.suggest(answer)
    assert (answer.followups, more.followups, more.text) == ((), WANTED, answer.text)
    assert (answer.usage.calls, more.usage.calls, server.counts()["requests"]) == (1, 2, 2)
    assert kumi.suggest(answer).usage.calls == 1  # it is remembered


def test_a_cap_is_on_both_together(kumi: Kumihimo, server: FakeServer) -> None:
    answer = kumi.ask("Which ferry?", caps=Caps(calls=1))
    with pytest.raises(BudgetExceeded, match="--max-calls 1 was reached"):
        kumi.suggest(answer, caps=Caps(calls=1))
    assert kumi.suggest(answer, caps=Caps(calls=2)).followups == WANTED


def command(tmp_path: Path, *words: str, typed: str = "", code: int = 0) -> tuple[str, str]:
    ran = cli_runner.kumi(tmp_path, "ask", *words, typed=typed)
    assert ran.returncode == code, ran.stderr
    return ran.stdout, ran.stderr


def connected(tmp_path: Path, server: FakeServer) -> Path:
    (tmp_path / "kumi.toml").write_text(f'[chat]\nmodel = "m"\nbase_url = "{server.url}"\n', "utf-8")
    return tmp_path


@pytest.mark.usefixtures("kumi")
def test_on_the_command_line(tmp_path: Path, server: FakeServer) -> None:
    connected(tmp_path, server)
    out, said = command(tmp_path, "Which ferry?", "--suggest")
    assert out.startswith("It leaves. [1]\n")
    assert out.endswith("\nYou could ask next:\n  When does the ferry leave?\n  Who keeps harbour 2?\n")
    assert "2 calls" in said
    assert json.loads(command(tmp_path, "Which ferry?", "--suggest", "--json")[0])["suggested"] == [*WANTED]
    assert json.loads(command(tmp_path, "Which ferry?", "--json")[0])["suggested"] == []


@pytest.mark.usefixtures("kumi")
def test_the_answer_stands_where_nothing_can_be_suggested(tmp_path: Path, server: FakeServer) -> None:
    connected(tmp_path, server)
    out, said = command(tmp_path, "Which ferry?", "--suggest", "--max-calls", "1", code=1)
    assert out.startswith("It leaves. [1]\n\n[1] notes/")
    assert "kumi: no questions to ask next: capped" in said
    out, _ = command(tmp_path, "Which harbour?", "--suggest", "--max-calls", "1", "--json", code=1)
    assert json.loads(out)["text"] == "It leaves. [1]"


@pytest.mark.usefixtures("kumi")
def test_in_a_conversation(tmp_path: Path, server: FakeServer) -> None:
    connected(tmp_path, server)
    out, said = command(tmp_path, typed="/suggest\nWhich ferry?\n/suggest\n", code=1)
    assert "/suggest: nothing has been asked yet" in said
    assert out.count("You could ask next:\n  When") == 1
    out, _ = command(tmp_path, "--suggest", typed="Which ferry?\nWhich harbour?\n")
    assert out.count("You could ask next:\n  When") == 2
    out, _ = command(tmp_path, "--suggest", "--json", typed="Which ferry?\n")
    assert json.loads(out)["suggested"] == [*WANTED]


def test_without_a_model_it_is_said_before_anything_is_paid(tmp_path: Path, server: FakeServer) -> None:
    with opened(tmp_path, server, hyde={"model": "m"}, chat={"model": ""}) as kumi:
        kumi.index(notes(tmp_path / "notes", 3), methods=["hyde"])
        answer = kumi.ask("Which ferry?", "hyde")
        asked = server.counts()["requests"]
        with pytest.raises(SettingsError, match="answer needs a chat model"):
            kumi.suggest(answer)
    (tmp_path / "kumi.toml").write_text(f'[hyde]\nmodel = "m"\nbase_url = "{server.url}"\n', "utf-8")
    for words in (("Which harbour?", "--suggest"), ("Which harbour?", "--suggest", "--json")):
        out, said = command(tmp_path, *words, "--method", "hyde", code=2)
        assert (out, "answer needs a chat model" in said) == ("", True)
    assert server.counts()["requests"] == asked
