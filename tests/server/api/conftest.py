"""An index of open and secret documents, built once, and the API over it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.api.town import Api, build_town, serve


@pytest.fixture(scope="session")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_town(tmp_path_factory.mktemp("api"))


@pytest.fixture(scope="module")
def api(town: Path) -> Iterator[Api]:
    """For tests that only read."""
    with serve(town) as api:
        yield api


@pytest.fixture
def own_town(town: Path, tmp_path: Path) -> Path:
    """A copy, for tests that build."""
    shutil.copytree(town, tmp_path / "copy")
    return tmp_path / "copy"
