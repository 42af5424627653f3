"""addresses -> documents, kept in step with their server."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from kumihimo import Kumihimo, connections
from kumihimo.app.opened.results import Built
from kumihimo.app.settings import trust
from kumihimo.app.settings.trust import TrustRequired
from kumihimo.app.upkeep.watch import watch_sources
from kumihimo.core.errors import SettingsError, SourceError
from kumihimo.workers import Worker
from tests.cli_runner import kumi as run_kumi
from tests.web_site import Page, WebSite, page, run_web_site

NO_DELAY = {"fetching": {"delay": 0}}


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read pages and links in this process; the tests of readers have the children."""

    def ask(worker: Worker, request: object, **_: int) -> object:
        module, name = worker.handler.split(":")
        return getattr(import_module(module), name)(json.loads(json.dumps(request)))

    monkeypatch.setattr(Worker, "ask", ask)


@pytest.fixture
def kumi(tmp_path: Path) -> Iterator[Kumihimo]:
    with Kumihimo(tmp_path / "index.kumi", NO_DELAY) as kumi:
        yield kumi


@pytest.fixture
def site() -> Iterator[WebSite]:
    pages = {
        "/docs/": page("The ferry leaves at nine.", "a", "b.html", "/news/", "logo.png", "gone", title="Ferries"),
        "/docs/a": page("The office opens at eight.", "./", "c/?id=3#part"),
        "/docs/b.html": page("The harbour has a mole."),
        "/docs/c/?id=3": page("The net loft is closed."),
        "/docs/logo.png": Page(b"\x89PNG", "image/png"),
        "/news/": page("The mayor has resigned."),
    }
    with run_web_site(pages) as site:
        yield site


def uris(kumi: Kumihimo) -> list[str]:
    """Return the uris of all documents, without the name of their source."""
    with kumi.snapshot() as snapshot:
        return sorted(uri.partition("/")[2] for (uri,) in snapshot.table("documents").columns("uri"))


def index(kumi: Kumihimo, *paths: str, crawl: int = 0) -> Built:
    return kumi.index(*paths, methods=["bm25"], crawl=crawl)


def test_a_page_is_a_document_with_its_address(kumi: Kumihimo, site: WebSite) -> None:
    built = index(kumi, f"{site.url}/docs/")
    assert (built.new, built.failed) == (1, ())
    assert site.asked() == [("/docs/", 200)]
    assert site.agents == {"Kumihimo"}
    with kumi.snapshot() as snapshot:
        document = next(iter(snapshot.table("documents")))
        assert snapshot.matching_documents(f'url = "{site.url}/docs/"') == {document.id}
    port = site.url.rpartition(":")[2]
    assert (document.uri, document.title) == (f"127.0.0.1-{port}/docs/index.html", "Ferries")
    assert document.metadata["url"] == f"{site.url}/docs/"
    assert kumi.status().sources == {f"127.0.0.1-{port}": f"{site.url}/docs/"}


def test_links_are_followed_below_the_folder(kumi: Kumihimo, site: WebSite) -> None:
    built = index(kumi, f"{site.url}/docs/", crawl=10)
    assert uris(kumi) == ["docs/a.html", "docs/b.html", "docs/c/index_id=3.html", "docs/index.html"]
    assert (built.new, built.failed) == (4, ())
    assert [path for path, _ in site.asked()] == [
        "/docs/", "/docs/a", "/docs/b.html", "/docs/logo.png", "/docs/gone", "/docs/c/?id=3",
    ]  # fmt: skip


def test_a_refresh_costs_304s_and_follows_the_site(kumi: Kumihimo, site: WebSite) -> None:
    index(kumi, f"{site.url}/docs/", crawl=3)
    assert uris(kumi) == ["docs/a.html", "docs/b.html", "docs/index.html"]
    site.asked()
    built = kumi.index()
    assert site.asked() == [("/docs/", 304), ("/docs/a", 304), ("/docs/b.html", 304)]
    assert (built.read, built.unchanged) == (0, 3)
    site.pages["/docs/a"] = page("The office opens at ten.")
    del site.pages["/docs/b.html"]
    built = kumi.index()
    assert (built.changed, built.removed, built.failed) == (1, 1, ())
    assert uris(kumi) == ["docs/a.html", "docs/index.html"]
    assert "ten" in kumi.ask("When does the office open?", "bm25").text


