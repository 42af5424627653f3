"""a server of one index -> OpenAI's own client, connected to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from kumihimo import Kumihimo
from tests.server.running import Serving, serving


@pytest.fixture(scope="session")
def openai_server(harbour_folder: Path) -> Iterator[Serving]:
    with serving(harbour_folder) as server:
        yield server


@pytest.fixture(scope="session")
def kumi(openai_server: Serving) -> Kumihimo:
    """The index that is served."""
    return openai_server.kumi


@pytest.fixture(scope="session")
def address(openai_server: Serving) -> str:
    return openai_server.address


@pytest.fixture(scope="session")
def client(address: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
        yield client
