"""commands -> pictures of what a person sees in a terminal. As a program: draws docs/screens anew."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parents[1]
SCREENS = HERE / "docs" / "screens"
COLUMNS, ROWS = 96, 60
DRAWN = {
    "help": ["kumi --help"],
    "ask": ["kumi index examples", 'kumi ask "What was the name of the dog rescued from the Constant Ebb?"'],
}


def seen(command: Sequence[str], folder: Path, typed: Sequence[str] = (), columns: int = COLUMNS) -> str:
    """What a command writes to a terminal of so many columns, colours and all, while somebody types these lines."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "CI", "FORCE_COLOR")}
    environment |= {"TERM": "xterm-256color", "KUMI_OFFLINE": "1", "LANG": "C.UTF-8", "PYTHONIOENCODING": "utf-8"}
    running = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=slave, stdout=slave, stderr=slave, close_fds=True
    )
    os.close(slave)
    waiting, data = list(typed), b""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        ready, _, _ = select.select([master], [], [], 0.1)
        try:
            piece = os.read(master, 65536) if ready else b""
        except OSError:  # it has ended
            break
        data += piece
        if not piece and running.poll() is not None:
            break
        if waiting and data.endswith(b"> "):
            os.write(master, f"{waiting.pop(0)}\n".encode())
    running.wait(10)
    os.close(master)
    return data.decode("utf-8", "replace").replace("\r\n", "\n")
