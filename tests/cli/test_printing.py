"""texts -> a terminal: wrapped between words, without control characters and keys, through one module."""

from __future__ import annotations

import ast
import io
import json
import logging
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len

import kumihimo.cli
from kumihimo.cli import printing
from kumihimo.cli.line_ends import _NO_LINE_START
from kumihimo.cli.printing import LineWrapper
from kumihimo.core import redaction
from kumihimo.core.control_characters import make_visible

Capture = pytest.CaptureFixture[str]
COMMAND_LINE = Path(kumihimo.cli.__file__ or "").parent
MARKS = "\u061c\u200e\u200f\u202e\u2066\u2069"
CONTROLS = "".join(map(chr, [*range(9), *range(11, 32), *range(127, 160)])) + MARKS


def printed(width: int, *pieces: str) -> list[str]:
    with redirect_stdout(io.StringIO()) as out:
        wrapped = LineWrapper(width)
        for piece in pieces:
            wrapped(piece)
        wrapped.finish()
    return out.getvalue().split("\n")[:-1]


@pytest.mark.parametrize(
    ("width", "pieces", "lines"),
    [
        (20, ["The long old break", "water, by ", "the sea"], ["The long old", "breakwater, by the", "sea"]),
        (20, ["組紐の工房は港の近く", "。朝の八時に開く"], ["組紐の工房は港の近", "く。朝の八時に開く"]),
        (20, ["1234567890 123456789", "、次"], ["1234567890", "123456789、次"]),
        (20, ["x" * 20 + " \nnext"], ["x" * 20, "next"]),
        (10, ["a\n\nb  c"], ["a", "", "b  c"]),
        (10, ["そこは「港」です"], ["そこは", "「港」です"]),
        (0, ["a b " * 50], ["a b " * 50]),
    ],
)
def test_lines_are_broken_where_a_reader_would(width: int, pieces: list[str], lines: list[str]) -> None:
    assert printed(width, *pieces) == lines


@given(st.integers(20, 60), st.lists(st.text("ab 港紐、。「」\n", max_size=12), max_size=20))
def test_no_line_is_too_long_and_no_letter_is_lost(width: int, pieces: list[str]) -> None:
    whole = "".join(pieces)
    lines = printed(width, *pieces)
    assert "".join("".join(lines).split()) == "".join(whole.split())
    marks = sum(whole.count(mark) for mark in f"{_NO_LINE_START}「")
    assert all(cell_len(line) <= width or marks > width // 2 for line in lines)
    assert lines == printed(width, *whole)


@pytest.mark.parametrize("width", [0, 40])
def test_a_key_that_arrives_in_pieces_is_hidden(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setattr(redaction, "_secrets", ("sk-verysecret",))
    assert printed(width, "it is sk-", "very", "secret.", " And  so") == ["it is [hidden]. And  so"]


# -- the way to the terminal


def writes_to_a_stream(node: ast.AST) -> bool:
    """Return whether a call prints around the module `printing`."""
    function = node.func if isinstance(node, ast.Call) else None
    if isinstance(function, ast.Name):
        return function.id in ("print", "secho", "echo", "Console", "StreamHandler", "pprint")
    names = ("print", "echo", "secho", "confirm", "prompt", "Console", "StreamHandler", "write", "writelines", "log")
    if not isinstance(function, ast.Attribute) or function.attr not in names:
        return False
    allowed = ("printing.confirm", "printing.make_console().print", "study.write", "own_study.write")
    return ast.unparse(function) not in allowed


def bypasses() -> Iterator[str]:
    for path in sorted(COMMAND_LINE.rglob("*.py")):
        if path.name != "printing.py":
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if writes_to_a_stream(node):
                    yield f"{path.name}: {ast.unparse(node)[:60]}"


def test_all_output_goes_through_one_module() -> None:
    """Allowed: text made visible by `styled_text`, the version, and a fixed line when memory is short."""
    assert sorted(bypasses()) == [
        "entry.py: os.write(2, f'kumi: {message}\\n'.encode())",
        """entry.py: print(f"kumihimo {version('kumihimo')}")""",
    ]
    for line in ("print(1)", "typer.echo(1)", "sys.stdout.write('a')", "Console().print(1)", "StreamHandler()"):
        assert any(map(writes_to_a_stream, ast.walk(ast.parse(line)))), line


def test_control_characters_are_visible() -> None:
    visible = make_visible(f"a\n\tb {CONTROLS} é 組 🙂")
    assert visible.startswith("a\n\tb \\x00\\x01")
    assert visible.endswith(r"\x9f\u061c\u200e\u200f\u202e\u2066\u2069 é 組 🙂")
    assert not {*visible} & {*CONTROLS}


def test_json_stays_the_same_document(capsys: Capture) -> None:
    document = {CONTROLS: [CONTROLS, "é"]}
    printing.print_json(document)
    out = capsys.readouterr().out
    assert not {*out} & {*CONTROLS}
    assert r"\u009b" in out
    assert json.loads(out) == document


def test_keys_are_hidden(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_secrets", {"sk-verysecret"})
    printing.print_text("sk-verysecret https://h/?token=abc")
    printing.print_json({"a": "sk-verysecret"})
    printing.print_styled("sk-verysecret")
    printing.show_rows([("sk-verysecret",)])
    printing.print_note("sk-verysecret https://h/?token=abc")
    printing.print_error("sk-verysecret")
    out, err = capsys.readouterr()
    assert "verysecret" not in out + err
    assert "https://h/?token=abc" in out, "a document keeps its addresses"
    assert "https://h/?token=[hidden]" in err


def test_a_log_is_made_visible(capsys: Capture) -> None:
    record = logging.LogRecord("kumihimo", logging.WARNING, "", 1, "the server says %s", ("\x1b[2J",), None)
    printing.TerminalHandler().emit(record)
    assert capsys.readouterr().err == "the server says \\x1b[2J\n"


def test_a_long_word_in_a_pipe_is_printed_in_parts(capsys: pytest.CaptureFixture[str]) -> None:
    writer = printing.LineWrapper(0)
    for _ in range(2000):
        writer("組紐")
        assert len(writer.pending_word) <= printing._MAX_WORD
    writer.finish()
    assert capsys.readouterr().out == "組紐" * 2000 + "\n"
