"""text, tables, JSON and progress -> a terminal, or a program that reads them: without control characters and keys."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from threading import Lock, Timer
from time import monotonic
from typing import TYPE_CHECKING

from kumihimo.cli import line_ends
from kumihimo.core.control_characters import escape_controls, make_visible
from kumihimo.core.redaction import hide_secrets, redact
from kumihimo.text.translation import message_language, translate

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from kumihimo.core.task import Progress, ProgressEvent
    from kumihimo.llm.protocols import TokenCallback

Style = tuple[int, int, str]  # start, end, style
_MIN_WIDTH = 10  # columns of a line
_MIN_LABEL = 30  # columns of a step's name, so that the bar stands still
_QUIET_SECONDS = 1.0  # before a person is told what goes on
_MAX_WORD = 1000  # characters of a word that wait for its end, since a key is hidden as a whole
_MAX_COLUMNS = 10_000  # no wrapping for programs
_MAX_TABLE = 120  # columns


def print_text(text: str = "", *, end: str = "\n", flush: bool = False, errors: bool = False) -> None:
    """Print a text with control characters visible, and without keys.

    errors: on standard error, where secrets in addresses are hidden too. A document keeps its addresses.
    """
    safe = redact(text) if errors else hide_secrets(text)
    print(make_visible(safe), end=end, flush=flush, file=sys.stderr if errors else sys.stdout)


def print_message(message: str, style: str = "", *, end: str = "\n", errors: bool = False) -> None:
    """Print a message or label in the language that was chosen.

    style: wrapped on a terminal, in this style. errors: on standard error.
    """
    if style:
        print_styled(translate(message), style, errors=errors)
    else:
        print_text(translate(message), end=end, flush=not end, errors=errors)


class TerminalHandler(logging.Handler):
    """A log on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        print_text(translate(text) if record.levelno >= logging.WARNING else text, errors=True)


def make_console(*, errors: bool = False) -> Console:
    """Return a console: wrapped for a terminal, unwrapped for a program.

    errors: on standard error.
    """
    from rich.console import Console

    class PipeConsole(Console):
        def on_broken_pipe(self) -> None:
            raise  # main() treats a closed pipe as success

    console = PipeConsole(highlight=False, stderr=errors)
    if not console.is_terminal:
        console.soft_wrap, console.width = True, _MAX_COLUMNS
    return console


def print_styled(text: str, style: str = "", indent: int = 0, *, hanging: int = 0, errors: bool = False) -> None:
    """Print a text in a style, wrapped on a terminal.

    indent, hanging: see `print_wrapped`. errors: on standard error.
    """
    shown = visible_text(text)
    print_wrapped(shown, [(0, len(shown), style)], indent, hanging=hanging, errors=errors)


def print_wrapped(
    text: str, styles: Iterable[Style] = (), indent: int = 0, *, hanging: int = 0, errors: bool = False
) -> None:
    """Print a visible text that a terminal wraps between words.

    Japanese and Chinese text is wrapped too, as their rules of punctuation say. A program gets the lines as they are.

    styles: of parts of the text. indent: columns before each line; a continued line has the spaces of the line before
    it, and `hanging` more. errors: on standard error.
    """
    if "\t" not in text and not _may_be_terminal(errors=errors):
        for row in map(str.rstrip, text.split("\n")):
            print(" " * indent + row if row else "", flush=True, file=sys.stderr if errors else sys.stdout)
        return
    from rich.text import Span, Text

    console, styled = make_console(errors=errors), Text(text, spans=[Span(*style) for style in styles])
    for line in styled.split("\n", allow_blank=True):
        plain = line.plain
        more = len(plain) - len(plain.lstrip()) + hanging
        width = max(console.width - indent - more, _MIN_WIDTH) if console.is_terminal else 0
        for i, part in enumerate(line.divide(line_ends.find_line_starts(plain, width, more)) if width else [line]):
            part.rstrip()
            left = indent + (more if i else 0)
            console.print(Text(" " * left if part else "") + part, soft_wrap=True)


