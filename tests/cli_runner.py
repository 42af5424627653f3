"""a command line -> what it prints and its exit code, run in this process: one of its own takes .4 CPU s to begin."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, chdir, contextmanager, nullcontext
from functools import cache
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import typer.main

from kumihimo.cli.main import app, main

LOGS = ("kumihimo", "kumihimo.prompts")  # which --verbose and --show-prompts have told on standard error


class Ran(NamedTuple):
    """As of a process that has ended."""

    returncode: int
    stdout: str
    stderr: str


def kumi(folder: Path, *words: str, typed: str = "", **environment: str) -> Ran:
    """`kumi` and these words in that folder, no stream of which is a terminal."""
    given, out, err = (TextIOWrapper(BytesIO(said), encoding="utf-8") for said in (typed.encode(), b"", b""))
    streams = patch.multiple(sys, argv=["kumi", *words], stdin=given, stdout=out, stderr=err)
    with chdir(folder), patch.dict(os.environ, environment), streams, _logs_as_before(), commands_of(words):
        code: Any = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
    return Ran(code or 0, _written(out), _written(err))


def _written(stream: TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


_command_tree = cache(typer.main.get_command)


def commands_of(words: Sequence[str]) -> AbstractContextManager[object]:
    """Build the commands once for all runs, but anew for a page of help, which translates them."""
    groups = [group.name for group in app.registered_groups]
    shows_help = "--help" in words or not words or words[-1] in groups or all(word.startswith("-") for word in words)
    return nullcontext() if shows_help else patch.object(typer.main, "get_command", _command_tree)


@contextmanager
def _logs_as_before() -> Iterator[None]:
    before = [(log, log.handlers[:], log.level) for log in map(logging.getLogger, LOGS)]
    try:
        yield
    finally:
        for log, handlers, level in before:
            log.handlers[:] = handlers
            log.setLevel(level)
