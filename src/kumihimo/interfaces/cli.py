"""a command line -> what it asks for: parse, call the session, print."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from kumihimo.core.context import Context
from kumihimo.core.errors import KumiError, SettingsError, unknown
from kumihimo.core.records import Span
from kumihimo.interfaces import terminal
from kumihimo.methods import METHODS
from kumihimo.ports import config
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

Index = Annotated[Path, typer.Option("--index", envvar="KUMI_INDEX", help="The index folder.", metavar="DIR")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, and nothing else.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="A setting: chunks.size=600.", metavar="NAME=VALUE")]
Method = Annotated[str, typer.Option("--method", "-m", help="How to search, such as bm25: see `kumi methods`.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for another build to end.")]
HOME = Path(".kumi")


class _Stopped(Exception):
    """Somebody pressed Ctrl-C."""


@contextmanager
def _open(folder: Path, options: Sequence[str] | None = None) -> Iterator[Kumihimo]:
    try:
        with Kumihimo.open(folder, settings=config.from_options(options or ())) as kumi:
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
    paths: Annotated[list[str] | None, typer.Argument(help="Files and folders; none: all that are remembered.")] = None,
    folder: Index = HOME,
    methods: Annotated[str, typer.Option(help="Build for these methods, and remember them: bm25,naive.")] = "",
    options: Set = None,
    wait: Wait = False,
    check: Annotated[bool, typer.Option("--check", help="Read every file again, even if it looks unchanged.")] = False,
    as_json: Json = False,
) -> None:
    """Add files and folders, or refresh them: what is new, changed or gone."""
    wanted = [name.strip() for name in methods.split(",") if name.strip()]
    with _open(folder, options) as kumi, terminal.progress() as progress:
        built = kumi.index(*(paths or []), methods=wanted, wait=wait, check=check, progress=progress)
    _print(asdict(built)) if as_json else terminal.show_built(built)
    raise typer.Exit(1 if built.failed else 0)


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
    folder: Index = HOME,
    options: Set = None,
    as_json: Json = False,
) -> None:
    """Answer a question, and show where the answer stands."""
    with _open(folder, options) as kumi, kumi.reading() as reading:
        answer = reading.ask(question, method)
        if as_json:
            _print(
                {
                    "question": answer.question,
                    "method": answer.method,
                    "text": answer.text,
                    "citations": [
                        {"n": c.n, "chunk": c.span.chunk, **_place(c.span), "quote": c.span.text}
                        for c in answer.citations
                    ],
                    "usage": asdict(answer.usage),
                }
            )
        else:
            terminal.show_answer(answer, reading.line)


@app.command()
def retrieve(
    question: Annotated[str | None, typer.Argument(help="What you want to know.")] = None,
    questions: Annotated[
        Path | None, typer.Option(help="A JSONL file of questions instead: `id` and `question` on each line.")
    ] = None,
    method: Method = "",
    k: Annotated[int | None, typer.Option("--k", help="How much evidence.", min=1)] = None,
    folder: Index = HOME,
    options: Set = None,
    out: Annotated[Path | None, typer.Option(help="Write a JSON line per question here.")] = None,
    as_json: Json = False,
) -> None:
    """Show the evidence for a question, best first, without answering it."""
    if (question is None) == (questions is None):
        raise SettingsError("say either a question or --questions FILE.jsonl")
    settings: dict[str, object] = {} if k is None else {"k": k}
    asked = [{"id": "", "question": question}] if questions is None else _questions(questions)
    with _open(folder, options) as kumi:
        if questions is None and out is None and not as_json:
            with kumi.reading() as reading:
                terminal.show_evidence(reading.retrieve(str(question), method, **settings), reading.trace, reading.line)
            return
        found = (_found(kumi, row, method, settings) for row in asked)
        if as_json and questions is None and out is None:
            _print(next(found))
        elif out is None:
            for line in found:
                print(_json(line))
        else:
            _write(out, [json.dumps(line, ensure_ascii=False) for line in found])
            if as_json:
                _print({"written": str(out), "questions": len(asked)})


def _found(kumi: Kumihimo, row: dict[str, Any], method: str, settings: dict[str, object]) -> dict[str, object]:
    """The evidence for one question, in one read transaction."""
    with kumi.reading() as reading:
        context = reading.retrieve(str(row["question"]), method, **settings)
        return {"id": row["id"], "question": row["question"], "evidence": _evidence(reading, context)}


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
    return {"uri": span.uri, "start": span.start, "end": span.end}


def _questions(path: Path) -> list[dict[str, Any]]:
    """The questions of a JSONL file. Raises SettingsError, naming the line."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read ({error}): give a JSONL file in UTF-8") from error
    return [_question(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _question(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
        asked = row["question"]
        if not isinstance(asked, str) or not asked.strip():
            raise ValueError(asked)
        return {"id": row.get("id", str(number)), "question": asked}
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise SettingsError(f'{path}, line {number}: write {{"id": ..., "question": ...}}') from error


def _write(path: Path, lines: list[str]) -> None:
    try:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{path} cannot be written ({error.strerror}): choose another --out") from error


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
            terminal.show_trace(found, spans, reading.line)


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
    _write(path, config.written(SETTINGS, SUMMARIES).splitlines())
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
    except KumiError as error:
        sys.exit(_say(str(error), 2))
    except _Stopped:
        sys.exit(_say("stopped; the index is as it was before. Run the same command again to go on.", 130))
    except (OSError, sqlite3.Error) as error:
        sys.exit(_say(f"{error}: check that the disk has room and that the index folder can be written", 2))


def _say(message: str, code: int) -> int:
    print(f"kumi: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
