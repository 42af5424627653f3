"""a workspace -> OpenAI's own client, connected to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from openai import OpenAI

from kumihimo.server.access import local_caller
from kumihimo.server.app import create_app
from kumihimo.server.workspace import Workspace
from tests.server.running import running, with_caller


@pytest.fixture(scope="session")
def address(harbour: Workspace) -> Iterator[str]:
    """The address of a server of that workspace."""
    with running(with_caller(create_app(harbour), local_caller(harbour))) as address:
        yield address


@pytest.fixture(scope="session")
def client(address: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
        yield client
