"""What grows with a document, a reply or a body runs in threads, and in time that grows with its length alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any

import httpx2
import jinja2
import pytest
from mcp import Client
from python_multipart.multipart import MultipartParser

from kumihimo import Answer, Context
from kumihimo.core.answer import Part
from kumihimo.core.spans import Citation, Span
from kumihimo.core.usage import Usage
from kumihimo.generation.citation_filter import CitationFilter
from kumihimo.server.api import builds
from kumihimo.server.mcp import results
from kumihimo.server.openai import replies, requests
from kumihimo.server.openai.formats import ChatFormat
from kumihimo.server.pages import markdown
from kumihimo.server.pages.markdown import markdown_blocks, write_cite
from kumihimo.server.settings import ServerSettings
from kumihimo.server.uploads import Form
from tests.counters import check_linear
from tests.server.running import Serving, serving

QUESTION = "Who drew the tide gates?"
HEAVY: list[tuple[Any, str]] = [
    (Answer, "to_dict"),
    (Context, "to_dict"),
    (Part, "marked"),
    (replies, "url_citations"),
    (replies, "source_list"),
    (requests, "split_conversation"),
    (requests, "parse_body"),
    (results, "place_line"),
    (builds, "build_json"),
    (markdown._Parser, "add_line"),
    (markdown, "_sign_spans"),
    (jinja2.Template, "render"),
    (MultipartParser, "write"),
    (Form, "store"),
]


@pytest.fixture(scope="module")
def served(harbour_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = copytree(harbour_folder, tmp_path_factory.mktemp("loop") / "harbour" / ".kumi")
    with serving(folder, settings=ServerSettings(uploads=tmp_path_factory.mktemp("uploads"))) as served:
        yield served


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[bool]]:
    """Name of each heavy function -> whether an event loop ran in the thread of its calls."""
    calls: dict[str, set[bool]] = {}

    def record(name: str, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            calls.setdefault(name, set()).add(False)
        else:
            calls.setdefault(name, set()).add(True)
        return function(*args, **options)

    for owner, name in HEAVY:
        recording = partial(record, f"{owner.__name__}.{name}", getattr(owner, name))
        monkeypatch.setattr(owner, name, lambda *args, record=recording, **options: record(*args, **options))
    return calls


def test_the_event_loop_is_free_of_what_grows(served: Serving, calls: dict[str, set[bool]]) -> None:
    with httpx2.Client(base_url=served.address, timeout=60) as client:
        for path in ("/", "/documents", "/graph", "/reports", "/status", "/api/v1/methods", "/nothing"):
            client.get(path, headers={"Accept": "text/html"})
        for document in client.get("/api/v1/documents").json()["documents"]:
            assert client.get(f"/documents/{document['id']}").status_code == 200
        for report in client.get("/api/v1/reports").json()["reports"]:
            assert client.get(f"/reports/{report['id']}").status_code == 200
        csrf = client.get("/").text.partition('name="csrf" value="')[2].partition('"')[0]
        assert client.post("/", data={"csrf": csrf, "question": QUESTION}).status_code == 200
        for stream in (False, True):
            assert client.post("/api/v1/ask", json={"question": QUESTION, "stream": stream}).status_code == 200
            messages = [{"role": "user", "content": QUESTION}]
            chat = {"model": "kumi", "messages": messages, "stream": stream}
            assert client.post("/v1/chat/completions", json=chat).status_code == 200
        assert client.post("/api/v1/retrieve", json={"question": QUESTION}).status_code == 200
        job = client.post("/api/v1/documents", files={"file": ("note.md", b"The quay is old.")}).json()["build"]
        assert client.get(f"/api/v1/builds/{job['id']}/events").status_code == 200
        assert client.get("/api/v1/builds").status_code == 200

    async def use_tools() -> None:
        async with Client(f"{served.address}/mcp") as tools:
            for tool in ("ask", "search"):
                assert (await tools.call_tool(tool, {"question": QUESTION})).structured_content

    asyncio.run(use_tools())
    assert calls == {f"{owner.__name__}.{name}": {False} for owner, name in HEAVY}


def cited(text: str) -> Answer:
    """The answer of a model that has written this text, over one source."""
    filtered = CitationFilter(sources=1)
    filtered(text)
    filtered.end()
    citation = Citation(1, Span("c", "a.md", 0, 5, "words"))
    part = Part("sentence", filtered.text, (citation,), tuple(filtered.citations))
    return Answer("Who?", "braid", (part,), Context(), Usage())


def write_all(text: str) -> None:
    """Do all that a reply of a model with this text needs."""
    answer = cited(text)
    ChatFormat("kumi", lambda span: span.uri).whole(answer)
    answer.to_dict()
    results.answer_result("notes", answer)
    for part in answer.parts:
        markdown_blocks(part.marked(write_cite).text)


@pytest.mark.parametrize("piece", ["At nine [1]. ", "[1]", "- at nine [1]\n", "At nine [1].\n\n"])
def test_the_work_for_a_reply_grows_with_its_markers(piece: str) -> None:
    check_linear(write_all, piece)
