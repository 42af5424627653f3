"""Lines that somebody types -> a conversation: what is seen, and what goes wrong without ending it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.interfaces.talk import COMMANDS
from kumihimo.ports.fake_server import Server
from tests.paid import notes
from tests.screens import seen
from tests.shelf import fill

COLOURS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
NOTES = {
    "ferry.md": "---\nauthor: Ada\n---\nThe ferry leaves at nine.",
    "gate.md": "---\nauthor: Bo\n---\nThe ferry gate leaks.",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fill(tmp_path / "notes", NOTES)
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(tmp_path / "notes")
    return tmp_path


def typed(folder: Path, *lines: str) -> str:
    """What a person sees who types these lines."""
    return COLOURS.sub("", seen(["kumi", "ask"], folder, lines))


def piped(folder: Path, text: str) -> tuple[int, str, str]:
    kumi = Path(sys.executable).with_name("kumi")
    ran = subprocess.run([kumi, "ask"], cwd=folder, input=text, capture_output=True, text=True, check=False, timeout=60)
    return ran.returncode, ran.stdout, ran.stderr


def test_questions_and_commands(folder: Path) -> None:
    told = typed(
        folder, "When does the ferry leave?", "/where author = 'Bo'", "ferry", "/sources", "／method bm25", "/quit"
    )
    assert "“The ferry leaves at nine.” [1]" in told
    assert "[1] notes/ferry.md, line 4, characters 20–45" in told
    assert told.count("No chat model is set") == 1
    assert "holds: author = 'Bo'" in told
    after = told.partition("holds: author = 'Bo'")[2]
    assert "“The ferry gate leaks.” [1]" in after
    assert "1. notes/gate.md" in after
    assert "ferry.md" not in after
    assert "Searching by bm25." in after


def test_what_goes_wrong_does_not_end_it(folder: Path) -> None:
    told = typed(
        folder, "/sources", "/methd bm25", "/method bm26", "/where auther = 1", "/where (", "/new", "ferry?", "/quit"
    )
    for said in (
        "kumi: nothing has been asked yet",
        "no command '/methd'; did you mean '/method'?",
        "no method 'bm26'; did you mean 'bm25'?",
        "no field 'auther'; did you mean 'author'?",
        "kumi: the filter ends too early",
        "The next question stands alone.",
        "“The ferry",
    ):
        assert said in told


def test_help_tells_every_command(folder: Path) -> None:
    told = typed(folder, "/help", "/quit")
    assert all(name in told for name in COMMANDS)


def test_lines_that_are_piped_in_are_answered_without_prompts(folder: Path) -> None:
    code, out, err = piped(folder, "When does the ferry leave?\n\n/quit\nferry\n")
    assert code == 0
    assert out.startswith("“The ferry leaves at nine.” [1]\n")
    assert out.count("ferry.md") == 1
    assert "> " not in out
    assert "No chat model" in err


def test_without_an_index_it_does_not_begin(tmp_path: Path) -> None:
    code, out, err = piped(tmp_path, "ferry\n")
    assert (code, out) == (2, "")
    assert err == "kumi: there is no index in .kumi: make one with `kumi index PATH`\n"


def test_later_questions_point_back(tmp_path: Path, server: Server) -> None:
    (tmp_path / "kumi.toml").write_text(f'[chat]\nmodel = "m"\nbase_url = "{server.url}"\n', "utf-8")
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(notes(tmp_path / "notes", 3), methods=["bm25"])
    alone = ("The last question: And the other?", "What is harbour 2?")
    answers = [(f"Question: What {rest}", f"{said}. [1]") for rest, said in (("does", "One"), ("is harbour 2", "Two"))]
    server.set(replies=[alone, *answers, ("Question: What is harbour 1?", "Three. [1]")])
    code, out, _ = piped(tmp_path, "What does note 1 tell of?\nAnd the other?\n/new\nWhat is harbour 1?\n")
    assert code == 0
    assert [line for line in out.splitlines() if line.endswith(". [1]")] == [
        "One. [1]",
        "Two. [1]",
        "Three. [1]",
    ]
