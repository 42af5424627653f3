"""file names, documents and replies with commands to the terminal -> output that shows them as text."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_printing import CONTROLS
from tests.cli_runner import Ran, kumi
from tests.factories_graph_text import document, entity, mention, put, relation
from tests.fake_server import FakeServer

CLIPBOARD = "\x1b]52;c;aGk=\x07"
ATTACK = f"{CLIPBOARD}\x9b2J\u202e\u2066\x7f"
NAME = f"Ada{ATTACK}"
URI = f"a{ATTACK}.txt"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows allows no such file names")


@pytest.fixture
def folder(tmp_path: Path, server: FakeServer) -> Path:
    """Return a folder with files, a graph and a chat model that attack the terminal."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / URI).write_text(f"The ferry leaves at nine.{ATTACK}", "utf-8")
    (tmp_path / "notes" / f"b{ATTACK}.json").write_text("{", "utf-8")
    (tmp_path / "notes" / f"c.x{ATTACK}").write_text("?", "utf-8")
    (tmp_path / "kumi.toml").write_text(f'[chat]\nmodel = "m"\nbase_url = "{server.url}"\nretries = 0\n', "utf-8")
    server.configure(replies=[("the ferry leave", f"It leaves{ATTACK} at nine [1]. No [9].")])
    row, chunks = document(f"g{ATTACK}.txt", f"{NAME} knows Bo.{ATTACK}")
    tables: dict[str, Any] = {"documents": [row], "chunks": chunks, "mentions": [mention(chunks[0].id, 0, NAME)]}
    entities = [entity(NAME, f"person{ATTACK}", text=f"A pilot.{ATTACK}", mentions=2), entity("Bo", mentions=1)]
    put(tmp_path / "graph", {**tables, "entities": entities, "relations": [relation(NAME, "Bo", ATTACK)]})
    return tmp_path


COMMANDS = [
    ("index", "notes", "--methods", "bm25,naive"),
    ("plan", "notes"),
    ("status",),
    ("status", "--json"),
    ("ask", "When does the ferry leave?", "-m", "bm25"),
    ("ask", f"When {ATTACK}does the ferry leave?", "-m", "bm25", "--explain", "--show-prompts", "--verbose"),
    ("ask", "When does the ferry leave?", "-m", "bm25", "--json"),
    ("ask", "ferry", "-m", f"bm{ATTACK}"),
    ("ask", "ferry", "--set", f"naive.{ATTACK}=3"),
    ("ask", f"--{ATTACK}"),
    ("retrieve", "ferry"),
    ("retrieve", "ferry", "--explain"),
    ("retrieve", "ferry", "--json"),
    ("retrieve", "ferry", "--out", f"out{ATTACK}"),
    ("retrieve", "--questions", f"gone{ATTACK}"),
    ("trace", f"notes/{URI}"),
    ("trace", f"notes/{URI}", "--json"),
    ("trace", ATTACK),
    ("init", f"new{ATTACK}.toml"),
    ("trust", f"new{ATTACK}.toml"),
    ("entities", "--index", "graph"),
    ("entities", NAME, "--index", "graph"),
    ("entities", "--similar", "--index", "graph", "--least", "0"),
    ("sparql", "SELECT ?n { ?e rdfs:label ?n }", "--index", "graph"),
    ("sparql", "SELECT ?n { ?e rdfs:label ?n }", "--index", "graph", "--format", "csv"),
    ("sparql", "SELECT ?n { ?e rdfs:label ?n }", "--index", "graph", "--json"),
    ("sparql", "CONSTRUCT { ?e rdfs:label ?n } { ?e rdfs:label ?n }", "--index", "graph"),
    ("sparql", f"@gone{ATTACK}"),
    ("export", "graphml", "--index", "graph", "--out", f"x{ATTACK}"),
    ("eval", "status", "--study", f"s{ATTACK}"),
    ("remove", f"notes/{URI}"),
    ("remove", ATTACK),
]


def test_nothing_acts_on_the_terminal(folder: Path) -> None:
    ran = {words: kumi(folder, *words) for words in COMMANDS}
    assert [words for words, r in ran.items() if {*r.stdout + r.stderr} & {*CONTROLS}] == []
    assert [words for words, r in ran.items() if "Traceback" in r.stderr] == []
    shown = [words[0] for words, r in ran.items() if r"\x1b]52;c;aGk=\x07" in r.stdout + r.stderr]
    assert {"index", "status", "ask", "retrieve", "trace", "init", "entities", "sparql", "export", "remove"} <= {*shown}
    answer = json.loads(ran[COMMANDS[6]].stdout)
    assert answer["text"] == f"It leaves{ATTACK} at nine [1]. No."


def test_warnings_are_shown_by_each_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by those without --verbose, and once."""

    def warn(*_: object, **__: object) -> object:
        logging.getLogger("kumihimo").warning("odd%s", ATTACK)
        raise SystemExit(0)

    assert kumi(folder, "report", "--index", "graph").returncode == 0, "SPARQL needs what this builds"
    monkeypatch.setattr("kumihimo.app.facade.Kumihimo.status", warn)
    monkeypatch.setattr("kumihimo.app.facade.Kumihimo.sparql", warn)
    for words in (["status"], ["sparql", "ASK {}"]):
        ran: Ran = kumi(folder, *words, "--index", "graph")
        assert ran.stderr == "odd\\x1b]52;c;aGk=\\x07\\x9b2J\\u202e\\u2066\\x7f\n"
