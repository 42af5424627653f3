"""A book becomes its chapters, in reading order."""

from __future__ import annotations

from pathlib import Path

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.core.records import NOT_READ
from kumihimo.readers.html import read_epub
from kumihimo.readers.page import Page
from tests import factories_office
from tests.factories_office import chapter

MESSY = Path(__file__).parents[3] / "shared" / "data" / "messy" / "epub"
messy = pytest.mark.skipif(not MESSY.is_dir(), reason="the shared data is not here")
TWO = {"b.xhtml": chapter("<h1>Sea</h1><p>It rises."), "a.xhtml": chapter("<h1>Moon</h1><p>It pulls.")}


def read(data: bytes) -> Page:
    (page,) = read_epub(data, "a.epub")
    return page


def test_chapters_come_in_the_order_of_the_spine() -> None:
    page = read(factories_office.epub(TWO, spine='<itemref idref="c1"/><itemref idref="c0"/><itemref idref="gone"/>'))
    assert page.text == "# Moon\n\nIt pulls.\n\n# Sea\n\nIt rises."
    assert page.places == ((0, "§ Moon"), (19, "§ Sea"))


def test_a_chapter_without_a_heading_is_named_by_its_title() -> None:
    page = read(factories_office.epub({"a.xhtml": chapter("<p>One."), "b.xhtml": chapter("<p>Two.", "Second")}))
    assert page.places == ((0, ""), (6, "§ Second"))


def test_metadata_of_the_book() -> None:
    about = (
        "<dc:title>The\n Tides</dc:title><dc:creator>Ayu</dc:creator><dc:creator> Ren </dc:creator>"
        "<dc:language>ja</dc:language><dc:date>2024-05-01</dc:date><dc:publisher/><dc:subject>sea</dc:subject>"
    )
    page = read(factories_office.epub(TWO, about))
    assert " ".join(page.title.split()) == "The Tides"
    assert page.metadata == {"author": ["Ayu", "Ren"], "lang": "ja", "date": "2024-05-01", "subject": "sea"}


def test_readings_stand_behind_their_word() -> None:
    body = "<p><ruby>汐縒<rt>しおより</rt></ruby>の町"
    assert read(factories_office.epub({"a.xhtml": chapter(body)})).text == "汐縒（しおより）の町"


def test_a_cover_without_text_and_links_stay_out_of_the_way() -> None:
    links = "<ol><li><a href='b.xhtml'>A list of links is a text here</a></li></ol>"
    parts = {"c.svg": "<svg/>", "cover.xhtml": chapter("<img src='x.png'/>"), "b.xhtml": chapter(links)}
    page = read(factories_office.epub(parts))
    assert page.text == "- A list of links is a text here"
    assert page.places == ((0, ""),)


def test_all_of_a_chapter_is_kept() -> None:
    body = (
        "<header><h2>One</h2><p>In which it rains.</p></header><nav><p>Read on in Two.</p></nav>"
        "<p>It rained.</p><footer><p>A note at the end.</p></footer>"
    )
    page = read(factories_office.epub({"a.xhtml": chapter(body)}))
    assert page.text.split("\n\n") == [
        "## One", "In which it rains.", "Read on in Two.", "It rained.", "A note at the end."
    ]  # fmt: skip


def test_the_list_of_chapters_is_no_chapter() -> None:
    links = '<nav><ol><li><a href="b.xhtml">Sea</a></li><li><a href="a.xhtml">Moon</a></li></ol></nav>'
    data = factories_office.unzipped(factories_office.epub({"n.xhtml": chapter(links, "Contents"), **TWO}))
    package = data["OEBPS/book.opf"].replace(b' href="n.xhtml"', b' href="n.xhtml" properties="nav"')
    assert package != data["OEBPS/book.opf"]
    assert read(factories_office.zipped({**data, "OEBPS/book.opf": package})).text.startswith("# Sea")


def test_names_of_parts_may_be_escaped_and_lie_in_folders() -> None:
    data = factories_office.unzipped(factories_office.epub({"text/%C3%A9%20a.xhtml": chapter("<p>One.")}, home="a/b"))
    data["a/b/text/é a.xhtml"] = data.pop("a/b/text/%C3%A9%20a.xhtml")
    assert read(factories_office.zipped(data)).text == "One."


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("META-INF/container.xml", "<container"),
        ("META-INF/container.xml", "<container/>"),
        ("OEBPS/book.opf", "<package><metadata>"),
        ("OEBPS/book.opf", "no xml"),
    ],
)
def test_a_broken_part_is_named(path: str, part: str) -> None:
    with pytest.raises(SourceError, match=r"^a\.epub: its part .* again$"):
        read(factories_office.changed(factories_office.epub(TWO), {path: part}))


def test_a_missing_chapter_is_named_and_the_others_are_read() -> None:
    parts = factories_office.unzipped(factories_office.epub(TWO))
    del parts["OEBPS/a.xhtml"]
    page = read(factories_office.zipped(parts))
    assert "It rises." in page.text
    assert str(page.metadata[NOT_READ]).startswith("['a.epub: its part OEBPS/a.xhtml cannot be read")


def test_a_chapter_that_the_spine_repeats_is_read_once() -> None:
    page = read(factories_office.epub(TWO, spine='<itemref idref="c1"/><itemref idref="c0"/>' * 1000))
    assert page.text == "# Moon\n\nIt pulls.\n\n# Sea\n\nIt rises."


@pytest.mark.parametrize("path", ["META-INF/container.xml", "OEBPS/book.opf"])
def test_a_missing_part_is_named(path: str) -> None:
    parts = factories_office.unzipped(factories_office.epub(TWO))
    del parts[path]
    with pytest.raises(SourceError, match=rf"^a\.epub: its part {path} cannot be read"):
        read(factories_office.zipped(parts))


def test_a_book_of_pictures() -> None:
    with pytest.raises(SourceError, match=r"^a\.epub: contains no text"):
        read(factories_office.epub({"a.xhtml": chapter("<img/>")}))
    with pytest.raises(SourceError, match=r"^a\.epub: damaged, or not what its name says"):
        read(b"<html>")


@messy
@pytest.mark.parametrize("name", ["markitdown__test.epub", "tika__testEPUB.epub"])
def test_shared_books(name: str) -> None:
    page = read((MESSY / name).read_bytes())
    assert page.title
    assert len(page.text) > 200
    begins = [at for at, _ in page.places]
    assert begins == sorted(set(begins))
