"""A description of the documents -> users, their tasks, and corpus-level questions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Literal, TypeVar

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed
from kumihimo.core.task import Progress
from kumihimo.evaluate.records import EvalQuestion
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, Messages

A = TypeVar("A")
B = TypeVar("B")

Variant = Literal["graphrag", "lightrag"]
USERS_PROMPT, TASKS_PROMPT, QUESTIONS_PROMPT = (
    Path(__file__).with_name(f"questions_{name}.md") for name in ("users", "tasks", "asked")
)
MAX_TASK_WORDS = 15
_MAX_CALLS = 3  # for one list
_PERSONA = "`persona`: who the user is and what they look for in these documents, in one sentence."
_EXPERTISE = " `expertise`: two or three sentences on what they know, and what about them makes them ask."
_PREVIOUS_HEADING = "\n\nThese were given before. Give others:\n"
_LIST_MARK = re.compile(r"\A(?:\d{1,2}[.)]|[-*•])\s+")
_UNFIT = re.compile(
    r"\A\W*(?:(?:about |roughly )?how (?:many|often|frequently)\b|what (?:number|percentage) of\b|why\b)"
    r"|\A\W*(?:なぜ|何故|どうして|为什么|為什麼|为何|為何)|何(?:件|回|人|個|度)|いくつ|多少",
    re.I,
)


@dataclass(frozen=True, slots=True)
class User:
    """A potential user; expertise: knowledge behind the questions (LightRAG only)."""

    persona: str
    expertise: str = ""

    @property
    def profile(self) -> str:
        """Return the user's text for a prompt."""
        return "\n".join(filter(None, [self.persona, self.expertise]))


@dataclass(frozen=True, slots=True)
class Persona:
    """The reply form of a user."""

    persona: str


@dataclass(frozen=True, slots=True)
class Expert:
    """The reply form of a user with expertise."""

    persona: str
    expertise: str


@dataclass(frozen=True, slots=True)
class Missing:
    """A list with fewer items than requested.

    why: the reason. failed: the call failed, so that running again may help.
    """

    what: str
    asked: int
    made: int
    why: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class GeneratedQuestions:
    """Generated questions and the missing ones."""

    questions: tuple[EvalQuestion, ...]
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True, slots=True)
class _ListRequest(Generic[A]):
    """A request for a list of items.

    fetch: number of items, earlier texts -> items of the model.
    """

    what: str
    count: int
    fetch: Callable[[int, Sequence[str]], Iterable[A]]
    get_text: Callable[[A], str]
    accept: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class _ListResult(Generic[A]):
    """The accepted items of a request.

    all_texts: the texts of all replies. why: the reason for missing items.
    """

    items: tuple[A, ...] = ()
    all_texts: tuple[str, ...] = ()
    why: str = ""
    failed: bool = False


def generate_global_questions(
    description: str,
    llm: LLM,
    *,
    personas: int = 5,
    tasks: int = 5,
    questions: int = 5,
    variant: Variant = "graphrag",
    progress: Progress | None = None,
) -> GeneratedQuestions:
    """Generate users, their tasks and questions (GraphRAG, algorithm 1).

    lightrag: each user also gets a description of their expertise (LightRAG, section 4.1). Unlike the papers, users,
    tasks and questions come from separate calls, one a list. Repeated questions, counting questions and why-questions
    are asked for again, at most twice. Failures are listed and do not stop the rest.
    """
    users = _generate_users(description, llm, personas, variant, followups=personas * (1 + tasks))
    missing = _missing_items("users", personas, users)
    task_requests = [(user, _task_request(description, user, llm, tasks, followups=tasks)) for user in users.items]
    tasks_by_user = [
        (user, results)
        for (user, request), results in zip(
            task_requests, _fill_all(task_requests, llm, "tasks", progress), strict=True
        )
    ]
    missing += [
        missing_tasks
        for user, results in tasks_by_user
        for missing_tasks in _missing_items(f"tasks of “{user.persona}”", tasks, results)
    ]
    pairs = [(user, task) for user, results in tasks_by_user for task in results.items]
    question_requests = [
        ((user, task), _question_request(description, user, task, llm, questions)) for user, task in pairs
    ]
    results = _replace_repeated(question_requests, _fill_all(question_requests, llm, "questions", progress), llm)
    for (user, task), result in zip(pairs, results, strict=True):
        missing += _missing_items(f"questions of “{user.persona}”, “{task}”", questions, result)
    generated = [
        _build_question(user, task, text)
        for (user, task), result in zip(pairs, results, strict=True)
        for text in result.items
    ]
    return GeneratedQuestions(tuple(generated), tuple(missing))


