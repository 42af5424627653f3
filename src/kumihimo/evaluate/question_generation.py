"""a description of documents -> users, their tasks, and questions that need all of the documents to be answered."""

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
MAX_TASK_WORDS = 15  # of a task
_MAX_CALLS = 3  # calls for one list, until it is as long as it is to be
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
    """Somebody who may ask. expertise: what makes them ask, where that is told (LightRAG)."""

    persona: str
    expertise: str = ""

    @property
    def profile(self) -> str:
        return "\n".join(filter(None, [self.persona, self.expertise]))


@dataclass(frozen=True, slots=True)
class Persona:
    """The form of a user in a reply."""

    persona: str


@dataclass(frozen=True, slots=True)
class Expert:
    """The same with expertise."""

    persona: str
    expertise: str


@dataclass(frozen=True, slots=True)
class Missing:
    """Of what fewer were made than asked for, and why. failed: there was no reply, so it is worth asking again."""

    what: str
    asked: int
    made: int
    why: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class GeneratedQuestions:
    """Questions, and what is missing."""

    questions: tuple[EvalQuestion, ...]
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True, slots=True)
class _ListRequest(Generic[A]):
    """A list that a model is to fill. ask: how many, what was given before -> what the model gives."""

    what: str
    count: int
    request: Callable[[int, Sequence[str]], Iterable[A]]
    get_text: Callable[[A], str]
    accept: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class _ListResult(Generic[A]):
    """What a model gave: what is of use, the texts of all of it, and why it is not more."""

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
    """Questions of that many users with that many tasks each, for each of them so many (GraphRAG, algorithm 1).

    lightrag: each user has a description of their expertise, too (LightRAG, section 4.1). But: users, tasks and
    questions are asked for one after the other, in a call for each list; what is given twice, counts or asks why is
    asked for again, twice at most. What fails is listed, and the others go on.
    """
    users = _generate_users(description, llm, personas, variant, followups=personas * (1 + tasks))
    missing = _missing_items("users", personas, users)
    work = [(user, _task_request(description, user, llm, tasks, followups=tasks)) for user in users.items]
    planned = [
        (user, filled) for (user, wanted), filled in zip(work, _fill_all(work, llm, "tasks", progress), strict=True)
    ]
    missing += [m for user, filled in planned for m in _missing_items(f"tasks of “{user.persona}”", tasks, filled)]
    pairs = [(user, task) for user, filled in planned for task in filled.items]
    asked = [((user, task), _question_request(description, user, task, llm, questions)) for user, task in pairs]
    filled = _replace_repeated(asked, _fill_all(asked, llm, "questions", progress), llm)
    for (user, task), each in zip(pairs, filled, strict=True):
        missing += _missing_items(f"questions of “{user.persona}”, “{task}”", questions, each)
    made = [
        _build_question(user, task, t) for (user, task), each in zip(pairs, filled, strict=True) for t in each.items
    ]
    return GeneratedQuestions(tuple(made), tuple(missing))


def _build_question(user: User, task: str, text: str) -> EvalQuestion:
    more = {"expertise": user.expertise} if user.expertise else {}
    id = hash_parts(user.persona, task, text)
    return EvalQuestion(id, text, "global", "activity", persona=user.persona, task=task, more=more)


# -- the three lists


def _generate_users(description: str, llm: LLM, count: int, variant: Variant, followups: int) -> _ListResult[User]:
    expert = variant == "lightrag"

    def users(n: int, before: Sequence[str]) -> list[User]:
        persona = _PERSONA + (_EXPERTISE if expert else "")
        told = render_prompt(
            USERS_PROMPT, count=str(n), persona=persona, description=description, before=_format_previous(before)
        )
        if expert:
            return [
                User(strip_list_mark(u.persona), strip_list_mark(u.expertise))
                for u in llm(told, schema=list[Expert], followups=followups)
            ]
        return [User(strip_list_mark(u.persona)) for u in llm(told, schema=list[Persona], followups=followups)]

    return _fill_list(_ListRequest("users", count, users, lambda user: user.persona, bool)) if count else _ListResult()


def _task_request(description: str, user: User, llm: LLM, count: int, followups: int) -> _ListRequest[str]:
    def told(n: int, before: Sequence[str]) -> Messages:
        given = {"description": description, "user": user.profile, "before": _format_previous(before)}
        return render_prompt(TASKS_PROMPT, count=str(n), words=str(MAX_TASK_WORDS), **given)

    return _text_request("tasks", count, told, llm, lambda task: 0 < len(task.split()) <= MAX_TASK_WORDS, followups)


def _question_request(description: str, user: User, task: str, llm: LLM, count: int) -> _ListRequest[str]:
    def told(n: int, before: Sequence[str]) -> Messages:
        given = {"description": description, "user": user.profile, "task": task, "before": _format_previous(before)}
        return render_prompt(QUESTIONS_PROMPT, count=str(n), **given)

    return _text_request("questions", count, told, llm, is_global_question)


