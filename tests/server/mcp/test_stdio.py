"""`kumi mcp` -> a server on standard input and output, which holds nothing but the protocol."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters

from tests import cli_runner


def test_a_client_starts_the_command_and_asks(harbour_folder: Path) -> None:
    arguments = ["-m", "kumihimo.cli.entry", "mcp", "--index", str(harbour_folder)]

    async def run() -> str:
        async with Client(StdioServerParameters(command=sys.executable, args=arguments)) as client:
            answer = await client.call_tool("ask", {"question": "Who drew the tide gates?"})
            return str(answer.structured_content)

    assert "Maren Oldacre drew the tide gates in 1983." in asyncio.run(run())


def test_standard_output_holds_messages_alone(harbour_folder: Path) -> None:
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]
    typed = "".join(f"{json.dumps(message)}\n" for message in [*messages, "no message"])
    ran = cli_runner.kumi(harbour_folder.parent, "mcp", typed=typed)
    replies = [json.loads(line) for line in ran.stdout.splitlines()]
    assert {reply["jsonrpc"] for reply in replies} == {"2.0"}
    assert replies[0]["result"]["serverInfo"]["name"] == "kumihimo"
    assert ran.returncode == 0


def test_an_index_that_does_not_exist_is_named_on_standard_error(tmp_path: Path) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    ran = cli_runner.kumi(tmp_path, "mcp", "--index", "a", "--index", "b/a", typed=json.dumps(message))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "two indexes are called a" in ran.stderr
