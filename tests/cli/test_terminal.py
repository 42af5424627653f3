"""results of the library -> printed text, on terminals wide and narrow."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len
from rich.console import Console

from kumihimo import Kumihimo
from kumihimo.app.opened.results import Built, Status
from kumihimo.cli import builds, printing, terminal
from kumihimo.core.context import Evidence
from kumihimo.core.records import Document
from kumihimo.core.spans import Span
from kumihimo.core.task import ProgressEvent
from kumihimo.core.usage import Usage
from kumihimo.methods import METHODS
from tests import cli_runner
from tests.fixtures_index import fill
from tests.forked_kumi import run_on_terminal

Capture = pytest.CaptureFixture[str]


def built(
    *failed: tuple[str, str, str],
    skipped: tuple[str, ...] = (),
    spent: Mapping[str, Usage] | None = None,
    skipped_methods: tuple[str, ...] = (),
    empty: tuple[str, ...] = (),
) -> Built:
    return Built(
        read=1200,
        new=1000,
        changed=190,
        unchanged=3,
        removed=1,
        skipped=skipped,
        before={},
        rows={"documents": 1203, "chunks": 9},
        written={"documents": 1200},
        failed=failed,
        seconds=2.54,
        spent=spent or {},
        saved={},
        skipped_methods=skipped_methods,
        empty=empty,
    )


def on_a_terminal(folder: Path, *command: str, env: Mapping[str, str] | None = None) -> str:
    """Return the output of the command in a pseudo-terminal."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    everything = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", **(env or {})}
    running = run_on_terminal(command, folder, theirs, everything)
    os.close(theirs)
    output = b""
    try:
        while part := os.read(ours, 4096):
            output += part
    except OSError:  # Linux raises this once the other end is closed
        pass
    os.close(ours)
    assert running.wait() == 0
    return output.decode()


def test_a_build_is_told_in_figures(capsys: Capture) -> None:
    builds.show_built(built())
    assert capsys.readouterr() == (
        "Files: 1,000 new, 190 changed, 13 unchanged, 1 gone.\n"
        "The index now holds 1,203 documents and 9 chunks (2.5 s).\n"
        'Now ask it: `kumi ask "..."`, or `kumi ask` for a conversation.\n',
        "",
    )
    builds.show_built(built(("documents", "a.json", "broken")), verbose=True)
    out = capsys.readouterr().out
    assert "1 gone, 1 failed.\n" in out
    assert "  chunks: 9 rows, 0 of them new or changed\n" in out


def test_a_build_without_changes_is_one_line(capsys: Capture) -> None:
    rows = {"documents": 3, "chunks": 9, "entities": 1, "mentions": 70}
    builds.show_built(replace(built(), read=1, new=0, changed=0, removed=0, rows=rows, before=rows, written={}))
    assert capsys.readouterr().out == (
        "Nothing has changed in 4 files: the index holds 3 documents, 9 chunks and 1 entity (2.5 s).\n"
    )


def test_an_index_without_text_says_so(capsys: Capture) -> None:
    rows = {"documents": 0, "chunks": 0}
    builds.show_built(replace(built(empty=("a.md",)), read=1, new=0, changed=0, rows=rows, before=rows, written={}))
    assert capsys.readouterr().out == (
        "Files: 3 unchanged, 1 gone, 1 without text.\n"
        "The index now holds nothing to search: no file of a supported type has any text (2.5 s).\n"
        "Without any text: a.md.\n"
    )


def test_skipped_files_are_counted_by_type(capsys: Capture) -> None:
    skipped = (*(f"{n}.DOC" for n in range(12)), "a/b.ppt", "c.ppt", "README", "v1.0/LICENSE", "d.doc")
    builds.show_built(built(skipped=skipped))
    assert "Skipped 17 of unsupported types: .doc 13, .ppt 2, no suffix 2.\n" in capsys.readouterr().out
    builds.show_built(built(skipped=tuple(f"a.{n:03}" for n in range(25))))
    assert ".018 1, .019 1, others 5.\n" in capsys.readouterr().out


def test_files_without_text_are_named(capsys: Capture) -> None:
    builds.show_built(built(empty=("a.pdf", "b.md")))
    assert "\nWithout any text: a.pdf, b.md.\n" in capsys.readouterr().out
    builds.show_built(built(empty=tuple(f"{n}.md" for n in range(7))))
    assert "\nWithout any text: 0.md, 1.md, 2.md, 3.md, 4.md and 2 more.\n" in capsys.readouterr().out


