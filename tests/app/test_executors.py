"""When a build starts workers: for work that is waiting, and for new files that bring it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.app.build import executors
from kumihimo.app.build.executors import FleetExecutor
from kumihimo.core.task import PureWork
from kumihimo.workers.fleet import Fleet
from tests.workers import works


class IdleFleet(Fleet):
    """A fleet whose workers never come. starts: how often it was started."""

    starts = 0

    def start(self) -> None:
        self.starts += 1


@pytest.fixture
def fleet() -> IdleFleet:
    return IdleFleet(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("seconds", "starts"), [(0.3, False), (0.6, True)])
def test_jobs_that_bring_much_work_start_workers_before_the_first_is_done(
    fleet: IdleFleet, seconds: float, starts: bool
) -> None:
    results = FleetExecutor(fleet)(PureWork(str, works.Spec("tell_process")), range(2), lambda _: seconds)
    assert next(results) == "0"
    assert bool(fleet.starts) == starts
    assert list(results) == ["1"]


def test_small_jobs_start_no_workers_however_many_there_are(fleet: IdleFleet) -> None:
    assert list(FleetExecutor(fleet)(PureWork(str, works.Spec("tell_process")), range(3000)))
    assert fleet.starts == 0


def test_large_new_files_start_workers_and_small_ones_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Fleet] = []
    monkeypatch.setattr(Fleet, "start", lambda fleet: started.append(fleet))
    monkeypatch.setattr(executors.JobCost, "is_measured", lambda _: False)  # only the files count
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("Two boats wait.\n", "utf-8")
    with Kumihimo.open(tmp_path / "index", settings={"building": {"executor": "processes", "workers": 2}}) as kumi:
        kumi.index(notes, methods=["bm25"])
        assert started == []
        (notes / "b.md").write_text("\n" * 3_000_000, "utf-8")
        kumi.index(methods=["bm25"])
        assert started
