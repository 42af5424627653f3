"""Several processes build the same index as one: after each change, after a kill, and with a notebook's functions."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.app.build import executors
from kumihimo.app.build.executors import open_executor
from kumihimo.app.settings.settings_registry import BuildingSettings
from kumihimo.core.errors import SettingsError
from kumihimo.core.task import Executor, ProgressEvent, inline
from kumihimo.workers.fleet import Fleet
from tests.fixtures_index import dump

EXAMPLES = Path(__file__).parents[2] / "examples"
METHODS = ["bm25", "naive", "braid", "local"]
PROCESSES = {"building": {"executor": "processes", "workers": 3}}


@pytest.fixture(autouse=True)
def everything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start workers at once, and send them all kinds of work."""
    for name in ("_WORTH", "_MIN_JOB", "_MIN_LOOKUP", "_MEASURED", "_MIN_WAITING"):
        monkeypatch.setattr(executors, name, 0.0)


@pytest.fixture
def fleets(monkeypatch: pytest.MonkeyPatch) -> list[Fleet]:
    """Return the fleets of the test, which wait until their workers are ready."""
    opened: list[Fleet] = []
    start = Fleet.start

    def start_and_wait(self: Fleet) -> None:
        start(self)
        opened.append(self)
        while not self.is_ready():
            pass

    monkeypatch.setattr(Fleet, "start", start_and_wait)
    return opened


def test_several_processes_build_the_same_index(fleets: list[Fleet], tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    shutil.copytree(EXAMPLES, notes)
    with Kumihimo.open(tmp_path / "one") as one, Kumihimo.open(tmp_path / "several", settings=PROCESSES) as several:
        one.index(notes, methods=METHODS)
        built = several.index(notes, methods=METHODS)
        assert (built.failed, built.skipped) == ((), ())
        assert fleets
        assert dump(several, METHODS) == dump(one, METHODS)
        first, second = sorted(notes.glob("*.md"))[:2]
        first.unlink()
        second.write_text(second.read_text("utf-8") + "\nBea Orrell bought a ferry of Fenwick.\n", "utf-8")
        one.index()
        several.index()
        assert dump(several, METHODS) == dump(one, METHODS)


def test_a_worker_that_is_killed_changes_nothing(fleets: list[Fleet], tmp_path: Path) -> None:
    killed: list[int] = []

    def kill_once(event: ProgressEvent) -> None:
        if event.step == "names" and not killed:
            killed.extend(fleets[0].pids[:1])
            os.kill(killed[0], signal.SIGKILL)

    with Kumihimo.open(tmp_path / "one") as one, Kumihimo.open(tmp_path / "several", settings=PROCESSES) as several:
        one.index(EXAMPLES, methods=METHODS)
        several.index(EXAMPLES, methods=METHODS, progress=kill_once)
        assert killed
        assert dump(several, METHODS) == dump(one, METHODS)


def test_a_small_build_starts_no_worker(fleets: list[Fleet], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_WORTH", 1e9)
    with Kumihimo.open(tmp_path, settings=PROCESSES) as kumi:
        assert kumi.index(EXAMPLES, methods=METHODS).failed == ()
    assert fleets == []


@contextmanager
def executor_of(kumi: Kumihimo, name: str) -> Iterator[Executor]:
    with open_executor(kumi.opened, BuildingSettings(executor=name)) as executor:
        yield executor


def test_functions_of_a_notebook_keep_the_build_in_its_process(tmp_path: Path) -> None:
    def recognizer(texts: list[str]) -> list[list[object]]:
        return [[] for _ in texts]

    recognizer.fingerprint = "none"  # type: ignore[attr-defined]
    with Kumihimo.open(tmp_path, recognizer=recognizer) as kumi, executor_of(kumi, "processes") as executor:  # type: ignore[arg-type]
        assert executor is inline
    with Kumihimo.open(tmp_path) as kumi, executor_of(kumi, "inline") as executor:
        assert executor is inline


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"executor": "threads"}, "no executor 'threads'"),
        ({"executor": "processes://here"}, "no executor"),
        ({"workers": -1}, "at least 0"),
    ],
)
def test_wrong_settings_name_the_remedy(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        BuildingSettings(**settings)  # type: ignore[arg-type]
