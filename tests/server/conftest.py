"""one index of three documents, and a workspace with it; a copy with keys, and clients of applications over it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient

from kumihimo.app.upkeep.keys import create_key
from kumihimo.server.app import create_app
from kumihimo.server.settings import ServerSettings
from kumihimo.server.workspace import Workspace, open_workspace
from tests.server.clients import ADDRESS, Open
from tests.server.running import HARBOUR, build_index

if TYPE_CHECKING:
    from playwright.sync_api import Browser


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


@pytest.fixture(scope="module")
def folder(harbour_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the index, with keys."""
    copy = tmp_path_factory.mktemp("attacked") / "harbour"
    shutil.copytree(harbour_folder.parent, copy)
    return copy / ".kumi"


@pytest.fixture(scope="module")
def workspace(folder: Path) -> Iterator[Workspace]:
    """A workspace with the copy."""
    workspace = open_workspace([folder])
    yield workspace
    asyncio.run(workspace.aclose())


@pytest.fixture(scope="module")
def token(folder: Path) -> str:
    """A key of the copy for everything."""
    return create_key([folder], "admin")[1]


@pytest.fixture
def open_client(workspace: Workspace) -> Iterator[Open]:
    """Clients of applications over one workspace, which stays open."""
    kept = Workspace(workspace.indexes)
    with ExitStack() as stack:

        def open_one(settings: ServerSettings) -> TestClient:
            client = TestClient(create_app(kept, settings), base_url=ADDRESS, follow_redirects=False)
            stack.callback(client.close)
            return client

        yield open_one


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium; modules that use it are skipped where it is missing."""
    from tests.server.browsing import launched  # it needs playwright

    with launched() as browser:
        yield browser
