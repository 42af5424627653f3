"""Questions and systems -> SystemAnswer: text, evidence and usage."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from time import perf_counter
from typing import Any

from kumihimo import methods
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.opened.catalogue import AUTO, DEFAULT_METHOD, WIDE_METHOD
from kumihimo.core import spans, task, usage, wiring
from kumihimo.core.answer import Answer
from kumihimo.core.errors import ItemFailed, SettingsError
from kumihimo.evaluate.records import AnswerSource, EvalQuestion, SourceSpan, SystemAnswer
from kumihimo.evaluate.systems import System
from kumihimo.generation import answer as answering
from kumihimo.llm import concurrency, registry
from kumihimo.llm.budget import Budget
from kumihimo.text.question import ParsedQuestion

_MAX_PLACES = 20  # of one piece of evidence, which may come from all documents


def answer_questions(
    snapshot: Snapshot,
    system: System,
    questions: Sequence[EvalQuestion],
    budget: Budget,
    *,
    generation: int = 0,
    earlier: Iterable[SystemAnswer] = (),
    progress: task.Progress | None = None,
) -> list[SystemAnswer]:
    """Ask the system all questions and return the answers in order.

    Questions run concurrently if there is a chat model. One snapshot serves all questions, so all see the same build.
    earlier: rows of a previous run; they hold the original usage of answers that are cached now. A failed question has
    a row with the reason.
    """
    previous = {row.question: row for row in earlier}

    def answer_one(question: EvalQuestion) -> SystemAnswer:
        own_budget = snapshot.models.budget(parent=budget)
        own_snapshot = replace(snapshot, budget=own_budget, generation=generation)
        return _answer_question(own_snapshot, own_budget, system, question, previous.get(question.id))

    label = system.name + (f", again {generation}" if generation else "")
    return list(concurrency.map_with_progress(answer_one, questions, count_workers(snapshot), label, progress))


def keep_earlier_answers(rows: Iterable[SystemAnswer], earlier: Iterable[SystemAnswer]) -> list[SystemAnswer]:
    """Replace failed rows by the answers of an earlier run, if available."""
    successful = {row.question: row for row in earlier if not row.failed}
    return [successful.get(row.question, row) if row.failed else row for row in rows]


def count_workers(snapshot: Snapshot) -> int:
    """Return the number of questions to ask concurrently."""
    chat = snapshot.models.chat("answer")
    return chat.workers if chat else 1


def check_questions(questions: Iterable[EvalQuestion]) -> None:
    """Raise SettingsError for a question without text.

    Call it before anything is paid.
    """
    if empty := [question.id for question in questions if not question.text.strip()]:
        raise SettingsError(f"question {empty[0]!r} has no text: write what it asks, or take it out")


def _answer_question(
    snapshot: Snapshot, budget: Budget, system: System, question: EvalQuestion, previous: SystemAnswer | None
) -> SystemAnswer:
    """Ask one question; snapshot, budget: of this question alone."""
    start = perf_counter()
    key: dict[str, Any] = {"system": system.name, "question": question.id, "generation": snapshot.generation}
    if problem := ParsedQuestion(question.text).find_problem():
        return SystemAnswer(**key, text="", usage=total_usage(budget), failed=problem)
    try:
        answer = snapshot.ask(question.text, system.method, **system.settings)
    except ItemFailed as failure:
        return SystemAnswer(**key, text="", usage=total_usage(budget), failed=str(failure) or type(failure).__name__)
    seconds = None if budget.saved else perf_counter() - start
    row = SystemAnswer(
        **key,
        text=answer.marked().text,
        contexts=tuple(_context_sources(snapshot, answer)),
        citations=tuple(map(_citation_source, answer.citations)),
        usage=total_usage(budget),
        seconds=seconds,
        model=answer.model,
        decided=answer.context.query_type,
    )
    return row if budget.total.calls or previous is None else _restore_usage(row, previous)


def total_usage(budget: Budget) -> usage.Usage:
    """Return the total usage, paid now or cached."""
    return sum(budget.saved.values(), budget.total)


def _restore_usage(row: SystemAnswer, previous: SystemAnswer) -> SystemAnswer:
    """Restore the usage of the paid run for an equal answer.

    Cached vectors carry no usage of their own.
    """
    is_same = (previous.text, previous.model, previous.failed) == (row.text, row.model, "")
    if not is_same or previous.usage.completion_tokens != row.usage.completion_tokens:
        return row
    return replace(row, usage=previous.usage, seconds=previous.seconds)


def _context_sources(snapshot: Snapshot, answer: Answer) -> Iterator[AnswerSource]:
    """Yield the sources in the prompt; without a model, all evidence.

    A source of several rows has the score and the reasons of the best one.
    """
    sources = (
        [(source.text, source.rows) for source in snapshot.prompt_sources(answer.question, answer.context)]
        if answer.model
        else [(item.prompt_text, (item,)) for item in answer.context]
    )
    for n, (text, rows) in enumerate(sources, 1):
        places = tuple(map(_source_span, islice(chain.from_iterable(map(snapshot.trace, rows)), _MAX_PLACES)))
        item = max(rows, key=lambda row: row.score)
        key = (n, text, item.record.id, item.table, float(item.score))
        yield AnswerSource(*key, places, dict(item.feature_scores), item.via)


def _citation_source(citation: spans.Citation) -> AnswerSource:
    span = citation.span
    table = "chunks" if span.chunk else wiring.ROOT
    return AnswerSource(citation.n, span.text, span.chunk, table, places=(_source_span(span),))


def _source_span(span: spans.Span) -> SourceSpan:
    return SourceSpan(span.uri, span.start, span.end, span.place)


# -- the manifest


def describe_run(snapshot: Snapshot, system: System) -> dict[str, Any]:
    """Return the settings that determine a system's answers.

    The questions and the index are recorded elsewhere.
    """
    prompts = [answering.PROMPT, *sorted(Path(methods.__file__).parent.rglob("*.md"))]
    scopes = (DEFAULT_METHOD, WIDE_METHOD) if system.method == AUTO else (system.method,)
    models = {scope: chat.fingerprint for scope in ("answer", *scopes) if (chat := snapshot.models.chat(scope))}
    settings: Mapping[str, object] = {
        **{name: value for scope in scopes for name, value in snapshot.settings.get(scope, {}).items()},
        **system.settings,
    }
    return {
        "method": system.method,
        "settings": dict(settings),
        "answer": dict(snapshot.settings["answer"]),
        "models": models or registry.RULES,
        "prompts": _hash_texts(path.read_text(encoding="utf-8") for path in prompts),
    }


def describe_index(snapshot: Snapshot) -> dict[str, Any]:
    """Return the number of documents and the digest of their texts."""
    texts = (f"{uri}\n{text}\n" for uri, text in snapshot.table(wiring.ROOT).columns("uri", "text"))
    return {"documents": len(snapshot.table(wiring.ROOT)), "digest": _hash_texts(texts)}


def _hash_texts(texts: Iterable[str]) -> str:
    hasher = sha256()
    for text in texts:
        hasher.update(text.encode("utf-8", "surrogatepass"))
    return hasher.hexdigest()[:20]
