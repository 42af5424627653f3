"""nginx with the lines of the documentation -> the page and all programs work under a path of its site."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree, which
from socket import create_server
from time import sleep

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from openai import OpenAI

from kumihimo.app.upkeep.keys import create_key
from kumihimo.server.app import create_app
from kumihimo.server.settings import ServerSettings
from kumihimo.server.workspace import ServedIndex, open_workspace
from tests.clean_install import ROOT
from tests.server.api.town import BuildHere, parse_events
from tests.server.running import running

NGINX = which("nginx") or which("nginx", path="/usr/sbin")
pytestmark = pytest.mark.skipif(not NGINX, reason="there is no nginx: `apt-get install nginx`")
QUESTION = "Who drew the tide gates?"


def documented(port: int, to: str, folder: Path) -> str:
    """The configuration of the documentation, without TLS and under a path."""
    text = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```nginx\n(.*?)```", text, re.S)
    block = re.sub(r" *ssl_.*\n", "", block).replace("listen 443 ssl", f"listen 127.0.0.1:{port}")
    assert "location / {" in block
    assert "http://127.0.0.1:8460" in block
    block = block.replace("location / {", "location /kumi/ {").replace("http://127.0.0.1:8460", to)
    paths = "".join(
        f"{name}_temp_path {folder / name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return (
        f"daemon off;\nmaster_process off;\nerror_log stderr;\npid {folder / 'pid'};\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}{block}}}\n"
    )


@contextmanager
def proxied(to: str, folder: Path) -> Iterator[str]:
    """The address of nginx, which passes on what comes under /kumi/."""
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "nginx.conf").write_text(documented(port, to, folder), encoding="utf-8")
    assert NGINX
    with subprocess.Popen([NGINX, "-e", "stderr", "-p", folder, "-c", folder / "nginx.conf"]) as process:
        try:
            for _ in range(300):
                try:
                    httpx2.get(f"http://127.0.0.1:{port}/")
                    break
                except httpx2.ConnectError:
                    assert process.poll() is None
                    sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def site(harbour_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, ServedIndex]]:
    """The address of nginx, a key, and the index behind it, beside an empty one."""
    folder = tmp_path_factory.mktemp("proxied")
    copytree(harbour_folder.parent, folder / "harbour")
    (folder / "new").mkdir()
    places = [folder / "harbour" / ".kumi", folder / "new" / ".kumi"]
    key = create_key(places, "admin")[1]
    settings = ServerSettings(path="/kumi", hosts=("docs.example.org",), proxies=("127.0.0.1",))
    workspace = open_workspace(places, settings)
    with pytest.MonkeyPatch.context() as patch, running(create_app(workspace, settings)) as server:
        patch.setattr("kumihimo.server.builds.Worker", BuildHere)
        with proxied(server, folder) as address:
            yield address, key, workspace.indexes["harbour"]


def test_programs_reach_the_server_under_a_path(site: tuple[str, str, ServedIndex]) -> None:
    address, key, _ = site
    headers = {"Authorization": f"Bearer {key}"}
    with httpx2.Client(base_url=f"{address}/kumi/", headers=headers) as http:
        assert http.get("/health").json()["status"] == "ok"
        asked = http.post("api/v1/ask", json={"question": QUESTION, "stream": True})
        assert parse_events(asked.text)[-1]["event"] == "answer"
        assert http.get("openapi.json").json()["servers"] == [{"url": "/kumi"}]
    client = OpenAI(base_url=f"{address}/kumi/v1", api_key=key)
    reply = client.chat.completions.create(model="kumi", messages=[{"role": "user", "content": QUESTION}])
    (annotation, *_) = reply.choices[0].message.annotations or []
    assert annotation.url_citation.url.startswith(f"{address}/kumi/documents/")
    assert httpx2.get(annotation.url_citation.url, headers=headers).status_code == 200

    async def ask_mcp() -> str:
        async with httpx2.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(f"{address}/kumi/mcp", http_client=http)
            async with Client(transport) as mcp:
                return str((await mcp.call_tool("ask", {"question": QUESTION, "index": "harbour"})).structured_content)

    assert "Maren Oldacre" in asyncio.run(ask_mcp())


def test_the_page_works_under_a_path(site: tuple[str, str, ServedIndex]) -> None:
    browsing = pytest.importorskip("tests.server.browsing")
    if not browsing.CHROMIUM:
        pytest.skip(browsing.needs_chromium.kwargs["reason"])
    address, key, served = site
    expect = browsing.expect
    with browsing.launched() as browser, browsing.opened(browser, browsing.Site(address, served)) as page:
        page.goto("/kumi/graph")
        page.locator("[name=key]").fill(key)
        page.keyboard.press("Enter")
        page.wait_for_url(f"{address}/kumi/")
        browsing.ask(page, QUESTION)
        page.locator("a[data-passage]").first.click()
        expect(page.locator(".reader-text[data-ready] mark")).to_contain_text("Maren Oldacre")
        page.goto("/kumi/indexes/new/documents")
        files = [{"name": name, "mimeType": "", "buffer": b"The quay is old."} for name in ("quay.md", "tug.exe")]
        page.locator("#files").set_input_files(files)
        expect(page.locator(".build[data-state=done]")).to_contain_text("The index now holds 1 document")
        expect(page.locator(".document")).to_have_count(1)
        expect(page.locator("[role=alert]")).to_contain_text("tug.exe: no reader for '.exe'")
        page.locator(".document a").first.click()
        expect(page.locator("article.text")).to_contain_text("The quay is old.")
        page.get_by_role("link", name="Graph").click()
        expect(page).to_have_url(f"{address}/kumi/indexes/new/graph")
        page.locator("summary[aria-label=Settings]").click()
        page.locator("#look [value=ja]").click()
        expect(page.locator("html")).to_have_attribute("lang", "ja")
        page.locator("summary[aria-label=設定]").click()
        page.locator("#logout button").click()
        expect(page).to_have_url(f"{address}/kumi/login")
