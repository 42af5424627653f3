"""questions x systems -> Answered: what each says to each, on which evidence, and what it took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, cast

from kumihimo import methods
from kumihimo.app.snapshot import Reading
from kumihimo.core.context import Answer, Evidence
from kumihimo.core.errors import ItemFailed, SettingsError
from kumihimo.core.spans import Citation, Span
from kumihimo.core.task import Progress
from kumihimo.core.usage import Usage
from kumihimo.core.wiring import ROOT
from kumihimo.evaluate.records import Answered, Place, Question, Source
from kumihimo.evaluate.systems import System
from kumihimo.generation import answer as answering
from kumihimo.llm.budget import Purse
from kumihimo.llm.concurrency import side_by_side
from kumihimo.llm.registry import RULES

_PLACES = 20  # of one piece of evidence, which may be made of all there is


def answered(
    reading: Reading,
    system: System,
    questions: Sequence[Question],
    purse: Purse,
    *,
    generation: int = 0,
    before: Iterable[Answered] = (),
    progress: Progress | None = None,
) -> list[Answered]:
    """What the system says to each question, in their order; asked side by side where there is a chat model.

    One reading serves all, so that all see the same build. before: rows of an earlier run, which know what answers took
    that are remembered now. A question that failed has a row that says why.
    """
    former = {row.question: row for row in before}
    rows: list[Answered] = []

    def one(question: Question) -> Answered:
        return _answered(reading, system, question, purse, generation, former.get(question.id))

    shown = system.name + (f", again {generation}" if generation else "")
    for row in side_by_side(one, questions, workers(reading)):
        rows.append(row)
        if progress:
            progress(shown, len(rows), len(questions))
    return rows


def lasting(rows: Iterable[Answered], before: Iterable[Answered]) -> list[Answered]:
    """The rows, in place of each that failed the answer that an earlier run had to the question, if it had one."""
    good = {row.question: row for row in before if not row.failed}
    return [good.get(row.question, row) if row.failed else row for row in rows]


def workers(reading: Reading) -> int:
    """How many questions may be asked side by side."""
    chat = reading.models.chat("answer")
    return chat.workers if chat else 1


def check(questions: Iterable[Question]) -> None:
    """Raises SettingsError where one asks nothing: before anything is paid."""
    if empty := [question.id for question in questions if not question.text.strip()]:
        raise SettingsError(f"question {empty[0]!r} has no text: write what it asks, or take it out")


def _answered(
    reading: Reading, system: System, question: Question, purse: Purse, generation: int, former: Answered | None
) -> Answered:
    own = reading.models.purse(within=purse)
    asked = replace(reading, purse=own, generation=generation, held={})
    began = perf_counter()
    try:
        made = asked.ask(question.text, system.method, **system.settings)
    except ItemFailed as failure:
        said = str(failure) or type(failure).__name__
        return Answered(system.name, question.id, "", usage=took(own), generation=generation, failed=said)
    seconds = None if own.saved else perf_counter() - began
    row = Answered(
        system.name,
        question.id,
        made.text,
        tuple(_sources(asked, made)),
        tuple(map(_cited, made.citations)),
        took(own),
        seconds,
        made.model,
        generation,
        decided=made.context.decided,
    )
    return row if own.total.calls or former is None else _as_paid(row, former)


def took(purse: Purse) -> Usage:
    """What was paid, now or before."""
    return sum(purse.saved.values(), purse.total)


def _as_paid(row: Answered, former: Answered) -> Answered:
    """With what it took when it was paid for, if it is the same answer: vectors are remembered without their cost."""
    same = (former.text, former.model, former.failed) == (row.text, row.model, "")
    if not same or former.usage.completion_tokens != row.usage.completion_tokens:
        return row
    return replace(row, usage=former.usage, seconds=former.seconds)


def _sources(reading: Reading, made: Answer) -> Iterable[Source]:
    """The evidence as the model was told it; without a model, all that was found."""
    budget = cast(int, reading.settings["answer"]["budget"])
    context = made.context.fit(budget, reading.ruler) if made.model else made.context
    return (_source(reading, n, item) for n, item in enumerate(context, 1))


def _source(reading: Reading, n: int, item: Evidence) -> Source:
    places = tuple(map(_place, islice(reading.trace(item), _PLACES)))
    return Source(n, item.told, item.record.id, item.table, float(item.score), places, dict(item.why), item.path)


def _cited(citation: Citation) -> Source:
    span = citation.span
    return Source(citation.n, span.text, span.chunk, "chunks" if span.chunk else ROOT, places=(_place(span),))


def _place(span: Span) -> Place:
    return Place(span.uri, span.start, span.end, span.place)


# -- how it was run, for the manifest


def told(reading: Reading, system: System) -> dict[str, Any]:
    """What decides the answers of a system, beside the questions and the index."""
    models = {scope: chat.mark for scope in ("answer", system.method) if (chat := reading.models.chat(scope))}
    own: Mapping[str, object] = {**reading.settings.get(system.method, {}), **system.settings}
    return {
        "method": system.method,
        "settings": dict(own),
        "answer": dict(reading.settings["answer"]),
        "models": models or RULES,
        "prompts": _digest(path.read_text(encoding="utf-8") for path in _prompts()),
    }


def index_of(reading: Reading) -> dict[str, Any]:
    """Which documents were asked."""
    texts = (f"{uri}\n{text}\n" for uri, text in reading.table(ROOT).columns("uri", "text"))
    return {"documents": len(reading.table(ROOT)), "digest": _digest(texts)}


def _prompts() -> list[Path]:
    return [answering.PROMPT, *sorted(Path(methods.__file__).parent.rglob("*.md"))]


def _digest(texts: Iterable[str]) -> str:
    made = sha256()
    for text in texts:
        made.update(text.encode("utf-8", "surrogatepass"))
    return made.hexdigest()[:20]
