"""a description of documents -> users, their tasks, and questions that need all of the documents to be answered."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Literal, TypeVar

from kumihimo.core.digests import digest
from kumihimo.core.errors import ItemFailed
from kumihimo.core.task import Progress
from kumihimo.evaluate.records import Question
from kumihimo.llm.concurrency import side_by_side
from kumihimo.llm.prompts import prompt
from kumihimo.llm.protocols import Ask, Messages

A = TypeVar("A")
B = TypeVar("B")

Variant = Literal["graphrag", "lightrag"]
USERS, TASKS, ASKED = (Path(__file__).with_name(f"questions_{name}.md") for name in ("users", "tasks", "asked"))
WORDS = 15  # of a task
_ROUNDS = 3  # calls for one list, until it is as long as it is to be
_PERSONA = "`persona`: who the user is and what they look for in these documents, in one sentence."
_EXPERTISE = " `expertise`: two or three sentences on what they know, and what about them makes them ask."
_BEFORE = "\n\nThese were given before. Give others:\n"
_MARK = re.compile(r"\A(?:\d{1,2}[.)]|[-*•])\s+")
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
    def told(self) -> str:
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
class Made:
    """Questions, and what is missing."""

    questions: tuple[Question, ...]
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True, slots=True)
class _Wanted(Generic[A]):
    """A list that a model is to fill. ask: how many, what was given before -> what the model gives."""

    what: str
    count: int
    ask: Callable[[int, Sequence[str]], Iterable[A]]
    text: Callable[[A], str]
    fits: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class _Filled(Generic[A]):
    """What a model gave: what is of use, the texts of all of it, and why it is not more."""

    found: tuple[A, ...] = ()
    given: tuple[str, ...] = ()
    why: str = ""
    failed: bool = False


def sensemaking(
    description: str,
    ask: Ask,
    *,
    personas: int = 5,
    tasks: int = 5,
    questions: int = 5,
    variant: Variant = "graphrag",
    progress: Progress | None = None,
) -> Made:
    """Questions of that many users with that many tasks each, for each of them so many (GraphRAG, algorithm 1).

    lightrag: each user has a description of their expertise, too (LightRAG, section 4.1). But: users, tasks and
    questions are asked for one after the other, in a call for each list; what is given twice, counts or asks why is
    asked for again, twice at most. What fails is listed, and the others go on.
    """
    users = _users(description, ask, personas, variant, further=personas * (1 + tasks))
    missing = _short("users", personas, users)
    work = [(user, _tasks(description, user, ask, tasks, further=tasks)) for user in users.found]
    planned = [(user, filled) for (user, wanted), filled in zip(work, _all(work, ask, "tasks", progress), strict=True)]
    missing += [m for user, filled in planned for m in _short(f"tasks of “{user.persona}”", tasks, filled)]
    pairs = [(user, task) for user, filled in planned for task in filled.found]
    asked = [((user, task), _questions(description, user, task, ask, questions)) for user, task in pairs]
    filled = _apart(asked, _all(asked, ask, "questions", progress), ask)
    for (user, task), each in zip(pairs, filled, strict=True):
        missing += _short(f"questions of “{user.persona}”, “{task}”", questions, each)
    made = [_question(user, task, t) for (user, task), each in zip(pairs, filled, strict=True) for t in each.found]
    return Made(tuple(made), tuple(missing))


def _question(user: User, task: str, text: str) -> Question:
    more = {"expertise": user.expertise} if user.expertise else {}
    id = digest(user.persona, task, text)
    return Question(id, text, "global", "activity", persona=user.persona, task=task, more=more)


# -- the three lists


def _users(description: str, ask: Ask, count: int, variant: Variant, further: int) -> _Filled[User]:
    expert = variant == "lightrag"

    def users(n: int, before: Sequence[str]) -> list[User]:
        persona = _PERSONA + (_EXPERTISE if expert else "")
        told = prompt(USERS, count=str(n), persona=persona, description=description, before=_listed(before))
        if expert:
            return [User(plain(u.persona), plain(u.expertise)) for u in ask(told, into=list[Expert], further=further)]
        return [User(plain(u.persona)) for u in ask(told, into=list[Persona], further=further)]

    return _filled(_Wanted("users", count, users, lambda user: user.persona, bool)) if count else _Filled()


def _tasks(description: str, user: User, ask: Ask, count: int, further: int) -> _Wanted[str]:
    def told(n: int, before: Sequence[str]) -> Messages:
        given = {"description": description, "user": user.told, "before": _listed(before)}
        return prompt(TASKS, count=str(n), words=str(WORDS), **given)

    return _texts("tasks", count, told, ask, lambda task: 0 < len(task.split()) <= WORDS, further)


def _questions(description: str, user: User, task: str, ask: Ask, count: int) -> _Wanted[str]:
    def told(n: int, before: Sequence[str]) -> Messages:
        given = {"description": description, "user": user.told, "task": task, "before": _listed(before)}
        return prompt(ASKED, count=str(n), **given)

    return _texts("questions", count, told, ask, fit)


def _texts(
    what: str,
    count: int,
    told: Callable[[int, Sequence[str]], Messages],
    ask: Ask,
    fits: Callable[[str], bool],
    further: int = 0,
) -> _Wanted[str]:
    def texts(n: int, before: Sequence[str]) -> list[str]:
        return [plain(text) for text in ask(told(n, before), into=list[str], further=further)]

    return _Wanted(what, count, texts, str, fits)


def _listed(before: Sequence[str]) -> str:
    return _BEFORE + "\n".join(f"- {text}" for text in before) if before else ""


# -- filling them


def _filled(wanted: _Wanted[A], before: _Filled[A] | None = None) -> _Filled[A]:
    """So many that are of use and not alike, asked for again while there are too few and others come."""
    start: _Filled[A] = before or _Filled()
    found, given, why = {key(wanted.text(a)): a for a in start.found}, list(start.given), ""
    for _ in range(_ROUNDS):
        if len(found) >= wanted.count:
            break
        try:
            new = [a for a in wanted.ask(wanted.count - len(found), given) if wanted.text(a)]
        except ItemFailed as failure:
            return _Filled(tuple(found.values()), tuple(given), str(failure), failed=True)
        seen = set(map(key, given))
        why = "the model gives the same again, or what is not to be asked"
        if not {key(wanted.text(a)) for a in new} - seen:
            break
        for each in new:
            text = wanted.text(each)
            if key(text) not in seen and wanted.fits(text) and len(found) < wanted.count:
                found.setdefault(key(text), each)
        for text in map(wanted.text, new):
            given += [text] if key(text) not in seen else []
            seen.add(key(text))
    return _Filled(tuple(found.values()), tuple(given), why if len(found) < wanted.count else "")


def _all(work: Sequence[tuple[B, _Wanted[str]]], ask: Ask, what: str, progress: Progress | None) -> list[_Filled[str]]:
    done: list[_Filled[str]] = []
    for filled in side_by_side(_filled, [wanted for _, wanted in work], ask.workers):
        done.append(filled)
        if progress:
            progress(what, len(done), len(work))
    return done


def _apart(work: Sequence[tuple[B, _Wanted[str]]], filled: Sequence[_Filled[str]], ask: Ask) -> list[_Filled[str]]:
    """The same without what an earlier one asks already; in place of that others are asked for, once."""
    once, seen = _first(filled, set())
    short = [i for i, (a, b) in enumerate(zip(once, filled, strict=True)) if len(a.found) < len(b.found)]
    more = side_by_side(lambda i: _filled(work[i][1], once[i]), short, ask.workers)
    for i, again in zip(short, list(more), strict=True):
        new = [text for text in again.found if text not in once[i].found and key(text) not in seen]
        seen.update(map(key, new))
        kept = (*once[i].found, *new)
        why = again.why or ("another task asks the same" if len(kept) < work[i][1].count else "")
        once[i] = replace(again, found=kept, why=why)
    return once


def _first(filled: Iterable[_Filled[str]], seen: set[str]) -> tuple[list[_Filled[str]], set[str]]:
    """Each text where it stands first."""
    once: list[_Filled[str]] = []
    for each in filled:
        kept = tuple(text for text in each.found if key(text) not in seen)
        seen.update(map(key, kept))
        once.append(replace(each, found=kept))
    return once, seen


def _short(what: str, asked: int, filled: _Filled[A]) -> list[Missing]:
    made = len(filled.found)
    return [Missing(what, asked, made, filled.why, filled.failed)] if made < asked else []


# -- texts


def plain(text: str) -> str:
    """On one line, without the mark of a list.

    >>> plain(" 2. Which\\nthemes recur? ")
    'Which themes recur?'
    """
    return _MARK.sub("", " ".join(text.split()))


def key(text: str) -> str:
    """What is alike has one key.

    >>> key("Which themes recur?") == key("which  themes recur")
    True
    """
    return " ".join(text.casefold().split()).rstrip(" ?？!！.。")


def fit(question: str) -> bool:
    """Whether it may be asked of the whole: counting is for a database, and reasons are seldom written down.

    >>> [fit(q) for q in ("How do guests see rules?", "How many guests are there?", "Why?", "何件ありますか。", "")]
    [True, False, False, False, False]
    """
    return bool(key(question)) and not _UNFIT.search(question)
