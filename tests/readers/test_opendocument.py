"""OpenDocument files become what a person sees in them."""

from __future__ import annotations

import io
from pathlib import Path
from zipfile import ZipFile

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.readers import READERS
from kumihimo.readers.documents import read_documents
from kumihimo.readers.opendocument import read_odp, read_ods, read_odt
from kumihimo.readers.page import Page
from tests.counters import stop_endless_work

NAMES = ("office", "text", "table", "meta", "presentation")
SPACES = " ".join(f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in NAMES)
SPACES += ' xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" xmlns:dc="http://purl.org/dc/elements/1.1/"'
MANIFEST = "META-INF/manifest.xml"
FILES = """<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"><manifest:file-entry
manifest:full-path="content.xml" manifest:media-type="text/xml"/></manifest:manifest>"""
META = """<dc:title>Tide book</dc:title><meta:initial-creator>Sabine Orrell</meta:initial-creator>
<meta:creation-date>2024-05-09T10:00:00</meta:creation-date><meta:keyword>sea</meta:keyword><meta:keyword>moon</meta:keyword>"""


def packed(kind: str, body: str, **parts: str) -> bytes:
    data = io.BytesIO()
    with ZipFile(data, "w") as archive:
        archive.writestr("mimetype", f"application/vnd.oasis.opendocument.{kind}")
        content = f"<office:body><office:{kind}>{body}</office:{kind}></office:body>"
        archive.writestr("content.xml", f"<office:document-content {SPACES}>{content}</office:document-content>")
        meta = f"<office:meta>{META}</office:meta>"
        archive.writestr("meta.xml", f"<office:document-meta {SPACES}>{meta}</office:document-meta>")
        for name, text in {MANIFEST: FILES, **parts}.items():
            archive.writestr(name, text)
    return data.getvalue()


def cell(text: str, more: str = "") -> str:
    return f'<table:table-cell office:value-type="string" {more}><text:p>{text}</text:p></table:table-cell>'


def read_text(body: str) -> Page:
    (page,) = read_odt(packed("text", body), "a.odt")
    return page


def test_headings_lists_and_notes() -> None:
    page = read_text(
        "<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>"
        '<text:h text:outline-level="1">Tides</text:h>'
        '<text:p>High<text:s text:c="2"/>water<text:note><text:note-citation>1</text:note-citation><text:note-body>'
        "<text:p>at noon</text:p></text:note-body></text:note>."
        "<office:annotation><text:p>why?</text:p></office:annotation></text:p>"
        "<text:list><text:list-item><text:p>one</text:p><text:list><text:list-item><text:p>inner</text:p>"
        "</text:list-item></text:list></text:list-item><text:list-item><text:p>two</text:p></text:list-item></text:list>"
        '<text:h text:outline-level="2">潮</text:h><text:p><text:ruby><text:ruby-base>撚</text:ruby-base>'
        "<text:ruby-text>よ</text:ruby-text></text:ruby>り直す</text:p>"
    )
    assert page.text == "# Tides\n\nHigh water (at noon).\n\n- one\n  - inner\n- two\n\n## 潮\n\n撚（よ）り直す"
    assert page.places == ((0, "§ Tides"), (55, "§ 潮"))
    assert (page.title, page.metadata) == (
        "Tide book",
        {"author": "Sabine Orrell", "date": "2024-05-09", "keywords": "sea, moon"},
    )


def test_tables() -> None:
    rows = "".join(f"<table:table-row>{cell(a)}{cell(b)}</table:table-row>" for a, b in (("day", "m"), ("1", "2.4")))
    assert read_text(f"<text:p>x</text:p><table:table>{rows}</table:table>").text == "x\n\nday | m\n1 | 2.4"


def test_a_cell_over_two_rows_stands_in_both() -> None:
    over = cell("Otaru", 'table:number-rows-spanned="2"')
    rows = f"<table:table-row>{over}{cell('5')}</table:table-row>"
    rows += f"<table:table-row><table:covered-table-cell/>{cell('7')}</table:table-row>"
    assert read_text(f"<table:table>{rows}</table:table>").text == "Otaru | 5\nOtaru | 7"