def _text_request(
    what: str,
    count: int,
    build_prompt: Callable[[int, Sequence[str]], Messages],
    llm: LLM,
    accept: Callable[[str], bool],
    followups: int = 0,
) -> _ListRequest[str]:
    def texts(n: int, before: Sequence[str]) -> list[str]:
        return [strip_list_mark(text) for text in llm(build_prompt(n, before), schema=list[str], followups=followups)]

    return _ListRequest(what, count, texts, str, accept)


def _format_previous(before: Sequence[str]) -> str:
    return _PREVIOUS_HEADING + "\n".join(f"- {text}" for text in before) if before else ""


# -- filling them


def _fill_list(wanted: _ListRequest[A], before: _ListResult[A] | None = None) -> _ListResult[A]:
    """So many that are of use and not alike, asked for again while there are too few and others come."""
    start: _ListResult[A] = before or _ListResult()
    found, given, why = {question_text_key(wanted.get_text(a)): a for a in start.items}, list(start.all_texts), ""
    for _ in range(_MAX_CALLS):
        if len(found) >= wanted.count:
            break
        try:
            new = [a for a in wanted.request(wanted.count - len(found), given) if wanted.get_text(a)]
        except ItemFailed as failure:
            return _ListResult(tuple(found.values()), tuple(given), str(failure), failed=True)
        seen = set(map(question_text_key, given))
        why = "the model gives the same again, or what is not to be asked"
        if not {question_text_key(wanted.get_text(a)) for a in new} - seen:
            break
        for each in new:
            text = wanted.get_text(each)
            if question_text_key(text) not in seen and wanted.accept(text) and len(found) < wanted.count:
                found.setdefault(question_text_key(text), each)
        for text in map(wanted.get_text, new):
            given += [text] if question_text_key(text) not in seen else []
            seen.add(question_text_key(text))
    return _ListResult(tuple(found.values()), tuple(given), why if len(found) < wanted.count else "")


def _fill_all(
    work: Sequence[tuple[B, _ListRequest[str]]], llm: LLM, what: str, progress: Progress | None
) -> list[_ListResult[str]]:
    done: list[_ListResult[str]] = []
    for filled in map_concurrent(_fill_list, [wanted for _, wanted in work], llm.workers):
        done.append(filled)
        if progress:
            progress(what, len(done), len(work))
    return done


def _replace_repeated(
    work: Sequence[tuple[B, _ListRequest[str]]], filled: Sequence[_ListResult[str]], llm: LLM
) -> list[_ListResult[str]]:
    """The same without what an earlier one asks already; in place of that others are asked for, once."""
    once, seen = _keep_first(filled, set())
    short = [i for i, (a, b) in enumerate(zip(once, filled, strict=True)) if len(a.items) < len(b.items)]
    more = map_concurrent(lambda i: _fill_list(work[i][1], once[i]), short, llm.workers)
    for i, again in zip(short, list(more), strict=True):
        new = [text for text in again.items if text not in once[i].items and question_text_key(text) not in seen]
        seen.update(map(question_text_key, new))
        kept = (*once[i].items, *new)
        why = again.why or ("another task asks the same" if len(kept) < work[i][1].count else "")
        once[i] = replace(again, items=kept, why=why)
    return once


def _keep_first(filled: Iterable[_ListResult[str]], seen: set[str]) -> tuple[list[_ListResult[str]], set[str]]:
    """Each text where it stands first."""
    once: list[_ListResult[str]] = []
    for each in filled:
        kept = tuple(text for text in each.items if question_text_key(text) not in seen)
        seen.update(map(question_text_key, kept))
        once.append(replace(each, items=kept))
    return once, seen


def _missing_items(what: str, asked: int, filled: _ListResult[A]) -> list[Missing]:
    made = len(filled.items)
    return [Missing(what, asked, made, filled.why, filled.failed)] if made < asked else []


# -- texts


def strip_list_mark(text: str) -> str:
    """On one line, without the mark of a list.

    >>> plain(" 2. Which\\nthemes recur? ")
    'Which themes recur?'
    """
    return _LIST_MARK.sub("", " ".join(text.split()))


def question_text_key(text: str) -> str:
    """What is alike has one key.

    >>> key("Which themes recur?") == key("which  themes recur")
    True
    """
    return " ".join(text.casefold().split()).rstrip(" ?？!！.。")


def is_global_question(question: str) -> bool:
    """Whether it may be asked of the whole: counting is for a database, and reasons are seldom written down.

    >>> [fit(q) for q in ("How do guests see rules?", "How many guests are there?", "Why?", "何件ありますか。", "")]
    [True, False, False, False, False]
    """
    return bool(question_text_key(question)) and not _UNFIT.search(question)
