"""a call of a tool -> values and text; errors name the remedy, and what is hidden stays so."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from mcp import Client, MCPError
from mcp.types import CallToolResult

from kumihimo.core.answer import TRUNCATION_NOTE
from kumihimo.llm.protocols import ChatRequest, Reply
from kumihimo.server.access import Caller, IndexGrant
from kumihimo.server.workspace import Workspace
from kumihimo.testing.fake_models import FakeChat
from tests.server.mcp.conftest import Talk, talk_to
from tests.server.running import answered_by

QUESTION = "Who drew the tide gates?"


def calling(tool: str, /, **arguments: Any) -> Callable[[Client], Awaitable[CallToolResult]]:
    return lambda client: client.call_tool(tool, arguments)


def text(result: CallToolResult) -> str:
    (content,) = result.content
    assert content.type == "text"
    return content.text


def values(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, text(result)
    found: dict[str, Any] | None = result.structured_content
    assert found
    return found


# -- what a client learns first


def test_each_tool_is_described_to_somebody_who_knows_nothing(talk: Talk) -> None:
    tools = talk(lambda client: client.list_tools()).tools
    assert [tool.name for tool in tools] == ["search", "ask", "open_citation", "list_documents", "entity", "report"]
    for tool in tools:
        assert tool.annotations.read_only_hint
        assert 60 < len(tool.description) < 300
        assert [p for p in tool.input_schema["properties"].values() if not p.get("description")] == []
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert tool.output_schema is None
    assert len(json.dumps([tool.model_dump(mode="json") for tool in tools])) < 16_000  # it stands in every prompt


def test_the_index_is_asked_for_only_where_there_are_several(talk: Talk, harbour: Workspace) -> None:
    (served,) = harbour.indexes.values()
    both = Workspace({"harbour": served, "town": replace(served, name="town")})
    one, several = (t(lambda client: client.list_tools()).tools[0].input_schema for t in (talk, talk_to(both)))
    assert "index" not in one["properties"]
    assert several["properties"]["index"]["enum"] == ["", "harbour", "town"]


# -- search and ask


def test_search_returns_passages_with_their_places(talk: Talk, harbour: Workspace) -> None:
    result = talk(calling("search", question=QUESTION, k=2))
    first, second = values(result)["evidence"]
    assert "Maren Oldacre drew the tide gates" in first["text"]
    assert (first["uri"], first["title"], first["place"]) == ("files/gates.md", "The tide gates", "line 5")
    assert (first["metadata"]["author"], first["metadata"]["date"]) == ("Sabine Orrell", "2024-05-02")
    assert [first["rank"], second["rank"]] == [1, 2]
    assert f"[chunks:{first['id']}]" in text(result)
    assert second["id"] in text(result)
    with harbour.indexes["harbour"].kumi.snapshot() as snapshot:
        assert snapshot.find(first["id"]).text == first["text"]
        assert snapshot.table("documents")[first["document"]].text[first["start"] : first["end"]] == first["text"]


def test_long_passages_are_cut_and_say_so(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kumihimo.server.mcp.results._MAX_EACH", 20)
    result = talk(calling("search", question=QUESTION))
    assert {len(item["text"]) for item in values(result)["evidence"]} == {20}
    assert text(result).endswith("open_citation shows the whole.")


@pytest.mark.parametrize("method", ["", "bm25", "global"])
def test_ask_answers_with_citations_that_can_be_opened(talk: Talk, method: str) -> None:
    async def converse(client: Client) -> tuple[dict[str, Any], dict[str, Any], str]:
        asked = await client.call_tool("ask", {"question": QUESTION, "method": method, "length": None})
        place = values(asked)["citations"][0]
        opened = await client.call_tool(
            "open_citation", {"id": place["document"], "start": place["start"], "end": place["end"]}
        )
        return values(asked), values(opened), text(asked)

    answer, opened, shown = talk(converse)
    cited = answer["citations"][0]
    assert opened["text"] == cited["text"]
    assert opened["passage"] == {**{name: cited[name] for name in opened["passage"]}, "chunk": ""}
    assert (cited["metadata"]["author"], cited["metadata"]["date"]) == ("Sabine Orrell", "2024-05-02")
    assert "[1]" in answer["text"]
    assert "Sources:\n[1] " in shown
    assert answer["text"] in shown
    assert answer["model"] == ""
    assert (answer["index"], answer["status"], answer["truncated"]) == ("harbour", "answered", False)


def test_ask_says_that_nothing_answers(talk: Talk) -> None:
    result = talk(calling("ask", question="Which bananas grow on Jupiter?"))
    assert text(result).startswith("No passage that answers this was found.\n\nNo document mentions")
    found = values(result)
    assert (found["status"], found["citations"]) == ("nothing", [])


def test_ask_says_that_the_reply_of_a_model_was_cut(harbour: Workspace) -> None:
    class Cuts(FakeChat):
        """A model whose replies reach their limit."""

        def __call__(self, request: ChatRequest) -> Reply:
            return Reply("Maren Oldacre [1]", finish_reason="length")

    with answered_by(harbour.indexes["harbour"].kumi, Cuts(str, fingerprint="cuts in a tool")):
        result = talk_to(harbour)(calling("ask", question=QUESTION))
    assert (values(result)["text"], values(result)["truncated"]) == ("Maren Oldacre [1]", True)
    assert text(result).startswith(f"Maren Oldacre [1]\n\n{TRUNCATION_NOTE}\n\nSources:\n[1] ")


def test_a_model_that_writes_is_reported_meanwhile(harbour: Workspace) -> None:
    news: list[tuple[float, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        news.append((progress, message))

    async def converse(client: Client) -> CallToolResult:
        return await client.call_tool("ask", {"question": QUESTION, "filter": "date > 2023"}, progress_callback=hear)

    with answered_by(harbour.indexes["harbour"].kumi, FakeChat(lambda _: "She did [1].", fingerprint="m/1 at home")):
        answer = values(talk_to(harbour)(converse))
    assert answer["text"] == "She did [1]."
    assert answer["model"] == "m/1"
    assert news == [(1, "searching"), (2, "m/1 writes the answer")]


# -- documents


def test_a_row_is_opened_at_its_first_source(talk: Talk) -> None:
    found = values(talk(calling("search", question="oat seed", k=1)))["evidence"][0]
    opened = values(talk(calling("open_citation", id=found["id"], around=10)))
    assert opened["text"] == found["text"]
    assert len(opened["before"]) <= 10
    assert opened["after"] == "\n"


def test_a_document_is_read_part_by_part(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kumihimo.server.mcp.results._MAX_TEXT", 50)
    parts, start = list[str](), 0
    while start is not None:
        opened = values(talk(calling("open_citation", id="files/ferry.md", start=start, end=10_000, around=0)))
        parts.append(opened["text"])
        start = opened["next_start"]
    assert len(parts) > 2
    assert "".join(parts).endswith("Joss Kerrow is the skipper of the ferry.\n")
    assert len("".join(parts)) == opened["characters"]


def test_documents_are_listed_page_by_page(talk: Talk) -> None:
    async def converse(client: Client) -> list[list[str]]:
        pages, cursor = list[list[str]](), ""
        while not pages or cursor:
            result = values(await client.call_tool("list_documents", {"limit": 2, "cursor": cursor}))
            pages.append([document["uri"] for document in result["documents"]])
            cursor = result["next_cursor"]
            assert result["total"] == 3
        return pages

    assert talk(converse) == [["files/ferry.md", "files/gates.md"], ["files/seeds.md"]]


def test_documents_are_listed_by_filter_with_their_metadata(talk: Talk) -> None:
    result = talk(calling("list_documents", filter="date >= 2023", text="ferry"))
    (document,) = values(result)["documents"]
    assert document["metadata"]["author"] == "Joss Kerrow"
    assert text(result).startswith("2 documents in harbour.\n\n- The ferry (files/ferry.md) [")


# -- the graph


def test_an_entity_has_neighbours_and_passages(talk: Talk) -> None:
    result = talk(calling("entity", name="Nell Attery"))
    found = values(result)
    assert found["name"] == "Nell Attery"
    assert "Maren Oldacre" in [relation["name"] for relation in found["relations"]]
    passage = found["passages"][0]
    assert "keeps the seed library" in passage["text"]
    assert (passage["uri"], passage["metadata"]["author"]) == ("files/seeds.md", "Nell Attery")
    assert f"[chunks:{passage['chunk']}]\n{passage['text']}" in text(result)
    assert values(talk(calling("entity", name=f"entities:{found['id']}"))) == {**found, "similar": []}


def test_an_unknown_entity_is_answered_with_similar_names(talk: Talk) -> None:
    result = talk(calling("entity", name="Oldac"))
    assert result.is_error
    assert text(result) == "no entity 'Oldac'; similar names: 'Maren Oldacre'"


def test_a_report_is_found_by_topic_and_by_id(talk: Talk) -> None:
    listed = values(talk(calling("report")))
    assert listed["others"]
    found = values(talk(calling("report", topic="oat seed")))
    assert "oat seed" in found["text"]
    assert found["sources"][0]["uri"].startswith("files/")
    assert values(talk(calling("report", topic=found["id"])))["text"] == found["text"]


# -- errors


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("search", {}, "wrong arguments: question: Field required. Correct them and call again"),
        ("search", {"question": "x", "top": 3}, "top: Unexpected keyword argument"),
        ("search", {"question": "x", "filter": "x" * 10_001}, "filter has more than 10,000 characters: shorten it"),
        ("entity", {"name": "x" * 10_001}, "name has more than 10,000 characters"),
        ("search", {"question": "x", "k": 500}, "k: Input should be less than or equal to 50"),
        ("search", {"question": "x", "index": "nowhere"}, "no index 'nowhere'. Known: harbour"),
        ("search", {"question": "x", "method": "bm52"}, "did you mean 'bm25'?"),
        ("ask", {"question": "x", "method": "hyde"}, "hyde needs a chat model"),
        ("ask", {"question": "x", "filter": "author ="}, "the filter ends too early"),
        ("open_citation", {"id": "nothing"}, "search, ask and list_documents return ids"),
        ("open_citation", {"id": "files/ferry.md", "start": 10**6}, "no character 1,000,000"),
        ("report", {"topic": "zzz qqq"}, ""),
    ],
)
def test_errors_name_the_remedy(talk: Talk, name: str, arguments: dict[str, Any], message: str) -> None:
    result = talk(calling(name, **arguments))
    assert result.is_error == bool(message)
    assert message in text(result)


def test_a_tool_that_does_not_exist_is_an_error_of_the_protocol(talk: Talk) -> None:
    with pytest.raises(MCPError, match=r"no tool 'find'\. Known: search, ask"):
        talk(calling("find"))


def test_an_error_of_the_server_is_told_without_details(
    talk: Talk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kumihimo.server.mcp.results.entity_result", lambda *_: 1 / 0)
    result = talk(calling("entity", name="x"))
    assert result.is_error
    assert text(result) == "the server has failed: its log says why"
    assert "ZeroDivisionError" in caplog.text


# -- rights


def test_a_caller_sees_the_documents_of_his_key_alone(harbour: Workspace) -> None:
    mine = Caller({"harbour": IndexGrant("reader", rights='author = "Nell Attery"', key="k1")})

    async def converse(client: Client) -> str:
        calls: list[tuple[str, dict[str, Any]]] = [
            ("search", {"question": "ferry gates seed"}),
            *[("ask", {"question": "What do they say?", "method": method}) for method in ("", "global", "local")],
            ("list_documents", {}),
            *[("entity", {"name": name}) for name in ("Maren Oldacre", "Joss Kerrow", "Nell Attery")],
            *[("report", {"topic": topic}) for topic in ("", "ferry", "seed")],
            ("open_citation", {"id": "files/ferry.md"}),
        ]
        results = [(await client.call_tool(name, arguments)).model_dump_json() for name, arguments in calls]
        listed = await client.list_resources()
        texts = [(await client.read_resource(resource.uri)).model_dump_json() for resource in listed.resources]
        return "\n".join([*results, listed.model_dump_json(), *texts])

    told = talk_to(harbour, mine)(converse)
    assert "oat seed" in told
    names = ("Joss", "skipper", "greenheart", "bronze", "1983", "at nine", "The ferry", "The tide gates", "Sabine")
    shown = told.replace("files/ferry.md", "").replace("'Joss Kerrow'", "")  # what the caller has written himself
    assert [name for name in names if name in shown] == []


def test_a_caller_sees_his_indexes_alone(harbour: Workspace) -> None:
    (served,) = harbour.indexes.values()
    both = Workspace({"harbour": served, "town": replace(served, name="town")})
    result = talk_to(both, Caller({"town": IndexGrant("reader")}))(calling("search", question="oat", index="harbour"))
    assert result.is_error
    assert text(result) == "no index 'harbour'. Known: town"
