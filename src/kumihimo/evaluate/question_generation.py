"""A description of the documents -> users, their tasks, and corpus-level questions; assertions for any question."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self

from kumihimo.core import digests, errors
from kumihimo.core.task import Progress
from kumihimo.evaluate.records import EvalQuestion, ReplyStatus
from kumihimo.evaluate.scoring.case import Tools, ask_by_item
from kumihimo.llm import concurrency, prompts, protocols

Variant = Literal["graphrag", "lightrag"]
USERS_PROMPT, TASKS_PROMPT, QUESTIONS_PROMPT = (
    Path(__file__).with_name(f"questions_{name}.md") for name in ("users", "tasks", "asked")
)
MAX_TASK_WORDS = 15
_MAX_CALLS = 3  # for one list
_PERSONA = "`persona`: who the user is and what they look for in these documents, in one sentence."
_EXPERTISE = " `expertise`: two or three sentences on what they know, and what about them makes them ask."
_PREVIOUS_HEADING = "These were given before. Give others:\n"
_LIST_MARK = re.compile(r"\A(?:\d{1,2}[.)]|[-*•])\s+")
_UNFIT = re.compile(
    r"\A\W*(?:(?:about |roughly )?how (?:many|often|frequently)\b|what (?:number|percentage) of\b|why\b)"
    r"|\A\W*(?:なぜ|何故|どうして|为什么|為什麼|为何|為何)|何(?:件|回|人|個|度)|いくつ|多少",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Persona:
    """The reply form of a user."""

    persona: str


@dataclass(frozen=True, slots=True)
class Expert(Persona):
    """The reply form of a user with expertise."""

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


@dataclass(slots=True)
class _TextList:
    """A list of texts that a model fills.

    fetch: number of texts, earlier texts -> texts of the model. items: the accepted texts, by key. all_texts: those of
    all replies. why: the reason for missing items.
    """

    what: str
    count: int
    fetch: Callable[[int, Sequence[str]], Sequence[str]]
    accept: Callable[[str], bool] = bool
    items: dict[str, str] = field(default_factory=dict)
    all_texts: dict[str, str] = field(default_factory=dict)
    why: str = ""
    failed: bool = False

    @property
    def missing(self) -> list[Missing]:
        """Return the items that the list lacks."""
        gap = Missing(self.what, self.count, len(self.items), self.why, self.failed)
        return [gap] if len(self.items) < self.count else []

    def fill(self) -> Self:
        """Collect distinct accepted texts until the list is complete.

        The model is asked again while items are missing and it still gives new ones.
        """
        self.why, self.failed = "", False
        for _ in range(_MAX_CALLS):
            if len(self.items) >= self.count:
                break
            try:
                replies = self.fetch(self.count - len(self.items), list(self.all_texts.values()))
            except errors.ItemFailed as failure:
                self.why, self.failed = str(failure), True
                return self
            self.why = "the model repeats itself, or gives unsuitable items"
            new: dict[str, str] = {}
            for text in filter(None, map(strip_list_mark, replies)):
                if question_text_key(text) not in self.all_texts:
                    new.setdefault(question_text_key(text), text)
            if not new:
                return self
            accepted = {key: text for key, text in new.items() if self.accept(text) and key not in self.items}
            self.items = self.items | dict(islice(accepted.items(), self.count - len(self.items)))
            self.all_texts |= new
        self.why = self.why if self.missing else ""
        return self


def generate_global_questions(
    description: str,
    llm: protocols.LLM,
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
    writer = _ListWriter(description, llm, variant)
    users = writer.users(personas, followups=personas * (1 + tasks)).fill()
    task_lists = [writer.tasks(user, tasks) for user in users.items.values()]
    task_lists = list(concurrency.map_with_progress(_TextList.fill, task_lists, llm.workers, "tasks", progress))
    filled = zip(users.items.values(), task_lists, strict=True)
    pairs = [(user, task) for user, own_tasks in filled for task in own_tasks.items.values()]
    question_lists = [writer.questions(user, task, questions) for user, task in pairs]
    question_lists = list(
        concurrency.map_with_progress(_TextList.fill, question_lists, llm.workers, "questions", progress)
    )
    _replace_repeated(question_lists, llm)
    generated = [
        writer.build_question(user, task, text)
        for (user, task), own_questions in zip(pairs, question_lists, strict=True)
        for text in own_questions.items.values()
    ]
    missing = [gap for texts in (users, *task_lists, *question_lists) for gap in texts.missing]
    return GeneratedQuestions(tuple(generated), tuple(missing))


@dataclass(frozen=True, slots=True)
class _ListWriter:
    """The prompts of the three lists. expertise: of each user, by persona."""

    description: str
    llm: protocols.LLM
    variant: Variant
    expertise: dict[str, str] = field(default_factory=dict)

    def users(self, count: int, followups: int) -> _TextList:
        """Return the request for users."""

        def fetch(n: int, previous: Sequence[str]) -> list[str]:
            expert = self.variant == "lightrag"
            persona, form = _PERSONA + (_EXPERTISE if expert else ""), list[Expert] if expert else list[Persona]
            rows = self._ask(USERS_PROMPT, form, n, previous, followups=followups, persona=persona)
            for row in rows:
                text = strip_list_mark(getattr(row, "expertise", ""))
                self.expertise.setdefault(strip_list_mark(row.persona), text)
            return [row.persona for row in rows]

        return _TextList("users", count, fetch)

    def tasks(self, user: str, count: int) -> _TextList:
        """Return the request for the tasks of a user."""
        profile, words = self._profile(user), str(MAX_TASK_WORDS)
        fetch = partial(self._ask, TASKS_PROMPT, list[str], followups=count, user=profile, words=words)
        return _TextList(f"tasks of “{user}”", count, fetch, lambda task: 0 < len(task.split()) <= MAX_TASK_WORDS)

    def questions(self, user: str, task: str, count: int) -> _TextList:
        """Return the request for the questions of a user and a task."""
        fetch = partial(self._ask, QUESTIONS_PROMPT, list[str], followups=0, user=self._profile(user), task=task)
        return _TextList(f"questions of “{user}”, “{task}”", count, fetch, is_global_question)

    def build_question(self, user: str, task: str, text: str) -> EvalQuestion:
        """Return the question of a user and a task."""
        more = {"expertise": self.expertise[user]} if self.expertise[user] else {}
        id = digests.hash_parts(user, task, text)
        return EvalQuestion(id, text, "global", "activity", persona=user, task=task, more=more)

    def _profile(self, user: str) -> str:
        return "\n".join(filter(None, [user, self.expertise[user]]))

    def _ask(self, path: Path, form: Any, n: int, previous: Sequence[str], *, followups: int, **values: str) -> Any:
        values |= {"heading": _PREVIOUS_HEADING if previous else "", "before": "\n".join(f"- {t}" for t in previous)}
        messages = prompts.render_prompt(path, count=str(n), description=self.description, **values)
        return self.llm(messages, schema=form, followups=followups)


def _replace_repeated(lists: Sequence[_TextList], llm: protocols.LLM) -> None:
    """Replace repeated questions by new ones, once."""
    used: set[str] = set()
    incomplete: list[tuple[_TextList, dict[str, str]]] = []
    for texts in lists:
        own = {key: text for key, text in texts.items.items() if key not in used}
        used.update(own)
        if len(own) < len(texts.items):
            texts.items = own
            incomplete.append((texts, own))
    list(concurrency.map_concurrent(lambda each: each[0].fill(), incomplete, llm.workers))
    for texts, own in incomplete:
        new = {key: text for key, text in texts.items.items() if key not in used}
        used.update(new)
        texts.items = own | new
        texts.why = texts.why or "another task asks the same"


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


# -- assertions

WRITE_PROMPT, RATE_PROMPT = (Path(__file__).with_name(name) for name in ("assertions.md", "assertions_rated.md"))
MAX_ASSERTIONS = 20  # a question
MIN_RATING = 3  # of 5, for each of the three ratings
GoldTexts = Callable[[EvalQuestion], Sequence[str]]  # a question -> the texts that contain its answer


@dataclass(frozen=True, slots=True)
class AssertionList:
    """The statements of a good answer, most important first."""

    assertions: list[str]


@dataclass(frozen=True, slots=True)
class Rated:
    """Ratings of an assertion from 1 to 5.

    grounding: the text says it. relevance: the question asks for it. verifiability: a reader can check it.
    """

    number: int
    reason: str
    grounding: int
    relevance: int
    verifiability: int

    @property
    def is_sufficient(self) -> bool:
        """Return whether all three ratings reach MIN_RATING."""
        return min(self.grounding, self.relevance, self.verifiability) >= MIN_RATING


@dataclass(frozen=True, slots=True)
class AssertionResult:
    """A question with its assertions.

    dropped: rejected assertions with their ratings. why: the reason for having no assertions.
    """

    question: EvalQuestion
    dropped: tuple[tuple[str, Rated], ...] = ()
    status: ReplyStatus = "ok"
    why: str = ""


def generate_assertions(
    questions: Sequence[EvalQuestion], texts: GoldTexts, llm: protocols.LLM, *, progress: Progress | None = None
) -> Iterator[AssertionResult]:
    """Return each question with assertions, in order (after BenchmarkQED).

    Questions that already have assertions keep them. Unlike BenchmarkQED, the model reads the gold passages and the
    reference answer, not claims extracted from them.
    """

    def process(question: EvalQuestion) -> AssertionResult:
        if question.assertions:
            return AssertionResult(question)
        if not (available := [text for text in (*texts(question), question.reference) if text.strip()]):
            return AssertionResult(question, why="no gold passage and no reference answer to take assertions from")
        try:
            return _generate_for_question(question, prompts.number_sources(available), Tools(llm))
        except errors.ItemFailed as failure:
            return AssertionResult(question, status=failure.status, why=str(failure))

    return concurrency.map_with_progress(process, questions, llm.workers, "questions", progress)


def _generate_for_question(question: EvalQuestion, texts: Sequence[prompts.Source], tools: Tools) -> AssertionResult:
    replies = tools.ask(
        WRITE_PROMPT, AssertionList, question=question.text, texts=texts, most=str(MAX_ASSERTIONS)
    ).assertions
    statements = list(dict.fromkeys(statement.strip() for statement in replies if statement.strip()))[:MAX_ASSERTIONS]
    ratings = ask_by_item(tools, RATE_PROMPT, statements, Rated, question=question.text, texts=texts)
    pairs = list(zip(statements, ratings, strict=True))
    accepted = tuple(statement for statement, rating in pairs if rating.is_sufficient)
    dropped = tuple((statement, rating) for statement, rating in pairs if not rating.is_sufficient)
    why = "" if accepted else "none was rated high enough" if statements else "the model wrote none"
    return AssertionResult(replace(question, assertions=accepted), dropped, why=why)