def test_what_failed_is_told_apart_from_the_rest(capsys: Capture) -> None:
    builds.show_built(built(("documents", "a.json", "a.json is not JSON; mend it"), ("chunks", "7f3a", "too long")))
    out, err = capsys.readouterr()
    assert "too long" not in out
    assert err.splitlines() == [
        "2 failed; `kumi index` tries again:",
        "  documents: a.json is not JSON; mend it",
        "  chunks 7f3a: too long",
    ]


def test_failures_of_one_kind_are_one_line(capsys: Capture) -> None:
    builds.show_built(built(*(("documents", f"{n}.json", "broken") for n in range(1500)), ("gists", "7f3a", "broken")))
    assert capsys.readouterr().err.splitlines() == [
        "1,501 failed; `kumi index` tries again:",
        "  documents 1,500 items, such as 0.json: broken",
        "  gists 7f3a: broken",
        "  `kumi status --json` lists them all",
    ]


def test_only_some_of_many_failures_are_listed(capsys: Capture) -> None:
    builds.show_built(built(*(("documents", f"{n}.json", f"broken at {n * n}") for n in range(1500))))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 22
    assert (lines[0], lines[20]) == (
        "1,500 failed; `kumi index` tries again:",
        "  documents 19.json: broken at 361",
    )
    assert lines[21] == "  1,480 more kinds of failure; `kumi status --json` lists them all"


def test_what_was_spent_and_what_was_left_is_told(capsys: Capture) -> None:
    spent = {"reports": Usage(1200, 3000, 1000, 40, 0.5, 2.0), "gists": Usage(1, 10, 0, 2)}
    builds.show_built(built(spent=spent, skipped_methods=("local", "drift")))
    builds.show_built(built(spent=spent), verbose=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:4] == [
        "Asked for reports, gists: 1,201 calls, 3,010 + 42 tokens (1,000 cached), cost 0.5000, 2.0 s.",
        "Not built, because it costs model calls: local,drift. `kumi plan --methods local,drift` estimates the cost.",
    ]
    assert "  asked for gists: 1 call, 10 + 2 tokens, 0.0 s." in lines


def test_an_answer_is_printed_as_it_comes(capsys: Capture) -> None:
    with printing.print_stream() as hear:
        printed = []
        for piece in ("“[bold]Hild[/bold] men", "ded it.” [1]", "\n\n  “So.” [2]"):
            hear(piece)
            printed.append(capsys.readouterr().out)
    assert printed == ["“[bold]Hild[/bold] ", "mended it.” ", "[1]\n\n  “So.” "], "a word is printed when it is whole"
    assert capsys.readouterr().out == "[2]\n"


ENGLISH = "The tide station at Kettle Narrows was built in 1922 [1], by the “power society”, they say."
JAPANESE = "組紐の工房は、港の近くにある。朝の八時に開き、「夕方の五時に閉まる」と先代は言った。"
URL = "https://example.org/a/rather/long/way/down/to/the/notes/of/the/reading/room"


def printed_lines(width: int, text: str) -> list[str]:
    """Return the lines printed on a terminal of this width."""
    out = StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.setattr(printing, "make_console", lambda: Console(width=width, force_terminal=True, file=StringIO()))
        with printing.print_stream() as hear:
            hear(text)
    return out.getvalue().removesuffix("\n").split("\n")


@pytest.mark.parametrize("width", range(20, 61))
def test_speech_is_wrapped(width: int) -> None:
    for text in (ENGLISH, JAPANESE, f"{ENGLISH} {JAPANESE}"):
        lines = printed_lines(width, text)
        assert max(map(cell_len, lines)) <= width
        assert min(map(cell_len, lines[:-1])) > width - 16  # lines are filled as far as a word allows
        assert not [line for line in lines if line[:1] in "、。」"]
    assert [word for line in printed_lines(width, ENGLISH) for word in line.split()] == ENGLISH.split()
    assert "".join(printed_lines(width, JAPANESE)) == JAPANESE


@pytest.mark.parametrize("width", range(20, 61))
def test_a_word_longer_than_a_line_stands_below_without_a_gap(width: int) -> None:
    assert [line.strip() for line in printed_lines(width, f"See {URL} for it.")] == ["See", URL, "for it."]
    assert printed_lines(width, f"{URL}\n\n{URL}") == [URL, "", URL]


WORDS = st.lists(st.sampled_from([*ENGLISH.split(), "組紐", "港。", "「朝」", "九時、"]), min_size=1, max_size=30)


@given(WORDS, st.integers(20, 60))
def test_words_of_any_text_stay_whole(words: list[str], width: int) -> None:
    lines = printed_lines(width, " ".join(words))
    assert all(lines)
    assert max(map(cell_len, lines)) <= width
    assert [word for line in lines for word in line.split() if word.isascii()] == [w for w in words if w.isascii()]


