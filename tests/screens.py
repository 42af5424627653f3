"""commands -> pictures of what a person sees in a terminal. As a program: draws docs/screens anew."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import struct
import termios
import time
from collections.abc import Sequence
from html import unescape
from io import StringIO
from pathlib import Path
from shlex import split
from tempfile import TemporaryDirectory

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from kumihimo import Kumihimo
from tests.docs_console import HERE, steady
from tests.forked_kumi import ForkedKumi, run_on_terminal

SCREENS = HERE / "docs" / "screens"
COLUMNS, ROWS = 92, 50
CELL = 12.2  # width of a cell in the pictures of Rich
PATIENCE = 60  # seconds
PROMPT = b"> "
STATUS_LINE = r"\x1b\[\?25l.*?\x1b\[\?25h(?:\r\x1b\[1A\x1b\[2K)*"  # of a slow machine; it erases itself
# What is typed at the shell; lines after a conversation has begun are typed into that.
DRAWN = {
    "help": ("kumi --help",),
    "status": ("kumi status", "kumi methods"),
    "conversation": (
        "kumi ask",
        "What did Mr Kerrow promise about the first stone, and did he keep it?",
        "/filter author = 'Sabine Orrell'",
        "/method bm26",
        "/quit",
    ),
    "answers": (
        "kumi ask 'Why did the moulded seals fail?'",
        "kumi ask 'What are the main themes?'",
    ),
    "answers-ja": (
        "kumi ask '資料館の入館料はいくらですか'",
        "kumi ask '広報しおよりの内容をまとめて'",
        "kumi retrieve '潮返しの紐の長さ' --k 2",
    ),
    "entities": ("kumi entities 'Maren Oldacre'", "kumi entities --similar --limit 4"),
    "narrow": ("kumi retrieve 'How long is the breakwater?' --k 2",),
}
GALLERY = {  # a folder of the gallery, and what is typed in a copy of it after its documents were indexed
    "gallery-papers": ("papers", "papers", "kumi ask 'How strong is a reversing braid at the turn of its pattern?'"),
    "gallery-minutes": ("minutes", "議事録", "kumi ask '補助金の申請はだれがいつまでに行いますか'"),
    "gallery-code": ("code", "tidetable", "kumi ask 'How much water stays under the keel when a boat passes the bar?'"),
    "gallery-mail": ("mail", "mail", "kumi ask 'What did the Court require of the barge?'"),
}
WIDTHS = {"narrow": 56, "answers": 80, "answers-ja": 80}


def seen(command: Sequence[str], folder: Path, typed: Sequence[str] = (), columns: int = COLUMNS) -> str:
    """What a command writes to a terminal of so many columns, colours and all, while somebody types these lines."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "CI", "FORCE_COLOR")}
    environment |= {"TERM": "xterm-256color", "LANG": "C.UTF-8", "PYTHONIOENCODING": "utf-8", "INPUTRC": os.devnull}
    running = run_on_terminal(command[1:], folder, slave, environment)
    os.close(slave)
    try:
        return _read(master, running, list(typed))
    finally:
        running.kill()
        running.wait()
        os.close(master)


def _read(terminal: int, running: ForkedKumi, typed: list[str]) -> str:
    """All that comes until it ends; a line is typed whenever it waits for one."""
    data, until = b"", time.monotonic() + PATIENCE
    while time.monotonic() < until:
        ready, _, _ = select.select([terminal], [], [], 0.05)
        try:
            piece = os.read(terminal, 65536) if ready else b""
        except OSError:  # it has ended
            break
        data += piece
        if not piece and running.poll():
            break
        if typed and not piece and data.endswith(PROMPT):
            os.write(terminal, f"{typed.pop(0)}\n".encode())
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    return re.sub(r"\x1b\[\?2004[hl]\r?|" + STATUS_LINE, "", text, flags=re.S)


def drawn(name: str, folder: Path) -> str:
    """The picture, as SVG, of these lines typed in a folder that holds an index of the examples."""
    columns = WIDTHS.get(name, 80 if name in GALLERY else COLUMNS)
    lines = GALLERY[name][2:] if name in GALLERY else DRAWN[name]
    console = Console(record=True, width=columns, file=StringIO(), force_terminal=True, color_system="truecolor")
    commands = [line for line in lines if line.startswith("kumi")]
    for command in commands:
        typed = lines[len(commands) :]
        console.print(Text.assemble(("$ ", "dim"), (command, "bold")))
        console.print(Text.from_ansi(steady(seen(split(command), folder, typed, columns)).replace(str(folder), "~")))
    svg = with_widths(console.export_svg(title="kumi", unique_id=name))
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def with_widths(svg: str) -> str:
    """The picture with texts as wide as their cells: Rich counts letters, and those of Japanese take two cells."""

    def widen(match: re.Match[str]) -> str:
        return f"{match[1]}{cell_len(unescape(match[3])) * CELL:g}{match[2]}{match[3]}<"

    return re.sub(r'(<text[^>]*textLength=")[\d.]+("[^>]*>)([^<]*)<', widen, svg)


def words(svg: str) -> list[str]:
    """What stands in the picture, however it is drawn."""
    return [unescape(line).replace("\xa0", " ").rstrip() for line in re.findall(r"<text[^>]*>(.*?)</text>", svg, re.S)]


def all_drawn() -> dict[str, str]:
    with TemporaryDirectory() as folder:
        shutil.copytree(HERE / "examples", Path(folder, "examples"))
        with Kumihimo.open(Path(folder, ".kumi")) as kumi:
            kumi.index(Path(folder, "examples"))
        pictures = {name: drawn(name, Path(folder)) for name in DRAWN}
    for name, (home, documents, _) in GALLERY.items():
        with TemporaryDirectory() as folder:
            shutil.copytree(HERE / "gallery" / home, folder, dirs_exist_ok=True)
            with Kumihimo.open(Path(folder, ".kumi")) as kumi:
                kumi.index(Path(folder, documents))
            pictures[name] = drawn(name, Path(folder))
    return pictures


if __name__ == "__main__":
    SCREENS.mkdir(exist_ok=True)
    for name, svg in all_drawn().items():
        path = SCREENS / f"{name}.svg"
        if not path.exists() or words(path.read_text(encoding="utf-8")) != words(svg):
            path.write_text(svg, encoding="utf-8")
