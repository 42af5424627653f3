"""The page without a browser: forms, tokens, escaping, languages, roles, errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response
from markupsafe import escape

from kumihimo.app.upkeep.keys import create_key
from kumihimo.core.errors import SettingsError
from kumihimo.core.installation import install_command
from kumihimo.server.access import RIGHTS
from kumihimo.server.app import create_app
from kumihimo.server.pages.markdown import markdown_blocks
from kumihimo.server.pages.rendering import asset_version
from kumihimo.server.settings import ServerSettings
from kumihimo.server.workspace import ServedIndex, open_workspace
from tests.server.api.town import BuildHere, parse_events
from tests.server.page_site import HOSTILE, build_site, poison

ADDRESS = "http://127.0.0.1:8460"
PAGES = ("/", "/overview", "/documents", "/graph", "/reports", "/status", "/login")


class Tags(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.found if name == tag]


class Site:
    """The application over the index, as a browser without scripts uses it."""

    def __init__(self, client: TestClient, served: ServedIndex) -> None:
        self.client, self.served = client, served

    def get(self, path: str, status: int = 200, languages: str = "") -> Tags:
        response = self.client.get(path, headers={"Accept-Language": languages})
        assert response.status_code == status, response.text
        return Tags(response.text)

    def token(self, base: str = "") -> str:
        return next(field["value"] for field in self.get(f"{base}/login").all("input") if field.get("name") == "csrf")

    def post(self, path: str, **fields: str) -> Response:
        response: Response = self.client.post(path, data={"csrf": self.token(), **fields}, follow_redirects=False)
        return response

    def built(self) -> None:
        """Wait for all builds: their events end with them."""
        for job in self.client.get("/api/v1/builds").json()["builds"]:
            self.client.get(f"/api/v1/builds/{job['id']}/events")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("page") / "site")


@pytest.fixture(scope="module")
def site(index: Path) -> Iterator[Site]:
    workspace = open_workspace([index])
    with pytest.MonkeyPatch.context() as patch, TestClient(create_app(workspace), base_url=ADDRESS) as client:
        patch.setattr("kumihimo.server.builds.Worker", BuildHere)
        yield Site(client, next(iter(workspace.indexes.values())))


def document(site: Site, name: str) -> dict[str, Any]:
    rows = site.client.get("/api/v1/documents", params={"q": name}).json()["documents"]
    row: dict[str, Any] = rows[0]
    return row


# -- every page


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_a_title_a_language_and_landmarks(site: Site, path: str) -> None:
    page = site.get(path)
    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("main")) == len(page.all("h1")) == len(page.all("title")) == 1
    assert page.all("main")[0]["id"] == page.all("a")[0]["href"].removeprefix("#")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_no_inline_script_or_style_and_loads_nothing_from_elsewhere(site: Site, path: str) -> None:
    page = site.get(path)
    assert all(attributes.get("src", "").startswith("/static/") for attributes in page.all("script"))
    assert not page.all("style")
    for tag, attributes in page.found:
        assert not [name for name in attributes if name == "style" or name.startswith("on")], tag
        addresses = [attributes[name] for name in ("src", "href", "action") if name in attributes]
        assert [a for a in addresses if not a.startswith(("/", "#")) or a.startswith("//")] == []


@pytest.mark.parametrize("path", PAGES)
def test_every_field_has_a_label(site: Site, path: str) -> None:
    page = site.get(path)
    labelled = {label.get("for") for label in page.all("label")}
    for field in page.all("input") + page.all("select") + page.all("textarea"):
        if field.get("type") != "hidden":
            inside = field.get("name") in ("language", "theme", "method", "length", "filter", "key")
            assert field.get("id") in labelled or inside, field


@pytest.mark.parametrize(
    ("header", "word"), [("ja,en;q=0.5", "文書"), ("zh-CN", "文档"), ("fr, en;q=0.3", "Documents"), ("", "Documents")]
)
def test_the_language_is_that_of_the_browser(site: Site, header: str, word: str) -> None:
    assert word in site.get("/documents", languages=header).text


def test_files_of_the_page_are_kept_for_good_and_change_their_address(site: Site) -> None:
    address = site.get("/").all("script")[0]["src"]
    assert f"/static/{asset_version()}/en/" in address
    assert "immutable" in site.client.get(address).headers["cache-control"]
    assert site.client.get(address.replace(asset_version(), "old")).headers["cache-control"] == "no-cache"
    labels = site.client.get(address.replace("/en/page.js", "/ja/labels.js")).text
    assert '"Sources": "出典"' in labels


@pytest.mark.parametrize("name", ["../app.py", "%2e%2e%2fapp.py", "missing.js", "labels.js/../style.css"])
def test_nothing_but_files_of_the_page_is_sent(site: Site, name: str) -> None:
    assert site.client.get(f"/static/x/en/{name}").status_code in (404, 200)
    assert "FastAPI" not in site.client.get(f"/static/x/en/{name}").text


# -- preferences


def test_preferences_are_kept_in_a_cookie(site: Site) -> None:
    sent = site.post("/preferences", language="ja", theme="dark", method="bm25", filter="year > 2020", back="/status")
    assert (sent.status_code, sent.headers["location"]) == (303, "/status")
    page = site.get("/")
    site.client.cookies.delete("kumi_preferences")
    assert (page.all("html")[0]["lang"], page.all("html")[0]["data-theme"]) == ("ja", "dark")
    assert [option["value"] for option in page.all("option") if "selected" in option] == ["bm25"]
    assert "year > 2020" in [field.get("value") for field in page.all("input")]


@pytest.mark.parametrize("name", ["language", "theme", "method", "length", "filter", "colour"])
def test_preferences_without_sense_leave_the_pages_usable(site: Site, name: str) -> None:
    for value in ("", " ", "-1", "1e19", "NaN", "x\x1b[2J", "a\nb", "\x00", "x" * 100_000, "[]"):
        assert site.post("/preferences", **{name: value}).status_code in (303, 400)
        page = site.get("/")
        assert page.all("form")
        assert not set(page.text) & {*"\x00\x1b"}
        assert len(site.client.cookies.get("kumi_preferences") or "") < 4000
    site.client.cookies.delete("kumi_preferences")


@pytest.mark.parametrize("back", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)"])
def test_a_form_never_leads_to_another_site(site: Site, back: str) -> None:
    assert site.post("/preferences", theme="", back=back).headers["location"] == "/"
    site.client.cookies.delete("kumi_preferences")


# -- tokens

FORMS = ("/", "/preferences", "/edits", "/documents/x/delete", "/builds", "/builds/x/cancel", "/logout", "/login")


@pytest.mark.parametrize("path", FORMS)
@pytest.mark.parametrize("token", ["", "0" * 64, "é"])
def test_a_form_without_its_token_does_nothing(site: Site, path: str, token: str) -> None:
    response = site.client.post(path, data={"csrf": token, "question": "Who?"}, follow_redirects=False)
    assert response.status_code == 403
    assert "Your key does not allow this" in response.text
    assert "Open the page again" in response.text


def test_an_upload_without_its_token_stores_nothing(site: Site) -> None:
    response = site.client.post("/documents", files={"files": ("a.md", "One.")}, follow_redirects=False)
    assert response.status_code == 403
    assert not [*site.served.uploads.rglob("a.md")]


# -- asking


def test_a_question_in_a_form_is_answered_with_links_to_passages(site: Site) -> None:
    page = Tags(site.post("/", question="Who drew the tide gates?").text)
    assert "Maren Oldacre drew the tide gates in 1983." in page.text
    link = next(a["href"] for a in page.all("a") if a["href"].endswith("#passage"))
    passage = site.get(link)
    assert len(passage.all("mark")) == 1
    assert "Evidence:" in page.text


def test_a_proposed_question_is_a_button(site: Site) -> None:
    hint = next(button["value"] for button in site.get("/").all("button") if button.get("name") == "hint")
    assert hint in Tags(site.post("/", question="", hint=hint).text).text


@pytest.mark.parametrize(
    ("fields", "status", "text"),
    [
        ({"question": " "}, 400, "Write what you want to know"),
        ({"question": "Who?", "method": "bm52"}, 400, "bm25"),
        ({"question": "Who?", "filter": "author ="}, 400, "filter"),
        ({"question": "Who?", "length": "endless"}, 400, "brief"),
        ({"question": "a" * 10_001}, 400, "10,000"),
    ],
)
def test_a_question_that_cannot_be_asked_says_what_to_do(
    site: Site, fields: dict[str, str], status: int, text: str
) -> None:
    response = site.post("/", **fields)
    assert response.status_code == status
    assert text in Tags(response.text).text


def test_errors_and_reasons_that_scripts_fetch_are_in_their_language(site: Site) -> None:
    body = {"question": "組紐を送ったのは誰ですか", "stream": True}
    events = parse_events(site.client.post("/api/v1/ask", json=body).text)
    reasons = [item["reason"] for event in events if event["event"] == "evidence" for item in event["data"]["evidence"]]
    assert reasons
    assert all(re.search("[ぁ-ん]", reason) for reason in reasons)
    problem = site.client.post("/api/v1/ask", json={"question": " "}, headers={"Accept-Language": "ja"}).json()
    assert problem["detail"].startswith("質問が空です")


# -- documents


def test_the_list_of_documents_can_be_searched_and_filtered(site: Site) -> None:
    assert site.get("/documents?q=ferry").text.count("files/ferry.md") == 1
    assert "gates.md" not in site.get("/documents?q=ferry").text
    assert "No document matches" in site.get("/documents?q=nothing-like-this").text
    filtered = site.get("/documents?filter=author+%3D+%22Joss+Kerrow%22")
    assert "ferry.md" in filtered.text
    assert "gates.md" not in filtered.text


def test_a_passage_is_marked_at_its_place(site: Site) -> None:
    row = document(site, "long")
    text = site.client.get(f"/api/v1/documents/{row['id']}/text").json()["text"]
    start = text.index("Day 600:")
    page = site.get(f"/documents/{row['id']}?start={start}&end={start + 8}")
    assert [attributes["id"] for attributes in page.all("p") if "id" in attributes and "data-line" in attributes] == [
        "passage"
    ]
    line = next(p["data-line"] for p in page.all("p") if p.get("id") == "passage")
    assert int(line) == text.count("\n", 0, start) + 1
    assert "Day 600:" in page.text
    assert "Day 5:" not in page.text
    earlier = next(a["href"] for a in page.all("a") if "at=" in a["href"])
    before = re.findall(r"Day \d+:", text[:start])[-200]
    assert before not in page.text
    assert before in site.get(earlier).text


def test_files_are_added_and_deleted_by_forms(site: Site) -> None:
    added = site.client.post(
        "/documents",
        data={"csrf": site.token()},
        files=[("files", ("quay.md", "# The quay\n\nThe quay is old.")), ("files", ("pier.md", "The pier is new."))],
        follow_redirects=False,
    )
    assert (added.status_code, added.headers["location"]) == (303, "/documents#builds")
    site.built()
    assert {"quay.md", "pier.md"} <= {p.name for p in site.served.uploads.iterdir()}
    row = document(site, "quay.md")
    assert "Delete this document?" in site.get(f"/documents/{row['id']}/delete").text
    assert site.post(f"/documents/{row['id']}/delete").status_code == 303
    site.built()
    assert "quay.md" not in site.get("/documents").text
    assert "pier.md" in site.get("/documents").text
    assert not (site.served.uploads / "quay.md").exists()
    site.get(f"/documents/{row['id']}", 404)


def test_files_that_are_not_taken_are_named_beside_the_others(site: Site) -> None:
    files = [("files", ("hull.md", b"The hull is tarred.")), ("files", ("run.exe", b"\x7fELF"))]
    page = site.client.post("/documents", data={"csrf": site.token()}, files=files, follow_redirects=False).text
    assert "run.exe: no reader for &#39;.exe&#39;" in page
    site.built()
    assert document(site, "hull.md")


def test_a_file_that_cannot_be_read_is_listed_with_its_remedy(site: Site) -> None:
    site.client.post("/documents", data={"csrf": site.token()}, files={"files": ("broken.pdf", b"%PDF-1.4 nothing")})
    site.built()
    page = site.get("/documents")
    assert "Files that could not be read" in page.text
    assert "broken.pdf" in page.text
    next(site.served.uploads.glob("broken.pdf")).unlink()
    assert site.post("/builds").status_code == 303
    site.built()
    assert "broken.pdf" not in site.get("/documents").text


def test_an_upload_that_cannot_be_read_is_deleted_by_a_form(site: Site) -> None:
    site.client.post("/documents", data={"csrf": site.token()}, files={"files": ("torn.pdf", b"%PDF-1.4 nothing")})
    site.built()
    actions = [form.get("action", "") for form in site.get("/documents").all("form")]
    (address,) = (action for action in actions if action.endswith("/delete"))
    assert site.post(address).status_code == 303
    site.built()
    assert "torn.pdf" not in site.get("/documents").text
    assert not (site.served.uploads / "torn.pdf").exists()


# -- the graph and reports


def test_an_entity_shows_its_relations_passages_and_communities(site: Site) -> None:
    found = site.get("/graph?q=Oldacre")
    address = next(a["href"] for a in found.all("a") if "entity=" in a["href"])
    page = site.get(address)
    assert "Maren Oldacre" in page.text
    assert "Related to" in page.text
    assert [a for a in page.all("a") if a["href"].endswith("#passage")]
    report = next(a["href"] for a in page.all("a") if "/reports/" in a["href"])
    assert site.get(report).all("h1")


def test_the_path_between_two_entities_is_shown_step_by_step(site: Site) -> None:
    start = next(a["href"] for a in site.get("/graph?q=Oldacre").all("a") if "entity=" in a["href"])
    page = site.get(f"{start}&to=Joss+Kerrow")
    assert "From Maren Oldacre to Joss Kerrow" in page.text
    assert page.text.index("Find the path to") < page.text.index("From Maren") < page.text.index("Related to")
    assert "No entity is called Nobody At All" in site.get(f"{start}&to=Nobody+At+All").text


@pytest.mark.parametrize(
    ("language", "words"),
    [("en", ("Overview", "texts", "English", "Largest")), ("ja", ("概要", "テキスト", "英語", "大きい順"))],
)
def test_the_overview_links_topics_and_documents(site: Site, language: str, words: tuple[str, ...]) -> None:
    page = Tags(site.client.get("/overview", headers={"Accept-Language": language}).text)
    assert all(word in page.text for word in words)
    links = [a["href"] for a in page.all("a")]
    assert "/reports" in links  # there are some, by a model
    listed = [link for link in links if re.fullmatch(r"/documents/\w+", link)]
    assert all(site.get(link) for link in listed[:3])
    assert "No folder or year '1066'" in site.get("/overview?part=1066", 404).text


def test_a_report_leads_to_the_passages_it_rests_on(site: Site) -> None:
    reports = site.get("/reports")
    address = next(a["href"] for a in reports.all("a") if re.fullmatch(r"/reports/\w+", a["href"]))
    sources = [a["href"] for a in site.get(address).all("a") if "/graph?entity=" in a["href"]]
    assert [a for a in site.get(sources[0]).all("a") if a["href"].endswith("#passage")]


# -- errors


@pytest.mark.parametrize(
    "path", ["/documents/nothing", "/reports/nothing", "/graph?entity=nothing", "/trace/chunks/x", "/trace/keys/x"]
)
def test_what_is_not_there_gets_a_page_with_a_way_on(site: Site, path: str) -> None:
    page = site.get(path, 404)
    assert "There is nothing here" in page.text
    assert "What to do:" in page.text
    assert [a for a in page.all("a") if a["href"] == "/documents"]


def test_the_graph_is_mended_by_a_form_and_over_http(site: Site) -> None:
    name = site.client.get("/api/v1/entities").json()["entities"][0]["name"]
    line = f"type: {name} = landmark"
    assert 'id="edit"' in site.client.get("/graph", params={"entity": name}).text
    assert site.post("/edits", line=line).status_code == 303
    site.built()
    for address in ("/graph", f"/graph?entity={name}"):
        assert [field for field in site.get(address).all("input") if field.get("value") == line], address
    entity = site.client.get(f"/api/v1/entities/{name}").json()
    assert (entity["type"], site.client.get("/api/v1/edits").json()) == ("landmark", {"edits": {line: True}})
    assert "matches nothing in the index" in site.post("/edits", line="delete: Nobody At All").text
    assert site.post("/edits", line=line, undo="1").status_code == 303
    site.built()
    assert site.client.get(f"/api/v1/entities/{name}").json()["type"] != "landmark"
    assert line not in site.get("/graph").text
    site.client.post("/api/v1/edits", json={"line": line})
    job = site.client.post("/api/v1/edits", json={"line": line, "undo": True})
    assert (job.status_code, job.json()["kind"]) == (202, "index")
    site.built()
    assert site.client.get("/api/v1/edits").json() == {"edits": {}}


def test_a_filtered_list_says_how_many_documents_match(site: Site) -> None:
    found = site.client.get("/api/v1/documents", params={"filter": 'title contains "a"'}).json()["documents"]
    assert f"matching the filter: {len(found)}" in site.get("/documents?filter=title%20contains%20%22a%22").text
    assert "matching the filter" not in site.get("/documents").text


def test_a_filter_with_an_unknown_field_gets_the_names_of_the_others(site: Site) -> None:
    page = site.get("/documents?filter=autor%20%3D%201", 400).text
    assert "did you mean 'author'? Known: " in page
    assert "What to do:" not in page


def test_an_unknown_address_gets_a_page_in_a_browser_only(site: Site) -> None:
    browser, path = {"Accept": "text/html,*/*;q=0.8"}, "/document"
    response = site.client.get(path, headers=browser)
    assert response.status_code == 404
    assert "There is nothing here" in response.text
    assert site.client.get(path).json()["status"] == 404
    assert site.client.get("/api/v1/document", headers=browser).json()["status"] == 404


def test_without_scripts_a_page_looks_again_while_a_build_runs(site: Site) -> None:
    def refreshes() -> bool:
        return any(tag.get("http-equiv") == "refresh" for tag in site.get("/documents").all("meta"))

    assert not refreshes()
    site.post("/builds")
    assert refreshes()
    site.built()
    assert not refreshes()


def test_a_number_that_is_none_gets_a_page(site: Site) -> None:
    assert "start" in site.get(f"/documents/{document(site, 'long')['id']}?start=x", 400).text


# -- HTML in every field


def test_no_text_of_documents_or_people_becomes_markup(index: Path, tmp_path: Path) -> None:
    copy = build_site(tmp_path / "copy")
    poison(copy)
    with TestClient(create_app(open_workspace([copy])), base_url=ADDRESS) as client:
        site = Site(client, None)  # type: ignore[arg-type]
        entity = client.get("/api/v1/entities/Maren Oldacre").json()["id"]
        report = client.get("/api/v1/reports").json()["reports"][0]["id"]
        relation = client.get(f"/api/v1/entities/{entity}/relations").json()["relations"][0]["relation"]
        rows = client.get("/api/v1/documents", params={"q": "pwned"}).json()["documents"]
        paths = (
            f"/documents/{rows[0]['id']}?start=10&end=80",
            f"/documents/{rows[0]['id']}/delete",
            f"/graph?entity={entity}&to={HOSTILE}",
            f"/graph?q={HOSTILE}",
            f"/reports/{report}",
            f"/trace/relations/{relation}",
            f"/?question={HOSTILE}&filter={HOSTILE}",
            f"/documents?q={HOSTILE}",
            *PAGES,
        )
        pages = [site.get(path) for path in paths]
        pages.append(Tags(site.post("/", question=f"When did the lighthouse of Thornhead go out {HOSTILE}").text))
        site.post("/preferences", filter=HOSTILE, method=HOSTILE, theme=HOSTILE, language=HOSTILE)
        pages.append(site.get("/status"))
        for page in pages:
            assert not page.all("img")
            assert all("src" in script for script in page.all("script"))
            assert not [a for _, attributes in page.found for a in attributes if a.startswith("on")]
        assert sum("window.pwned=1" in page.text for page in pages) >= 8  # it is there, as text


# -- keys


@pytest.fixture(scope="module")
def guarded(index: Path) -> Iterator[dict[str, Site]]:
    """The same behind keys: as nobody, a reader and an editor, each with a session."""
    keys = {
        "reader": create_key([index], "reader", rights='author = "Joss Kerrow"', daily_tokens=5000)[1],
        "editor": create_key([index], "editor")[1],
        "limited": create_key([index], "editor", rights='author = "Joss Kerrow"')[1],
    }
    settings = ServerSettings(require_keys=True)
    workspace = open_workspace([index], settings)
    with (
        pytest.MonkeyPatch.context() as patch,
        TestClient(create_app(workspace, settings), base_url=ADDRESS) as first,
    ):
        patch.setattr("kumihimo.server.builds.Worker", BuildHere)
        sites = {"nobody": Site(first, None)}  # type: ignore[arg-type]
        for role, key in keys.items():
            client = TestClient(first.app, base_url=ADDRESS)
            client.portal = first.portal  # the same event loop
            sites[role] = Site(client, None)  # type: ignore[arg-type]
            assert sites[role].post("/login", key=key).status_code == 303
        yield sites


BROWSER = {"Accept": "text/html,*/*;q=0.8"}


def test_without_a_key_every_page_leads_to_the_login(guarded: dict[str, Site]) -> None:
    for path in ("/", "/documents", "/status"):
        response = guarded["nobody"].client.get(path, headers=BROWSER, follow_redirects=False)
        assert (response.status_code, response.headers["location"]) == (303, "/login")
    refused = guarded["nobody"].post("/login", key="kumi_wrong")
    assert refused.status_code == 401
    assert "This key is not valid here" in refused.text
    assert "kumi_wrong" not in refused.text


def test_a_reader_sees_no_way_to_change_anything(guarded: dict[str, Site]) -> None:
    reader = guarded["reader"].get("/documents")
    assert not [form for form in reader.all("form") if form.get("enctype")]
    assert not [a for a in reader.all("a") if a["href"].endswith("/delete")]
    assert guarded["reader"].post("/builds").status_code == 403
    entity = guarded["reader"].client.get("/api/v1/entities").json()["entities"][0]["id"]
    assert 'id="edit"' not in guarded["reader"].get(f"/graph?entity={entity}").text
    editor = guarded["editor"].get("/documents")
    assert [form for form in editor.all("form") if form.get("enctype")]


def test_a_key_shows_its_filter_its_budget_and_only_its_documents(guarded: dict[str, Site]) -> None:
    documents, status = guarded["reader"].get("/documents"), guarded["reader"].get("/status")
    assert 'author = "Joss Kerrow"' in documents.text
    assert "ferry.md" in documents.text
    assert "gates.md" not in documents.text
    assert "Your key has used 0 tokens today." in status.text
    assert "Its limit is 5,000 tokens a day." in status.text
    assert "What others have used is shown to editors only." in status.text
    assert "tide gates" not in guarded["reader"].get("/").text


def test_an_editor_of_some_documents_sees_no_numbers_of_a_build(guarded: dict[str, Site]) -> None:
    limited, editor = guarded["limited"], guarded["editor"]
    assert editor.post("/builds").status_code == 303
    editor.built()
    assert "The index now holds" in editor.get("/documents").text
    assert limited.post("/builds").status_code == 403
    assert "Done" not in limited.get("/status").text  # a build of another
    upload = {"csrf": limited.token()}
    note = {"file": ("note.md", "---\nauthor: Joss Kerrow\n---\nA note.")}
    assert limited.client.post("/documents", data=upload, files=note, follow_redirects=False).status_code == 303
    limited.built()
    for page in (limited.get("/documents"), limited.get("/status")):
        assert "Done" in page.text
        assert "The index now holds" not in page.text


def test_the_path_of_the_installation_is_for_this_machine_alone(
    site: Site, guarded: dict[str, Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kumihimo.readers.documents.PICTURES", {".exe"})  # as a picture without the extra `ocr`
    seen = {}
    for name, each in (("local", site), ("key", guarded["editor"])):
        data = {"csrf": each.token()}
        seen[name] = each.client.post("/documents", data=data, files={"file": ("run.exe", b"MZ")}).text
    assert f"<code>{escape(install_command('[ocr]'))}</code>" in seen["local"]
    assert "<code>pip install &#39;kumihimo[ocr]&#39;</code>" in seen["key"]


def test_a_session_ends(guarded: dict[str, Site]) -> None:
    editor = guarded["editor"]
    assert "Sign out" in editor.get("/").text
    assert editor.post("/logout").status_code == 303
    assert editor.client.get("/", headers=BROWSER, follow_redirects=False).headers["location"] == "/login"


def test_under_the_path_of_a_proxy_each_address_begins_with_it(index: Path) -> None:
    key = create_key([index], "admin")[1]
    settings = ServerSettings(require_keys=True, path="/kumi", hosts=("docs.example.org",))
    app = create_app(open_workspace([index], settings), settings)
    with TestClient(app, base_url="https://docs.example.org", follow_redirects=False) as client:
        site = Site(client, None)  # type: ignore[arg-type]
        for path, to in (("/kumi", "/kumi/login"), ("/kumi/graph", "/kumi/login"), ("/", "/kumi/login")):
            assert client.get(path, headers=BROWSER).headers["location"] == to
        entered = client.post("/kumi/login", data={"key": key, "csrf": site.token("/kumi")})
        assert entered.headers["location"] == "/kumi/"
        assert entered.headers["set-cookie"].startswith("__Secure-kumi_session=")
        assert "Path=/kumi;" in entered.headers["set-cookie"]
        pages = [site.get(f"/kumi{path}") for path in PAGES]
        values = [value for page in pages for _, tag in page.found for name, value in tag.items() if name != "value"]
        named = [value for value in values if value.startswith("/")]
        assert {"/kumi/preferences", "/kumi/logout", "/kumi/documents", "/kumi/api/v1/indexes/site"} <= {*named}
        assert [address for address in named if not f"{address}/".startswith("/kumi/")] == []
        assert {client.get(address).status_code for address in named if "/static/" in address} == {200}
        csrf = site.token("/kumi")
        assert client.post("/kumi/", data={"question": "Who?", "csrf": csrf}).status_code == 200
        kept = client.post("/kumi/preferences", data={"back": "/kumi/graph?q=a", "csrf": csrf})
        assert (kept.headers["location"], "Path=/kumi;" in kept.headers["set-cookie"]) == ("/kumi/graph?q=a", True)
        slash = client.get("/kumi/indexes/site", headers=BROWSER).headers["location"]
        assert slash == "https://docs.example.org/kumi/indexes/site/"
        assert client.get("/kumi/openapi.json").json()["servers"] == [{"url": "/kumi"}]
        # an address that repeats the path is no way past the checks of addresses for programs
        for path in ("/kumi/api/v1/ask", "/kumi/kumi/api/v1/ask"):
            assert client.post(path, json={"question": "Who?"}).status_code == 403


@pytest.mark.parametrize("path", ["kumi", "/", "/kumi/", "/api", "/documents/a", "/a b", "//a", "/../a", "/a/."])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(SettingsError, match="write a path that begins with /"):
        ServerSettings(path=path)


def test_no_path_of_the_server_itself_may_be_that_of_a_proxy() -> None:
    own = {route.partition(" /")[2].split("/")[0] for route in RIGHTS if " /" in route and ":" not in route[:20]}
    for name in filter(None, own):
        with pytest.raises(SettingsError):
            ServerSettings(path=f"/{name}")


# -- several indexes, and one without documents


def test_pages_of_another_index_stay_in_it(index: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    workspace = open_workspace([index, tmp_path / "empty" / ".kumi"])
    with TestClient(create_app(workspace), base_url=ADDRESS) as client:
        site = Site(client, None)  # type: ignore[arg-type]
        assert [a["href"] for a in site.get("/").all("a") if a["href"].startswith("/indexes/")] == [
            "/indexes/site/",
            "/indexes/empty/",
        ]
        for path in ("/", "/overview", "/documents", "/graph", "/reports", "/status"):
            page = site.get(f"/indexes/empty{path}")
            inner = [a["href"] for a in page.all("a") if a["href"].startswith("/") and "/indexes/" not in a["href"]]
            assert inner == []
        assert "Add your documents first" in site.get("/indexes/empty/").text
        assert "There are no reports yet" in site.get("/indexes/empty/reports").text
        assert "The graph is empty" in site.get("/indexes/empty/graph").text
        site.get("/indexes/missing/", 404)


# -- Markdown


def test_lists_tables_and_code_of_an_answer() -> None:
    blocks = markdown_blocks(
        "1. one\n   more\n2. two\n   - in\n\n| a | b |\n|---|---|\n| 1 | 2\\|3 |\n\n```\n<b>\n```\n> q"
    )
    assert [block.kind for block in blocks] == ["list", "table", "code", "quote"]
    assert [(item.text, len(item.items)) for item in blocks[0].items] == [("one\nmore", 0), ("two", 1)]
    assert (blocks[1].has_head, blocks[1].rows) == (True, [["a", "b"], ["1", "2|3"]])
    assert (blocks[2].text, blocks[3].text) == ("<b>\n", "q")
