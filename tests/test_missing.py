"""a model server that fails while the graph is made -> what is missing is named, exit 1; the next run makes it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.testing.fake_server import FakeServer
from tests import cli_runner, fake_graph_reader
from tests.fixtures_index import Held, apart, fill, tables
from tests.laws.factories_town import SETTINGS, TOWN, accounted, lacking

FAULTS = {"garbage": 1 / 7, "503": 1 / 5, "never": 1 / 50}


@pytest.fixture
def speaking(server: FakeServer) -> FakeServer:
    """A server that reads the town."""
    read = [(text, fake_graph_reader.answer(f"entity<|>NAME<|>TYPE\n\nText:\n{text}")) for text in TOWN.values()]
    claims = "claim<|>Ada<|>NONE<|>doing<|>TRUE<|>NONE<|>NONE<|>Ada came.<|>Ada"
    turns = [("yes or no", "no"), ("are still missing", "END"), ("claim<|>SUBJECT", f"{claims}\nEND")]
    server.configure(replies=[*read, *turns, ("Of: ", "Much is said of them.")])
    return server


def kumi(folder: Path, server: FakeServer, *words: str) -> cli_runner.Ran:
    given = {"KUMI_CHAT_MODEL": "m", "KUMI_CHAT_BASE_URL": server.url, "KUMI_CHAT_TIMEOUT": "0.5"}
    return cli_runner.kumi(folder, *words, **given, KUMI_CHAT_RETRIES="0", KUMI_CHAT_WORKERS="16")


def prepared(folder: Path) -> Path:
    """A folder of the town's documents, with the settings of the town beside it."""
    fill(folder / "town", TOWN)
    for path in (folder / "town").iterdir():
        os.utime(path, (0, 0))
    lines = [f"[{s}]\n" + "".join(f"{n} = {json.dumps(v)}\n" for n, v in own.items()) for s, own in SETTINGS.items()]
    (folder / "kumi.toml").write_text("\n".join(lines), encoding="utf-8")
    return folder


def held(folder: Path) -> Held:
    with Kumihimo.open(folder / ".kumi") as kumi:
        return tables(kumi)


def test_what_a_failing_server_leaves_out_is_named_and_made_by_the_next_run(
    speaking: FakeServer, tmp_path: Path
) -> None:
    whole = prepared(tmp_path / "whole")
    assert kumi(whole, speaking, "index", "town", "--methods", "local").returncode == 0
    folder = prepared(tmp_path / "faults")
    speaking.reset()
    speaking.configure(faults=FAULTS, seed=5)
    ran = kumi(folder, speaking, "index", "town", "--methods", "local")
    assert (ran.returncode, "Traceback" in ran.stderr) == (1, False)
    assert set(speaking.counts()["faults"]) == set(FAULTS)
    with Kumihimo.open(folder / ".kumi") as opened:
        failed = opened.status().failed
        accounted(opened)
    assert {step for step, _, _ in failed} >= {"mentions", "ties", "assertions", "entities", "reports"}
    assert f"{len(failed)} " in ran.stdout + ran.stderr
    speaking.configure(faults={})
    ran = kumi(folder, speaking, "index")
    assert ran.returncode == 0
    assert speaking.counts()["repeats"] == 0  # what was paid is not paid again
    assert not lacking(apart(held(folder)), apart(held(whole)))
    assert kumi(folder, speaking, "index", "--recluster").returncode == 0
    assert not lacking(held(folder), held(whole))
    assert speaking.counts()["repeats"] == 0
