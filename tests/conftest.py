"""the environment -> one in which no test can ask a real model, and no key or setting of the developer's is seen."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from kumihimo.testing.fake_server import FakeServer, run_fake_server


def pytest_xdist_auto_num_workers() -> int:
    """Of `-n auto`: one more than there are cores, for builds wait for the disk."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(scope="session", autouse=True)
def offline() -> None:
    """For this process and those it starts: only servers on this machine may be asked."""
    for name in [name for name in os.environ if name.startswith(("KUMI_", "OPENAI_"))]:
        del os.environ[name]
    os.environ["KUMI_OFFLINE"] = "1"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each process that is started compiles all that it imports


@pytest.fixture(scope="session")
def one_server() -> Iterator[FakeServer]:
    with run_fake_server() as server:
        yield server


@pytest.fixture
def server(one_server: FakeServer) -> FakeServer:
    """A model server over HTTP, as it is when nothing is wrong with it."""
    one_server.configure(**USUAL)
    one_server.reset()
    return one_server


USUAL = {
    "latency": 0.0,
    "key": "",
    "models": [],
    "refuses": [],
    "window": 0,
    "usage": True,
    "cached": 0.0,
    "retry_after": 0.0,
    "faults": {},
    "drip": 1.0,
    "down": False,
    "replies": [],
    "seed": 0,
    "dimensions": 32,
}
