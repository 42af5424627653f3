"""A description -> users, tasks, questions: number of calls, accepted items, failures."""

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
from kumihimo.llm.cached_llm import create_llm
from kumihimo.llm.local_embedder import LocalTokenizer
from kumihimo.llm.registry import ModelRegistry
from kumihimo.storage.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat
from tests.fenced_texts import fenced_text

ReplyRule = Callable[[str, int], list[Any]]


def reply(questions: ReplyRule, tasks: ReplyRule) -> Callable[[str], str]:
    """Return a model with fixed users and these rules for tasks and questions.

    The rules get the prompt and the number of items.
    """

    def answer(prompt: str) -> str:
        count = int((re.search(r"Give (\d+) ", prompt) or [0, 0])[1])
        if "think of people" in prompt:
            names = ["persona", "expertise"] if '"expertise"' in prompt else ["persona"]
            items: list[Any] = [{name: f"{name} {n}" for name in names} for n in range(count)]
        else:
            items = (questions if fenced_text(prompt, "task") else tasks)(prompt, count)
        return json.dumps({"answer": items})

    return answer


def some_tasks(prompt: str, count: int) -> list[str]:
    return [f"Compare {n}" for n in range(count)]


def distinct_questions(prompt: str, count: int) -> list[str]:
    """Return questions that occur only once."""
    user, task = re.findall(r"persona \d|Compare \d", prompt)[:2]
    return [f"{n}. Which themes has {user}, {task}, {n}?" for n in range(count)]


def generate(
    folder: Path,
    question_rule: ReplyRule = distinct_questions,
    task_rule: ReplyRule = some_tasks,
    *,
    caps: Caps | None = None,
    **sizes: Any,
) -> tuple[GeneratedQuestions, FakeChat]:
    chat, cache = FakeChat(reply(question_rule, task_rule), join_messages=True), ResponseCache(folder / "cache.db")
    try:
        return generate_global_questions(
            "Papers of an island.", create_llm(chat, cache, Budget(caps), "questioner"), **sizes
        ), chat
    finally:
        cache.close()


def test_each_list_takes_one_call(tmp_path: Path) -> None:
    generated, chat = generate(tmp_path)
    assert (len(generated.questions), generated.missing, chat.prompt_counts.total()) == (125, (), 1 + 5 + 25)
    assert len({q.id for q in generated.questions}) == 125
    assert len({q.cluster for q in generated.questions}) == 25
    first = generated.questions[0]
    assert (first.text, first.scope, first.source) == (
        "Which themes has persona 0, Compare 0, 0?",
        "global",
        "activity",
    )
    repeated, chat = generate(tmp_path)
    assert (repeated, chat.prompt_counts.total()) == (generated, 0)


def test_lightrag_prompts_contain_the_expertise(tmp_path: Path) -> None:
    generated, chat = generate(tmp_path, personas=1, tasks=1, questions=2, variant="lightrag")
    assert [q.more for q in generated.questions] == [{"expertise": "expertise 0"}] * 2
    assert sum("expertise 0" in prompt for prompt in chat.prompt_counts) == 2


def test_unsuitable_questions_are_asked_for_again(tmp_path: Path) -> None:
    def poor(prompt: str, count: int) -> list[str]:
        if "given before" in prompt:
            return [f"Which one is new, {n}?" for n in range(count)]
        return ["Which theme recurs?", "which theme  recurs", "How many are there?", "Why?", ""]

    generated, chat = generate(tmp_path, poor, personas=1, tasks=1, questions=3)
    texts = [q.text for q in generated.questions]
    assert texts == ["Which theme recurs?", "Which one is new, 0?", "Which one is new, 1?"]
    (second_prompt,) = (prompt for prompt in chat.prompt_counts if "given before" in prompt)
    assert "Give 2 questions" in second_prompt
    assert fenced_text(second_prompt, "before").splitlines() == [
        "- Which theme recurs?",
        "- How many are there?",
        "- Why?",
    ]


