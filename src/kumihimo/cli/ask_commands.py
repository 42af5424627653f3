"""a question on the command line -> its answer, its evidence, or the source of a row."""

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

_MAX_PLACES = 20  # per piece of evidence: a report may come from every passage


def ask(
    question: Annotated[str | None, typer.Argument(help="Your question. Default: start a conversation.")] = None,
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
    """Answer a question and cite its sources; without one, start a conversation."""
    configure_logging(verbose, show_prompts)
    caps = Caps(max_calls, max_tokens, max_cost)
    if question is None:
        with open_index(folder, options, cache) as kumi:
            failed = Repl(kumi, method, filter, caps, _print_answer_json if as_json else None, suggest=suggest).run()
        raise typer.Exit(1 if failed else 0)
    with open_index(folder, options, cache) as kumi, kumi.snapshot() as snapshot:
        suggester = snapshot.followup_suggester(caps) if suggest else None
        if as_json:
            answer, followup_error = add_followups(snapshot.ask(question, method, filter=filter, caps=caps), suggester)
            jsonl.print_json(_answer_json(snapshot, answer))
        else:
            with terminal.print_stream() as on_token:
                answer = snapshot.ask(question, method, filter=filter, caps=caps, on_token=on_token)
            answer, followup_error = add_followups(answer, suggester)
            terminal.show_sources(answer, snapshot.trace)
            if explain:
                terminal.show_reasons(
                    answer.context, snapshot.trace, _explanations(snapshot, answer.question, answer.context)
                )
            terminal.show_search_notes(snapshot, answer.context, filter)
    if followup_error:
        raise ItemFailed(f"no follow-up questions: {followup_error}")


def _print_answer_json(snapshot: Snapshot, answer: Answer) -> None:
    print(jsonl.encode_json(_answer_json(snapshot, answer)))


def _explanations(snapshot: Snapshot, question: str, context: Context) -> list[list[str]]:
    return [explanation_view.reason_lines(reason) for reason in explain_evidence(snapshot, question, context)]


def _answer_json(snapshot: Snapshot, answer: Answer) -> dict[str, object]:
    return {
        "question": answer.question,
        "method": answer.method,
        "model": answer.model,
        "text": answer.text,
        "citations": [
            {"n": citation.n, "chunk": citation.span.chunk, **span_location(citation.span), "quote": citation.span.text}
            for citation in answer.citations
        ],
        "dangling": answer.dangling,
        "queries": list(answer.context.queries),
        "query_type": answer.context.query_type,
        "evidence": [
            {
                "rank": rank,
                "score": item.score,
                "table": item.table,
                "id": item.record.id,
                **explanation_view.reason_json(reason),
            }
            for rank, item, reason in _with_reasons(snapshot, answer.question, answer.context)
        ],
        "followups": list(answer.followups),
        "usage": asdict(answer.usage),
        "saved": asdict(answer.saved),
    }


def _with_reasons(snapshot: Snapshot, question: str, context: Context) -> Iterator[tuple[int, Evidence, Reason]]:
    """Return each piece of evidence with its rank and reason."""
    item_reasons = explain_evidence(snapshot, question, context)
    return ((rank, item, reason) for rank, (item, reason) in enumerate(zip(context, item_reasons, strict=True), 1))


def retrieve(
    question: Annotated[str | None, typer.Argument(help="Your question.")] = None,
    questions: Annotated[
        Path | None, typer.Option(help="A JSONL file of questions instead: `id` and `question` on each line.")
    ] = None,
    method: Method = "",
    filter: FilterExpression = "",
    k: Annotated[
        int | None, typer.Option("--k", help="Number of pieces of evidence; for graph methods, per search.", min=1)
    ] = None,
    explain: Explain = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write the evidence and its reasons as an HTML page to this file.", metavar="FILE"),
    ] = None,
    folder: IndexFolder = DEFAULT_INDEX,
    options: SettingOverrides = None,
    out: Annotated[Path | None, typer.Option(help="Write one JSON line per question to this file.")] = None,
    cache: CacheFile = None,
    verbose: Verbose = False,
    show_prompts: ShowPrompts = False,
    as_json: JsonOutput = False,
) -> None:
    """Show the evidence for a question, best first, without answering."""
    configure_logging(verbose, show_prompts)
    if (question is None) == (questions is None):
        raise SettingsError("give either a question or --questions FILE.jsonl")
    if html and (questions is not None or out):
        raise SettingsError("--html shows one question: leave out --questions and --out")
    settings: dict[str, Any] = {"filter": filter} if k is None else {"filter": filter, "k": k}
    rows = [{"id": "", "question": question}] if questions is None else jsonl.read_question_lines(questions)
    with open_index(folder, options, cache) as kumi:
        if html:
            _write_page(kumi, str(question), method, settings, html, as_json)
        elif questions is None and out is None and not as_json:
            _show_evidence(kumi, str(question), method, settings, explain)
        else:
            _retrieve_json(kumi, rows, method, settings, out, as_json, single=questions is None)


