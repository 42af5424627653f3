"""a text in pieces -> lines wrapped between words, however the text is cut."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kumihimo.cli.printing import _NO_LINE_START, LineWrapper


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