def test_a_trace_shows_the_text(capsys: Capture) -> None:
    row = Document(id="a", uri="a", file="a", title="", media_type="", text="told")
    terminal.show_trace(Evidence("documents", row, 0.75), [Span("", "a.md", 0, 12, "as it\n  stands", "line 1")])
    assert capsys.readouterr().out == "documents:a\na.md, line 1\nas it\n  stands\n\n"


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_status_keeps_every_path_whole(capsys: Capture, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    path = "/home/you/a/rather/long/way/down/to/where/the/notes/of/the/reading/room/are/kept/since/1868"
    status = Status(
        folder=".kumi", sources={"notes": path}, removed=("notes/private/diary.txt",), rows={"documents": 1200},
        methods=("bm25", "naive"), models={"embedder": "wordllama-256"},
        settings={"chunks.size": 30}, failed=(), bytes=2_340_000,
        cache={"replies": 1500, "bytes": 3_000_000, "hits": 0, "misses": 0},
    )  # fmt: skip
    terminal.show_status(status)
    out = capsys.readouterr().out
    for text in (path, "2.3 MB", "notes/private/diary.txt", "1,200 rows", "bm25, naive", "1,500 replies"):
        assert text in out


def test_methods_are_listed_with_their_settings(capsys: Capture) -> None:
    terminal.show_methods(METHODS)
    out = capsys.readouterr().out
    assert out.startswith("auto (default)\n")
    assert "bm25\n" in out
    for method in METHODS.values():
        assert method.summary in out
        assert all(f"{s.name}={s.default}" in out for s in method.settings.values())


def test_the_memo_is_told_in_figures(capsys: Capture) -> None:
    terminal.show_cache({"replies": 1200, "bytes": 2_500_000, "hits": 3000, "misses": 1})
    assert capsys.readouterr().out.splitlines() == [
        "1,200 replies, 2.5 MB", "3,000 hits, 1 misses",
    ]  # fmt: skip


def test_no_bar_is_drawn_where_nobody_looks(capsys: Capture) -> None:
    with printing.progress_bar() as progress:
        assert progress is None
    assert capsys.readouterr() == ("", "")


def test_one_bar_is_drawn_on_a_terminal(tmp_path: Path) -> None:
    fill(tmp_path, {f"notes/{n}.txt": f"Lamp {n}." for n in range(5)})
    output = on_a_terminal(tmp_path, "index", "notes")
    assert "reading files" in output
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output)
    bars = [len(re.findall("[━╸╺]", line)) for line in re.split(r"[\r\n]", plain)]
    assert {*bars} == {0, 20}
    shares = [int(share) for share in re.findall(r"(\d+)%", output)]
    assert shares == sorted(shares)
    assert shares[-1] <= 100


def test_a_slow_question_says_what_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    written = StringIO()
    monkeypatch.setattr(written, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(printing, "_QUIET_SECONDS", 0.0)
    status = printing.StatusLine()
    status(ProgressEvent("answer", model="gemma"))
    until = time.monotonic() + 5
    while "asking gemma ... 0 s" not in written.getvalue() and time.monotonic() < until:
        time.sleep(0.02)
    status.close()
    assert "asking gemma ... 0 s" in written.getvalue()
    cleared = written.getvalue()
    status.close()
    assert written.getvalue() == cleared


def test_a_fast_question_says_nothing_but_its_answer(tmp_path: Path) -> None:
    fill(tmp_path, {"notes/a.txt": "The ferry leaves at nine."})
    cli_runner.kumi(tmp_path, "index", "notes")
    assert "searching" not in on_a_terminal(tmp_path, "ask", "When does the ferry leave?", "-m", "bm25")


def test_colour_is_for_terminals_and_may_be_refused(tmp_path: Path) -> None:
    fill(tmp_path, {"notes/a.txt": "The ferry leaves."})
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(tmp_path / "notes")
    assert "\x1b" not in cli_runner.kumi(tmp_path, "retrieve", "ferry").stdout
    assert "\x1b[36m1. notes/a.txt" in on_a_terminal(tmp_path, "retrieve", "ferry")
    assert "\x1b[36m" not in on_a_terminal(tmp_path, "retrieve", "ferry", env={"NO_COLOR": "1"})
    assert "The \x1b[1mferry\x1b[0m leaves." in on_a_terminal(tmp_path, "retrieve", "ferries")
    assert "\x1b" not in on_a_terminal(tmp_path, "retrieve", "ferry", env={"TERM": "dumb"})


def test_nothing_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with printing.print_stream() as hear:
        hear("At \x1b[31mnine\x1b]0;title\x07.\x9b2J\n\tYes.")
    assert capsys.readouterr().out == "At \\x1b[31mnine\\x1b]0;title\\x07.\\x9b2J\n\tYes.\n"
