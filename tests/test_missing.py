"""a failing model server during graph building -> missing items listed, exit 1; the next run completes them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kumihimo import Kumihimo
from tests import cli_runner, fake_graph_reader
from tests.fake_server import FakeServer
from tests.fixtures_index import Held, apart, fill, tables
from tests.laws.factories_town import SETTINGS, TOWN, check_accounted, differences

FAULTS = {"garbage": 1 / 7, "503": 1 / 5, "never": 1 / 50}


@pytest.fixture
def town_server(server: FakeServer) -> FakeServer:
    """Return a server that extracts the town's graph."""
    prompts = {text: f"entity<|>NAME<|>TYPE\n\n<text>\n{text}\n</text>" for text in TOWN.values()}
    read = [(text, fake_graph_reader.answer(prompt)) for text, prompt in prompts.items()]
    claims = "claim<|>Ada<|>NONE<|>doing<|>TRUE<|>NONE<|>NONE<|>Ada came.<|>Ada"
    turns = [("are still missing", "END"), ("claim<|>SUBJECT", f"{claims}\nEND")]
    server.configure(replies=[*read, *turns, ("Of:\n", "Much is said of them.")])
    return server


def kumi(folder: Path, server: FakeServer, *words: str, timeout: str = "60") -> cli_runner.Ran:
    environment = {"KUMI_CHAT_MODEL": "m", "KUMI_CHAT_BASE_URL": server.url, "KUMI_CHAT_TIMEOUT": timeout}
    return cli_runner.kumi(folder, *words, **environment, KUMI_CHAT_RETRIES="0", KUMI_CHAT_WORKERS="16")


def prepare_folder(folder: Path) -> Path:
    """Return a folder with the town's documents and settings."""
    fill(folder / "town", TOWN)
    for path in (folder / "town").iterdir():
        os.utime(path, (0, 0))
    lines = [
        f"[{s}]\n" + "".join(f"{n} = {json.dumps(v)}\n" for n, v in step_settings.items())
        for s, step_settings in SETTINGS.items()
    ]
    (folder / "kumi.toml").write_text("\n".join(lines), encoding="utf-8")
    return folder


def all_rows(folder: Path) -> Held:
    with Kumihimo.open(folder / ".kumi") as kumi:
        return tables(kumi)


def test_what_a_failing_server_leaves_out_is_named_and_made_by_the_next_run(
    town_server: FakeServer, tmp_path: Path
) -> None:
    complete = prepare_folder(tmp_path / "whole")
    assert kumi(complete, town_server, "index", "town", "--methods", "local").returncode == 0
    folder = prepare_folder(tmp_path / "faults")
    town_server.reset()
    town_server.configure(faults=FAULTS, seed=3)
    process = kumi(folder, town_server, "index", "town", "--methods", "local", timeout="0.5")
    assert (process.returncode, "Traceback" in process.stderr) == (1, False)
    assert set(town_server.counts()["faults"]) == set(FAULTS)
    with Kumihimo.open(folder / ".kumi") as index:
        failed = index.status().failed
        check_accounted(index)
    assert {step for step, _, _ in failed} >= {"mentions", "ties", "assertions", "entities", "reports"}
    assert f"{len(failed)} " in process.stdout + process.stderr
    town_server.configure(faults={})
    process = kumi(folder, town_server, "index")
    assert process.returncode == 0
    assert town_server.counts()["repeats"] == 0  # nothing is paid twice
    assert not differences(apart(all_rows(folder)), apart(all_rows(complete)))
    assert kumi(folder, town_server, "index", "--recluster").returncode == 0
    assert not differences(all_rows(folder), all_rows(complete))
    assert town_server.counts()["repeats"] == 0
