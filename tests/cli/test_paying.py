"""commands with a model server -> printed answers, plans, caps and costs."""

from __future__ import annotations

import json
import os
import pty
import re
import select
from contextlib import suppress
from pathlib import Path

import pytest

from tests import cli_runner
from tests.factories_paid_steps import notes
from tests.fake_server import FakeServer
from tests.forked_kumi import run_on_terminal


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
    result = cli_runner.kumi(folder, *words)
    assert result.returncode == code, result.stderr
    return result.stdout, result.stderr


def test_from_a_plan_to_an_answer(folder: Path, server: FakeServer) -> None:
    out, _ = kumi(folder, "index", "notes")
    paid = "braid,wide,naive,hyde,rq,global,local,drift,light,meta,discourse"
    assert f"Not built, because it costs model calls: {paid}. `kumi plan --methods {paid}` estimates the cost." in out
    assert server.counts()["requests"] == 0
    out, _ = kumi(folder, "plan", "--methods", "bm25,naive,hyde")
    assert re.search(r"embedding +3 ", out)
    (estimate,) = json.loads(kumi(folder, "plan", "--methods", "naive", "--json")[0])["estimates"]
    assert (estimate["step"], estimate["exact"], estimate["calls"]) == ("embedding", True, [3, 3])
    assert server.counts()["requests"] == 0
    out, _ = kumi(folder, "index", "--methods", "bm25,naive,hyde")
    assert "Asked for embedding: 3 calls, " in out
    server.configure(replies=[("<question>\nWhich", "The ferry [1]. No other [9].")])
    out, err = kumi(folder, "ask", "Which ferry?")
    assert re.fullmatch(r"The ferry \[1\]\. No other\.\n\n\[1\] notes/\d+\.txt, line 1\n", out)
    assert re.search(r"removed.*: 1\.\)\n\(m temperature=0\.0: 2 calls, [\d,]+ \+ 6 tokens, cost 0\.\d+, ", err)
    out, _ = kumi(folder, "status")
    spent = {line.split()[1] for line in out.splitlines() if line.startswith("spent")}
    assert spent == {"answer", "embedding"}
    assert "No model calls are needed" in kumi(folder, "plan")[0]


def test_the_further_searches_of_a_model_are_named(folder: Path, server: FakeServer) -> None:
    kumi(folder, "index", "notes", "--methods", "bm25")
    searches = "SEARCH: Which note tells of harbour 1?\nSEARCH: Is there a pier?"
    server.configure(replies=[("<searched_for>", "Harbour 1 [1]."), ("<question>\nWhich ferry", searches)])
    out, err = kumi(folder, "ask", "Which ferry?", "--method", "bm25")
    assert out.startswith("Harbour 1 [1].\n")
    assert "Searched again: Which note tells of harbour 1?\n" in err  # nothing has a pier
    assert "(m temperature=0.0: 2 calls" in err


def test_a_graph_is_built_by_rules_and_the_command_for_the_model_is_shown(folder: Path, server: FakeServer) -> None:
    chat = (folder / "kumi.toml").read_text("utf-8").partition("[embedding]")[0]
    (folder / "kumi.toml").write_text(chat, "utf-8")
    option = "--methods braid,global,local"
    by_rule = f"The graph is built by rules: `kumi plan {option}` estimates building it with the chat model.\n"
    free = "No model calls are needed: everything is cached or free.\n"
    assert kumi(folder, "plan", "notes") == (free + by_rule, "")
    assert "mentions" in kumi(folder, "plan", "notes", *option.split())[0]
    out, _ = kumi(folder, "index", "notes")
    remedy = (
        f"`kumi index {option} --recluster` builds it with the chat model, `kumi plan {option}` estimates the cost."
    )
    assert f"\nThe graph is built by rules: {remedy}\n" in out
    assert server.counts()["requests"] == 0
    answer = json.loads(kumi(folder, "ask", "Which ferry?", "--json")[0])
    assert answer["method"] == "braid"