def _retrieve_json(
    kumi: Kumihimo,
    rows: list[dict[str, Any]],
    method: str,
    settings: dict[str, Any],
    out: Path | None,
    as_json: bool,
    *,
    single: bool,
) -> None:
    """Print or write the evidence as JSON, one line per question.

    single: for one question on its own, print one indented document.
    """
    failed: list[str] = []
    results = (_retrieve_one(kumi, row, method, settings, failed) for row in rows)
    if as_json and single and out is None:
        jsonl.print_json(next(results))
    elif out is None:
        for result in results:
            print(jsonl.encode_json(result))
    else:
        jsonl.write_text_lines(out, [json.dumps(result, ensure_ascii=False) for result in results])
        if as_json:
            jsonl.print_json({"written": str(out), "questions": len(rows)})
    if failed:
        raise ItemFailed(f"{len(failed):,} of {len(rows):,} questions failed; the first: {failed[0]}")


def _show_evidence(kumi: Kumihimo, question: str, method: str, settings: dict[str, Any], explain: bool) -> None:
    with kumi.snapshot() as snapshot:
        context = snapshot.retrieve(question, method, **settings)
        terminal.show_evidence(context, snapshot.trace, _explanations(snapshot, question, context) if explain else ())
        terminal.show_search_notes(snapshot, context, settings["filter"])


def _write_page(
    kumi: Kumihimo, question: str, method: str, settings: dict[str, Any], path: Path, as_json: bool
) -> None:
    from kumihimo.cli import explanation_page  # imported here: rarely needed

    with kumi.snapshot() as snapshot:
        context = snapshot.retrieve(question, method, **settings)
        explanation_page.write_explanation_page(snapshot, path, question, method or snapshot.default_method(), context)
    if as_json:
        jsonl.print_json({"written": str(path), "evidence": len(context)})
    else:
        print(f"Wrote {path}: {len(context):,} pieces of evidence, and why each was chosen.")


def _retrieve_one(
    kumi: Kumihimo, row: dict[str, Any], method: str, settings: dict[str, Any], failed: list[str]
) -> dict[str, object]:
    """Return the evidence for one question, read from one snapshot.

    A failed question is added to `failed`; the others go on.
    """
    head = {"id": row["id"], "question": str(row["question"])}
    try:
        with kumi.snapshot() as snapshot:
            context = snapshot.retrieve(head["question"], method, **settings)
            evidence = _evidence_json(snapshot, head["question"], context)
            return {**head, "queries": list(context.queries), "query_type": context.query_type, "evidence": evidence}
    except ItemFailed as failure:
        failed.append(str(failure))
        return {**head, "queries": [], "query_type": "", "evidence": [], "failed": str(failure)}


def _evidence_json(snapshot: Snapshot, question: str, context: Context) -> list[dict[str, object]]:
    return [
        {
            "rank": rank,
            "score": item.score,
            "table": item.table,
            "id": item.record.id,
            "text": item.text,
            "chunks": [span_location(span) for span in islice(snapshot.trace(item), _MAX_PLACES)],
            **explanation_view.reason_json(reason),
        }
        for rank, item, reason in _with_reasons(snapshot, question, context)
    ]


def span_location(span: Span) -> dict[str, object]:
    return {"uri": span.uri, "place": span.place, "start": span.start, "end": span.end}


def trace(
    id: Annotated[str, typer.Argument(help="The id of a row, as `retrieve` prints it, or the uri of a document.")],
    folder: IndexFolder = DEFAULT_INDEX,
    as_json: JsonOutput = False,
) -> None:
    """Show the text of a row and its location in the documents."""
    with open_index(folder) as kumi, kumi.snapshot() as snapshot:
        row = snapshot.find(id)
        spans = list(snapshot.trace(row.reference))
        if as_json:
            chunks = [{"chunk": span.chunk, **span_location(span), "text": span.text} for span in spans]
            jsonl.print_json({"table": row.table, "id": row.record.id, "text": row.text, "chunks": chunks})
        else:
            terminal.show_trace(row, spans)
