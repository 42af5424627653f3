"""A question and a system's answer -> a case to score, its statements, and an LLM's verdicts on them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from kumihimo.core.errors import ItemFailed, SettingsError, UnparsableReply
from kumihimo.evaluate.records import EvalQuestion, SystemAnswer
from kumihimo.llm.prompts import FencedText, number_sources, render_prompt
from kumihimo.llm.protocols import LLM, Embedder
from kumihimo.text.sentences import collapse_spaces, split_blocks, split_sentences

A = TypeVar("A")

_CITATION_MARK = re.compile(r"(?:(?<!\s)\s+)?[\[［【]((?:\d{1,3})(?:\s*[,、，;；–-]\s*\d{1,3})*)[\]］】]")
NO_REFERENCE = "the question has no reference answer"


@dataclass(frozen=True, slots=True)
class Case:
    """A question with one answer to it."""

    question: EvalQuestion
    answer: SystemAnswer

    @property
    def answer_text(self) -> str:
        """Return the answer text without its citation marks.

        >>> from kumihimo.evaluate.records import AnswerSource
        >>> cited = (AnswerSource(1, "At nine."), AnswerSource(2, "Daily."))
        >>> answer = SystemAnswer("naive", "q", "At nine [1][2], see a[7].", citations=cited)
        >>> Case(EvalQuestion("q", "?"), answer).answer_text
        'At nine, see a[7].'
        """
        numbers = {source.n for source in self.answer.citations}

        def unknown_mark(mark: re.Match[str]) -> str:
            """Return the mark, unless all its numbers are citations."""
            return "" if {int(n) for n in re.findall(r"\d+", mark[1])} <= numbers else mark[0]

        return _CITATION_MARK.sub(unknown_mark, self.answer.text).strip()

    @property
    def references(self) -> tuple[str, ...]:
        """Return all reference answers; each of them is correct.

        The first is `reference`; the others come from `more['references']`.
        """
        listed = self.question.more.get("references")
        alternatives = [text for text in listed if isinstance(text, str)] if isinstance(listed, list | tuple) else []
        return tuple(dict.fromkeys(text for text in (self.question.reference, *alternatives) if text.strip()))

    @property
    def contexts(self) -> list[str]:
        """Return the evidence texts, best first, without empty ones."""
        return [source.text for source in self.answer.contexts if source.text.strip()]


@dataclass(frozen=True, slots=True)
class Tools:
    """The models for scoring one case. sample: the number of the repeat.

    Replies and failures are cached, because several measures send the same prompt.
    """

    llm: LLM | None = None
    embedder: Embedder | None = None
    sample: int = 0
    _replies: dict[Any, Any] = field(default_factory=dict)

    def ask(self, path: Path, schema: type[A], **values: FencedText) -> A:
        """Return the LLM's reply to this prompt."""
        if self.llm is None:
            raise SettingsError("this measure needs a chat model")
        key = (path, repr(sorted(values.items())))
        if key not in self._replies:
            try:
                self._replies[key] = self.llm(render_prompt(path, **values), schema=schema, sample=self.sample)
            except ItemFailed as failure:
                self._replies[key] = failure
        if isinstance(reply := self._replies[key], ItemFailed):
            raise reply
        return cast(A, reply)

    def cosine(self, one: str, other: str) -> float:
        """Return the cosine of two texts, limited to 0 to 1."""
        if self.embedder is None:
            raise SettingsError("this measure needs an embedder")
        first, second = self.embedder([one, other])
        return min(1.0, max(0.0, float(first @ second)))


@dataclass(frozen=True, slots=True)
class ScoreResult:
    """The result of a measure for one case.

    value: None if undefined. reason: why it is undefined, or a remark on the value.
    """

    value: float | None
    reason: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)


def render_numbered_list(texts: Sequence[str]) -> str:
    r"""Return the texts as a numbered list, one line each.

    >>> print(render_numbered_list(["It rained.", "Roake\nleft."]))
    1. It rained.
    2. Roake left.
    """
    return "\n".join(f"{n}. {collapse_spaces(text)}" for n, text in enumerate(texts, 1))