def test_a_question_of_two_tasks_occurs_once(tmp_path: Path) -> None:
    def repeating(prompt: str, count: int) -> list[str]:
        return (
            ["Which theme recurs?", *distinct_questions(prompt, 9)[: count - 1]]
            if "given before" not in prompt
            else ["And how?"]
        )

    generated, _ = generate(tmp_path, repeating, personas=1, tasks=3, questions=2)
    assert [q.text for q in generated.questions].count("Which theme recurs?") == 1
    # the third task gets no new question but "And how?", which is taken
    assert len({q.text for q in generated.questions}) == len(generated.questions) == 5
    assert [(m.asked, m.made, m.failed) for m in generated.missing] == [(2, 1, False)]


def test_long_tasks_are_rejected(tmp_path: Path) -> None:
    def long(prompt: str, count: int) -> list[str]:
        return ["word " * 16, "Compare 1"]

    generated, _ = generate(tmp_path, task_rule=long, personas=1, tasks=2, questions=1)
    assert [q.task for q in generated.questions] == ["Compare 1"]
    assert [(m.what, m.asked, m.made) for m in generated.missing] == [("tasks of “persona 0”", 2, 1)]


def test_failures_are_listed_and_do_not_stop_the_rest(tmp_path: Path) -> None:
    def failing(prompt: str, count: int) -> list[Any]:
        if "persona 1" in prompt:
            raise ItemFailed("no")
        return some_tasks(prompt, count)

    def broken(prompt: str, count: int) -> list[Any]:
        return [{}] if "Compare 0" in prompt else distinct_questions(prompt, count)

    generated, _ = generate(tmp_path, broken, failing, personas=2, tasks=2, questions=2)
    assert [q.task for q in generated.questions] == ["Compare 1"] * 2
    assert [(m.what, m.made, m.failed) for m in generated.missing] == [
        ("tasks of “persona 1”", 0, True),
        ("questions of “persona 0”, “Compare 0”", 0, True),
    ]
    assert "cannot be read" in generated.missing[1].why


def test_a_capped_run_can_be_continued(tmp_path: Path) -> None:
    partial, chat = generate(tmp_path, personas=2, tasks=2, questions=2, caps=Caps(calls=4))
    assert (len(partial.questions), chat.prompt_counts.total()) == (2, 4)
    assert {m.why for m in partial.missing} == {"capped: not asked, since --max-calls 4 was reached"}
    complete, chat = generate(tmp_path, personas=2, tasks=2, questions=2)
    assert (len(complete.questions), chat.prompt_counts.total()) == (8, 3)
    assert {q.id for q in partial.questions} < {q.id for q in complete.questions}


def test_without_a_reply_there_are_no_questions(tmp_path: Path) -> None:
    generated, _ = generate(tmp_path, caps=Caps(calls=0))
    assert generated.questions == ()
    assert [(m.what, m.asked, m.made) for m in generated.missing] == [("users", 5, 0)]


def test_a_dry_run_counts_the_calls(tmp_path: Path) -> None:
    from kumihimo.app.build.cost import DryRunModels
    from kumihimo.llm.registry import MODEL_SETTINGS

    cache = ResponseCache(tmp_path / "cache.db")
    settings = {name: {s.name: s.default for s in definitions.values()} for name, definitions in MODEL_SETTINGS.items()}
    settings["chat"]["model"] = "m"
    dry_run = DryRunModels(ModelRegistry({**settings, "questioner": {}}, lambda: cache), LocalTokenizer())
    generate_global_questions("Papers.", dry_run.llm("questioner"))
    cache.close()
    assert (dry_run.tallies["questioner"].calls, dry_run.tallies["questioner"].followups) == (1, 30)


@pytest.mark.parametrize("personas", [0, 1])
def test_zero_items_need_no_call(tmp_path: Path, personas: int) -> None:
    generated, chat = generate(tmp_path, personas=personas, tasks=0, questions=0)
    assert (generated, chat.prompt_counts.total()) == (GeneratedQuestions(()), personas)