def _may_be_terminal(*, errors: bool = False) -> bool:
    """Return whether rich may take a stream for a terminal.

    It is imported only then.
    """
    stream = sys.stderr if errors else sys.stdout
    return stream.isatty() or not os.environ.keys().isdisjoint(("FORCE_COLOR", "TTY_COMPATIBLE"))


def fits_line(line: str, indent: int = 0) -> bool:
    """Return whether a line fits the terminal, or a readable width."""
    from rich.cells import cell_len

    width = make_console().width if _may_be_terminal() else _MAX_TABLE
    return indent + cell_len(line) <= min(width, _MAX_TABLE)


def visible_text(text: str) -> str:
    """Return a text as `print_text` prints it."""
    return make_visible(hide_secrets(text))


def styled_text(text: str, style: str = "") -> Text:
    """Return a text for a console, as `print_text` prints it."""
    from rich.text import Text

    return Text(visible_text(text), style)


def print_note(message: str) -> None:
    """Print a message to the user on standard error."""
    print_message(message, errors=True)


def print_error(message: str) -> None:
    """Print an error as one line on standard error."""
    if not sys.stderr.isatty():
        print_text(f"kumi: {translate(message)}", errors=True)
        return
    from rich.text import Text

    line = Text.assemble(("kumi: ", "bold red"), make_visible(redact(translate(message))))
    make_console(errors=True).print(line, soft_wrap=True)


def is_interactive() -> bool:
    """Return whether a person can answer questions."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str = "Go on?") -> bool:
    """Ask the user, and return whether the answer is yes."""
    print_message(f"{translate(question)} [y/N] ", end="", errors=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@contextmanager
def progress_bar(enabled: bool = True) -> Iterator[Progress | None]:
    """Show one bar on a terminal: step, share, time left."""
    if not enabled or not sys.stderr.isatty():
        yield None
        return
    from rich import progress as bars
    from rich.table import Column

    from kumihimo.app.build.progress import describe_event

    columns = (
        bars.TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, min_width=_MIN_LABEL)),
        bars.BarColumn(bar_width=20),
        bars.TaskProgressColumn(),
        bars.TextColumn("{task.fields[items]}"),
        bars.TimeRemainingColumn(compact=True),
    )
    bar = bars.Progress(*columns, console=make_console(errors=True), transient=True)
    task = bar.add_task("", total=1.0, items="")
    label, language = "", message_language()  # the steps may run in other threads

    def show(event: ProgressEvent) -> None:
        nonlocal label
        share = event.share
        if share is None:  # each step is a whole of its own
            share = event.done / event.total if event.total else 0.0
            if label not in ("", event.step):
                bar.reset(task)
        label = event.step
        items = f"{event.done:,} / {event.total:,}" if event.total > 1 else ""
        bar.update(task, completed=share, description=make_visible(describe_event(event, language)), items=items)
        bar.start()

    try:
        yield show
    finally:
        bar.stop()


class StatusLine:
    """Shows on a terminal what goes on, on one line of standard error.

    The line appears after a second. The first call of `close` ends it.
    """

    def __init__(self, enabled: bool = True) -> None:
        self._lock, self._stopped = Lock(), not (enabled and sys.stderr.isatty())
        self._text, self._since, self._language = "", monotonic(), message_language()
        self._live: Live | None = None
        if not self._stopped:
            self._timer = Timer(_QUIET_SECONDS, self._start)
            self._timer.daemon = True
            self._timer.start()

    def __call__(self, event: ProgressEvent) -> None:
        if self._stopped:
            return
        from kumihimo.app.build.progress import describe_event

        self._text, self._since = describe_event(event, self._language), monotonic()

    def before(self, write: TokenCallback) -> TokenCallback:
        """Return a function that closes this line and writes."""

        def close_and_write(piece: str) -> None:
            self.close()
            write(piece)

        return close_and_write

    def __rich__(self) -> Text:
        """Return the line as it is now."""
        seconds = translate(f"{monotonic() - self._since:.0f} s", self._language)
        return styled_text(f"{self._text} ... {seconds}" if self._text else "", "dim")

    def _start(self) -> None:
        from rich.live import Live

        with self._lock:
            if not self._stopped:
                console = make_console(errors=True)
                self._live = Live(self, console=console, refresh_per_second=4, transient=True, redirect_stdout=False)
                self._live.start()

    def close(self) -> None:
        """Remove the line for good."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            self._timer.cancel()
            if self._live:
                self._live.stop()