def _build_question(user: User, task: str, text: str) -> EvalQuestion:
    more = {"expertise": user.expertise} if user.expertise else {}
    id = hash_parts(user.persona, task, text)
    return EvalQuestion(id, text, "global", "activity", persona=user.persona, task=task, more=more)


# -- requests for the three lists


def _generate_users(description: str, llm: LLM, count: int, variant: Variant, followups: int) -> _ListResult[User]:
    expert = variant == "lightrag"

    def request_users(n: int, previous: Sequence[str]) -> list[User]:
        persona = _PERSONA + (_EXPERTISE if expert else "")
        messages = render_prompt(
            USERS_PROMPT, count=str(n), persona=persona, description=description, before=_format_previous(previous)
        )
        if expert:
            return [
                User(strip_list_mark(u.persona), strip_list_mark(u.expertise))
                for u in llm(messages, schema=list[Expert], followups=followups)
            ]
        return [User(strip_list_mark(u.persona)) for u in llm(messages, schema=list[Persona], followups=followups)]

    return (
        _fill_list(_ListRequest("users", count, request_users, lambda user: user.persona, bool))
        if count
        else _ListResult()
    )


def _task_request(description: str, user: User, llm: LLM, count: int, followups: int) -> _ListRequest[str]:
    def build_prompt(n: int, previous: Sequence[str]) -> Messages:
        values = {"description": description, "user": user.profile, "before": _format_previous(previous)}
        return render_prompt(TASKS_PROMPT, count=str(n), words=str(MAX_TASK_WORDS), **values)

    return _text_request(
        "tasks", count, build_prompt, llm, lambda task: 0 < len(task.split()) <= MAX_TASK_WORDS, followups
    )


def _question_request(description: str, user: User, task: str, llm: LLM, count: int) -> _ListRequest[str]:
    def build_prompt(n: int, previous: Sequence[str]) -> Messages:
        values = {"description": description, "user": user.profile, "task": task, "before": _format_previous(previous)}
        return render_prompt(QUESTIONS_PROMPT, count=str(n), **values)

    return _text_request("questions", count, build_prompt, llm, is_global_question)


def _text_request(
    label: str,
    count: int,
    build_prompt: Callable[[int, Sequence[str]], Messages],
    llm: LLM,
    accept: Callable[[str], bool],
    followups: int = 0,
) -> _ListRequest[str]:
    def request_texts(n: int, previous: Sequence[str]) -> list[str]:
        return [strip_list_mark(text) for text in llm(build_prompt(n, previous), schema=list[str], followups=followups)]

    return _ListRequest(label, count, request_texts, str, accept)


def _format_previous(previous: Sequence[str]) -> str:
    return _PREVIOUS_HEADING + "\n".join(f"- {text}" for text in previous) if previous else ""


# -- filling the lists


