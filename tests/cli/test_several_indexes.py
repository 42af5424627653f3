"""`--index` several times -> one answer; commands for one index refuse it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kumihimo import Kumihimo
from tests.cli_runner import kumi
from tests.fixtures_index import fill

BOTH = ("--index", "town/.kumi", "--index", "isle/.kumi")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    for name, text in (("town", "The ferry leaves at nine."), ("isle", "Ela Quist lights the lamp at dusk.")):
        fill(home / name, {"notes/a.txt": text})
        with Kumihimo.open(home / name / ".kumi") as index:
            index.index(home / name / "notes")
    return home


def test_an_answer_and_its_evidence_name_the_index(home: Path) -> None:
    assert "[1] isle: notes/a.txt, line 1" in kumi(home, "ask", "Who lights the lamp?", *BOTH).stdout
    answer = json.loads(kumi(home, "ask", "Who lights the lamp?", *BOTH, "--json", "--explain").stdout)
    assert (answer["citations"][0]["index"], answer["evidence"][0]["index"]) == ("isle", "isle")
    found = kumi(home, "retrieve", "ferry lamp", *BOTH, "-m", "bm25", "--explain").stdout
    assert all(f"{name}: notes/a.txt, line 1" in found for name in ("town", "isle"))
    rows = json.loads(kumi(home, "retrieve", "ferry lamp", *BOTH, "-m", "bm25", "--json", "--k", "1").stdout)[
        "evidence"
    ]
    assert [(row["rank"], {"town", "isle"} >= {row["index"]}) for row in rows] == [(1, True)]
    traced = json.loads(kumi(home, "trace", rows[0]["id"], "--index", f"{rows[0]['index']}/.kumi", "--json").stdout)
    assert traced["text"] == rows[0]["text"]
    assert kumi(home, "retrieve", "ferry", *BOTH, "--html", "page.html").stdout.startswith("Wrote page.html")
    assert "town: notes/a.txt" in (home / "page.html").read_text(encoding="utf-8")


def test_a_conversation_with_two_indexes(home: Path) -> None:
    typed = 'Who lights the lamp?\n/sources\n/filter title = "a"\n/method bm25\nWhen does the ferry leave?\n/length\n'
    ran = kumi(home, "ask", typed=typed, KUMI_INDEX=os.pathsep.join(("town/.kumi", "isle/.kumi")))
    assert ran.returncode == 0
    assert "1. isle: notes/a.txt, line 1" in ran.stdout
    assert "[1] town: notes/a.txt, line 1" in ran.stdout
    assert "match, 2: title" in ran.stdout + ran.stderr


@pytest.mark.parametrize("words", ["status", "index notes", "remove notes", "sparql x", "trace x", "export graphml"])
def test_other_commands_take_one_index(words: str, home: Path) -> None:
    ran = kumi(home, *words.split(), *BOTH)
    assert (ran.returncode, "only `kumi ask` and `kumi retrieve` take several indexes" in ran.stderr) == (2, True)


def test_an_index_is_named_once(home: Path) -> None:
    ran = kumi(home, "ask", "Who?", "--index", "town/.kumi", "--index", "./town/.kumi")
    assert (ran.returncode, "town is named twice" in ran.stderr) == (2, True)
