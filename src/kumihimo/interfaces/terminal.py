"""what the session gives -> what a person reads: text, tables and colour, progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kumihimo.core.context import Answer, Context, Evidence
from kumihimo.core.flow import Progress
from kumihimo.core.records import Reference, Span
from kumihimo.core.signature import Signature
from kumihimo.session import Built, Status

if TYPE_CHECKING:
    from rich.console import Console

Line = Callable[[Span], int | None]

NO_MODEL = (
    "(No chat model is set, so the documents are quoted word for word."
    " This version knows no chat models; a later one takes [chat] in kumi.toml.)"
)
_SHOWN = 300  # characters of a piece of evidence


def _console() -> Console:
    """Lines are wrapped between words for a person, and left whole for a program."""
    from rich.console import Console

    class Patient(Console):
        def on_broken_pipe(self) -> None:
            raise  # to the outer door, for whom it is no error

    console = Patient(highlight=False)
    console.soft_wrap = not console.is_terminal
    return console


@contextmanager
def progress() -> Iterator[Progress | None]:
    """A bar for each step, with count, rate and time left; on terminals only."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn("{task.fields[rate]}"),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, bars.TaskID] = {}

        def show(step: str, done: int, total: int) -> None:
            if step not in tasks:
                tasks[step] = bar.add_task(step, total=total, rate="")
            speed = bar.tasks[tasks[step]].speed
            bar.update(tasks[step], completed=done, total=total, rate=f"{speed:,.0f}/s" if speed else "")

        yield show


def show_built(built: Built) -> None:
    print(f"Files: {built.read:,} read, {built.same:,} unchanged, {built.gone:,} gone.")
    for table, count in built.rows.items():
        print(f"The index holds {count:,} {table}, {built.written.get(table, 0):,} of them new or changed.")
    if built.skipped:
        some = ", ".join(built.skipped[:3]) + (" ..." if len(built.skipped) > 3 else "")
        print(f"Skipped {len(built.skipped):,} of a kind that is not read: {some}")
    _show_failed(built.failed)
    print(f"Took {built.seconds:.1f} s.")


def show_removed(built: Built) -> None:
    before, now = built.before.get("documents", 0), built.rows.get("documents", 0)
    print(f"Documents taken out: {before - now:,}; left in the index: {now:,}. Their files stay where they are.")
    _show_failed(built.failed)


def _show_failed(failed: Iterable[tuple[str, str, str]]) -> None:
    listed = list(failed)
    if listed:
        print(f"{len(listed):,} failed; they are tried again by `kumi index`:", file=sys.stderr)
        for step, maker, error in listed[:20]:
            print(f"  {step} {maker}: {error}" if maker not in error else f"  {step}: {error}", file=sys.stderr)
        if len(listed) > 20:
            print(f"  ... and {len(listed) - 20:,} more: `kumi status --json` lists them all", file=sys.stderr)


def show_answer(answer: Answer, line: Line) -> None:
    console = _console()
    console.print(answer.text, markup=False)
    if answer.citations:
        console.print()
    for citation in answer.citations:
        console.print(f"[{citation.n}] {_where(citation.span, line)}", markup=False, style="cyan")
    print(NO_MODEL, file=sys.stderr)


def _where(span: Span, line: Line) -> str:
    at = line(span)
    return f"{span.uri}, {f'line {at}, ' if at else ''}characters {span.start:,}–{span.end:,}"


def show_evidence(context: Context, trace: Callable[[Reference], Iterable[Span]], line: Line) -> None:
    console = _console()
    if not context:
        print("Nothing was found.")
    for rank, item in enumerate(context, 1):
        places = "; ".join(_where(span, line) for span in trace(item.reference))
        console.print(f"{rank}. {places}", markup=False, style="cyan")
        console.print(f"   {item.table}:{item.record.id}  score {item.score:.3f}", markup=False, style="dim")
        console.print(f"   {_short(item.text)}\n", markup=False)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def show_trace(found: Evidence, spans: Iterable[Span], line: Line) -> None:
    console = _console()
    console.print(f"{found.table}:{found.record.id}", style="bold", markup=False)
    for span in spans:
        console.print(_where(span, line), style="cyan", markup=False)
        console.print(span.text + "\n", markup=False)


def show_status(status: Status) -> None:
    _console().print(f"Index {status.folder}, {status.bytes / 1e6:.1f} MB", style="bold", markup=False)
    rows = [
        *(("source", name, path) for name, path in status.sources.items()),
        *(("taken out", uri, "") for uri in status.removed),
        *(("table", table, f"{count:,} rows") for table, count in status.rows.items()),
        ("methods", ", ".join(status.methods), ""),
        *(("model", role, model) for role, model in status.models.items()),
        *(("setting", name, str(value)) for name, value in status.settings.items()),
        ("memo", f"{status.memo['replies']:,} replies", f"{status.memo['bytes'] / 1e6:.1f} MB"),
    ]
    widths = [max(len(row[i]) for row in rows if row[2] or i == 0) for i in (0, 1)]
    for what, name, said in rows:
        print(f"{what:{widths[0]}}  {name:{widths[1]}}  {said}".rstrip())
    _show_failed(status.failed)


def show_methods(methods: Mapping[str, Signature], default: str) -> None:
    console = _console()
    for name, method in methods.items():
        console.print(f"{name}{' (default)' if name == default else ''}", style="bold", markup=False)
        console.print(f"  {method.summary}", markup=False)
        settings = ", ".join(f"{s.name}={s.default}" for s in method.settings.values())
        console.print(f"  settings: {settings}", style="dim", markup=False)


def show_memo(found: Mapping[str, int]) -> None:
    if "erased" in found:
        print(f"Erased {found['erased']:,} replies.")
        return
    print(f"{found['replies']:,} replies, {found['bytes'] / 1e6:.1f} MB")
    print(f"{found['hits']:,} times it could answer, {found['misses']:,} times a model was asked")