def test_a_question_is_planned(folder: Path, server: FakeServer) -> None:
    kumi(folder, "index", "notes", "--methods", "bm25,naive,hyde")
    requests = server.counts()["requests"]
    out, _ = kumi(folder, "plan", "--ask", "hyde", "Which", "ferry?")
    assert [line.split()[0] for line in out.splitlines()] == ["step", "hyde", "embedding", "answer", "total", "m", "e:"]
    assert re.search(r"hyde +1 .*\nm temperature=0.0: hyde, answer\.\ne: embedding\.\n", out, re.S)
    assert out == kumi(folder, "plan", "--ask", "hyde", "Which ferry?")[0]
    plan = json.loads(kumi(folder, "plan", "--ask", "bm25", "--json")[0])
    assert [(e["step"], e["calls"]) for e in plan["estimates"]] == [("answer", [1, 3])]
    assert server.counts()["requests"] == requests
    assert "use one or the other" in kumi(folder, "plan", "--ask", "hyde", "--methods", "hyde", code=2)[1]


def test_a_change_needs_a_yes(folder: Path, server: FakeServer) -> None:
    kumi(folder, "index", "notes", "--methods", "naive")
    requests = server.counts()["requests"]
    _, err = kumi(folder, "index", "--set", "embedding.model=other", code=2)
    assert "chunks were embedded by e, and would be by other: 3 calls. The index was not changed" in err
    assert server.counts()["requests"] == requests
    kumi(folder, "index", "--set", "embedding.model=other", "--yes")
    assert server.counts()["requests"] == requests + 3


def read_terminal(master: int, until: str) -> str:
    """Return the output of a terminal, up to a text or to the end."""
    screen = ""
    with suppress(OSError):  # the process closed its end
        while (not until or until not in screen) and select.select([master], [], [], 60)[0]:
            screen += os.read(master, 4096).decode()
    return screen


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("\n", 2)])
def test_a_terminal_asks(folder: Path, server: FakeServer, typed: str, code: int) -> None:
    kumi(folder, "index", "notes", "--methods", "naive")
    master, slave = pty.openpty()
    running = run_on_terminal(["index", "--set", "embedding.model=other"], folder, slave, os.environ)
    os.close(slave)
    screen = read_terminal(master, "[y/N]")
    os.write(master, typed.encode())
    screen += read_terminal(master, "")
    assert "Chunks were embedded by e, and would be by other." in screen
    assert (running.wait(), server.counts()["requests"]) == (code, 6 if code == 0 else 3)
    os.close(master)


def test_caps_and_what_they_leave(folder: Path, server: FakeServer) -> None:
    out, err = kumi(folder, "index", "notes", "--methods", "naive", "--max-calls", "2", code=1)
    assert "Asked for embedding: 2 calls" in out
    assert re.search(r"^[12] failed; `kumi index` tries again:$", err, re.M)
    assert "capped: not asked, since --max-calls 2 was reached" in err
    kumi(folder, "index")
    assert (server.counts()["texts"], server.counts()["repeats"]) == (5, 0)
    _, err = kumi(folder, "ask", "Which ferry?", "--max-cost", "0", code=1)
    assert err == "kumi: capped: not asked, since --max-cost 0.0 was reached\n"


def test_requests_and_prompts_are_logged_on_demand(folder: Path, server: FakeServer) -> None:
    server.configure(faults={"500": 0.3}, seed=3)
    _, err = kumi(folder, "index", "notes", "--methods", "naive,hyde", "--verbose")
    assert len(re.findall(r"^embedding: e, \d+ \+ 0 tokens, \d\.\d s$", err, re.M)) == 3
    server.configure(faults={})
    _, err = kumi(folder, "ask", "Which ferry?", "-m", "hyde", "--show-prompts")
    assert err.count("--- hyde, m temperature=0.0, asked\nuser: Write a short passage") == 1
    assert err.count("--- answer, m temperature=0.0, asked\nsystem: You answer a question") == 1
    _, err = kumi(folder, "ask", "Which ferry?", "-m", "hyde", "--show-prompts")
    assert err.count(", cached\n") == 2


def test_an_answer_as_json(folder: Path) -> None:
    kumi(folder, "index", "notes")
    answer = json.loads(kumi(folder, "ask", "Which ferry?", "--json")[0])
    assert answer["model"] == "m temperature=0.0"
    assert answer["usage"]["calls"] == 1
    assert answer["text"].endswith("[1].")
