"""addresses of documents and reports -> lists by pages, and their texts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mcp import Client, MCPError

from kumihimo.server.mcp import resources
from kumihimo.server.workspace import Workspace
from tests.server.mcp.conftest import Talk, talk_to


async def list_all(client: Client) -> list[list[str]]:
    """The addresses of each page."""
    pages, cursor = list[list[str]](), None
    while not pages or cursor:
        listed = await client.list_resources(cursor=cursor)
        pages.append([resource.uri for resource in listed.resources])
        cursor = listed.next_cursor
    return pages


def test_documents_and_reports_are_listed_once_and_can_be_read(talk: Talk) -> None:
    async def converse(client: Client) -> tuple[list[str], list[str]]:
        addresses = [address for page in await list_all(client) for address in page]
        texts = [(await client.read_resource(address)).contents[0] for address in addresses]
        assert [text.uri for text in texts] == addresses
        return addresses, [getattr(text, "text", "") for text in texts]

    addresses, texts = talk(converse)
    kinds = [address.split("/")[3] for address in addresses]
    assert kinds.count("documents") == 3
    assert kinds == sorted(kinds)
    assert "reports" in kinds
    assert len(set(addresses)) == len(addresses)
    assert all(address.startswith("kumi://harbour/") for address in addresses)
    assert any("oat seed" in text for text in texts)
    assert all(text.startswith("#") for text, kind in zip(texts, kinds, strict=True) if kind == "reports")


def test_a_long_title_keeps_its_end(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def titles(client: Client) -> list[str]:
        return [resource.title or "" for resource in (await client.list_resources()).resources]

    whole = talk(titles)
    monkeypatch.setattr(resources, "_MAX_TITLE", 9)
    short = talk(titles)
    cut = [(title, other) for title, other in zip(whole, short, strict=True) if len(title) > 9]
    assert cut
    assert all(len(short) <= 9 and short[-2:] == title[-2:] for title, short in cut)


def test_pages_follow_one_another_through_all_indexes(harbour: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    (served,) = harbour.indexes.values()
    both = Workspace({"harbour": served, "my town": replace(served, name="my town")})
    whole = talk_to(both)(list_all)
    monkeypatch.setattr(resources, "PAGE_SIZE", 2)
    pages = talk_to(both)(list_all)
    assert [len(page) for page in whole] == [len(whole[0])] * 2
    assert max(map(len, pages)) == 2
    assert [address for page in pages for address in page] == [address for page in whole for address in page]
    assert pages[-1][-1].startswith("kumi://my%20town/reports/")


def test_a_long_text_goes_on_at_another_address(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "MAX_TEXT", 60)

    async def converse(client: Client) -> list[str]:
        address, parts = (await client.list_resources()).resources[0].uri, list[str]()
        while address:
            text: str = getattr((await client.read_resource(address)).contents[0], "text", "")
            part, _, address = text.partition("more characters: read ")
            parts.append(part.rpartition("\n\n[…")[0] if address else part)
            address = address.removesuffix("]")
        return parts

    parts = talk(converse)
    assert len(parts) > 2
    assert "".join(parts).endswith("Joss Kerrow is the skipper of the ferry.\n")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("kumi://harbour/documents/0123", "there is no kumi://harbour/documents/0123: list the resources"),
        ("kumi://nowhere/documents/0123", "no index 'nowhere'. Known: harbour"),
        ("file:///etc/passwd", "is no address of this server"),
        ("kumi://harbour/chunks/0123", "is no address of this server"),
    ],
)
def test_what_does_not_exist_is_an_error_with_a_remedy(talk: Talk, address: str, message: str) -> None:
    with pytest.raises(MCPError) as caught:
        talk(lambda client: client.read_resource(address))
    assert message in str(caught.value)


@pytest.mark.parametrize("cursor", ["x", "nowhere/documents/", "harbour/chunks/1"])
def test_a_cursor_of_another_server_is_refused(talk: Talk, cursor: str) -> None:
    with pytest.raises(MCPError, match=r"no cursor|no index"):
        talk(lambda client: client.list_resources(cursor=cursor))


def test_addresses_are_described(talk: Talk) -> None:
    templates = talk(lambda client: client.list_resource_templates()).resource_templates
    assert [template.uri_template for template in templates] == [
        "kumi://{index}/documents/{id}{?start}",
        "kumi://{index}/reports/{id}{?start}",
    ]
