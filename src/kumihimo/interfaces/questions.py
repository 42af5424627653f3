"""a question on the command line -> its answer, its evidence, or where a row stands."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from kumihimo.core.context import Answer, Context
from kumihimo.core.errors import ItemFailed, SettingsError
from kumihimo.core.spans import Span
from kumihimo.interfaces import lines, terminal
from kumihimo.interfaces.opening import listen, opened
from kumihimo.interfaces.options import (
    HOME,
    Index,
    Json,
    MaxCalls,
    MaxCost,
    MaxTokens,
    Memo,
    Method,
    Set,
    ShowPrompts,
    Suggest,
    Verbose,
    Where,
)
from kumihimo.interfaces.talk import Talk, with_more
from kumihimo.ports.purse import Caps
from kumihimo.reading import Reading
from kumihimo.session import Kumihimo

_PLACES = 20  # of one piece of evidence, which may be made of all there is


def ask(
    question: Annotated[str | None, typer.Argument(help="What you want to know; none: a conversation.")] = None,
    method: Method = "",
    where: Where = "",
    suggest: Suggest = False,
    folder: Index = HOME,
    options: Set = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    memo: Memo = None,
    verbose: Verbose = False,
    show_prompts: ShowPrompts = False,
    as_json: Json = False,
) -> None:
    """Answer a question, and show where the answer stands; without a question, hold a conversation."""
    listen(verbose, show_prompts)
    caps = Caps(max_calls, max_tokens, max_cost)
    if question is None:
        with opened(folder, options, memo) as kumi:
            failed = Talk(kumi, method, where, caps, _show_answered if as_json else None, suggest=suggest).run()
        raise typer.Exit(1 if failed else 0)
    with opened(folder, options, memo) as kumi, kumi.reading() as reading:
        suggester = reading.suggester(caps) if suggest else None
        if as_json:
            answer, unsaid = with_more(reading.ask(question, method, where=where, caps=caps), suggester)
            lines.show(_answered(answer))
        else:
            with terminal.speech() as hear:
                answer = reading.ask(question, method, where=where, caps=caps, hear=hear)
            answer, unsaid = with_more(answer, suggester)
            terminal.show_sources(answer, reading.trace)
            terminal.explain(reading, answer.context, where)
    if unsaid:
        raise ItemFailed(f"no questions to ask next: {unsaid}")


def _show_answered(answer: Answer) -> None:
    print(lines.line(_answered(answer)))


def _answered(answer: Answer) -> dict[str, object]:
    return {
        "question": answer.question,
        "method": answer.method,
        "model": answer.model,
        "text": answer.text,
        "citations": [
            {"n": c.n, "chunk": c.span.chunk, **place(c.span), "quote": c.span.text} for c in answer.citations
        ],
        "dangling": answer.dangling,
        "searched": list(answer.context.searched),
        "suggested": list(answer.suggested),
        "usage": asdict(answer.usage),
        "saved": asdict(answer.saved),
    }


def retrieve(
    question: Annotated[str | None, typer.Argument(help="What you want to know.")] = None,
    questions: Annotated[
        Path | None, typer.Option(help="A JSONL file of questions instead: `id` and `question` on each line.")
    ] = None,
    method: Method = "",
    where: Where = "",
    k: Annotated[
        int | None, typer.Option("--k", help="How much evidence; of the graph, from each search.", min=1)
    ] = None,
    folder: Index = HOME,
    options: Set = None,
    out: Annotated[Path | None, typer.Option(help="Write a JSON line per question here.")] = None,
    memo: Memo = None,
    verbose: Verbose = False,
    show_prompts: ShowPrompts = False,
    as_json: Json = False,
) -> None:
    """Show the evidence for a question, best first, without answering it."""
    listen(verbose, show_prompts)
    if (question is None) == (questions is None):
        raise SettingsError("say either a question or --questions FILE.jsonl")
    settings: dict[str, Any] = {"where": where} if k is None else {"where": where, "k": k}
    asked = [{"id": "", "question": question}] if questions is None else lines.questions(questions)
    with opened(folder, options, memo) as kumi:
        if questions is None and out is None and not as_json:
            with kumi.reading() as reading:
                found = reading.retrieve(str(question), method, **settings)
                terminal.show_evidence(found, reading.trace)
                terminal.explain(reading, found, where)
            return
        failed: list[str] = []
        each = (_found(kumi, row, method, settings, failed) for row in asked)
        if as_json and questions is None and out is None:
            lines.show(next(each))
        elif out is None:
            for line in each:
                print(lines.line(line))
        else:
            lines.write(out, [json.dumps(line, ensure_ascii=False) for line in each])
            if as_json:
                lines.show({"written": str(out), "questions": len(asked)})
    if failed:
        raise ItemFailed(f"{len(failed):,} of {len(asked):,} questions failed; of the first: {failed[0]}")


def _found(
    kumi: Kumihimo, row: dict[str, Any], method: str, settings: dict[str, Any], failed: list[str]
) -> dict[str, object]:
    """The evidence for one question, in one read transaction; one that fails takes no others with it."""
    told = {"id": row["id"], "question": row["question"]}
    try:
        with kumi.reading() as reading:
            context = reading.retrieve(str(row["question"]), method, **settings)
            return {**told, "searched": list(context.searched), "evidence": _evidence(reading, context)}
    except ItemFailed as failure:
        failed.append(str(failure))
        return {**told, "searched": [], "evidence": [], "failed": str(failure)}


def _evidence(reading: Reading, context: Context) -> list[dict[str, object]]:
    return [
        {
            "rank": rank,
            "score": item.score,
            "table": item.table,
            "id": item.record.id,
            "text": item.text,
            "chunks": [place(span) for span in islice(reading.trace(item), _PLACES)],
        }
        for rank, item in enumerate(context, 1)
    ]


def place(span: Span) -> dict[str, object]:
    return {"uri": span.uri, "place": span.place, "start": span.start, "end": span.end}


def trace(
    id: Annotated[str, typer.Argument(help="The id of a row, as `retrieve` shows it, or the uri of a document.")],
    folder: Index = HOME,
    as_json: Json = False,
) -> None:
    """Show what a row says and where that stands in the documents."""
    with opened(folder) as kumi, kumi.reading() as reading:
        found = reading.find(id)
        spans = list(reading.trace(found.reference))
        if as_json:
            chunks = [{"chunk": s.chunk, **place(s), "text": s.text} for s in spans]
            lines.show({"table": found.table, "id": found.record.id, "text": found.text, "chunks": chunks})
        else:
            terminal.show_trace(found, spans)
