"""A build with Ray: the same index, nothing started for a small one, and errors that name the job."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kumihimo import Kumihimo
from kumihimo.app.build import ray_executor
from kumihimo.app.build.prepare_build import open_executor
from kumihimo.app.build.ray_executor import RayExecutor
from kumihimo.app.settings.settings_registry import BuildingSettings
from kumihimo.connections import join_ray
from kumihimo.core.cancel import CancelToken
from kumihimo.core.errors import Cancelled, SettingsError, StepError
from kumihimo.core.executors import SharedWork
from kumihimo.core.task import ProgressEvent
from kumihimo.search.vectors import EmbeddingSpec
from tests.fake_ray import FakeRay
from tests.fixtures_index import dump

EXAMPLES = Path(__file__).parents[2] / "examples"
METHODS = ["bm25", "naive", "braid"]
RAY = {"building": {"executor": "ray", "workers": 2}}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    monkeypatch.setitem(sys.modules, "ray", fake := FakeRay())
    return fake


@pytest.fixture
def everything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_WORTH", "_MIN_JOB", "_MEASURED"):
        monkeypatch.setattr(ray_executor, name, 0.0)


@pytest.mark.usefixtures("everything_is_sent")
def test_workers_build_the_same_index(fake: FakeRay, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    shutil.copytree(EXAMPLES, notes)
    with Kumihimo.open(tmp_path / "one") as one, Kumihimo.open(tmp_path / "several", settings=RAY) as several:
        one.index(notes, methods=METHODS)
        built = several.index(notes, methods=METHODS)
        assert (built.failed, built.skipped, fake.starts) == ((), (), 1)
        assert fake.tasks
        assert not fake.is_initialized()
        assert dump(several, METHODS) == dump(one, METHODS)
        first, second = sorted(notes.glob("*.md"))[:2]
        first.unlink()
        second.write_text(second.read_text("utf-8") + "\nBea Orrell bought a ferry of Fenwick.\n", "utf-8")
        one.index()
        several.index()
        assert dump(several, METHODS) == dump(one, METHODS)


def test_a_small_build_starts_nothing(fake: FakeRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_executor, "perf_counter", lambda: 0.0)
    with Kumihimo.open(tmp_path, settings=RAY) as kumi:
        assert kumi.index(EXAMPLES, methods=METHODS).failed == ()
    assert (fake.starts, fake.tasks) == (0, 0)


@pytest.mark.usefixtures("everything_is_sent")
def test_an_error_names_the_job_and_loses_nothing(fake: FakeRay, tmp_path: Path) -> None:
    fake.crashes = True
    with Kumihimo.open(tmp_path, settings=RAY) as kumi:
        with pytest.raises(StepError, match=r"\(files of examples/[\w.-]+\).*--executor inline"):
            kumi.index(EXAMPLES, methods=METHODS)
        fake.crashes = False
        assert kumi.index(EXAMPLES, methods=METHODS).failed == ()


@pytest.mark.usefixtures("fake", "everything_is_sent")
def test_an_error_of_the_work_is_raised_as_it_is() -> None:
    work: SharedWork[Any, Any] = SharedWork(str, EmbeddingSpec())
    with RayExecutor() as executor, pytest.raises(TypeError) as failure:
        executor.submit(work, 5).result()
    assert "traceback" in str(failure.value.__cause__)


@pytest.mark.usefixtures("everything_is_sent")
def test_a_build_that_waits_for_the_cluster_can_be_cancelled(fake: FakeRay, tmp_path: Path) -> None:
    fake.waits, cancel = True, CancelToken()
    work: SharedWork[Any, Any] = SharedWork(str, EmbeddingSpec())
    with RayExecutor(cancel=cancel) as executor:
        future = executor.submit(work, 1)
        assert (fake.tasks, future.done()) == (1, False)
        cancel.cancel()
        with pytest.raises(Cancelled):
            future.result()
        with pytest.raises(Cancelled):
            executor.submit(work, 3)


def test_a_missing_cluster_and_a_missing_package_name_the_remedy(
    fake: FakeRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUMI_OFFLINE", "0")
    with pytest.raises(SettingsError, match=r"no Ray cluster at ray://nowhere:1: nobody answers; start it with"):
        join_ray("ray://nowhere:1")
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        Kumihimo.open(tmp_path / "index", settings=RAY) as kumi,
        pytest.raises(SettingsError, match=r"pip install 'kumihimo\[ray\]'"),
    ):
        kumi.index(EXAMPLES)


def test_functions_of_a_notebook_keep_the_build_in_its_process(fake: FakeRay, tmp_path: Path) -> None:
    def recognizer(texts: list[str]) -> list[list[object]]:
        return [[] for _ in texts]

    recognizer.fingerprint = "none"  # type: ignore[attr-defined]
    with Kumihimo.open(tmp_path, recognizer=recognizer) as kumi:  # type: ignore[arg-type]
        assert not isinstance(open_executor(kumi.opened, BuildingSettings(executor="ray"), None), RayExecutor)
    with Kumihimo.open(tmp_path, chat=recognizer) as kumi:  # no job of a worker asks a model
        assert isinstance(open_executor(kumi.opened, BuildingSettings(executor="ray"), None), RayExecutor)
    with Kumihimo.open(tmp_path) as kumi:
        assert isinstance(open_executor(kumi.opened, BuildingSettings(executor="ray"), None), RayExecutor)
        assert not isinstance(open_executor(kumi.opened, BuildingSettings(), None), RayExecutor)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"executor": "processes"}, "'processes' is no address: write it like `inline`, `ray`, ray://HOST:10001"),
        ({"executor": "inline://here"}, "is no address"),
    ],
)
def test_wrong_settings_name_the_remedy(settings: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=message), Kumihimo.open(tmp_path, settings={"building": settings}) as kumi:
        kumi.index(EXAMPLES)


# -- Ray itself


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    pytest.importorskip("ray", reason="there is no Ray: pip install 'kumihimo[ray]'")
    import ray
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    ray.init(cluster.address, log_to_driver=False, logging_level="error")
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def worker_ids() -> list[int]:
    """The processes of Ray that have a job."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            found += [int(path.parent.name)] if path.read_bytes().startswith(b"ray::run_job") else []
    return found


@pytest.mark.usefixtures("cluster", "everything_is_sent")
def test_ray_makes_the_same_index_though_a_worker_is_killed(tmp_path: Path) -> None:
    killed: list[int] = []

    def kill_once(event: ProgressEvent) -> None:
        if not killed and (busy := worker_ids()):
            os.kill(busy[0], signal.SIGKILL)
            killed.append(busy[0])

    contents: list[object] = []
    for settings, progress in ({}, None), (RAY, kill_once):
        with Kumihimo.open(tmp_path / str(len(contents)), settings=settings) as kumi:
            assert kumi.index(EXAMPLES, methods=METHODS, progress=progress).failed == ()
            contents.append(dump(kumi, METHODS))
    assert killed
    assert contents[0] == contents[1]
