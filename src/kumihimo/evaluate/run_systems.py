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
from kumihimo.app.snapshot import Snapshot
from kumihimo.core.context import Answer, Evidence
from kumihimo.core.errors import ItemFailed, SettingsError
from kumihimo.core.spans import Citation, Span
from kumihimo.core.task import Progress
from kumihimo.core.usage import Usage
from kumihimo.core.wiring import ROOT
from kumihimo.evaluate.records import AnswerSource, EvalQuestion, SourceSpan, SystemAnswer
from kumihimo.evaluate.systems import System
from kumihimo.generation import answer as answering
from kumihimo.llm.budget import Budget
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.registry import RULES

_MAX_PLACES = 20  # of one piece of evidence, which may be made of all there is


def answer_questions(
    snapshot: Snapshot,
    system: System,
    questions: Sequence[EvalQuestion],
    budget: Budget,
    *,
    generation: int = 0,
    earlier: Iterable[SystemAnswer] = (),
    progress: Progress | None = None,
) -> list[SystemAnswer]:
    """What the system says to each question, in their order; asked side by side where there is a chat model.

    One reading serves all, so that all see the same build. before: rows of an earlier run, which know what answers took
    that are remembered now. A question that failed has a row that says why.
    """
    former = {row.question: row for row in earlier}
    rows: list[SystemAnswer] = []

    def one(question: EvalQuestion) -> SystemAnswer:
        return _answer_question(snapshot, system, question, budget, generation, former.get(question.id))

    shown = system.name + (f", again {generation}" if generation else "")
    for row in map_concurrent(one, questions, count_workers(snapshot)):
        rows.append(row)
        if progress:
            progress(shown, len(rows), len(questions))
    return rows


def keep_earlier_answers(rows: Iterable[SystemAnswer], earlier: Iterable[SystemAnswer]) -> list[SystemAnswer]:
    """The rows, in place of each that failed the answer that an earlier run had to the question, if it had one."""
    good = {row.question: row for row in earlier if not row.failed}
    return [good.get(row.question, row) if row.failed else row for row in rows]


def count_workers(snapshot: Snapshot) -> int:
    """How many questions may be asked side by side."""
    chat = snapshot.models.chat("answer")
    return chat.workers if chat else 1


def check_questions(questions: Iterable[EvalQuestion]) -> None:
    """Raises SettingsError where one asks nothing: before anything is paid."""
    if empty := [question.id for question in questions if not question.text.strip()]:
        raise SettingsError(f"question {empty[0]!r} has no text: write what it asks, or take it out")


def _answer_question(
    snapshot: Snapshot,
    system: System,
    question: EvalQuestion,
    budget: Budget,
    generation: int,
    former: SystemAnswer | None,
) -> SystemAnswer:
    own = snapshot.models.budget(parent=budget)
    asked = replace(snapshot, budget=own, generation=generation, lazy_rows={})
    began = perf_counter()
    try:
        made = asked.ask(question.text, system.method, **system.settings)
    except ItemFailed as failure:
        said = str(failure) or type(failure).__name__
        return SystemAnswer(system.name, question.id, "", usage=total_usage(own), generation=generation, failed=said)
    seconds = None if own.saved else perf_counter() - began
    row = SystemAnswer(
        system.name,
        question.id,
        made.text,
        tuple(_context_sources(asked, made)),
        tuple(map(_citation_source, made.citations)),
        total_usage(own),
        seconds,
        made.model,
        generation,
        decided=made.context.query_type,
    )
    return row if own.total.calls or former is None else _restore_usage(row, former)


def total_usage(budget: Budget) -> Usage:
    """What was paid, now or before."""
    return sum(budget.saved.values(), budget.total)


def _restore_usage(row: SystemAnswer, former: SystemAnswer) -> SystemAnswer:
    """With what it took when it was paid for, if it is the same answer: vectors are remembered without their cost."""
    same = (former.text, former.model, former.failed) == (row.text, row.model, "")
    if not same or former.usage.completion_tokens != row.usage.completion_tokens:
        return row
    return replace(row, usage=former.usage, seconds=former.seconds)


def _context_sources(snapshot: Snapshot, made: Answer) -> Iterable[AnswerSource]:
    """The evidence as the model was told it; without a model, all that was found."""
    budget = cast(int, snapshot.settings["answer"]["budget"])
    context = made.context.fit(budget, snapshot.tokenizer) if made.model else made.context
    return (_evidence_source(snapshot, n, item) for n, item in enumerate(context, 1))


def _evidence_source(snapshot: Snapshot, n: int, item: Evidence) -> AnswerSource:
    places = tuple(map(_source_span, islice(snapshot.trace(item), _MAX_PLACES)))
    return AnswerSource(
        n, item.prompt_text, item.record.id, item.table, float(item.score), places, dict(item.feature_scores), item.via
    )


def _citation_source(citation: Citation) -> AnswerSource:
    span = citation.span
    return AnswerSource(
        citation.n, span.text, span.chunk, "chunks" if span.chunk else ROOT, places=(_source_span(span),)
    )


def _source_span(span: Span) -> SourceSpan:
    return SourceSpan(span.uri, span.start, span.end, span.place)


# -- how it was run, for the manifest


def describe_run(snapshot: Snapshot, system: System) -> dict[str, Any]:
    """What decides the answers of a system, beside the questions and the index."""
    models = {scope: chat.fingerprint for scope in ("answer", system.method) if (chat := snapshot.models.chat(scope))}
    own: Mapping[str, object] = {**snapshot.settings.get(system.method, {}), **system.settings}
    return {
        "method": system.method,
        "settings": dict(own),
        "answer": dict(snapshot.settings["answer"]),
        "models": models or RULES,
        "prompts": _hash_texts(path.read_text(encoding="utf-8") for path in _prompt_files()),
    }


def describe_index(snapshot: Snapshot) -> dict[str, Any]:
    """Which documents were asked."""
    texts = (f"{uri}\n{text}\n" for uri, text in snapshot.table(ROOT).columns("uri", "text"))
    return {"documents": len(snapshot.table(ROOT)), "digest": _hash_texts(texts)}


def _prompt_files() -> list[Path]:
    return [answering.PROMPT, *sorted(Path(methods.__file__).parent.rglob("*.md"))]


def _hash_texts(texts: Iterable[str]) -> str:
    made = sha256()
    for text in texts:
        made.update(text.encode("utf-8", "surrogatepass"))
    return made.hexdigest()[:20]