def _fill_list(request: _ListRequest[A], previous: _ListResult[A] | None = None) -> _ListResult[A]:
    """Collect distinct accepted items until the list is complete.

    The model is asked again while items are missing and it still gives new ones.
    """
    collected: _ListResult[A] = previous or _ListResult()
    items, all_texts, why = (
        {question_text_key(request.get_text(entry)): entry for entry in collected.items},
        list(collected.all_texts),
        "",
    )
    for _ in range(_MAX_CALLS):
        if len(items) >= request.count:
            break
        try:
            replies = [
                entry for entry in request.fetch(request.count - len(items), all_texts) if request.get_text(entry)
            ]
        except ItemFailed as failure:
            return _ListResult(tuple(items.values()), tuple(all_texts), str(failure), failed=True)
        seen_keys = set(map(question_text_key, all_texts))
        why = "the model repeats itself, or gives unsuitable items"
        if not {question_text_key(request.get_text(entry)) for entry in replies} - seen_keys:
            break
        for item in replies:
            text = request.get_text(item)
            if question_text_key(text) not in seen_keys and request.accept(text) and len(items) < request.count:
                items.setdefault(question_text_key(text), item)
        for text in map(request.get_text, replies):
            all_texts += [text] if question_text_key(text) not in seen_keys else []
            seen_keys.add(question_text_key(text))
    return _ListResult(tuple(items.values()), tuple(all_texts), why if len(items) < request.count else "")


def _fill_all(
    requests: Sequence[tuple[B, _ListRequest[str]]], llm: LLM, label: str, progress: Progress | None
) -> list[_ListResult[str]]:
    results: list[_ListResult[str]] = []
    for result in map_concurrent(_fill_list, [request for _, request in requests], llm.workers):
        results.append(result)
        if progress:
            progress(label, len(results), len(requests))
    return results


def _replace_repeated(
    requests: Sequence[tuple[B, _ListRequest[str]]], results: Sequence[_ListResult[str]], llm: LLM
) -> list[_ListResult[str]]:
    """Replace repeated questions by new ones, once."""
    unique, seen_keys = _keep_first(results, set())
    incomplete = [
        i for i, (after, before) in enumerate(zip(unique, results, strict=True)) if len(after.items) < len(before.items)
    ]
    refilled = map_concurrent(lambda i: _fill_list(requests[i][1], unique[i]), incomplete, llm.workers)
    for i, refill in zip(incomplete, list(refilled), strict=True):
        new_texts = [
            text for text in refill.items if text not in unique[i].items and question_text_key(text) not in seen_keys
        ]
        seen_keys.update(map(question_text_key, new_texts))
        texts = (*unique[i].items, *new_texts)
        why = refill.why or ("another task asks the same" if len(texts) < requests[i][1].count else "")
        unique[i] = replace(refill, items=texts, why=why)
    return unique


def _keep_first(results: Iterable[_ListResult[str]], seen_keys: set[str]) -> tuple[list[_ListResult[str]], set[str]]:
    """Keep each text in the first list that contains it."""
    unique: list[_ListResult[str]] = []
    for result in results:
        texts = tuple(text for text in result.items if question_text_key(text) not in seen_keys)
        seen_keys.update(map(question_text_key, texts))
        unique.append(replace(result, items=texts))
    return unique, seen_keys


def _missing_items(label: str, requested: int, result: _ListResult[A]) -> list[Missing]:
    count = len(result.items)
    return [Missing(label, requested, count, result.why, result.failed)] if count < requested else []


# -- texts


def strip_list_mark(text: str) -> str:
    r"""Return the text on one line, without a list mark.

    >>> strip_list_mark(" 2. Which\nthemes recur? ")
    'Which themes recur?'
    """
    return _LIST_MARK.sub("", " ".join(text.split()))


def question_text_key(text: str) -> str:
    """Return a key that is equal for questions with the same words.

    >>> question_text_key("Which themes recur?") == question_text_key("which  themes recur")
    True
    """
    return " ".join(text.casefold().split()).rstrip(" ?？!！.。")


def is_global_question(question: str) -> bool:
    """Return whether a question suits the whole corpus.

    Counting questions are for a database, and documents seldom state reasons.

    >>> [is_global_question(q) for q in ("How do guests see rules?", "How many guests are there?")]
    [True, False]
    >>> [is_global_question(q) for q in ("Why?", "何件ありますか。", "")]
    [False, False, False]
    """
    return bool(question_text_key(question)) and not _UNFIT.search(question)
