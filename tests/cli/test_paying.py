"""commands with a model server -> what a person sees of answers, plans, caps and spending."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from kumihimo.testing.fake_server import FakeServer
from tests import cli_runner
from tests.factories_paid_steps import notes

COMMAND = [sys.executable, "-m", "kumihimo.cli.main"]


@pytest.fixture
def folder(tmp_path: Path, server: FakeServer) -> Path:
    notes(tmp_path / "notes", 5)
    (tmp_path / "kumi.toml").write_text(
        f"""
[chat]
model = "m"
base_url = "{server.url}"
prompt_price = 10
completion_price = 30
[embedding]
model = "e"
base_url = "{server.url}"
batch = 2
price = 1
""",
        "utf-8",
    )
    return tmp_path


def kumi(folder: Path, *words: str, code: int = 0) -> tuple[str, str]:
    ran = cli_runner.kumi(folder, *words)
    assert ran.returncode == code, ran.stderr
    return ran.stdout, ran.stderr


def test_from_a_plan_to_an_answer(folder: Path, server: FakeServer) -> None:
    out, _ = kumi(folder, "index", "notes")
    dear = "braid,naive,hyde,rq,global,local,drift,light,meta,discourse"
    assert f"Not built, since it is paid for: {dear}. `kumi plan --methods {dear}` says what it costs." in out
    assert server.counts()["requests"] == 0
    out, _ = kumi(folder, "plan", "--methods", "bm25,naive,hyde")
    assert re.search(r"embedding +e +3 ", out)
    (estimate,) = json.loads(kumi(folder, "plan", "--methods", "naive", "--json")[0])["estimates"]
    assert (estimate["step"], estimate["exact"], estimate["calls"]) == ("embedding", True, [3, 3])
    assert server.counts()["requests"] == 0
    out, _ = kumi(folder, "index", "--methods", "bm25,naive,hyde")
    assert "Asked for embedding: 3 calls, " in out
    server.configure(replies=[("Question: Which", "The ferry [1]. No other [9].")])
    out, said = kumi(folder, "ask", "Which ferry?")
    assert re.fullmatch(r"The ferry \[1\]\. No other\.\n\n\[1\] notes/\d+\.txt, line 1, characters 0–\d+\n", out)
    assert re.search(r"taken out.*: 1\.\)\n\(m temperature=0\.0: 2 calls, [\d,]+ \+ 6 tokens, cost 0\.\d+, ", said)
    out, _ = kumi(folder, "status")
    spent = {line.split()[1] for line in out.splitlines() if line.startswith("spent")}
    assert spent == {"answer", "embedding"}
    assert "No model would be asked" in kumi(folder, "plan")[0]


def test_a_graph_by_rule_is_built_unasked_and_how_to_have_it_made_by_the_model_is_told(
    folder: Path, server: FakeServer
) -> None:
    chat = (folder / "kumi.toml").read_text("utf-8").partition("[embedding]")[0]
    (folder / "kumi.toml").write_text(chat, "utf-8")
    named = "--methods braid,global,local"
    dear = f"The graph is made by rule: `kumi plan {named}` says what it costs to have the chat model make it.\n"
    free = "No model would be asked: what is wanted is remembered, or costs nothing.\n"
    assert kumi(folder, "plan", "notes") == (free + dear, "")
    assert "mentions" in kumi(folder, "plan", "notes", *named.split())[0]
    out, _ = kumi(folder, "index", "notes")
    has = f"`kumi index {named} --recluster` has the chat model make it, `kumi plan {named}` says what that costs."
    assert f"\nThe graph is made by rule: {has}\n" in out
    assert server.counts()["requests"] == 0
    told = json.loads(kumi(folder, "ask", "Which ferry?", "--json")[0])
    assert told["method"] == "braid"


def test_a_question_is_planned(folder: Path, server: FakeServer) -> None:
    kumi(folder, "index", "notes", "--methods", "bm25,naive,hyde")
    asked = server.counts()["requests"]
    out, _ = kumi(folder, "plan", "--ask", "hyde", "Which", "ferry?")
    assert [line.split()[0] for line in out.splitlines()] == ["step", "hyde", "embedding", "answer"]
    assert re.search(r"hyde +m .*  1 ", out)
    assert out == kumi(folder, "plan", "--ask", "hyde", "Which ferry?")[0]
    told = json.loads(kumi(folder, "plan", "--ask", "bm25", "--json")[0])
    assert [(e["step"], e["calls"]) for e in told["estimates"]] == [("answer", [1, 1])]
    assert server.counts()["requests"] == asked
    for wrong in (("--sample", "3"), ("--methods", "hyde")):
        assert "say one or the other" in kumi(folder, "plan", "--ask", "hyde", *wrong, code=2)[1]
    kumi(folder, "ask", "Which ferry?", "--method", "hyde")
    assert "No model would be asked" in kumi(folder, "plan", "--ask", "hyde", "Which ferry?")[0]


def test_a_change_needs_a_yes(folder: Path, server: FakeServer) -> None:
    kumi(folder, "index", "notes", "--methods", "naive")
    asked = server.counts()["requests"]
    _, said = kumi(folder, "index", "--set", "embedding.model=other", code=2)
    assert "chunks were embedded by e, and would be by other: 3 calls. Nothing was changed" in said
    assert server.counts()["requests"] == asked
    kumi(folder, "index", "--set", "embedding.model=other", "--yes")
    assert server.counts()["requests"] == asked + 3


def seen(master: int, until: str) -> str:
    """What a terminal shows, until it shows that, or all of it."""
    shown = ""
    with suppress(OSError):  # nobody writes any more
        while (not until or until not in shown) and select.select([master], [], [], 30)[0]:
            shown += os.read(master, 4096).decode()
    return shown


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("\n", 2)])
def test_a_terminal_asks(folder: Path, server: FakeServer, typed: str, code: int) -> None:
    kumi(folder, "index", "notes", "--methods", "naive")
    master, slave = pty.openpty()
    command = [*COMMAND, "index", "--set", "embedding.model=other"]
    running = subprocess.Popen(command, cwd=folder, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    shown = seen(master, "[y/N]")
    os.write(master, typed.encode())
    shown += seen(master, "")
    running.wait(30)
    assert "Chunks were embedded by e, and would be by other." in shown
    assert (running.returncode, server.counts()["requests"]) == (code, 6 if code == 0 else 3)
    os.close(master)


def test_caps_and_what_they_leave(folder: Path, server: FakeServer) -> None:
    out, said = kumi(folder, "index", "notes", "--methods", "naive", "--max-calls", "2", code=1)
    assert "Asked for embedding: 2 calls" in out
    assert re.search(r"^[12] failed; `kumi index` tries again:$", said, re.M)
    assert "capped: not asked, since --max-calls 2 was reached" in said
    kumi(folder, "index")
    assert (server.counts()["texts"], server.counts()["repeats"]) == (5, 0)
    _, said = kumi(folder, "ask", "Which ferry?", "--max-cost", "0", code=1)
    assert said == "kumi: capped: not asked, since --max-cost 0.0 was reached\n"


def test_who_wants_to_look_may(folder: Path, server: FakeServer) -> None:
    server.configure(faults={"500": 0.3}, seed=3)
    _, said = kumi(folder, "index", "notes", "--methods", "naive,hyde", "--verbose")
    assert len(re.findall(r"^embedding: e, \d+ \+ 0 tokens, \d\.\d s$", said, re.M)) == 3
    server.configure(faults={})
    _, said = kumi(folder, "ask", "Which ferry?", "-m", "hyde", "--show-prompts")
    assert said.count("--- hyde, m temperature=0.0, asked\nuser: Write one passage") == 1
    assert said.count("--- answer, m temperature=0.0, asked\nsystem: You answer a question") == 1
    _, said = kumi(folder, "ask", "Which ferry?", "-m", "hyde", "--show-prompts")
    assert said.count(", remembered\n") == 2


def test_an_answer_as_json(folder: Path) -> None:
    kumi(folder, "index", "notes")
    answer = json.loads(kumi(folder, "ask", "Which ferry?", "--json")[0])
    assert answer["model"] == "m temperature=0.0"
    assert answer["usage"]["calls"] == 1
    assert answer["text"].endswith("[1].")
