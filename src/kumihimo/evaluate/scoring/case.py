"""a question + a system's answer to it -> Case, and what a measure finds of one: Found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from kumihimo.core.errors import ItemFailed, SettingsError
from kumihimo.evaluate.records import EvalQuestion, SystemAnswer
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, Embedder
from kumihimo.text.sentences import collapse_spaces, split_blocks, split_sentences

A = TypeVar("A")

_CITATION_MARK = re.compile(r"\s*[\[［【]((?:\d{1,3})(?:\s*[,、，;；–-]\s*\d{1,3})*)[\]］】]")
NO_REFERENCE = "the question has no reference answer"


@dataclass(frozen=True, slots=True)
class Case:
    """What measures look at."""

    question: EvalQuestion
    answer: SystemAnswer

    @property
    def answer_text(self) -> str:
        """The answer without the marks of its citations, which are no part of what it says.

        >>> from kumihimo.evaluate.records import AnswerSource
        >>> quoted = (AnswerSource(1, "At nine."), AnswerSource(2, "Daily."))
        >>> Case(Question("q", "?"), Answered("naive", "q", "At nine [1][2], see a[7].", citations=quoted)).said
        'At nine, see a[7].'
        """
        known = {source.n for source in self.answer.citations}

        def kept(mark: re.Match[str]) -> str:
            return "" if {int(n) for n in re.findall(r"\d+", mark[1])} <= known else mark[0]

        return _CITATION_MARK.sub(kept, self.answer.text).strip()

    @property
    def references(self) -> tuple[str, ...]:
        """The reference answer, and others that came with the question in `references`, all of them right."""
        others = self.question.more.get("references")
        more = [text for text in others if isinstance(text, str)] if isinstance(others, list | tuple) else []
        return tuple(dict.fromkeys(text for text in (self.question.reference, *more) if text.strip()))

    @property
    def contexts(self) -> list[str]:
        """The evidence, best first; what is empty says nothing."""
        return [source.text for source in self.answer.contexts if source.text.strip()]


@dataclass(frozen=True, slots=True)
class Tools:
    """Who can be asked about one case. sample: which of several scorings of it is meant.

    What was asked is kept, failures too, since several measures want the same, and none should pay for it again.
    """

    llm: LLM | None = None
    embedder: Embedder | None = None
    sample: int = 0
    _replies: dict[Any, Any] = field(default_factory=dict)

    def ask(self, path: Path, schema: type[A], **values: str) -> A:
        """What a model says to that prompt."""
        if self.llm is None:
            raise SettingsError("this measure needs a chat model")
        asked = (path, *sorted(values.items()))
        if asked not in self._replies:
            try:
                self._replies[asked] = self.llm(render_prompt(path, **values), schema=schema, sample=self.sample)
            except ItemFailed as failure:
                self._replies[asked] = failure
        if isinstance(said := self._replies[asked], ItemFailed):
            raise said
        return cast(A, said)

    def cosine(self, one: str, other: str) -> float:
        """How near two texts are: from 0, what is beyond a right angle too, to 1."""
        if self.embedder is None:
            raise SettingsError("this measure needs an embedder")
        first, second = self.embedder([one, other])
        return min(1.0, max(0.0, float(first @ second)))


@dataclass(frozen=True, slots=True)
class ScoreResult:
    """What a measure says of one case. value None: undefined, and why; of a value, the reason may add a remark."""

    value: float | None
    reason: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)


def render_numbered_list(texts: Sequence[str]) -> str:
    """One to a line, as models are shown lists.

    >>> print(numbered(["It rained.", "Roake\\nleft."]))
    1. It rained.
    2. Roake left.
    """
    return "\n".join(f"{n}. {collapse_spaces(text)}" for n, text in enumerate(texts, 1))


def join_passages(texts: Sequence[str]) -> str:
    return "\n\n---\n\n".join(text.strip() for text in texts)


def split_into_sentences(text: str) -> Iterator[str]:
    """Its sentences; rows of tables are whole, headings none.

    >>> list(cut("# Boats\\n\\nThe Tern sailed. It rained.\\n\\n組紐は届いた。雨だった。"))
    ['The Tern sailed.', 'It rained.', '組紐は届いた。', '雨だった。']
    """
    for block in split_blocks(text):
        if block.kind == "row":
            yield text[block.start : block.end]
        elif block.kind != "heading":
            yield from (text[start:end] for start, end in split_sentences(text, block.start, block.end))


def fraction_true(held: Sequence[bool]) -> float:
    """Of those that are true."""
    return sum(held) / len(held)
