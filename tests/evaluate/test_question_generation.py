"""A description -> users, tasks, questions: how many calls, what is kept, what is missing when a model fails."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.errors import ItemFailed
from kumihimo.evaluate.question_generation import GeneratedQuestions, generate_global_questions
from kumihimo.llm.budget import Budget, Caps
from kumihimo.llm.cached_llm import CachedLLM
from kumihimo.llm.local_embedder import LocalTokenizer
from kumihimo.llm.registry import ModelRegistry
from kumihimo.storage.sqlite.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat

Says = Callable[[str, int], list[Any]]


def reply(questions: Says, tasks: Says) -> Callable[[str], str]:
    """users: user 1, user 2, ...; what the others say, they are told: the prompt, and how many are wanted."""

    def answer(asked: str) -> str:
        count = int((re.search(r"Give (\d+) ", asked) or [0, 0])[1])
        if "think of people" in asked:
            names = ["persona", "expertise"] if '"expertise"' in asked else ["persona"]
            said: list[Any] = [{name: f"{name} {n}" for name in names} for n in range(count)]
        else:
            said = (questions if "The task:" in asked else tasks)(asked, count)
        return json.dumps({"answer": said})

    return answer


def some_tasks(asked: str, count: int) -> list[str]:
    return [f"Compare {n}" for n in range(count)]


def others(asked: str, count: int) -> list[str]:
    """Questions that nobody else asks."""
    user, task = re.findall(r"persona \d|Compare \d", asked)[:2]
    return [f"{n}. Which themes has {user}, {task}, {n}?" for n in range(count)]


def made(
    folder: Path, says: Says = others, of_tasks: Says = some_tasks, *, caps: Caps | None = None, **sizes: Any
) -> tuple[GeneratedQuestions, FakeChat]:
    chat, memo = FakeChat(reply(says, of_tasks), join_messages=True), ResponseCache(folder / "cache.db")
    try:
        return generate_global_questions(
            "Papers of an island.", CachedLLM(chat, memo, Budget(caps), "questioner"), **sizes
        ), chat
    finally:
        memo.close()


def test_five_by_five_by_five_in_a_call_for_each_list(tmp_path: Path) -> None:
    found, chat = made(tmp_path)
    assert (len(found.questions), found.missing, chat.prompt_counts.total()) == (125, (), 1 + 5 + 25)
    assert len({q.id for q in found.questions}) == 125
    assert len({q.cluster for q in found.questions}) == 25
    first = found.questions[0]
    assert (first.text, first.scope, first.source) == (
        "Which themes has persona 0, Compare 0, 0?",
        "global",
        "activity",
    )
    again, chat = made(tmp_path)
    assert (again, chat.prompt_counts.total()) == (found, 0)


def test_users_of_lightrag_have_expertise_that_tasks_and_questions_are_told(tmp_path: Path) -> None:
    found, chat = made(tmp_path, personas=1, tasks=1, questions=2, variant="lightrag")
    assert [q.more for q in found.questions] == [{"expertise": "expertise 0"}] * 2
    assert sum("expertise 0" in asked for asked in chat.prompt_counts) == 2


def test_what_is_given_twice_counts_or_asks_why_is_asked_for_again(tmp_path: Path) -> None:
    def poor(asked: str, count: int) -> list[str]:
        if "given before" in asked:
            return [f"Which one is new, {n}?" for n in range(count)]
        return ["Which theme recurs?", "which theme  recurs", "How many are there?", "Why?", ""]

    found, chat = made(tmp_path, poor, personas=1, tasks=1, questions=3)
    texts = [q.text for q in found.questions]
    assert texts == ["Which theme recurs?", "Which one is new, 0?", "Which one is new, 1?"]
    (again,) = (asked for asked in chat.prompt_counts if "given before" in asked)
    assert "Give 2 questions" in again
    assert again.partition("Give others:\n")[2].splitlines()[:3] == [
        "- Which theme recurs?",
        "- How many are there?",
        "- Why?",
    ]


def test_a_question_of_two_tasks_is_asked_once(tmp_path: Path) -> None:
    def alike(asked: str, count: int) -> list[str]:
        return ["Which theme recurs?", *others(asked, 9)[: count - 1]] if "given before" not in asked else ["And how?"]

    found, _ = made(tmp_path, alike, personas=1, tasks=3, questions=2)
    assert [q.text for q in found.questions].count("Which theme recurs?") == 1
    assert len({q.text for q in found.questions}) == len(found.questions) == 5  # the third finds "And how?" taken
    assert [(m.asked, m.made, m.failed) for m in found.missing] == [(2, 1, False)]


def test_long_tasks_are_no_tasks(tmp_path: Path) -> None:
    def long(asked: str, count: int) -> list[str]:
        return ["word " * 16, "Compare 1"]

    found, _ = made(tmp_path, of_tasks=long, personas=1, tasks=2, questions=1)
    assert [q.task for q in found.questions] == ["Compare 1"]
    assert [(m.what, m.asked, m.made) for m in found.missing] == [("tasks of “persona 0”", 2, 1)]


def test_who_fails_is_listed_and_the_others_go_on(tmp_path: Path) -> None:
    def failing(asked: str, count: int) -> list[Any]:
        if "persona 1" in asked:
            raise ItemFailed("no")
        return some_tasks(asked, count)

    def broken(asked: str, count: int) -> list[Any]:
        return [{}] if "Compare 0" in asked else others(asked, count)

    found, _ = made(tmp_path, broken, failing, personas=2, tasks=2, questions=2)
    assert [q.task for q in found.questions] == ["Compare 1"] * 2
    assert [(m.what, m.made, m.failed) for m in found.missing] == [
        ("tasks of “persona 1”", 0, True),
        ("questions of “persona 0”, “Compare 0”", 0, True),
    ]
    assert "cannot be read" in found.missing[1].why


def test_a_cap_leaves_what_was_paid_for_and_the_rest_to_the_next_time(tmp_path: Path) -> None:
    found, chat = made(tmp_path, personas=2, tasks=2, questions=2, caps=Caps(calls=4))
    assert (len(found.questions), chat.prompt_counts.total()) == (2, 4)
    assert {m.why for m in found.missing} == {"capped: not asked, since --max-calls 4 was reached"}
    whole, chat = made(tmp_path, personas=2, tasks=2, questions=2)
    assert (len(whole.questions), chat.prompt_counts.total()) == (8, 3)
    assert {q.id for q in found.questions} < {q.id for q in whole.questions}


def test_without_a_reply_there_are_no_questions(tmp_path: Path) -> None:
    found, _ = made(tmp_path, caps=Caps(calls=0))
    assert found.questions == ()
    assert [(m.what, m.asked, m.made) for m in found.missing] == [("users", 5, 0)]


def test_a_plan_counts_what_it_would_ask(tmp_path: Path) -> None:
    from kumihimo.app.cost import DryRunModels
    from kumihimo.llm.registry import MODEL_SETTINGS

    memo = ResponseCache(tmp_path / "cache.db")
    settings = {name: {s.name: s.default for s in known.values()} for name, known in MODEL_SETTINGS.items()}
    settings["chat"]["model"] = "m"
    tally = DryRunModels(ModelRegistry({**settings, "questioner": {}}, lambda: memo), LocalTokenizer())
    generate_global_questions("Papers.", tally.llm("questioner"))
    memo.close()
    assert (tally.tallies["questioner"].calls, tally.tallies["questioner"].followups) == (1, 30)


@pytest.mark.parametrize("personas", [0, 1])
def test_nothing_is_asked_where_nothing_is_wanted(tmp_path: Path, personas: int) -> None:
    found, chat = made(tmp_path, personas=personas, tasks=0, questions=0)
    assert (found, chat.prompt_counts.total()) == (GeneratedQuestions(()), personas)
