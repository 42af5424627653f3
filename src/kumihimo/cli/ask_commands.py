"""a question on the command line -> its answer, its evidence, or where a row stands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from kumihimo.app.explanations import Reason, explain_evidence
from kumihimo.app.facade import Kumihimo
from kumihimo.app.snapshot import Snapshot
from kumihimo.cli import explanation_view, jsonl, terminal
from kumihimo.cli.cli_session import configure_logging, open_index
from kumihimo.cli.options import (
    DEFAULT_INDEX,
    CacheFile,
    Explain,
    FilterExpression,
    IndexFolder,
    JsonOutput,
    MaxCalls,
    MaxCost,
    MaxTokens,
    Method,
    SettingOverrides,
    ShowPrompts,
    Suggest,
    Verbose,
)
from kumihimo.cli.repl import Repl, add_followups
from kumihimo.core.context import Answer, Context, Evidence
from kumihimo.core.errors import ItemFailed, SettingsError
from kumihimo.core.spans import Span
from kumihimo.llm.budget import Caps

_MAX_PLACES = 20  # of one piece of evidence, which may be made of all there is


def ask(
    question: Annotated[str | None, typer.Argument(help="What you want to know; none: a conversation.")] = None,
    method: Method = "",
    filter: FilterExpression = "",
    suggest: Suggest = False,
    explain: Explain = False,
    folder: IndexFolder = DEFAULT_INDEX,
    options: SettingOverrides = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    cache: CacheFile = None,
    verbose: Verbose = False,
    show_prompts: ShowPrompts = False,
    as_json: JsonOutput = False,
) -> None:
    """Answer a question, and show where the answer stands; without a question, hold a conversation."""
    configure_logging(verbose, show_prompts)
    caps = Caps(max_calls, max_tokens, max_cost)
    if question is None:
        with open_index(folder, options, cache) as kumi:
            failed = Repl(kumi, method, filter, caps, _print_answer_json if as_json else None, suggest=suggest).run()
        raise typer.Exit(1 if failed else 0)
    with open_index(folder, options, cache) as kumi, kumi.snapshot() as reading:
        suggester = reading.followup_suggester(caps) if suggest else None
        if as_json:
            answer, unsaid = add_followups(reading.ask(question, method, filter=filter, caps=caps), suggester)
            jsonl.print_json(_answer_json(reading, answer))
        else:
            with terminal.print_stream() as hear:
                answer = reading.ask(question, method, filter=filter, caps=caps, on_token=hear)
            answer, unsaid = add_followups(answer, suggester)
            terminal.show_sources(answer, reading.trace)
            if explain:
                terminal.show_reasons(
                    answer.context, reading.trace, _explanations(reading, answer.question, answer.context)
                )
            terminal.show_search_notes(reading, answer.context, filter)
    if unsaid:
        raise ItemFailed(f"no questions to ask next: {unsaid}")


def _print_answer_json(reading: Snapshot, answer: Answer) -> None:
    print(jsonl.encode_json(_answer_json(reading, answer)))


def _explanations(reading: Snapshot, question: str, context: Context) -> list[list[str]]:
    return [explanation_view.reason_lines(reason) for reason in explain_evidence(reading, question, context)]


def _answer_json(reading: Snapshot, answer: Answer) -> dict[str, object]:
    return {
        "question": answer.question,
        "method": answer.method,
        "model": answer.model,
        "text": answer.text,
        "citations": [
            {"n": c.n, "chunk": c.span.chunk, **span_location(c.span), "quote": c.span.text} for c in answer.citations
        ],
        "dangling": answer.dangling,
        "searched": list(answer.context.queries),
        "decided": answer.context.query_type,
        "evidence": [
            {
                "rank": rank,
                "score": item.score,
                "table": item.table,
                "id": item.record.id,
                **explanation_view.reason_json(reason),
            }
            for rank, item, reason in _with_reasons(reading, answer.question, answer.context)
        ],
        "suggested": list(answer.followups),
        "usage": asdict(answer.usage),
        "saved": asdict(answer.saved),
    }


def _with_reasons(reading: Snapshot, question: str, context: Context) -> Iterator[tuple[int, Evidence, Reason]]:
    """Each piece of evidence with its rank, and why it was chosen."""
    why = explain_evidence(reading, question, context)
    return ((rank, item, reason) for rank, (item, reason) in enumerate(zip(context, why, strict=True), 1))


def retrieve(
    question: Annotated[str | None, typer.Argument(help="What you want to know.")] = None,
    questions: Annotated[
        Path | None, typer.Option(help="A JSONL file of questions instead: `id` and `question` on each line.")
    ] = None,
    method: Method = "",
    filter: FilterExpression = "",
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
    folder: IndexFolder = DEFAULT_INDEX,
    options: SettingOverrides = None,
    out: Annotated[Path | None, typer.Option(help="Write a JSON line per question here.")] = None,
    cache: CacheFile = None,
    verbose: Verbose = False,
    show_prompts: ShowPrompts = False,
    as_json: JsonOutput = False,
) -> None:
    """Show the evidence for a question, best first, without answering it."""
    configure_logging(verbose, show_prompts)
    if (question is None) == (questions is None):
        raise SettingsError("say either a question or --questions FILE.jsonl")
    if html and (questions is not None or out):
        raise SettingsError("--html is a page of one question: leave out --questions and --out")
    settings: dict[str, Any] = {"filter": filter} if k is None else {"filter": filter, "k": k}
    asked = [{"id": "", "question": question}] if questions is None else jsonl.read_question_lines(questions)
    with open_index(folder, options, cache) as kumi:
        if html:
            _write_page(kumi, str(question), method, settings, html, as_json)
        elif questions is None and out is None and not as_json:
            _show_evidence(kumi, str(question), method, settings, explain)
        else:
            _retrieve_json(kumi, asked, method, settings, out, as_json, single=questions is None)


def _retrieve_json(
    kumi: Kumihimo,
    asked: list[dict[str, Any]],
    method: str,
    settings: dict[str, Any],
    out: Path | None,
    as_json: bool,
    *,
    single: bool,
) -> None:
    """The evidence for these questions as JSON, a line each, or one document where there is one alone."""
    failed: list[str] = []
    each = (_retrieve_one(kumi, row, method, settings, failed) for row in asked)
    if as_json and single and out is None:
        jsonl.print_json(next(each))
    elif out is None:
        for line in each:
            print(jsonl.encode_json(line))
    else:
        jsonl.write_text_lines(out, [json.dumps(line, ensure_ascii=False) for line in each])
        if as_json:
            jsonl.print_json({"written": str(out), "questions": len(asked)})
    if failed:
        raise ItemFailed(f"{len(failed):,} of {len(asked):,} questions failed; of the first: {failed[0]}")


def _show_evidence(kumi: Kumihimo, question: str, method: str, settings: dict[str, Any], explain: bool) -> None:
    with kumi.snapshot() as reading:
        found = reading.retrieve(question, method, **settings)
        terminal.show_evidence(found, reading.trace, _explanations(reading, question, found) if explain else ())
        terminal.show_search_notes(reading, found, settings["filter"])


def _write_page(
    kumi: Kumihimo, question: str, method: str, settings: dict[str, Any], path: Path, as_json: bool
) -> None:
    from kumihimo.cli import explanation_page  # here: few questions have one

    with kumi.snapshot() as reading:
        found = reading.retrieve(question, method, **settings)
        explanation_page.write_explanation_page(reading, path, question, method or reading.default_method(), found)
    if as_json:
        jsonl.print_json({"written": str(path), "evidence": len(found)})
    else:
        print(f"Wrote {path}: {len(found):,} pieces of evidence, and why each was chosen.")


def _retrieve_one(
    kumi: Kumihimo, row: dict[str, Any], method: str, settings: dict[str, Any], failed: list[str]
) -> dict[str, object]:
    """The evidence for one question, in one read transaction; one that fails takes no others with it."""
    told = {"id": row["id"], "question": str(row["question"])}
    try:
        with kumi.snapshot() as reading:
            context = reading.retrieve(told["question"], method, **settings)
            evidence = _evidence_json(reading, told["question"], context)
            return {**told, "searched": list(context.queries), "decided": context.query_type, "evidence": evidence}
    except ItemFailed as failure:
        failed.append(str(failure))
        return {**told, "searched": [], "decided": "", "evidence": [], "failed": str(failure)}


def _evidence_json(reading: Snapshot, question: str, context: Context) -> list[dict[str, object]]:
    return [
        {
            "rank": rank,
            "score": item.score,
            "table": item.table,
            "id": item.record.id,
            "text": item.text,
            "chunks": [span_location(span) for span in islice(reading.trace(item), _MAX_PLACES)],
            **explanation_view.reason_json(reason),
        }
        for rank, item, reason in _with_reasons(reading, question, context)
    ]


def span_location(span: Span) -> dict[str, object]:
    return {"uri": span.uri, "place": span.place, "start": span.start, "end": span.end}


def trace(
    id: Annotated[str, typer.Argument(help="The id of a row, as `retrieve` shows it, or the uri of a document.")],
    folder: IndexFolder = DEFAULT_INDEX,
    as_json: JsonOutput = False,
) -> None:
    """Show what a row says and where that stands in the documents."""
    with open_index(folder) as kumi, kumi.snapshot() as reading:
        found = reading.find(id)
        spans = list(reading.trace(found.reference))
        if as_json:
            chunks = [{"chunk": s.chunk, **span_location(s), "text": s.text} for s in spans]
            jsonl.print_json({"table": found.table, "id": found.record.id, "text": found.text, "chunks": chunks})
        else:
            terminal.show_trace(found, spans)