def show_rows(
    rows: Iterable[Sequence[str]], head: Sequence[str] = (), numeric: Container[int] = (), dim: Container[int] = ()
) -> None:
    """Print a table: coloured and wrapped for a person, plain otherwise.

    numeric: the columns to align right. dim: the columns that matter least, such as ids.
    """
    from rich.table import Table

    console, cells = make_console(), [[styled_text(value) for value in row] for row in rows]
    table = Table(box=None, show_header=bool(head), pad_edge=False, header_style="bold")
    for i in range(max(map(len, [head, *cells]))):
        style, name = "dim" if i in dim else "" if i else "cyan", head[i] if head else ""
        table.add_column(
            styled_text(translate(name)), justify="right" if i in numeric else "left", style=style, overflow="fold"
        )
    for row in cells:
        table.add_row(*row)
    with console.capture() as captured:
        console.print(table, soft_wrap=False)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))  # with the codes of colours


def print_json(document: object) -> None:
    """Print one JSON document on standard output; dataclasses become objects."""
    print_text(encode_json(document, indent=2))


def encode_json(document: object, indent: int | None = None) -> str:
    """Return JSON with control characters escaped.

    If standard output is not UTF-8, all but ASCII is escaped.
    """
    narrow = "utf" not in (sys.stdout.encoding or "").lower()
    return escape_controls(json.dumps(document, ensure_ascii=narrow, indent=indent, default=asdict))


def format_decimals(value: float | None, digits: int) -> str:
    """Return a number with these decimals, or a dash for none."""
    return "–" if value is None else f"{value:.{digits}f}"


# -- a text that arrives in pieces


@contextmanager
def print_stream() -> Iterator[TokenCallback]:
    """Print a text as it arrives, wrapped between words on a terminal."""
    console = make_console()
    writer = LineWrapper(console.width if console.is_terminal else 0)
    try:
        yield writer
    finally:
        writer.finish()


@dataclass(slots=True)
class LineWrapper:
    """A printer of streamed text that wraps lines and keeps words and keys whole.

    width: in columns; 0: no wrapping.
    """

    width: int
    column: int = 0
    pending_space: str = ""  # before the next word
    pending_word: str = ""
    started: bool = False

    def __call__(self, piece: str) -> None:
        self.started = self.started or bool(piece)
        text = self.pending_word + make_visible(piece)
        if not self.width:
            end = max(text.rfind(" "), text.rfind("\n")) + 1
            end = end if len(text) - end <= _MAX_WORD else len(text) - _MAX_WORD // 2
            print_text(text[:end], end="", flush=True)
            self.pending_word = text[end:]
            return
        *parts, self.pending_word = line_ends.split_words(text) or [""]
        for part in parts:
            self._print_part(part)

    def finish(self) -> None:
        """Print the pending word and end the line."""
        if self.width:
            self._print_part(self.pending_word)
        else:
            print_text(self.pending_word, end="")
        if self.started:
            print_text(flush=True)

    def _print_part(self, part: str) -> None:
        from rich.cells import cell_len

        if part == "\n":
            print_text()
            self.column, self.pending_space = 0, ""
        elif part.isspace():
            self.pending_space += part
        elif part:
            if self.column and self.column + cell_len(self.pending_space + part) > self.width:
                print_text()
                self.column, self.pending_space = 0, ""
            print_text(self.pending_space + part, end="", flush=True)
            self.column += cell_len(self.pending_space + part)
            self.pending_space = ""
