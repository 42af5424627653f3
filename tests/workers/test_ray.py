"""A fleet on a Ray cluster: the same tables; a worker that is killed; a machine that joins."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kumihimo import Kumihimo
from kumihimo.app.build import executors
from kumihimo.core.errors import SettingsError
from kumihimo.core.task import PureWork
from kumihimo.workers.fleet import Fleet
from kumihimo.workers.ray_workers import RayRecruiter
from tests.fixtures_index import dump
from tests.workers import works

EXAMPLES = Path(__file__).parents[2] / "examples"
METHODS = ["bm25", "naive", "braid"]


def test_without_ray_the_error_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        Kumihimo.open(tmp_path / "index", settings={"building": {"executor": "ray"}}) as kumi,
        pytest.raises(SettingsError, match=r"pip install 'kumihimo\[ray\]'"),
    ):
        kumi.index(EXAMPLES)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    pytest.importorskip("ray", reason="there is no Ray: pip install 'kumihimo[ray]'")
    import ray
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    ray.init(cluster.address, log_to_driver=False, logging_level="error")
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def fleet(cluster: Any) -> Iterator[Fleet]:
    fleet = Fleet(RayRecruiter("", 0, "tests.workers.works:open_nothing"))
    fleet.start()
    for _ in range(6000):
        if fleet.is_ready():
            break
        time.sleep(0.01)
    yield fleet
    fleet.close()


def run_until_workers(fleet: Fleet, kill_first: bool, workers: int) -> list[int]:
    """Do numbered jobs until this many workers did some; return the numbers of the jobs."""
    seen, numbers = set[int](), list[int]()

    def jobs() -> Iterator[int]:
        for number in range(3000):
            if len(seen) > workers and number > 100:  # this process is one of them
                return
            yield number

    def do_here(number: int) -> Any:
        time.sleep(0.02)
        return os.getpid(), number

    for pid, number in fleet.run(PureWork(do_here, works.Spec("show_process")), jobs()):
        if kill_first and pid != os.getpid() and pid not in seen and len(seen) < workers:
            os.kill(pid, signal.SIGKILL)
        seen.add(pid)
        numbers.append(number)
    assert len(seen) > workers
    return numbers


def test_the_jobs_of_a_killed_worker_run_again(fleet: Fleet) -> None:
    numbers = run_until_workers(fleet, kill_first=True, workers=2)
    assert numbers == list(range(len(numbers)))


def test_a_machine_that_joins_takes_part(fleet: Fleet, cluster: Any) -> None:
    node = cluster.add_node(num_cpus=1)
    numbers = run_until_workers(fleet, kill_first=False, workers=2)
    assert numbers == list(range(len(numbers)))
    cluster.remove_node(node)


def test_ray_makes_the_same_index(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_WORTH", "_MIN_JOB", "_MIN_LOOKUP", "_MEASURED", "_MIN_WAITING"):
        monkeypatch.setattr(executors, name, 0.0)
    contents = []
    for executor in ("inline", "ray"):
        with Kumihimo.open(tmp_path / executor, settings={"building": {"executor": executor}}) as kumi:
            kumi.index(EXAMPLES, methods=METHODS)
            contents.append(dump(kumi, METHODS))
    assert contents[0] == contents[1]
