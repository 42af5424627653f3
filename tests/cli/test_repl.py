"""typed lines -> a conversation, which survives errors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.cli.repl import SLASH_COMMANDS
from tests import cli_runner
from tests.factories_paid_steps import notes
from tests.fake_server import FakeServer
from tests.fixtures_index import fill
from tests.screens import seen

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
    """Return the screen after these lines are typed."""
    return COLOURS.sub("", seen(["kumi", "ask"], folder, lines))


def piped(folder: Path, text: str, *options: str) -> cli_runner.Ran:
    return cli_runner.kumi(folder, "ask", *options, typed=text)


def test_questions_and_commands(folder: Path) -> None:
    screen = typed(
        folder, "When does the ferry leave?", "/filter author = 'Bo'", "ferry", "/sources", "／method bm25", "/quit"
    )
    assert "[1] notes/ferry.md, line 4" in screen
    assert "    The ferry leaves at nine." in screen
    assert screen.count("No chat model is set") == 1
    assert "match, 1: author = 'Bo'" in screen
    filtered = screen.partition("match, 1: author = 'Bo'")[2]
    assert "    The ferry gate leaks." in filtered
    assert "1. notes/gate.md" in filtered
    assert "ferry.md" not in filtered
    assert "Searching by bm25." in filtered


def test_the_length_of_answers_is_set(folder: Path) -> None:
    screen = typed(folder, "/length", "/length full", "/length long", "/quit")
    assert "Length of answers: normal. Available: brief, normal, full." in screen
    assert "Length of answers: full." in screen
    assert "answer.length is one of brief, normal, full, not 'long'" in screen


def test_what_goes_wrong_does_not_end_it(folder: Path) -> None:
    screen = typed(
        folder, "/sources", "/methd bm25", "/method bm26", "/filter auther = 1", "/filter (", "/new", "ferry?", "/quit"
    )
    for message in (
        "kumi: nothing has been asked yet",
        "no command '/methd'; did you mean '/method'?",
        "no method 'bm26'; did you mean 'bm25'?",
        "no field 'auther'; did you mean 'author'?",
        "kumi: the filter ends too early",
        "The next question stands alone.",
        "    The ferry",
    ):
        assert message in screen


def test_help_tells_every_command(folder: Path) -> None:
    screen = typed(folder, "/help", "/quit")
    assert all(name in screen for name in SLASH_COMMANDS)


def test_lines_that_are_piped_in_are_answered_one_after_the_other(folder: Path) -> None:
    code, out, err = piped(folder, "When does the ferry leave?\n\ngate?\n/quit\nferry\n")
    assert code == 0
    assert out.startswith("> When does the ferry leave?\nThe nearest passages:\n\n[1] notes/ferry.md, line 4\n")
    assert "\n\n> gate?\n" in out
    assert out.count("ferry.md") == 1
    assert "No chat model" in err


def test_piped_lines_give_a_json_line_each(folder: Path) -> None:
    code, out, _ = piped(folder, "When does the ferry leave?\ngate?\n", "--json")
    assert code == 0
    assert [json.loads(line)["question"] for line in out.splitlines()] == ["When does the ferry leave?", "gate?"]


def test_lines_that_fail_are_told_and_counted(folder: Path) -> None:
    code, out, err = piped(folder, "/bogus\nferry?\n", "--method", "hyde")
    assert (code, out) == (1, "> ferry?\n")
    assert err.startswith("kumi: /bogus: no command '/bogus'")
    assert "\nkumi: ferry?: " in err


def test_no_input_at_all_is_said(folder: Path) -> None:
    kumi = Path(sys.executable).with_name("kumi")
    ran = subprocess.run(f"{kumi} ask <&-", shell=True, cwd=folder, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "kumi: there is no question and no standard input: give a question\n"


def test_bytes_that_are_no_text_are_no_traceback(folder: Path) -> None:
    kumi = Path(sys.executable).with_name("kumi")
    ran = subprocess.run([kumi, "ask"], cwd=folder, input=b"\xff who\n", capture_output=True, check=False)
    assert (ran.returncode, ran.stderr.count(b"Traceback")) == (0, 0)


def test_without_an_index_it_does_not_begin(tmp_path: Path) -> None:
    code, out, err = piped(tmp_path, "ferry\n")
    assert (code, out) == (2, "")
    assert err == "kumi: there is no index in .kumi: make one with `kumi index PATH`\n"


def test_later_questions_point_back(tmp_path: Path, server: FakeServer) -> None:
    (tmp_path / "kumi.toml").write_text(f'[chat]\nmodel = "m"\nbase_url = "{server.url}"\n', "utf-8")
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(notes(tmp_path / "notes", 3), methods=["bm25"])
    rewritten = ("<question>\nAnd the other?", "What is harbour 2?")
    answers = [
        (f"<question>\nWhat {rest}", f"{answer}. [1]") for rest, answer in (("does", "One"), ("is harbour 2", "Two"))
    ]
    server.configure(replies=[rewritten, *answers, ("<question>\nWhat is harbour 1?", "Three. [1]")])
    code, out, _ = piped(tmp_path, "What does note 1 tell of?\nAnd the other?\n/new\nWhat is harbour 1?\n")
    assert code == 0
    assert [line for line in out.splitlines() if line.endswith(". [1]")] == [
        "One. [1]",
        "Two. [1]",
        "Three. [1]",
    ]


def test_the_number_of_a_citation_is_beside_its_row(tmp_path: Path, server: FakeServer) -> None:
    (tmp_path / "kumi.toml").write_text(f'[chat]\nmodel = "m"\nbase_url = "{server.url}"\n', "utf-8")
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(notes(tmp_path / "notes", 3), methods=["bm25"])
    server.configure(replies=[("<question>\nWhat", "One. [1]")])
    question = "What does note 1 tell of?"
    code, out, _ = piped(tmp_path, f"{question}\n/sources\n")
    cited = re.search(r"^\[1\] (.*)$", out, re.M)
    assert (code, bool(cited)) == (0, True)
    assert cited
    assert re.search(rf"^\d\. \[1\] {re.escape(cited[1])}$", out, re.M)
    explained = cli_runner.kumi(tmp_path, "ask", question, "--explain").stdout
    assert re.search(rf"^\d\. \[1\] {re.escape(cited[1])}$", explained.partition("Why these passages:")[2], re.M)
    answer = json.loads(cli_runner.kumi(tmp_path, "ask", question, "--json").stdout)
    assert [source["n"] for source in answer["sources"]] == [*range(1, len(answer["sources"]) + 1)]
    (row,) = answer["sources"][0]["rows"]
    assert row == {"table": "chunks", "id": answer["citations"][0]["chunk"]}
    assert row["id"] in {item["id"] for item in answer["evidence"]}
