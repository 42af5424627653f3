"""a question on the command line -> its answer, its evidence, or the source of a row."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit, Option

from kumihimo.app.ask.query import Length
from kumihimo.app.facade import Kumihimo
from kumihimo.cli import options, printing, repl, terminal
from kumihimo.cli.translated_help import suggest_language
from kumihimo.core.answer import Answer
from kumihimo.core.context import Context
from kumihimo.core.errors import ItemFailed, SettingsError
from kumihimo.text import safe_write

_EVIDENCE_KEYS = {"id", "question", "queries", "query_type", "evidence"}  # of each line of `retrieve --out`
_MAX_LINE = 10**8  # characters of such a line

Row = dict[str, Any]


def ask(
    session: options.PaidSession,
    question: Annotated[str | None, Argument(help="Your question. Default: start a conversation.")] = None,
    method: options.Method = "",
    filter: options.FilterExpression = "",
    length: Annotated[
        Length | None, Option(help="Length of a model's answer; normal is as broad as the question.")
    ] = None,
    suggest: Annotated[bool, Option("--suggest", help="Suggest follow-up questions (one more call).")] = False,
    explain: options.Explain = False,
) -> None:
    """Answer a question with its sources, or start a conversation."""
    if question is None:
        with session.open() as kumi:
            show = _print_answer if session.as_json else None
            failed = repl.Repl(kumi, method, filter, session.caps, show, suggest=suggest, length=length).run()
        raise Exit(1 if failed else 0)
    suggest_language(question)
    with session.snapshot(method, filter) as snapshot:
        answer, followup_error = repl.ask_question(
            snapshot,
            question,
            method,
            session.caps,
            quiet=session.as_json,
            suggest=suggest,
            explain=explain or session.as_json,
            length=length,
        )
        if session.as_json:
            printing.print_json(answer.to_dict())
        else:
            terminal.show_answer(answer)
            if explain:
                terminal.show_reasons(answer)
            terminal.show_search_notes(snapshot, answer.context)
    if followup_error:
        raise ItemFailed(f"no follow-up questions: {followup_error}")


def _print_answer(answer: Answer) -> None:
    """Print an answer as one line of JSON."""
    printing.print_text(printing.encode_json(answer.to_dict()))


# -- evidence


def retrieve(
    session: options.IndexSession,
    writing: options.Writing,
    question: Annotated[str | None, Argument(help="Your question.")] = None,
    questions: Annotated[
        Path | None, Option(help="A JSONL file of questions instead: `id` and `question` on each line.")
    ] = None,
    method: options.Method = "",
    filter: options.FilterExpression = "",
    k: Annotated[
        int | None, Option("--k", help="Number of pieces of evidence; for graph methods, per search.", min=1)
    ] = None,
    explain: options.Explain = False,
    out: Annotated[Path | None, Option(help="Write one JSON line per question to this file.")] = None,
) -> None:
    """Show the evidence for a question, best first; no answer."""
    if (question is None) == (questions is None):
        raise SettingsError("give either a question or --questions FILE.jsonl")
    suggest_language(question or "")
    search: Row = {"name": method, "explain": True, **({} if k is None else {"k": k})}
    rows = [{"id": "", "question": question}] if questions is None else _read_question_lines(questions)
    if out:  # before a model is called
        safe_write.check_replaceable(out, force=writing.force, is_ours=_is_evidence_file)
    with session.open() as kumi:
        session.prepare_method(kumi, method)
        if question is None or out or session.as_json:
            retrieve_one = partial(_retrieve_one, kumi, filter, search)
            _retrieve_json(retrieve_one, rows, out, session.as_json, single=questions is None)
            return
        with kumi.snapshot() as whole:
            snapshot = whole.narrowed(filter)
            context = snapshot.retrieve(question, **search)
            terminal.show_evidence(context, question, reasons=explain)
            terminal.show_search_notes(snapshot, context)


def _retrieve_json(
    retrieve: Callable[[Row, list[str]], Row], rows: list[Row], out: Path | None, as_json: bool, *, single: bool
) -> None:
    """Print or write the evidence as JSON, one line per question.

    single: for one question on its own, print one indented document.
    """
    failed: list[str] = []
    results = (retrieve(row, failed) for row in rows)
    if out:
        safe_write.write_file(out, [f"{json.dumps(result, ensure_ascii=False)}\n" for result in results], force=True)
        if as_json:
            printing.print_json({"written": str(out), "questions": len(rows)})
    else:
        for result in results:
            printing.print_text(printing.encode_json(result, indent=2 if as_json and single else None))
    if failed:
        raise ItemFailed(f"{len(failed):,} of {len(rows):,} questions failed; the first: {failed[0]}")


def _is_evidence_file(path: Path) -> bool:
    """Return whether the first line is one that `retrieve --out` writes."""
    try:
        with path.open(encoding="utf-8") as lines:
            row = json.loads(lines.readline(_MAX_LINE))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(row, dict) and row.keys() >= _EVIDENCE_KEYS


def _retrieve_one(kumi: Kumihimo, filter: str, search: Row, row: Row, failed: list[str]) -> Row:
    """Return the evidence for one question, read from one snapshot.

    A failed question is added to `failed`; the others go on.
    """
    head = {"id": row["id"], "question": str(row["question"])}
    try:
        with kumi.snapshot(search["name"]) as whole:
            return {**head, **whole.retrieve(head["question"], filter=filter, **search).to_dict()}
    except ItemFailed as failure:
        failed.append(str(failure))
        return {**head, **Context().to_dict(), "failed": str(failure)}


def _read_question_lines(path: Path) -> list[Row]:
    """Read the questions of a JSONL file.

    Raises SettingsError with the line number.
    """
    lines = safe_write.read_text_file(path, "give a JSONL file in UTF-8").split("\n")
    return [_parse_question(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _parse_question(path: Path, number: int, line: str) -> Row:
    try:
        row = json.loads(line)
        question = row["question"]
        if not isinstance(question, str) or not question.strip():
            raise ValueError(question)
        return {"id": row.get("id", str(number)), "question": question}
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise SettingsError(f'{path}, line {number}: write {{"id": ..., "question": ...}}') from error


def trace(
    index: options.IndexFolder,
    id: Annotated[str, Argument(help="The id of a row, as `retrieve` prints it, or the uri of a document.")],
) -> None:
    """Show the text of a row and its location in the documents."""
    from kumihimo.app.browse.json_values import trace_json

    with index.snapshot() as snapshot:
        row = snapshot.find(id)
        spans = list(snapshot.trace(row.reference))
    document = trace_json(row.reference, row.text, spans)
    index.show(document, lambda _: terminal.show_trace(row, spans))
