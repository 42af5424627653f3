"""a build by batches -> the index of direct calls at half the price, whatever happens between the batches."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL
from typing import Any

import openai
import pytest

from kumihimo import Kumihimo
from kumihimo.app.opened.results import BatchState, Built
from kumihimo.core.errors import IndexUnavailable, ItemFailed, KumiError, ModelError, SettingsError
from kumihimo.core.usage import Usage
from kumihimo.llm.batch import BatchServer
from kumihimo.llm.budget import Caps
from kumihimo.storage.batch_log import BatchLog
from tests import cli_runner
from tests.factories_paid_steps import opened
from tests.fake_server import FakeServer
from tests.fixtures_index import Held, tables
from tests.laws.factories_town import TOWN, sentences_of
from tests.stores import NEEDS_FILES

SMALL = {name: TOWN[name] for name in ("a.txt", "b.txt", "c.txt")}
SETTINGS: dict[str, dict[str, Any]] = {
    "mentions": {"claims": True, "glean_below": 1000},
    "communities": {"max_size": 3},
    "entities": {"description_tokens": 60},
}
PRICES = {"prompt_price": 2.0, "completion_price": 8.0}
METHODS = ("local", "discourse")


class Killed(BaseException):
    """The end of a process, as if by a signal."""


def write(folder: Path, documents: dict[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for name, text in documents.items():
        (folder / name).write_text(text, encoding="utf-8")
        os.utime(folder / name, (0, 0))
    return folder


def open_town(home: Path, server: FakeServer, **settings: dict[str, Any]) -> Kumihimo:
    home.mkdir(parents=True, exist_ok=True)
    scopes: Any = {**SETTINGS, **settings, "chat": {**PRICES, **settings.get("chat", {})}}
    return opened(home, server, **scopes)


def state_of(built: Built) -> BatchState:
    assert built.batch
    return built.batch


def waves(kumi: Kumihimo, town: Path, **options: Any) -> Iterator[Built]:
    """Yield each run until nothing waits."""
    for _ in range(60):
        yield (built := kumi.index(town, methods=METHODS, batch=True, **options))
        if not built.batch or not (built.batch.waiting or built.batch.capped):
            return
    raise AssertionError("it does not end")


def spent(kumi: Kumihimo) -> Usage:
    return sum((entry.usage for entry in kumi.spent() if entry.kind == "spent"), Usage())


@pytest.fixture
def reader(server: FakeServer) -> FakeServer:
    server.configure(reads_graph=True)
    return server


DIRECT: dict[frozenset[tuple[str, str]], tuple[Held, Usage]] = {}


def direct_tables(tmp_path: Path, server: FakeServer, documents: dict[str, str]) -> tuple[Held, Usage]:
    """Return the tables of a build without batches, what it cost, and count from zero. Each town is built once."""
    if (town := frozenset(documents.items())) not in DIRECT:
        with open_town(tmp_path / "direct", server) as kumi:
            built = kumi.index(write(tmp_path / "direct" / "town", documents), methods=METHODS)
            assert not built.failed
            DIRECT[town] = tables(kumi), spent(kumi)
    server.reset()
    return DIRECT[town]


def test_batches_build_the_same_index_with_the_same_requests_at_half_the_price(
    tmp_path: Path, reader: FakeServer
) -> None:
    direct, cost = direct_tables(tmp_path, reader, dict(TOWN))
    town = write(tmp_path / "town", dict(TOWN))
    with open_town(tmp_path, reader) as kumi:
        runs = list(waves(kumi, town))
        assert tables(kumi) == direct
        assert spent(kumi).cost == pytest.approx(cost.cost / 2)
        assert (spent(kumi).calls, spent(kumi).tokens) == (cost.calls, cost.tokens)
        assert not runs[-1].failed
        assert kumi.index(town, methods=METHODS, batch=True).batch is None
    counts = reader.counts()
    assert (counts["chats"], counts["repeats"]) == (cost.calls, 0)
    states = [state_of(built) for built in runs]
    assert [state.wave for state in states] == [*range(1, len(runs)), len(runs) - 1]
    assert [state.collected for state in states[1:]] == [state.submitted for state in states[:-1]]
    for built, state in zip(runs[:-1], states, strict=False):
        assert (built.rows, built.written, built.failed) == ({}, {}, ())  # the index stays as it was
        assert state.waiting == state.submitted == sum(each.calls[0] for each in state.estimates)
    first = {each.step for each in states[0].estimates}
    assert first == {"mentions", "frames", "links"}
    reports = [n for n, state in enumerate(states) if "reports" in {each.step for each in state.estimates}]
    merges = [n for n, state in enumerate(states) if "entities" in {each.step for each in state.estimates}]
    assert max(merges) < min(reports)  # no report on half a graph


def test_a_batch_costs_less_as_its_estimate_says(tmp_path: Path, reader: FakeServer) -> None:
    town = write(tmp_path / "town", SMALL)
    with open_town(tmp_path, reader, chat={"batch_discount": 0.75}) as kumi:
        first = state_of(kumi.index(town, methods=METHODS, batch=True))
        second = kumi.index(town, methods=METHODS, batch=True)
        total = sum(second.spent.values(), Usage())
        for each in first.estimates:
            tokens = zip(each.prompt_tokens, each.completion_tokens, strict=True)
            assert each.cost == pytest.approx([(prompt * 2 + completion * 8) / 4e6 for prompt, completion in tokens])
        assert total.cost > 0
        assert total.cost == pytest.approx((total.prompt_tokens * 2 + total.completion_tokens * 8) / 4e6)
        assert total.calls == first.submitted == state_of(second).collected


def test_a_batch_that_is_not_done_waits_and_nothing_else_is_sent(tmp_path: Path, reader: FakeServer) -> None:
    reader.configure(batch_polls=3)
    town = write(tmp_path / "town", SMALL)
    with open_town(tmp_path, reader) as kumi:
        first = state_of(kumi.index(town, methods=METHODS, batch=True))
        chats = reader.counts()["chats"]
        assert kumi.plan(town, methods=METHODS).estimates == ()
        for batch in (True, False):  # neither pays for what waits
            state = state_of(kumi.index(town, methods=METHODS, batch=batch))
            assert (state.waiting, state.submitted, state.collected) == (first.submitted, 0, 0)
            assert [job[1] for job in state.jobs] == ["validating" if batch else "in_progress"]
        with pytest.raises(IndexUnavailable, match="requests wait in a batch, so nothing is deleted"):
            kumi.prune()
        assert reader.counts()["chats"] == chats
        state_of(kumi.index(town, methods=METHODS, batch=True))
        built = kumi.index(town, methods=METHODS)  # collects, and sends the rest one by one
    assert state_of(built).collected == first.submitted
    assert built.rows["reports"]
    assert not built.failed
    assert reader.counts()["repeats"] == 0


def test_what_waits_for_another_index_is_no_reason_to_wait(tmp_path: Path, reader: FakeServer) -> None:
    reader.configure(batch_polls=9)
    town = write(tmp_path / "town", {"a.txt": TOWN["a.txt"]})
    with open_town(tmp_path, reader) as kumi:
        assert kumi.index(town, methods=METHODS, batch=True).batch
        write(town, {"h.txt": TOWN["h.txt"]})
        built = kumi.index(town, methods=METHODS)
        assert built.rows["reports"]
        assert not built.failed


@pytest.mark.parametrize("moment", ["before", "between", "after"])
def test_a_process_that_is_killed_while_it_submits_pays_nothing_twice(
    moment: str, tmp_path: Path, reader: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct, cost = direct_tables(tmp_path, reader, SMALL)
    town = write(tmp_path / "town", SMALL)

    def die(*_: object, **__: object) -> None:
        raise Killed

    with open_town(tmp_path, reader) as kumi, monkeypatch.context() as patch:
        killed = {"before": (BatchServer, "submit"), "between": (BatchServer, "_create"), "after": (BatchLog, "set_id")}
        patch.setattr(*killed[moment], die)
        with pytest.raises(Killed):
            kumi.index(town, methods=METHODS, batch=True)
    chats = reader.counts()["chats"]
    assert bool(chats) == (moment == "after")
    with open_town(tmp_path, reader) as kumi:
        assert not any(built.failed for built in waves(kumi, town))
        assert tables(kumi) == direct
        assert spent(kumi).calls == cost.calls
    assert (reader.counts()["chats"], reader.counts()["repeats"]) == (cost.calls, 0)


KILLED = """
import os, signal, sys
from kumihimo.storage.batch_log import BatchLog
from kumihimo.cli.main import main
BatchLog.set_id = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
sys.argv[1:] = ["index", "town", "--methods", "local", "--batch"]
main()
"""


@NEEDS_FILES
def test_a_job_whose_id_was_lost_with_the_process_is_found_again(tmp_path: Path, reader: FakeServer) -> None:
    write(tmp_path / "town", SMALL)
    (tmp_path / "kumi.toml").write_text(f'[chat]\nmodel = "m"\nbase_url = "{reader.url}"\n', "utf-8")
    died = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, env=os.environ, check=False)
    assert died.returncode == -SIGKILL
    chats = reader.counts()["chats"]
    assert chats == len(SMALL)
    result = cli_runner.kumi(tmp_path, "index", "town", "--methods", "local", "--batch")
    assert f"Collected {chats} replies of batches." in result.stdout
    assert reader.counts()["repeats"] == 0


def test_a_lost_answer_to_the_creation_is_no_second_batch(tmp_path: Path, reader: FakeServer) -> None:
    reader.configure(batch_lost=1)
    town = write(tmp_path / "town", SMALL)
    with open_town(tmp_path, reader) as kumi:
        state = state_of(kumi.index(town, methods=METHODS, batch=True))
        assert reader.counts()["chats"] == state.submitted
        assert state_of(kumi.index(town, methods=METHODS, batch=True)).collected == state.submitted
    assert reader.counts()["repeats"] == 0


@pytest.mark.parametrize("lie", [{"status": 7}, {"id": None}, {"metadata": 7, "status": []}])
def test_an_answer_to_the_creation_that_is_none_is_no_second_batch(
    lie: dict[str, Any], tmp_path: Path, reader: FakeServer
) -> None:
    town = write(tmp_path / "town", SMALL)
    reader.configure(batch_changes=lie)
    with open_town(tmp_path, reader, chat={"retries": 1}) as kumi:
        with pytest.raises(ItemFailed, match="may have arrived: run the same command again"):
            kumi.index(town, methods=METHODS, batch=True)
        chats = reader.counts()["chats"]
        reader.configure(batch_changes={})
        assert state_of(kumi.index(town, methods=METHODS, batch=True)).collected == chats > 0
    assert reader.counts()["repeats"] == 0


def test_a_batch_without_metadata_is_found_by_its_file(tmp_path: Path, reader: FakeServer) -> None:
    reader.configure(batch_lost=1, batch_changes={"metadata": None})
    town = write(tmp_path / "town", SMALL)
    with open_town(tmp_path, reader) as kumi:
        state = state_of(kumi.index(town, methods=METHODS, batch=True))
        assert reader.counts()["chats"] == state.submitted


@pytest.mark.parametrize("lie", [{"output_file_id": None}, {"output_file_id": "file-1"}])
def test_a_completed_batch_without_results_is_not_submitted_again_at_once(
    lie: dict[str, Any], tmp_path: Path, reader: FakeServer
) -> None:
    town = write(tmp_path / "town", SMALL)
    with open_town(tmp_path, reader) as kumi:
        submitted = state_of(kumi.index(town, methods=METHODS, batch=True)).submitted
        reader.configure(batch_changes=lie)
        with pytest.raises(ModelError, match=rf"batch_1 without results for {submitted} requests, which may be paid"):
            kumi.index(town, methods=METHODS, batch=True)
        assert reader.counts()["chats"] == submitted
        files = openai.OpenAI(base_url=reader.url, api_key="k").files
        assert {file.id for file in files.list()} == {"file-1", "file-2"}
        reader.configure(batch_changes={})
        assert state_of(kumi.index(town, methods=METHODS, batch=True)).submitted == submitted


def test_a_process_that_is_killed_while_it_collects_records_nothing_twice(
    tmp_path: Path, reader: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    town = write(tmp_path / "town", SMALL)

    def die(*_: object, **__: object) -> None:
        raise Killed

    with open_town(tmp_path, reader) as kumi:
        submitted = state_of(kumi.index(town, methods=METHODS, batch=True)).submitted
        finish = BatchLog.finish
        monkeypatch.setattr(BatchLog, "finish", die)
        with pytest.raises(Killed):
            kumi.index(town, methods=METHODS, batch=True)
        monkeypatch.setattr(BatchLog, "finish", finish)
        assert spent(kumi).calls == 0
        assert state_of(kumi.index(town, methods=METHODS, batch=True)).collected == submitted
        assert spent(kumi).calls == submitted


@NEEDS_FILES
def test_two_processes_with_one_cache_submit_each_request_once(tmp_path: Path, reader: FakeServer) -> None:
    config = f'[chat]\nmodel = "m"\nbase_url = "{reader.url}"\n'
    command = [sys.executable, "-m", "kumihimo.cli.entry", "index", "town", "--methods", "discourse", "--batch"]
    homes = [tmp_path / name for name in ("one", "other")]
    for home in homes:
        write(home / "town", SMALL)
        (home / "kumi.toml").write_text(config, "utf-8")
    environment = {**os.environ, "KUMI_CACHE": str(tmp_path / "shared.db")}
    for _ in range(30):
        running = [subprocess.Popen(command, cwd=home, env=environment, stdout=subprocess.DEVNULL) for home in homes]
        if [process.wait(120) for process in running] == [0, 0]:
            break
    counts = reader.counts()
    assert counts["repeats"] == 0
    held = []
    for home in homes:
        with Kumihimo(home / ".kumi") as kumi:
            held.append(tables(kumi))
    assert held[0]["links"]
    assert held[0] == held[1]


def test_requests_that_fail_in_a_batch_are_in_the_next_one(tmp_path: Path, reader: FakeServer) -> None:
    direct, _ = direct_tables(tmp_path, reader, SMALL)
    reader.configure(faults={"500": 0.2, "429": 0.1, "empty": 0.1}, seed=2)
    town = write(tmp_path / "town", SMALL)
    with open_town(tmp_path, reader) as kumi:
        runs = list(waves(kumi, town))
        assert tables(kumi) == direct
    assert not runs[-1].failed
    errors = [error for built in runs for _, error in state_of(built).failed]
    assert {error.rpartition(" ")[2] for error in errors} == {"(500)", "(429)"}
    assert reader.counts()["faults"]["empty"] > 0


def test_half_a_batch_that_expires_is_kept_and_the_rest_is_submitted_again(tmp_path: Path, reader: FakeServer) -> None:
    direct, cost = direct_tables(tmp_path, reader, SMALL)
    reader.configure(batch_end="expired")
    town = write(tmp_path / "town", SMALL)
    with open_town(tmp_path, reader) as kumi:
        first = state_of(kumi.index(town, methods=METHODS, batch=True))
        reader.configure(batch_end="completed")
        second = state_of(kumi.index(town, methods=METHODS, batch=True))
        assert second.collected == first.submitted // 2
        assert {error for _, error in second.failed} == {"It took too long (batch_expired)"}
        assert len(second.failed) == first.submitted - second.collected
        assert second.submitted >= len(second.failed)
        list(waves(kumi, town))
        assert tables(kumi) == direct
        assert spent(kumi).calls == cost.calls
    assert reader.counts()["repeats"] == 0


def test_a_batch_that_the_server_rejects_stops_the_run_and_frees_its_requests(
    tmp_path: Path, reader: FakeServer
) -> None:
    reader.configure(batch_end="failed")
    town = write(tmp_path / "town", SMALL)
    with open_town(tmp_path, reader) as kumi:
        submitted = state_of(kumi.index(town, methods=METHODS, batch=True)).submitted
        with pytest.raises(ModelError, match=r"rejected the batch batch_1: The model takes no batches.*Nothing of it"):
            kumi.index(town, methods=METHODS, batch=True)
        reader.configure(batch_end="completed")
        assert state_of(kumi.index(town, methods=METHODS, batch=True)).submitted == submitted
    assert spent_calls(tmp_path, reader) == 0


def spent_calls(tmp_path: Path, server: FakeServer) -> int:
    with open_town(tmp_path, server) as kumi:
        return spent(kumi).calls


def test_a_batch_that_was_deleted_frees_its_requests(tmp_path: Path, reader: FakeServer) -> None:
    town = write(tmp_path / "town", SMALL)
    with open_town(tmp_path, reader) as kumi:
        submitted = state_of(kumi.index(town, methods=METHODS, batch=True)).submitted
        reader.reset()  # the server forgets it
        state = state_of(kumi.index(town, methods=METHODS, batch=True))
        assert (state.collected, state.submitted, len(state.failed)) == (0, submitted, submitted)
        assert {error for _, error in state.failed} == {"no result (deleted)"}


def test_a_document_that_changes_between_submitting_and_collecting(tmp_path: Path, reader: FakeServer) -> None:
    changed = {**SMALL, "b.txt": TOWN["g.txt"]}
    direct, cost = direct_tables(tmp_path, reader, changed)
    town = write(tmp_path / "town", SMALL)
    with open_town(tmp_path, reader) as kumi:
        first = state_of(kumi.index(town, methods=METHODS, batch=True))
        write(town, changed)
        list(waves(kumi, town))
        assert tables(kumi) == direct
        assert first.submitted < spent(kumi).calls <= cost.calls + first.submitted // len(SMALL)
    assert reader.counts()["repeats"] == 0


def test_a_request_that_is_refused_does_not_hold_up_the_others(tmp_path: Path, reader: FakeServer) -> None:
    reader.configure(window=20_000)
    documents = {**SMALL, "long.txt": " ".join(TOWN.values())}
    town = write(tmp_path / "town", documents)
    with open_town(tmp_path, reader, chunks={"size": 6000}) as kumi:
        *_, last = waves(kumi, town)
        assert {step for step, _, _ in last.failed} >= {"mentions"}
        assert all("characters, not" in error for _, _, error in last.failed)
        assert last.rows["reports"]
        again = list(waves(kumi, town))  # tried again in one batch, and listed again
        assert again[-1].failed == last.failed


def test_replies_that_cannot_be_read_are_asked_for_three_times(tmp_path: Path, reader: FakeServer) -> None:
    reader.configure(replies=[(" ", "nothing of use")])
    town = write(tmp_path / "town", {"a.txt": TOWN["a.txt"]})
    with open_town(tmp_path, reader) as kumi:
        *runs, last = waves(kumi, town)
        assert {step for step, _, _ in last.failed} >= {"frames", "links", "mentions"}
        assert all("gave 3 replies that cannot be read" in error for _, _, error in last.failed)
        assert [state_of(built).submitted for built in runs] == [state_of(runs[0]).submitted] * 3
        chats = reader.counts()["chats"]
        assert kumi.index(town, methods=METHODS, batch=True).failed == last.failed
        assert reader.counts()["chats"] == chats


@pytest.mark.parametrize(("name", "cap"), [("calls", 5), ("tokens", 5000), ("cost", 0.01)])
def test_caps_hold_when_a_batch_is_submitted(name: str, cap: Any, tmp_path: Path, reader: FakeServer) -> None:
    town = write(tmp_path / "town", SMALL)
    with open_town(tmp_path, reader) as kumi:
        caps = replace(Caps(), **{name: cap})
        state = state_of(kumi.index(town, methods=METHODS, batch=True, caps=caps))
        assert 0 < state.submitted == reader.counts()["chats"]
        assert state.capped > 0
        assert getattr(spent(kumi), name) <= cap
        nothing = state_of(kumi.index(town, methods=METHODS, batch=True, caps=Caps(calls=0)))
        assert (nothing.submitted, nothing.waiting) == (0, 0)
        assert nothing.capped > 0
        list(waves(kumi, town))
    assert reader.counts()["repeats"] == 0


def test_a_server_without_batches_is_named_with_the_remedy(tmp_path: Path, reader: FakeServer) -> None:
    reader.configure(batches=False)
    town = write(tmp_path / "town", SMALL)
    with open_town(tmp_path, reader) as kumi:
        with pytest.raises(SettingsError, match=r"offers no Batch API \(404 for /v1/files\): run the same .* without"):
            kumi.index(town, methods=METHODS, batch=True)
        assert not kumi.index(town, methods=METHODS).failed  # nothing waits
    assert reader.counts()["repeats"] == 0


def test_what_cannot_be_done_by_batch_says_so(tmp_path: Path, reader: FakeServer) -> None:
    town = write(tmp_path / "town", SMALL)
    azure = {"api_version": "2024-10-21"}
    with open_town(tmp_path, reader, chat=azure) as kumi, pytest.raises(SettingsError, match="addresses of Azure"):
        kumi.index(town, methods=METHODS, batch=True)
    with open_town(tmp_path, reader) as kumi:
        with pytest.raises(SettingsError, match="--rebuild cannot wait for a batch"):
            kumi.index(town, methods=METHODS, batch=True, rebuild=True)
        assert kumi.index(town, methods=["bm25"], batch=True).batch is None  # it asks nothing


def test_a_server_that_is_down_is_an_error_only_for_batches(tmp_path: Path, reader: FakeServer) -> None:
    town = write(tmp_path / "town", SMALL)
    with open_town(tmp_path, reader, chat={"retries": 0}) as kumi:
        assert kumi.index(town, methods=METHODS, batch=True).batch
        reader.configure(down=True)
        with pytest.raises(KumiError):
            kumi.index(town, methods=METHODS, batch=True)
        assert state_of(kumi.index(town, methods=METHODS)).waiting  # a warning says why
        assert kumi.index(town, methods=["bm25"]).rows["chunks"]


def test_the_command_says_what_happens_and_its_exit_code_too(tmp_path: Path, reader: FakeServer) -> None:
    write(tmp_path / "town", SMALL)
    prices = "prompt_price = 2\ncompletion_price = 8\n"
    (tmp_path / "kumi.toml").write_text(f'[chat]\nmodel = "m"\nbase_url = "{reader.url}"\n{prices}', "utf-8")
    command = ("index", "town", "--methods", "meta", "--batch")
    first = cli_runner.kumi(tmp_path, *command)
    assert first.returncode == 3, first.stderr
    assert re.search(r"^Submitted batch 1: 3 requests \(metadata 3\), about .* tokens, cost 0\.", first.stdout, re.M)
    assert "batch_1: validating, " in first.stdout
    assert (
        "3 requests wait for replies; the index stays as it is. Collect them later: `kumi index --batch`."
        in first.stdout
    )
    assert (
        "When they are there, `kumi index --methods meta` sends the rest directly, at the full price." in first.stdout
    )
    state = cli_runner.kumi(tmp_path, "status").stdout
    assert "3 requests wait in a batch: `kumi index --batch` collects them." in state
    for _ in range(30):
        result = cli_runner.kumi(tmp_path, "index", "--batch")  # it remembers the folder and the methods
        if result.returncode != 3:
            break
        assert re.search(r"Collected \d+ replies.*\nSubmitted batch \d+: ", result.stdout)
    assert result.returncode == 0, result.stderr
    assert re.search(r"Collected \d+ replies of batches\.\nFiles: 3 new\.\nThe index now holds", result.stdout)
    state = cli_runner.kumi(tmp_path, "status").stdout
    assert re.search(r"^methods +meta$", state, re.M)
    assert "requests wait" not in state
    assert cli_runner.kumi(tmp_path, "index", "--batch").stdout.startswith("Nothing has changed in 3 files")


def test_methods_of_a_batch_that_waits_are_not_those_of_other_commands(tmp_path: Path, reader: FakeServer) -> None:
    town = write(tmp_path / "town", SMALL)
    with open_town(tmp_path, reader) as kumi:
        kumi.index(town, methods=["bm25"])
        assert kumi.index(methods=METHODS, batch=True).batch
        assert kumi.status().methods == ("bm25",)
        chats = reader.counts()["chats"]
        (town / "a.txt").unlink()
        assert kumi.index().rows["documents"] == len(SMALL) - 1  # for bm25: it asks nothing
        kumi.remove("town/b.txt")
        assert reader.counts()["chats"] == chats
        list(waves(kumi, town))
        assert kumi.status().methods == METHODS


def test_an_update_by_batches_asks_no_more_than_direct_requests(tmp_path: Path, reader: FakeServer) -> None:
    changed = {**TOWN, **{f"{name}.txt": sentences_of(range(900, 960, step)) for name, step in (("a", 2), ("b", 3))}}
    held, calls = list[Any](), list[int]()
    for name, batch in (("direct", False), ("batch", True)):
        town = write(tmp_path / name / "town", dict(TOWN))
        with open_town(tmp_path / name, reader, reports={"window": 260}) as kumi:
            kumi.index(town, methods=METHODS)
            before = spent(kumi).calls
            write(town, changed)
            assert not [*waves(kumi, town)][-1].failed if batch else not kumi.index(town, methods=METHODS).failed
            calls.append(spent(kumi).calls - before)
            held.append(tables(kumi))
        reader.reset()
    assert calls[0] == calls[1] > 0
    assert held[0] == held[1]


def test_methods_of_a_batch_that_was_finished_directly_do_not_come_back(tmp_path: Path, reader: FakeServer) -> None:
    town = write(tmp_path / "town", SMALL)
    with open_town(tmp_path, reader) as kumi:
        assert state_of(kumi.index(town, methods=METHODS, batch=True)).methods == METHODS
        assert kumi.index(methods=METHODS).rows["reports"]
        kumi.index(methods=["bm25"])
        assert kumi.index(batch=True).batch is None
        assert kumi.status().methods == ("bm25",)


def test_methods_that_were_named_last_are_those_of_the_batch(tmp_path: Path, reader: FakeServer) -> None:
    town = write(tmp_path / "town", SMALL)
    with open_town(tmp_path, reader) as kumi:
        assert kumi.index(town, methods=METHODS, batch=True).batch
        kumi.index(methods=["bm25"])  # asks nothing, so that it does not wait
        assert kumi.index(batch=True).batch is None
        assert kumi.status().methods == ("bm25",)


def test_a_batch_on_another_server_can_be_given_up(
    tmp_path: Path, reader: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    town = write(tmp_path / "town", SMALL)
    with open_town(tmp_path, reader) as kumi:
        submitted = state_of(kumi.index(town, methods=METHODS, batch=True)).submitted
    with open_town(tmp_path, reader, chat={"base_url": reader.url.replace("127.0.0.1", "localhost")}) as kumi:
        assert state_of(kumi.index(town, methods=METHODS)).waiting == submitted
        assert "names now: set it to collect the replies, or give them up: `kumi cache drop-batches`" in caplog.text
        with pytest.raises(IndexUnavailable, match="or give it up: `kumi cache drop-batches`"):
            kumi.prune()
        assert kumi.drop_batches() == submitted
        assert kumi.drop_batches() == 0
        assert kumi.index(town, methods=METHODS).rows["reports"]
        kumi.prune()


def test_the_command_gives_batches_up(tmp_path: Path, reader: FakeServer) -> None:
    write(tmp_path / "town", SMALL)
    (tmp_path / "kumi.toml").write_text(f'[chat]\nmodel = "m"\nbase_url = "{reader.url}"\n', "utf-8")
    assert cli_runner.kumi(tmp_path, "index", "town", "--methods", "meta", "--batch").returncode == 3
    assert cli_runner.kumi(tmp_path, "cache", "drop-batches").stdout == "Gave up 3 requests in batches.\n"
    assert "requests wait" not in cli_runner.kumi(tmp_path, "status").stdout


def test_files_of_a_batch_are_deleted_when_its_replies_are_in_the_cache(
    tmp_path: Path, reader: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    files = openai.OpenAI(base_url=reader.url, api_key="k").files
    town = write(tmp_path / "town", SMALL)
    with open_town(tmp_path, reader) as kumi:
        kumi.index(town, methods=METHODS, batch=True)
        requests, _ = [file.id for file in files.list()]
        files.delete(requests)  # the server has deleted it before
        state_of(kumi.index(town, methods=METHODS, batch=True))
        first = [file.id for file in files.list()]
        assert len(first) == 2  # of the second batch
        assert not caplog.text
        reader.configure(batch_files_stay=True)
        kumi.index(town, methods=METHODS, batch=True)
        assert f"keeps files of a batch, with texts of documents: {', '.join(first)}" in caplog.text
        reader.configure(batch_files_stay=False)
        assert not [*waves(kumi, town)][-1].failed
        assert [file.id for file in files.list()] == first
