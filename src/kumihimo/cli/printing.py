"""text, tables, JSON and progress -> a terminal, a file, or a program that reads them."""

import json
import re
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kumihimo.core.errors import SettingsError
from kumihimo.core.task import Progress
from kumihimo.llm.protocols import TokenCallback

if TYPE_CHECKING:
    from rich.console import Console

_MAX_COLUMNS = 10_000  # no wrapping for programs
_CONTROLS = {c: "\ufffd" for c in (*range(32), *range(127, 160)) if chr(c) not in "\n\t"}
_CJK = r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uff60]"
_NO_LINE_END = "「『（【〈《〔"  # never at the end of a line
_NO_LINE_START = "、。，．！？」』）】〉》〕ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ"  # never at the start of a line
_WORD = rf"[{_NO_LINE_END}]*(?:{_CJK}|(?:(?!{_CJK})\S)+)[{_NO_LINE_START}]*"
_PARTS = re.compile(rf"\n|[^\S\n]+|{_WORD}|\S")


def replace_controls(text: str) -> str:
    """Replace control characters: documents and models may contain terminal escapes."""
    return text.translate(_CONTROLS)


def make_console(*, errors: bool = False) -> "Console":
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


def print_styled(text: str, style: str = "", *, errors: bool = False) -> None:
    """Print a text in a style, wrapped on a terminal.

    errors: on standard error.
    """
    make_console(errors=errors).print(replace_controls(text), style=style, markup=False)


def print_note(message: str) -> None:
    """Print a message to the user on standard error."""
    print(replace_controls(message), file=sys.stderr)


def print_error(message: str) -> None:
    """Print an error as one line on standard error."""
    if not sys.stderr or not sys.stderr.isatty():
        print_note(f"kumi: {message}")
        return
    from rich.text import Text

    make_console(errors=True).print(Text.assemble(("kumi: ", "bold red"), replace_controls(message)), soft_wrap=True)


def is_interactive() -> bool:
    """Return whether a person can answer questions."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm() -> bool:
    """Ask whether to go on."""
    print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@contextmanager
def progress_bar(enabled: bool = True) -> Iterator[Progress | None]:
    """Show a bar for each step: count, rate, time left; terminals only."""
    if not enabled or not sys.stderr.isatty():
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
    bar = bars.Progress(*columns, console=Console(stderr=True), transient=True)
    tasks: dict[str, bars.TaskID] = {}
    try:

        def show(step: str, done: int, total: int) -> None:
            if not tasks:
                bar.start()
            if step not in tasks:
                tasks[step] = bar.add_task(step, total=total, rate="")
            speed = bar.tasks[tasks[step]].speed
            bar.update(tasks[step], completed=done, total=total, rate=f"{speed:,.0f}/s" if speed else "")

        yield show
    finally:
        bar.stop()


def show_rows(rows: Iterable[Sequence[str]], head: Sequence[str] = (), numeric: Container[int] = ()) -> None:
    """Print a table: coloured and wrapped for a person, plain otherwise.

    numeric: the columns to align right.
    """
    from rich.table import Table
    from rich.text import Text

    console, cells = make_console(), [[Text(replace_controls(value)) for value in row] for row in rows]
    table = Table(box=None, show_header=bool(head), pad_edge=False, header_style="bold")
    for i in range(max(map(len, [head, *cells]))):
        style, name = "" if i else "cyan", head[i] if head else ""
        table.add_column(name, justify="right" if i in numeric else "left", style=style, overflow="fold")
    for row in cells:
        table.add_row(*row)
    with console.capture() as captured:
        console.print(table, soft_wrap=False)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def print_json(document: object) -> None:
    """Print one JSON document on standard output; dataclasses become objects."""
    print(encode_json(document, indent=2))


def encode_json(document: object, indent: int | None = None) -> str:
    """Return JSON, escaped if standard output is not UTF-8."""
    narrow = bool(sys.stdout) and "utf" not in (sys.stdout.encoding or "").lower()
    return json.dumps(document, ensure_ascii=narrow, indent=indent, default=asdict)


def format_number(value: float | None, digits: int) -> str:
    """Return a number with these decimals, or a dash for none."""
    return "–" if value is None else f"{value:.{digits}f}"


def read_text_file(path: Path, remedy: str) -> str:
    """Return the text of a file. Raises SettingsError with the remedy."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read ({error}): {remedy}") from error


def write_text_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a text file. Raises SettingsError."""
    try:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{path} cannot be written ({error.strerror}): choose another --out") from error


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
    """A printer of streamed text that wraps lines and keeps words whole.

    width: in columns; 0: no wrapping.
    """

    width: int
    column: int = 0
    pending_space: str = ""  # before the next word
    pending_word: str = ""
    started: bool = False

    def __call__(self, piece: str) -> None:
        self.started = self.started or bool(piece)
        if not self.width:
            print(replace_controls(piece), end="", flush=True)
            return
        *parts, self.pending_word = _PARTS.findall(self.pending_word + replace_controls(piece)) or [""]
        for part in parts:
            self._print_part(part)

    def finish(self) -> None:
        """Print the pending word and end the line."""
        self._print_part(self.pending_word)
        if self.started:
            print(flush=True)

    def _print_part(self, part: str) -> None:
        from rich.cells import cell_len

        if part == "\n":
            print()
            self.column, self.pending_space = 0, ""
        elif part.isspace():
            self.pending_space += part
        elif part:
            if self.column and self.column + cell_len(self.pending_space + part) > self.width:
                print()
                self.column, self.pending_space = 0, ""
            print(self.pending_space + part, end="", flush=True)
            self.column += cell_len(self.pending_space + part)
            self.pending_space = ""
