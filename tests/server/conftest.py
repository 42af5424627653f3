"""one index of three documents, and a workspace with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kumihimo.server.workspace import Workspace, open_workspace
from tests.server.running import HARBOUR, build_index


@pytest.fixture(scope="session")
def harbour_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of three short documents, with a graph and reports."""
    return build_index(tmp_path_factory.mktemp("served") / "harbour", HARBOUR)


@pytest.fixture(scope="session")
def harbour(harbour_folder: Path) -> Iterator[Workspace]:
    """A workspace with that index."""
    workspace = open_workspace([harbour_folder])
    yield workspace
    asyncio.run(workspace.aclose())