def test_slides_are_places() -> None:
    slides = "".join(
        f'<draw:page><draw:frame presentation:class="title"><draw:text-box><text:p>Slide {n}</text:p></draw:text-box>'
        f"</draw:frame><draw:frame><draw:text-box><text:p>body {n}</text:p></draw:text-box></draw:frame>"
        f"<presentation:notes><draw:frame><draw:text-box><text:p>note {n}</text:p></draw:text-box></draw:frame>"
        "</presentation:notes></draw:page>"
        for n in (1, 2)
    )
    (page,) = read_odp(packed("presentation", slides), "a.odp")
    assert [part for part in page.text.split("\n") if part] == [
        line for n in (1, 2) for line in (f"## Slide {n}", f"body {n}", f"note {n}")
    ]
    assert [name for _, name in page.places] == ["slide 1", "slide 2"]


def row(*cells: str, repeated: int = 1) -> str:
    return f'<table:table-row table:number-rows-repeated="{repeated}">{"".join(cells)}</table:table-row>'


def test_sheets_are_read_as_those_of_workbooks() -> None:
    rows = row(cell("city"), cell("year")) + row(cell("Otaru"), cell("1922"))
    rows += row(
        '<table:table-cell table:number-columns-repeated="16384"/>', repeated=1_048_000
    )  # as programs end a sheet
    data = packed("spreadsheet", f'<table:table table:name="Ports">{rows}</table:table>')
    (page,) = read_ods(data, "a.ods")
    assert (page.text, page.places, page.title) == ("city: Otaru; year: 1922", ((0, "sheet Ports"),), "Tide book")


def test_percentages_and_prices_of_sheets_are_as_they_are_shown() -> None:
    share = cell("7,5 %", 'office:value="0.075"').replace("string", "percentage")
    price = cell("1.250,50 €", 'office:value="1250.5" table:number-columns-repeated="2"').replace("string", "currency")
    rows = row(*map(cell, ("town", "share", "old", "new"))) + row(cell("Kiel"), share, price, repeated=2)
    (page,) = read_ods(packed("spreadsheet", f'<table:table table:name="S">{rows}</table:table>'), "a.ods")
    assert page.text == "\n\n".join(["town: Kiel; share: 7,5 %; old: 1.250,50 €; new: 1.250,50 €"] * 2)


def test_cells_that_repeat_without_end_are_refused() -> None:
    rows = row(cell("x", 'table:number-columns-repeated="900"'), repeated=90_000)
    with pytest.raises(SourceError, match=r"^a\.ods: unpacks to far more than its size"):
        list(read_ods(packed("spreadsheet", f'<table:table table:name="S">{rows}</table:table>'), "a.ods"))


def test_an_empty_percentage_that_repeats_is_left_out() -> None:
    empty = '<table:table-cell office:value-type="percentage" table:number-columns-repeated="999999999"/>'
    with stop_endless_work(10):
        sheet = f'<table:table table:name="S">{row(empty)}</table:table>'
        (page,) = read_ods(packed("spreadsheet", sheet), "a.ods")
    assert page.text == ""


def test_what_cannot_be_read_is_refused_with_a_remedy() -> None:
    locked = {MANIFEST: "<manifest><encryption-data/></manifest>"}
    with pytest.raises(SourceError, match=r"^a\.odt: locked with a password"):
        list(read_odt(packed("text", "<text:p>x</text:p>", **locked), "a.odt"))
    with pytest.raises(SourceError, match=r"^a\.odt: contains no text"):
        list(read_odt(packed("text", "<text:p/>"), "a.odt"))
    with pytest.raises(SourceError, match=r"^a\.odt: damaged"):
        list(read_odt(b"x", "a.odt"))


def test_the_type_without_a_suffix(tmp_path: Path) -> None:
    (tmp_path / "letter").write_bytes(packed("text", "<text:p>The tide.</text:p>"))
    (document,) = read_documents(tmp_path / "letter", "letter", READERS)
    assert document.text == "The tide."
