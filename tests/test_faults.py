"""failing servers -> a complete index, or a list of the missing items: no hang, no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kumihimo.app.facade import Kumihimo
from kumihimo.core.errors import ItemFailed, ModelError
from tests.cli_runner import kumi
from tests.counters import wait_until
from tests.factories_paid_steps import notes, opened, paid
from tests.fake_replies import CHAT_FAULTS, FAULTS
from tests.fake_server import FakeServer
from tests.raw_server import refusal, run_raw_server

__all__ = ["paid"]
COUNT = 60
ALL_FAULTS = (*FAULTS, *CHAT_FAULTS)
HARMLESS_FAULTS = ("think",)  # the reply still arrives
SILENT_FAULTS = ("never", "slow")  # they end with a timeout


def limits(*faults: str, **more: Any) -> dict[str, Any]:
    """Return settings of a model: a short timeout only where the server is silent."""
    return {"timeout": 0.4 if {*SILENT_FAULTS}.intersection(faults) else 60.0, "workers": 16, **more}


def built_items(kumi: Kumihimo) -> tuple[set[str], set[str], set[str]]:
    """Return chunks, chunks with a gist, and gists with a vector."""
    with kumi.snapshot() as snapshot:
        ids = [{r.id for r in snapshot.table(table)} for table in ("chunks", "gists")]
        vectors = {id for (id,) in snapshot.db.all("SELECT id FROM vectors_gists")}
    return ids[0], ids[1], vectors


def failed_items(kumi: Kumihimo, step: str) -> set[str]:
    return {item for name, item, _ in kumi.status().failed if name == step}


@pytest.mark.usefixtures("paid")
def test_every_fault_mixed(tmp_path: Path, server: FakeServer) -> None:
    source = notes(tmp_path / "notes", COUNT)
    server.configure(faults=dict.fromkeys(ALL_FAULTS, 0.1 / len(ALL_FAULTS)), retry_after=0.1, drip=600.0)
    models: dict[str, Any] = {
        "chat": limits(timeout=3.0),
        "embedding": limits(model="e", base_url=server.url, batch=4, timeout=3.0),
    }
    with opened(tmp_path, server, **models) as kumi:
        built = kumi.index(source, methods=["meant"])
        chunks, gists, vectors = built_items(kumi)
        assert chunks - gists == failed_items(kumi, "gists")
        assert gists - vectors == failed_items(kumi, "vectors_gists")
        assert not built.failed  # each request was repeated until it succeeded
        spent = [s.usage for s in kumi.spent() if s.kind == "spent"]
        assert sum(u.calls for u in spent) == server.counts()["answered"]
    assert sum(server.counts()["faults"].values()) > 0


@pytest.mark.usefixtures("paid")
@pytest.mark.parametrize("fault", ALL_FAULTS)
def test_a_fault_without_end_is_listed_and_the_next_run_mends_it_and_pays_for_that_alone(
    tmp_path: Path, server: FakeServer, fault: str
) -> None:
    source = notes(tmp_path / "notes", 24)
    server.configure(faults={fault: 0.5}, retry_after=0.01, drip=600.0)
    with opened(tmp_path, server, chat=limits(fault, retries=0)) as kumi:
        built = kumi.index(source, methods=["meant"])
        chunks, gists, _ = built_items(kumi)
        missing = chunks - gists
        assert missing == failed_items(kumi, "gists") == {item for _, item, _ in built.failed}
        assert bool(missing) == (fault not in HARMLESS_FAULTS)
        assert all(why and "Traceback" not in why for _, _, why in built.failed)
    server.configure(faults={})
    server.reset()
    with opened(tmp_path, server, chat=limits(retries=0)) as kumi:
        again = kumi.index()
        assert built_items(kumi)[1] == chunks
        assert (again.failed, server.counts()["requests"], server.counts()["repeats"]) == ((), len(missing), 0)


@pytest.mark.usefixtures("paid")
@pytest.mark.parametrize("fault", FAULTS)
def test_texts_that_cannot_be_embedded_are_listed_and_embedded_by_the_next_run(
    tmp_path: Path, server: FakeServer, fault: str
) -> None:
    server.configure(faults={fault: 0.5}, retry_after=0.01, drip=600.0)
    embedding = limits(fault, model="e", base_url=server.url, batch=2, retries=0)
    with opened(tmp_path, server, embedding=embedding) as kumi:
        kumi.index(notes(tmp_path / "notes", 24), methods=["naive"])
        with kumi.snapshot() as snapshot:
            vectors = {id for (id,) in snapshot.db.all("SELECT id FROM vectors_chunks")}
            chunks = {chunk.id for chunk in snapshot.table("chunks")}
        assert chunks - vectors == failed_items(kumi, "vectors_chunks") != set()
    server.configure(faults={})
    server.reset()
    with opened(tmp_path, server, embedding={**embedding, **limits()}) as kumi:
        assert not kumi.index().failed
        assert server.counts()["texts"] == len(chunks - vectors)
        assert {e.record.id for e in kumi.retrieve("harbour", "naive", k=99, words=False)} == chunks


def test_a_text_that_a_model_refuses_does_not_take_others_with_it(tmp_path: Path, server: FakeServer) -> None:
    source = notes(tmp_path / "notes", 9)
    (source / "long.txt").write_text("A long note. " * 99, "utf-8")
    server.configure(window=500)
    with opened(tmp_path, server, embedding={"model": "e", "base_url": server.url}) as kumi:
        built = kumi.index(source, methods=["naive"])
    ((step, _, why),) = built.failed
    assert step == "vectors_chunks"
    assert "(400)" in why


def test_a_key_that_a_server_repeats_is_stored_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a1B2c3D4e5F6g7H8")
    index = tmp_path / ".kumi"
    with run_raw_server(refusal(400, "Incorrect API key provided: a1B2c3D4e5F6g7H8")) as raw:
        embedding = {"model": "e", "base_url": raw.url.replace("http://", "http://me:my-pass-w0rd@")}
        with Kumihimo.open(index, settings={"embedding": embedding}) as kumi:
            ((_, _, why),) = kumi.index(notes(tmp_path / "notes", 1), methods=["naive"]).failed
    assert why == f"{raw.url} says: Incorrect API key provided: [hidden] (400)"
    stored = b"".join(path.read_bytes() for path in index.rglob("*") if path.is_file())
    assert b"provided: [hidden]" in stored
    assert b"a1B2c3D4" not in stored
    assert b"pass-w0rd" not in stored


def test_parameters_that_a_server_refuses_are_left_out(tmp_path: Path, server: FakeServer) -> None:
    server.configure(refuses=["temperature", "stream_options"])
    embedding = {"model": "e", "base_url": server.url}
    with opened(tmp_path, server, embedding=embedding) as kumi:
        kumi.index(notes(tmp_path / "notes", 3), methods=["naive"])
        assert kumi.ask("Which ferry?", on_token=lambda _: None).text


@pytest.mark.parametrize("fault", ["half", "never"])
def test_an_answer_that_breaks_off_says_so(tmp_path: Path, server: FakeServer, fault: str) -> None:
    with opened(tmp_path, server, chat=limits(fault, retries=1)) as kumi:
        kumi.index(notes(tmp_path / "notes", 3))
        server.configure(faults={fault: 1.0})
        with pytest.raises(ItemFailed, match=r"broke off|did not answer"):
            kumi.ask("Which ferry?", on_token=lambda _: None)
    server.configure(faults={})
    with opened(tmp_path, server, chat=limits()) as kumi:
        assert kumi.ask("Which ferry?", on_token=lambda _: None).text


@pytest.mark.usefixtures("paid")
def test_a_server_that_dies_is_given_up_soon(tmp_path: Path, server: FakeServer) -> None:
    source = notes(tmp_path / "notes", COUNT)
    with opened(tmp_path, server, chat={"retries": 1, "workers": 4}) as kumi:
        kumi.index(notes(tmp_path / "first", 1), methods=["told"])
        server.configure(down=True)
        server.reset()
        built = kumi.index(source)
        assert server.counts()["requests"] <= 2 * (8 + 4)  # two tries: of eight in a row, and of those in flight
        assert len([1 for step, _, _ in built.failed if step == "gists"]) == COUNT - 1
        assert any("in a row" in why for _, _, why in built.failed)
        server.configure(down=False)
    with opened(tmp_path, server) as kumi:
        assert not kumi.index().failed


# -- messages for the user


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    notes(tmp_path / "notes", 3)
    assert kumi(tmp_path, "index", "notes").returncode == 0
    return tmp_path


@pytest.mark.parametrize(
    ("behaviour", "environment", "message"),
    [
        ({"key": "right"}, {}, "Incorrect API key provided (401): is the key in OPENAI_API_KEY the right one"),
        ({"models": ["other"]}, {}, "The model 'm' does not exist (404): set `model` to one that the server has"),
        ({}, {"KUMI_CHAT_BASE_URL": "{url}/nowhere"}, "(404): base_url is the part of the address before"),
        ({}, {"KUMI_CHAT_BASE_URL": "http://127.0.0.1:9/v1"}, "cannot be reached"),
        ({}, {"KUMI_CHAT_BASE_URL": "https://no-such-host.invalid/v1", "KUMI_OFFLINE": "0"}, "cannot be reached"),
        ({}, {"KUMI_CHAT_BASE_URL": ""}, "KUMI_OFFLINE is set"),
        ({}, {"KUMI_CHAT_BASE_URL": "", "KUMI_OFFLINE": "0"}, "no key for https://api.openai.com/v1: put it into"),
        ({"window": 9}, {}, "(400)"),
        ({"faults": {"500": 1.0}}, {}, "(500)"),
        ({"faults": {"garbage": 1.0}}, {}, "does not have the form of a model server's answer"),
        ({"faults": {"never": 1.0}}, {"KUMI_CHAT_TIMEOUT": "0.5"}, "did not answer within 0.5 s"),
    ],
)
def test_what_is_set_wrong_is_said_in_one_line_with_the_remedy(
    folder: Path, server: FakeServer, behaviour: dict[str, Any], environment: dict[str, str], message: str
) -> None:
    server.configure(**behaviour)
    variables = {"KUMI_CHAT_MODEL": "m", "KUMI_CHAT_BASE_URL": server.url, "KUMI_CHAT_RETRIES": "1"}
    variables |= {"KUMI_CHAT_TIMEOUT": "60"} | {k: v.format(url=server.url) for k, v in environment.items()}
    process = kumi(folder, "ask", "Which ferry?", **variables)
    assert message in process.stderr
    assert len(process.stderr.strip().splitlines()) == 1
    assert process.returncode in (1, 2)
    assert process.stdout.strip() == ""


def test_ctrl_c_does_not_wait_for_a_silent_server(folder: Path, server: FakeServer) -> None:
    server.configure(faults={"never": 1.0})
    command = [sys.executable, "-m", "kumihimo.cli.entry", "ask", "Which ferry?", "-m", "hyde"]
    variables = {"KUMI_CHAT_MODEL": "m", "KUMI_CHAT_BASE_URL": server.url, "KUMI_HYDE_PASSAGES": "4"}
    variables["KUMI_CHAT_TIMEOUT"] = "3600"
    running = subprocess.Popen(command, cwd=folder, env={**os.environ, **variables}, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: server.counts()["requests"] >= 4)
    running.send_signal(signal.SIGINT)
    _, stderr = running.communicate(timeout=60)  # the server would be silent for ten minutes
    assert (running.returncode, "Traceback" in stderr) == (130, False)


def test_the_wrong_key_leaves_the_index_as_it_was(tmp_path: Path, server: FakeServer) -> None:
    source = notes(tmp_path / "notes", 3)
    with opened(tmp_path, server, embedding={"model": "e", "base_url": server.url}) as session:
        session.index(source, methods=["naive"])
        server.configure(key="right")
        notes(source, 5)
        with pytest.raises(ModelError, match="OPENAI_API_KEY"):
            session.index()
        assert session.status().rows["chunks"] == 3
