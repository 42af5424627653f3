"""a question on the command line -> its answer, its evidence, or where a row stands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from kumihimo.app.explanations import Reason, reasons
from kumihimo.app.facade import Kumihimo
from kumihimo.app.snapshot import Reading
from kumihimo.cli import explanation_view, jsonl, terminal
from kumihimo.cli.cli_session import listen, opened
from kumihimo.cli.options import (
    HOME,
    Explain,
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
from kumihimo.cli.repl import Talk, with_more
from kumihimo.core.context import Answer, Context, Evidence
from kumihimo.core.errors import ItemFailed, SettingsError
from kumihimo.core.spans import Span
from kumihimo.llm.budget import Caps

_PLACES = 20  # of one piece of evidence, which may be made of all there is


def ask(
    question: Annotated[str | None, typer.Argument(help="What you want to know; none: a conversation.")] = None,
    method: Method = "",
    where: Where = "",
    suggest: Suggest = False,
    explain: Explain = False,
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
            jsonl.show(_answered(reading, answer))
        else:
            with terminal.speech() as hear:
                answer = reading.ask(question, method, where=where, caps=caps, hear=hear)
            answer, unsaid = with_more(answer, suggester)
            terminal.show_sources(answer, reading.trace)
            if explain:
                terminal.show_why(answer.context, reading.trace, _why(reading, answer.question, answer.context))
            terminal.explain(reading, answer.context, where)
    if unsaid:
        raise ItemFailed(f"no questions to ask next: {unsaid}")


def _show_answered(reading: Reading, answer: Answer) -> None:
    print(jsonl.line(_answered(reading, answer)))


def _why(reading: Reading, question: str, context: Context) -> list[list[str]]:
    return [explanation_view.lines(reason) for reason in reasons(reading, question, context)]


def _answered(reading: Reading, answer: Answer) -> dict[str, object]:
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
        "decided": answer.context.decided,
        "evidence": [
            {
                "rank": rank,
                "score": item.score,
                "table": item.table,
                "id": item.record.id,
                **explanation_view.as_json(reason),
            }
            for rank, item, reason in _explained(reading, answer.question, answer.context)
        ],
        "suggested": list(answer.suggested),
        "usage": asdict(answer.usage),
        "saved": asdict(answer.saved),
    }


def _explained(reading: Reading, question: str, context: Context) -> Iterator[tuple[int, Evidence, Reason]]:
    """Each piece of evidence with its rank, and why it was chosen."""
    why = reasons(reading, question, context)
    return ((rank, item, reason) for rank, (item, reason) in enumerate(zip(context, why, strict=True), 1))


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
    explain: Explain = False,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", help="Write the evidence, and why it was chosen, as a page to this file.", metavar="FILE"
        ),
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
    if html and (questions is not None or out):
        raise SettingsError("--html is a page of one question: leave out --questions and --out")
    settings: dict[str, Any] = {"where": where} if k is None else {"where": where, "k": k}
    asked = [{"id": "", "question": question}] if questions is None else jsonl.questions(questions)
    with opened(folder, options, memo) as kumi:
        if html:
            _page(kumi, str(question), method, settings, html, as_json)
        elif questions is None and out is None and not as_json:
            _show(kumi, str(question), method, settings, explain)
        else:
            _lines(kumi, asked, method, settings, out, as_json, alone=questions is None)


def _lines(
    kumi: Kumihimo,
    asked: list[dict[str, Any]],
    method: str,
    settings: dict[str, Any],
    out: Path | None,
    as_json: bool,
    *,
    alone: bool,
) -> None:
    """The evidence for these questions as JSON, a line each, or one document where there is one alone."""
    failed: list[str] = []
    each = (_found(kumi, row, method, settings, failed) for row in asked)
    if as_json and alone and out is None:
        jsonl.show(next(each))
    elif out is None:
        for line in each:
            print(jsonl.line(line))
    else:
        jsonl.write(out, [json.dumps(line, ensure_ascii=False) for line in each])
        if as_json:
            jsonl.show({"written": str(out), "questions": len(asked)})
    if failed:
        raise ItemFailed(f"{len(failed):,} of {len(asked):,} questions failed; of the first: {failed[0]}")


def _show(kumi: Kumihimo, question: str, method: str, settings: dict[str, Any], explain: bool) -> None:
    with kumi.reading() as reading:
        found = reading.retrieve(question, method, **settings)
        terminal.show_evidence(found, reading.trace, _why(reading, question, found) if explain else ())
        terminal.explain(reading, found, settings["where"])


def _page(kumi: Kumihimo, question: str, method: str, settings: dict[str, Any], path: Path, as_json: bool) -> None:
    from kumihimo.cli import explanation_page  # here: few questions have one

    with kumi.reading() as reading:
        found = reading.retrieve(question, method, **settings)
        explanation_page.write(reading, path, question, method or reading.usual(), found)
    if as_json:
        jsonl.show({"written": str(path), "evidence": len(found)})
    else:
        print(f"Wrote {path}: {len(found):,} pieces of evidence, and why each was chosen.")


def _found(
    kumi: Kumihimo, row: dict[str, Any], method: str, settings: dict[str, Any], failed: list[str]
) -> dict[str, object]:
    """The evidence for one question, in one read transaction; one that fails takes no others with it."""
    told = {"id": row["id"], "question": str(row["question"])}
    try:
        with kumi.reading() as reading:
            context = reading.retrieve(told["question"], method, **settings)
            evidence = _evidence(reading, told["question"], context)
            return {**told, "searched": list(context.searched), "decided": context.decided, "evidence": evidence}
    except ItemFailed as failure:
        failed.append(str(failure))
        return {**told, "searched": [], "decided": "", "evidence": [], "failed": str(failure)}


def _evidence(reading: Reading, question: str, context: Context) -> list[dict[str, object]]:
    return [
        {
            "rank": rank,
            "score": item.score,
            "table": item.table,
            "id": item.record.id,
            "text": item.text,
            "chunks": [place(span) for span in islice(reading.trace(item), _PLACES)],
            **explanation_view.as_json(reason),
        }
        for rank, item, reason in _explained(reading, question, context)
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
            jsonl.show({"table": found.table, "id": found.record.id, "text": found.text, "chunks": chunks})
        else:
            terminal.show_trace(found, spans)
