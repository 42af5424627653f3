"""a command line -> what it asks for: parse, call the session, print."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from kumihimo.core.context import Answer, Context
from kumihimo.core.errors import ItemFailed, KumiError, SettingsError, unknown
from kumihimo.core.records import Span
from kumihimo.interfaces import lines, terminal
from kumihimo.interfaces.options import (
    HOME,
    Index,
    Json,
    MaxCalls,
    MaxCost,
    MaxTokens,
    Memo,
    Method,
    Methods,
    Set,
    ShowPrompts,
    Verbose,
    Wait,
    Where,
    listen,
)
from kumihimo.methods import METHODS
from kumihimo.ports import config
from kumihimo.ports.purse import Caps
from kumihimo.reading import DEFAULT, Reading
from kumihimo.session import SETTINGS, SUMMARIES, Kumihimo

app = typer.Typer(
    help="One index of your documents, and answers that say where they stand.",
    epilog="Begin with: kumi index FOLDER, then: kumi ask 'What do they say about ...?'",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Paths = Annotated[list[str] | None, typer.Argument(help="Files and folders; none: all that are remembered.")]


class _Stopped(Exception):
    """Somebody pressed Ctrl-C."""


@contextmanager
def _open(folder: Path, options: Sequence[str] | None = None, memo: Path | None = None) -> Iterator[Kumihimo]:
    try:
        with Kumihimo.open(folder, settings=config.from_options(options or ()), memo=memo) as kumi:
            yield kumi
    except KeyboardInterrupt:
        raise _Stopped from None


def _print(document: object) -> None:
    print(_json(document, indent=2))


def _json(document: object, indent: int | None = None) -> str:
    """In escapes where standard output cannot hold every character."""
    narrow = bool(sys.stdout) and "utf" not in (sys.stdout.encoding or "").lower()
    return json.dumps(document, ensure_ascii=narrow, indent=indent)


@app.callback()
def about(
    version: Annotated[bool, typer.Option("--version", help="Show the version and leave.", is_eager=True)] = False,
) -> None:
    if version:
        from importlib import metadata

        print(f"kumihimo {metadata.version('kumihimo')}")
        raise typer.Exit


@app.command()
def index(
    paths: Paths = None,
    folder: Index = HOME,
    methods: Methods = "",
    options: Set = None,
    wait: Wait = False,
    check: Annotated[bool, typer.Option("--check", help="Read every file again, even if it looks unchanged.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Agree to pay again where a change needs that.")] = False,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    memo: Memo = None,
    verbose: Verbose = False,
    show_prompts: ShowPrompts = False,
    as_json: Json = False,
) -> None:
    """Add files and folders, or refresh them: what is new, changed or gone."""
    listen(verbose, show_prompts)
    caps = Caps(max_calls, max_tokens, max_cost)
    consent = yes or (terminal.agree if terminal.is_person() and not as_json else False)
    with _open(folder, options, memo) as kumi, terminal.progress(not (verbose or show_prompts)) as progress:
        built = kumi.index(
            *(paths or []),
            methods=_named(methods),
            wait=wait,
            check=check,
            caps=caps,
            consent=consent,
            progress=progress,
        )
    _print(asdict(built)) if as_json else terminal.show_built(built)
    raise typer.Exit(1 if built.failed else 0)


@app.command()
def plan(
    paths: Paths = None,
    folder: Index = HOME,
    methods: Methods = "",
    sample: Annotated[int, typer.Option(help="Ask about this many chunks in earnest, to say more.", min=0)] = 0,
    options: Set = None,
    memo: Memo = None,
    verbose: Verbose = False,
    show_prompts: ShowPrompts = False,
    as_json: Json = False,
) -> None:
    """Say what indexing would ask of models, and cost, without doing it."""
    listen(verbose, show_prompts)
    with _open(folder, options, memo) as kumi, terminal.progress(not (verbose or show_prompts)) as progress:
        found = kumi.plan(*(paths or []), methods=_named(methods), sample=sample, progress=progress)
    _print(asdict(found)) if as_json else terminal.show_plan(found)


def _named(methods: str) -> list[str]:
    return [name.strip() for name in methods.split(",") if name.strip()]


@app.command()
def remove(
    target: Annotated[str, typer.Argument(help="A source's name or path, a document's uri, or a file or folder.")],
    folder: Index = HOME,
    forget: Annotated[bool, typer.Option("--forget", help="Erase from the memo, too, what only it needed.")] = False,
    wait: Wait = False,
    as_json: Json = False,
) -> None:
    """Take a source or a document out of the index; its file stays where it is."""
    with _open(folder) as kumi, terminal.progress() as progress:
        built = kumi.remove(target, forget=forget, wait=wait, progress=progress)
    _print(asdict(built)) if as_json else terminal.show_removed(built)
    raise typer.Exit(1 if built.failed else 0)


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="What you want to know.")],
    method: Method = "",
    where: Where = "",
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
    """Answer a question, and show where the answer stands."""
    listen(verbose, show_prompts)
    caps = Caps(max_calls, max_tokens, max_cost)
    with _open(folder, options, memo) as kumi, kumi.reading() as reading:
        if as_json:
            _print(_answered(reading.ask(question, method, where=where, caps=caps)))
        else:
            with terminal.speech() as hear:
                answer = reading.ask(question, method, where=where, caps=caps, hear=hear)
            terminal.show_sources(answer)


def _answered(answer: Answer) -> dict[str, object]:
    return {
        "question": answer.question,
        "method": answer.method,
        "model": answer.model,
        "text": answer.text,
        "citations": [
            {"n": c.n, "chunk": c.span.chunk, **_place(c.span), "quote": c.span.text} for c in answer.citations
        ],
        "dangling": answer.dangling,
        "usage": asdict(answer.usage),
    }


@app.command()
def retrieve(
    question: Annotated[str | None, typer.Argument(help="What you want to know.")] = None,
    questions: Annotated[
        Path | None, typer.Option(help="A JSONL file of questions instead: `id` and `question` on each line.")
    ] = None,
    method: Method = "",
    where: Where = "",
    k: Annotated[int | None, typer.Option("--k", help="How much evidence.", min=1)] = None,
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
    with _open(folder, options, memo) as kumi:
        if questions is None and out is None and not as_json:
            with kumi.reading() as reading:
                terminal.show_evidence(reading.retrieve(str(question), method, **settings), reading.trace)
            return
        failed: list[str] = []
        found = (_found(kumi, row, method, settings, failed) for row in asked)
        if as_json and questions is None and out is None:
            _print(next(found))
        elif out is None:
            for line in found:
                print(_json(line))
        else:
            lines.write(out, [json.dumps(line, ensure_ascii=False) for line in found])
            if as_json:
                _print({"written": str(out), "questions": len(asked)})
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
            return {**told, "evidence": _evidence(reading, context)}
    except ItemFailed as failure:
        failed.append(str(failure))
        return {**told, "evidence": [], "failed": str(failure)}


def _evidence(reading: Reading, context: Context) -> list[dict[str, object]]:
    return [
        {
            "rank": rank,
            "score": item.score,
            "table": item.table,
            "id": item.record.id,
            "text": item.text,
            "chunks": [_place(span) for span in reading.trace(item.reference)],
        }
        for rank, item in enumerate(context, 1)
    ]


def _place(span: Span) -> dict[str, object]:
    return {"uri": span.uri, "place": span.place, "start": span.start, "end": span.end}


@app.command()
def status(folder: Index = HOME, as_json: Json = False) -> None:
    """Show what the index holds: sources, tables, models, what failed."""
    with _open(folder) as kumi:
        found = kumi.status()
    _print(asdict(found)) if as_json else terminal.show_status(found)
    raise typer.Exit(1 if found.failed else 0)


@app.command()
def trace(
    id: Annotated[str, typer.Argument(help="The id of a row, as `retrieve` shows it, or the uri of a document.")],
    folder: Index = HOME,
    as_json: Json = False,
) -> None:
    """Show what a row says and where that stands in the documents."""
    with _open(folder) as kumi, kumi.reading() as reading:
        found = reading.find(id)
        spans = list(reading.trace(found.reference))
        if as_json:
            chunks = [{"chunk": s.chunk, **_place(s), "text": s.text} for s in spans]
            _print({"table": found.table, "id": found.record.id, "text": found.text, "chunks": chunks})
        else:
            terminal.show_trace(found, spans)


@app.command()
def methods(as_json: Json = False) -> None:
    """List the methods and their settings."""
    if as_json:
        described = {
            name: {
                "summary": m.summary,
                "default": name == DEFAULT,
                "reads": list(m.tables),
                "settings": {s.name: {"type": s.kind, "default": s.default} for s in m.settings.values()},
            }
            for name, m in METHODS.items()
        }
        _print(described)
    else:
        terminal.show_methods(METHODS, DEFAULT)


@app.command()
def init(
    path: Annotated[Path | None, typer.Argument(help="The file to write: kumi.toml beside the index.")] = None,
    folder: Index = HOME,
    as_json: Json = False,
) -> None:
    """Write a kumi.toml that shows every setting and sets none."""
    path = path or folder.parent / "kumi.toml"
    if path.exists():
        raise SettingsError(f"{path} is there already: edit it, or name another file")
    lines.write(path, config.written(SETTINGS, SUMMARIES).splitlines())
    _print({"written": str(path)}) if as_json else print(f"Wrote {path}: take the # away from a line and change it.")


@app.command()
def memo(
    action: Annotated[str, typer.Argument(help="prune: erase what building the index anew would not use.")] = "show",
    folder: Index = HOME,
    as_json: Json = False,
) -> None:
    """Show what models have said to this index, replies, size, hits; or prune it."""
    if action not in ("show", "prune"):
        raise SettingsError(unknown("memo command", action, ("show", "prune")))
    with _open(folder) as kumi:
        found = {"erased": kumi.prune()} if action == "prune" else kumi.memo()
    _print(found) if as_json else terminal.show_memo(found)


def main() -> None:
    """The outer door: every error is one line that names the remedy. Exit 2: usage or settings."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.reconfigure(errors="replace")
    out = sys.stdout
    try:
        app()
    except SystemExit as stop:
        if sys.stdout is out:
            raise
        sys.exit(0 if stop.code == 1 else stop.code)  # typer has replaced a stream that nobody reads any more
    except ItemFailed as error:
        sys.exit(_say(str(error), 1))
    except KumiError as error:
        sys.exit(_say(str(error), 2))
    except _Stopped:
        _leave(_say("stopped; the index is as it was before. Run the same command again to go on.", 130))
    except (OSError, sqlite3.Error) as error:
        sys.exit(_say(f"{error}: check that the disk has room and that the index folder can be written", 2))


def _leave(code: int) -> None:
    """At once: requests that are under way are not waited for."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    os._exit(code)


def _say(message: str, code: int) -> int:
    print(terminal.harmless(f"kumi: {message}"), file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