def split_into_sentences(text: str) -> Iterator[str]:
    r"""Yield the sentences of a text without headings; table rows stay whole.

    >>> list(split_into_sentences("# Boats\n\nThe Tern sailed. It rained.\n\n組紐は届いた。雨だった。"))
    ['The Tern sailed.', 'It rained.', '組紐は届いた。', '雨だった。']
    """
    for block in split_blocks(text):
        if block.kind == "row":
            yield text[block.start : block.end]
        elif block.kind != "heading":
            yield from (text[start:end] for start, end in split_sentences(text, block.start, block.end))


# -- statements

STATEMENTS_PROMPT = Path(__file__).with_name("scoring_statements.md")


@dataclass(frozen=True, slots=True)
class StatementList:
    """The statements of a text; each can be checked alone."""

    statements: list[str]


def split_statements(tools: Tools, question: str, text: str) -> list[str]:
    """Return the distinct statements of a text, in its order.

    An empty text has none, and no LLM is called. Equal prompts are one call, so several measures can share it.
    """
    if not text.strip():
        return []
    statements = tools.ask(STATEMENTS_PROMPT, StatementList, question=question, text=text).statements
    return list(dict.fromkeys(statement.strip() for statement in statements if statement.strip()))


def answer_statements(case: Case, tools: Tools) -> list[str]:
    """Return the statements of the answer."""
    return split_statements(tools, case.question.text, case.answer_text)


def reference_statements(case: Case, tools: Tools) -> list[str]:
    """Return the statements of the reference answer."""
    return split_statements(tools, case.question.text, case.question.reference)


# -- verdicts on items

SUPPORT_PROMPT = Path(__file__).with_name("scoring_supported.md")
_BATCH_SIZE = 40  # items per call; the reply has a sentence on each


@dataclass(frozen=True, slots=True)
class Checked:
    """A verdict on the item with this number, with the reason first."""

    number: int
    reason: str
    holds: bool


N = TypeVar("N", bound=Any)  # a reply form with a `number`


def check_support(tools: Tools, question: str, statements: Sequence[str], texts: Sequence[str]) -> list[Checked]:
    """Check each statement against the texts, and return the verdicts in order.

    Without statements or texts no LLM is called.
    """
    if not any(text.strip() for text in texts):
        return [Checked(number, "there is no text", False) for number, _ in enumerate(statements, 1)]
    return ask_by_item(tools, SUPPORT_PROMPT, statements, Checked, question=question, texts=number_sources(texts))


def ask_by_item(tools: Tools, path: Path, items: Sequence[str], schema: type[N], **values: FencedText) -> list[N]:
    """Return the LLM's reply on each item, in order.

    path: a prompt that shows the items as `{items}`. schema: a reply form with the `number` of its item. Items missing
    from a reply are requested again. If a reply has two entries for an item, the first counts. Raises UnparsableReply
    if a reply covers no requested item.
    """
    replies: dict[int, N] = {}
    for start in range(0, len(items), _BATCH_SIZE):
        pending = list(range(start, min(start + _BATCH_SIZE, len(items))))
        while pending:
            kind: Any = schema
            for reply in tools.ask(path, list[kind], items=render_numbered_list([items[i] for i in pending]), **values):
                if 1 <= reply.number <= len(pending):
                    replies.setdefault(pending[reply.number - 1], reply)
            missing = [i for i in pending if i not in replies]
            if missing == pending:
                raise UnparsableReply(f"a reply gave no verdict on {len(pending)} of {len(items)} items")
            pending = missing
    return [replace(replies[i], number=i + 1) for i in range(len(items))]


def describe_checks(items: Sequence[str], verdicts: Sequence[Checked]) -> list[dict[str, Any]]:
    """Return the verdicts as rows for the detail of a score."""
    pairs = zip(items, verdicts, strict=True)
    return [{"text": item, "holds": verdict.holds, "reason": verdict.reason} for item, verdict in pairs]
