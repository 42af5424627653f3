"""Questions with gold passages -> assertions; low-rated ones are rejected and counted."""

from __future__ import annotations

import json
from pathlib import Path

from kumihimo.evaluate.question_generation import generate_assertions
from kumihimo.evaluate.records import EvalQuestion, Gold
from kumihimo.evaluate.study import Study
from kumihimo.llm.cached_llm import create_llm
from kumihimo.storage.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat
from tests.cli_runner import kumi
from tests.fake_server import FakeServer

NINE, BLUE, CORD = "The answer should say nine.", "The answer should say blue.", "回答は十月に届くと述べる。"
WRITTEN = json.dumps({"assertions": [NINE, BLUE, NINE, " ", CORD]}, ensure_ascii=False)
RATED = json.dumps(
    [
        {"number": 1, "reason": "so", "grounding": 5, "relevance": 3, "verifiability": 4},
        {"number": 2, "reason": "no", "grounding": 2, "relevance": 5, "verifiability": 5},
        {"number": 3, "reason": "so", "grounding": 3, "relevance": 3, "verifiability": 3},
    ]
)
GOLD = EvalQuestion("q1", "When?", gold=(Gold(text="The Tern sails at nine."),))


def test_low_rated_assertions_are_rejected(tmp_path: Path) -> None:
    chat = FakeChat(lambda prompt: RATED if "Assertions:" in prompt else WRITTEN)
    prepared, without_gold = EvalQuestion("q2", "?", assertions=("Mine.",), reference="x"), EvalQuestion("q3", "?")
    first, second, third = generate_assertions(
        [GOLD, prepared, without_gold], _gold, create_llm(chat, ResponseCache(tmp_path / "cache.db"))
    )
    assert first.question.assertions == (NINE, CORD)
    assert [(text, rating.grounding) for text, rating in first.dropped] == [(BLUE, 2)]
    assert (second.question, third.question) == (prepared, without_gold)
    assert third.why.startswith("no gold passage")
    assert len(chat.prompt_counts) == 2


def test_failures_leave_a_question_unchanged(tmp_path: Path) -> None:
    llm = create_llm(FakeChat(lambda _: "no JSON"), ResponseCache(tmp_path / "cache.db"))
    (row,) = generate_assertions([GOLD], _gold, llm)
    assert (row.question, row.status) == (GOLD, "invalid")
    empty = create_llm(FakeChat(lambda _: '{"assertions": []}'), ResponseCache(tmp_path / "other.db"))
    (row,) = generate_assertions([GOLD], _gold, empty)
    assert (row.question, row.status, row.why) == (GOLD, "ok", "the model wrote none")


def test_the_command_reads_gold_from_the_index(tmp_path: Path, server: FakeServer) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/note.txt").write_text("The Tern sails at nine. It rained.", encoding="utf-8")
    environment = {"KUMI_CHAT_MODEL": "fake", "KUMI_CHAT_BASE_URL": server.url}
    server.configure(replies=[("Assertions:\n", RATED), ("<text 1>\nThe Tern sails at nine.\n<", WRITTEN)])
    assert kumi(tmp_path, "index", "notes", "--methods", "bm25").returncode == 0
    study = Study(tmp_path / "eval")
    study.write("questions", [EvalQuestion("q1", "When?", gold=(Gold("note.txt", 0, 23),)), EvalQuestion("q2", "Why?")])
    ran = kumi(tmp_path, "eval", "assertions", "--json", **environment)
    assert ran.returncode == 0, ran.stderr
    summary = json.loads(ran.stdout)
    assert (summary["assertions"], len(summary["dropped"]), summary["without"][0]["question"]) == (2, 1, "q2")
    assert study.questions()[0].assertions == (NINE, CORD)
    assert "1 were rated too low" not in kumi(tmp_path, "eval", "assertions", **environment).stdout
    assert study.questions()[0].assertions == (NINE, CORD)


def _gold(question: EvalQuestion) -> list[str]:
    return [gold.text for gold in question.gold]