def test_an_index_that_somebody_else_has_made_fetches_nothing(
    kumi: Kumihimo, site: WebSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index(kumi, f"{site.url}/docs/a")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "of another"))
    monkeypatch.setenv("APPDATA", str(tmp_path / "of another"))
    site.asked()
    mirrors = kumi.opened.folder.resolve() / "mirror"
    with pytest.raises(TrustRequired) as error:
        kumi.index()
    assert str(error.value).startswith(
        f"{mirrors} fetches pages from {site.url}: to allow this, run `kumi trust {mirrors}`"
    )
    index(kumi, f"{site.url.replace('127.0.0.1', 'localhost')}/docs/")  # it is no trust in the others
    with pytest.raises(TrustRequired):
        kumi.index()
    assert [path for path, _ in site.asked()] == ["/docs/"]
    ran = run_kumi(tmp_path, "trust", str(mirrors), XDG_CONFIG_HOME=str(tmp_path / "of another"))
    assert (ran.returncode, f"fetches pages from {site.url}\n" in ran.stdout) == (0, True)
    assert kumi.index().failed == ()
    assert len(site.asked()) == 2


def test_a_folder_elsewhere_is_read_where_no_trust_can_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a container without a home: the build that names it reads it, a refresh asks."""

    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(trust, "mkstemp", refuse)
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.txt").write_text("The gate opens at nine.", "utf-8")
    with Kumihimo(tmp_path / "of an index" / "index.kumi") as kumi:
        assert index(kumi, str(notes)).new == 1
        assert "or set KUMI_TRUST=1" in caplog.text
        with pytest.raises(TrustRequired):
            kumi.index()


@pytest.mark.parametrize("way", ["named", "link"])
def test_an_index_that_somebody_else_has_made_reads_no_file_elsewhere(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, given = tmp_path / "mine", tmp_path / "given"
    for folder in (mine, given / "notes"):
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text("The gate opens at nine.", "utf-8")
    with Kumihimo(given / "index.kumi") as kumi:
        index(kumi, *map(str, (mine, given / "notes") if way == "named" else [given / "notes"]))
        assert kumi.index().unchanged == (2 if way == "named" else 1)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "of another"))
        monkeypatch.setenv("APPDATA", str(tmp_path / "of another"))
        if way == "link":
            (given / "notes" / "a.txt").unlink()
            (given / "notes").rmdir()
            (given / "notes").symlink_to(mine)
        (mine / "secret.txt").write_text("The word is heron.", "utf-8")
        for build in (kumi.index, kumi.plan, lambda: kumi.remove("mine/a.txt" if way == "named" else "notes/a.txt")):
            with pytest.raises(TrustRequired) as error:
                build()
            shown = f"{given / 'index.kumi'} reads {mine}, outside its folder: to allow this, run `kumi index {mine}`"
            assert str(error.value).startswith(shown)
        assert "heron" not in kumi.ask("What is the word?", "bm25").text
        if way == "named":
            assert kumi.index(given / "notes").unchanged == 1
            kumi.index(mine)
            assert "heron" in kumi.ask("What is the word?", "bm25").text
            assert kumi.index().unchanged == 3


def test_pages_that_fail_keep_their_rows(kumi: Kumihimo, site: WebSite) -> None:
    index(kumi, f"{site.url}/docs/", crawl=10)
    before, healthy = uris(kumi), dict(site.pages)
    site.pages["/docs/a"] = Page("later", status=503)
    built = kumi.index()
    assert [(item.partition("/")[2], error.partition("; ")[0]) for _, item, error in built.failed] == [
        ("docs/a.html", f"{site.url}/docs/a: the server answers 503")
    ]
    site.asked()
    site.pages = dict.fromkeys(healthy, Page("later", status=500))
    built = kumi.index()
    assert len(site.asked()) == 3  # then the host is left alone
    assert len(built.failed) == 4
    assert uris(kumi) == before
    site.pages = healthy
    built = kumi.index()
    assert (built.failed, built.changed, built.removed) == ((), 0, 0)


def test_a_sitemap_names_the_pages(kumi: Kumihimo, site: WebSite) -> None:
    locations = "".join(
        f"<url><loc>{site.url}{path}</loc></url>" for path in ("/docs/a", "/news/", "/docs/?x=1&amp;y=2")
    )
    sitemap = f"<?xml version='1.0'?><urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{locations}</urlset>"
    site.pages["/docs/pages.xml.gz"] = Page(gzip.compress(sitemap.encode()), "application/gzip")
    site.pages["/docs/sitemap.xml"] = Page(
        f"<sitemapindex><sitemap><loc>{site.url}/docs/pages.xml.gz</loc></sitemap></sitemapindex>", "application/xml"
    )
    site.pages["/docs/?x=1&y=2"] = page("Two values.")
    with pytest.raises(SourceError, match="is a sitemap: say how many of its pages, such as `--crawl 100`"):
        index(kumi, f"{site.url}/docs/sitemap.xml")
    index(kumi, f"{site.url}/docs/sitemap.xml", crawl=5)
    assert uris(kumi) == ["docs/a.html", "docs/index_x=1_y=2.html"]


def test_robots_txt_is_obeyed(kumi: Kumihimo, site: WebSite) -> None:
    site.pages["/robots.txt"] = Page("User-agent: kumihimo\nDisallow: /docs/b\n", "text/plain")
    built = index(kumi, f"{site.url}/docs/", crawl=10)
    assert ("/docs/b.html", 200) not in site.asked()
    assert built.failed == ()
    with pytest.raises(SourceError, match=r"the robots\.txt of its host forbids it"):
        index(kumi, f"{site.url}/docs/b.html")
    site.pages["/robots.txt"] = Page("", status=403)
    with pytest.raises(SourceError, match="forbids it"):
        index(kumi, f"{site.url}/docs/a")


def test_nothing_is_kept_of_an_address_without_a_page(kumi: Kumihimo, site: WebSite) -> None:
    for path, message in (
        ("/none", r"is not there \(404\): check the address"),
        ("/docs/logo.png", "no reader for 'image/png'"),
    ):
        with pytest.raises(SourceError, match=message):
            index(kumi, f"{site.url}{path}")
    with pytest.raises(SourceError, match=r"cannot be fetched .*is the address right, and the server there"):
        index(kumi, "http://127.0.0.1:1/")
    assert not (kumi.folder / "mirror").exists() or not [*(kumi.folder / "mirror").iterdir()]
    with pytest.raises(SettingsError, match="--crawl follows the links of a web page"):
        index(kumi, str(kumi.folder.parent), crawl=3)
    for pages in (-1, 10**30):
        with pytest.raises(SettingsError, match="--crawl is a number of pages up to 1,000,000, not "):
            index(kumi, f"{site.url}/docs/", crawl=pages)


def test_a_file_is_read_by_its_type(kumi: Kumihimo, site: WebSite) -> None:
    site.pages["/download?id=7"] = Page("name,harbour\nAda,Oban\n", "text/csv")
    site.pages["/raw/notes.md"] = Page("# Notes\n\nThe tide turns.", "text/plain")
    index(kumi, f"{site.url}/download?id=7", f"{site.url}/raw/notes.md")
    assert uris(kumi) == ["download_id=7.csv", "raw/notes.md"]


def test_what_is_removed_is_neither_kept_nor_fetched(kumi: Kumihimo, site: WebSite) -> None:
    index(kumi, f"{site.url}/docs/", crawl=10)
    kumi.remove(f"{site.url}/docs/a", forget=True)
    assert not [path for path in kumi.folder.rglob("*") if path.is_file() and b"opens at eight" in path.read_bytes()]
    site.asked()
    kumi.index()
    assert "docs/a.html" not in uris(kumi)
    assert not [*kumi.folder.glob("mirror/*/docs/a.html")]
    index(kumi, f"{site.url}/docs/a")
    assert "docs/a.html" in uris(kumi)
    kumi.remove(next(iter(kumi.status().sources)))
    assert [*(kumi.folder / "mirror").iterdir()] == []


def test_no_other_machine_is_asked_offline(
    kumi: Kumihimo, site: WebSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUMI_OFFLINE", "1")
    for address in ("https://example.org/", "s3://bucket/notes"):
        with pytest.raises(SourceError, match=f"KUMI_OFFLINE is set, so {address} is not asked"):
            index(kumi, address)
    assert index(kumi, f"{site.url}/docs/").new == 1  # this machine


def test_known_addresses_keep_their_rows_offline(
    kumi: Kumihimo, site: WebSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index(kumi, f"{site.url}/docs/", crawl=10)
    before = uris(kumi)
    monkeypatch.setenv("KUMI_OFFLINE", "1")
    monkeypatch.setattr(connections, "is_local", lambda host: False)
    built = kumi.index()
    assert [error.partition(",")[0] for _, _, error in built.failed] == ["KUMI_OFFLINE is set"]
    assert uris(kumi) == before


def test_a_watch_fetches_at_first_only(kumi: Kumihimo, site: WebSite, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("The tide turns.", "utf-8")

    def changes(paths: object, index: object) -> Iterator[object]:
        (notes / "b.md").write_text("The tide turns again.", "utf-8")
        yield paths, index

    results = list(watch_sources(kumi.opened, [str(notes), f"{site.url}/docs/"], ["bm25"], changes=changes))
    assert [result.rows["documents"] for result in results if isinstance(result, Built)] == [2, 3]
    assert len(site.asked()) == 1


def test_a_watch_goes_on_if_its_first_build_fails(kumi: Kumihimo, site: WebSite, tmp_path: Path) -> None:
    notes, pages = tmp_path / "notes", site.pages
    notes.mkdir()
    (notes / "a.md").write_text("The tide turns.", "utf-8")
    site.pages = {}

    def changes(paths: object, index: object) -> Iterator[object]:
        assert paths == [notes]
        yield 1
        site.pages = pages
        yield 2
        yield 3

    results = list(watch_sources(kumi.opened, [str(notes), f"{site.url}/docs/"], ["bm25"], changes=changes))
    documents = [result.rows["documents"] if isinstance(result, Built) else 0 for result in results]
    assert documents == [0, 0, 2, 2]
    assert [status for _, status in site.asked()] == [404, 404, 200]


def test_an_estimate_fetches_what_it_names(kumi: Kumihimo, site: WebSite) -> None:
    plan = kumi.plan(f"{site.url}/docs/", methods=["bm25"], crawl=2)
    assert plan.estimates == ()
    assert len(site.asked()) == 2
    assert not kumi.folder.exists()


def test_the_command(site: WebSite, tmp_path: Path) -> None:
    options = ["--index", str(tmp_path / "index.kumi"), "--set", "fetching.delay=0"]
    ran = run_kumi(tmp_path, "index", f"{site.url}/docs/", "--crawl", "2", "--methods", "bm25", *options)
    assert (ran.returncode, ran.stdout.partition("\n")[0]) == (0, "Files: 2 new.")
    assert run_kumi(tmp_path, "index", f"{site.url}/docs/none", *options).returncode == 2


def test_a_file_address_is_a_path(kumi: Kumihimo, tmp_path: Path) -> None:
    (tmp_path / "a b.md").write_text("The tide turns.", "utf-8")
    index(kumi, (tmp_path / "a b.md").as_uri())
    assert list(kumi.status().sources) == ["a b.md"]
    with pytest.raises(SourceError, match="is on another machine: name its folder as a path"):
        index(kumi, "file://server/share/a.md")
