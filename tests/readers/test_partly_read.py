"""What can be read of an odd file is read, and the rest is named; no part of a file repeats without end."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.records import NOT_READ, Document
from kumihimo.readers import READERS
from kumihimo.readers.documents import read_documents
from kumihimo.readers.html import read_html
from kumihimo.readers.page import Page
from kumihimo.readers.tables import read_json_pages
from kumihimo.readers.workbooks import read_workbook
from tests import factories_office
from tests.counters import count_lines, stop_endless_work
from tests.factories_office import changed, docx, one, p, unzipped

MAIN = b"http://schemas.openxmlformats.org/"
STRICT = b"http://purl.oclc.org/ooxml/"
SHEET = "xl/worksheets/sheet1.xml"
REFERENCE = '<w:p><w:r><w:t>note</w:t><w:footnoteReference w:id="1"/></w:r></w:p>'


def to_strict(data: bytes) -> bytes:
    """Return an Office file as "Strict Open XML" names its elements."""
    spaces = ("wordprocessingml", "drawingml", "presentationml", "spreadsheetml", "officeDocument")
    parts = unzipped(data)
    for path, part in parts.items():
        for space in map(str.encode, spaces):
            part = part.replace(MAIN + space + b"/2006/", STRICT + space + b"/")
        parts[path] = part
    assert STRICT in parts["_rels/.rels"]
    return factories_office.zipped(parts)


def unread_parts(page: Page | Document) -> list[str]:
    parts = page.metadata[NOT_READ]
    assert isinstance(parts, list)
    return parts


def slides(chart_type: str) -> bytes:
    """Return a slide with a chart, and one without."""
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE

    def fill(show: Any) -> None:
        slide = show.slides.add_slide(show.slide_layouts[5])
        slide.shapes.title.text = "Tides"
        figures: Any = CategoryChartData()  # type: ignore[no-untyped-call]
        figures.categories = ["spring", "neap"]
        figures.add_series("height", (3.5, 1.2))
        slide.shapes.add_chart(getattr(XL_CHART_TYPE, chart_type), 0, 0, 99, 99, figures)
        show.slides.add_slide(show.slide_layouts[5]).shapes.title.text = "Moon"

    return factories_office.pptx(fill)


def workbook(rows: str, after: str, *shared: str) -> Page:
    """Return a workbook of this XML, with these shared strings."""
    data = factories_office.xlsx(lambda book: factories_office.sheet(book, "S", ("a", "b"), ("x", 1)))
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    strings = "".join(f"<si><t>{text}</t></si>" for text in shared)
    parts = {
        SHEET: f"<worksheet {space}><sheetData>{rows}</sheetData>{after}</worksheet>",
        "xl/sharedStrings.xml": f"<sst {space}>{strings}</sst>",
    }
    (page,) = read_workbook(changed(data, parts), "a.xlsx")
    return page


# Parts that are not read


def test_a_chart_of_an_unknown_kind_is_named_and_the_slides_are_read(tmp_path: Path) -> None:
    data = slides("COLUMN_CLUSTERED")
    assert "spring; height: 3.5" in one(tmp_path, "a.pptx", data).text
    (path,) = (path for path in unzipped(data) if path.startswith("ppt/charts/chart"))
    solid = unzipped(data)[path].replace(b"c:barChart>", b"c:bar3DChart>")
    document = one(tmp_path, "b.pptx", changed(data, {path: solid}))
    assert document.text == "## Tides\n\n## Moon"
    (reason,) = unread_parts(document)
    assert reason.startswith("slide 1: a chart (unsupported plot type")


def test_text_around_an_entity_is_read_and_the_entity_is_named(tmp_path: Path) -> None:
    data = docx(p("Before &amp; &e; after") + p("The end", ""))
    part = unzipped(data)["word/document.xml"].decode()
    doctype = '<!DOCTYPE w:document [<!ENTITY e "and">]>'
    attack = part.replace("<w:document", f"{doctype}<w:document", 1)
    document = one(tmp_path, "a.docx", changed(data, {"word/document.xml": attack}))
    assert document.text == "Before & after\n\nThe end"
    assert document.metadata[NOT_READ] == ["the texts behind &e;, which no office program writes"]


def test_broken_notes_are_named_and_the_text_is_read(tmp_path: Path) -> None:
    data = changed(docx(REFERENCE, footnotes=""), {"word/footnotes.xml": "<w:footnotes"})
    document = one(tmp_path, "a.docx", data)
    assert document.text == "note[^1]"
    (reason,) = unread_parts(document)
    assert reason.startswith("its footnotes (")


def test_a_broken_sheet_is_named_and_the_others_are_read() -> None:
    def fill(book: Any) -> None:
        factories_office.sheet(book, "Boats", ("boat", "built"), ("Maru", 1922))
        factories_office.sheet(book, "Crew", ("name", "age"), ("Ayu", 31))

    data = changed(factories_office.xlsx(fill), {SHEET: "<worksheet><sheetData><row><c r='A1' t='s'><v>99</v></c>"})
    (page,) = read_workbook(data, "a.xlsx")
    assert page.text == "name: Ayu; age: 31"
    (reason,) = unread_parts(page)
    assert reason.startswith("sheet Boats (")


@pytest.mark.parametrize("suffix", ["docx", "pptx", "xlsx"])
def test_strict_open_xml_is_read_like_the_usual_form(tmp_path: Path, suffix: str) -> None:
    def fill_book(book: Any) -> None:
        factories_office.sheet(book, "Boats", ("boat", "built"), ("Maru", 1922))

    numbered = docx(
        p("The sea", '<w:outlineLvl w:val="0"/>') + REFERENCE, footnotes=f'<w:footnote w:id="1">{p("x")}</w:footnote>'
    )
    samples = {
        "docx": lambda: numbered,
        "pptx": lambda: slides("LINE"),
        "xlsx": lambda: factories_office.xlsx(fill_book),
    }
    data = samples[suffix]()
    usual, strict = one(tmp_path, f"a.{suffix}", data), one(tmp_path, f"a.{suffix}", to_strict(data))
    assert usual.text
    assert (strict.text, strict.metadata, strict.places) == (usual.text, usual.metadata, usual.places)


# Parts that repeat


def test_a_merged_cell_that_would_flood_the_sheet_stands_once() -> None:
    def read(text: str) -> Page:
        first = '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>0</v></c></row>'
        rows = "".join(f'<row r="{n}"><c r="B{n}"><v>{n}</v></c></row>' for n in range(2, 1001))
        return workbook(first + rows, '<mergeCells><mergeCell ref="A1:A1000"/></mergeCells>', text)

    long = "".join(random.Random(1).choices("abcdefgh", k=10_000))
    assert read("mole").text.count("mole") > 1000
    assert read(long).text.count(long) <= 4  # the header, and the rows that name its columns


def test_merged_cells_that_overlap_are_not_filled_for_each() -> None:
    rows = "".join(f'<row r="{n}"><c r="A{n}"><v>{n}</v></c></row>' for n in range(1, 501))
    merged = "<mergeCells>" + '<mergeCell ref="A1:A500"/>' * 2000 + "</mergeCells>"
    assert count_lines(lambda: workbook(rows, merged)) < 100_000


@pytest.mark.parametrize(
    "value",
    [
        {"k" * 20_000: {f"a{n}": 1 for n in range(2000)}},
        {"k" * 20_000: [[1]] * 2000},
        json.loads('{"k":' * 500 + json.dumps({f"a{n}": 1 for n in range(2000)}) + "}" * 500),
    ],
)
def test_a_long_path_is_cut_in_each_value(value: object) -> None:
    data = json.dumps(value, separators=(",", ":"))
    (page,) = read_json_pages(data.encode(), "a.json")
    assert len(page.text) <= 10 * len(data)
    assert page.text.endswith(": 1")
    assert len(page.text.split("\n\n")) >= 2000


def test_a_long_key_stands_once_in_full() -> None:
    key = "word " * 100
    data = json.dumps({"top": {key: {"a": "long text " * 50, "b": 2}}})
    (page,) = read_json_pages(data.encode(), "a.json")
    assert page.text.startswith(f"top.{key}:\n\n{key[-200:]}.a: long text")


def test_a_note_that_refers_to_itself_stands_once(tmp_path: Path) -> None:
    data = docx(REFERENCE * 3, footnotes=f'<w:footnote w:id="1">{REFERENCE}</w:footnote>')
    assert one(tmp_path, "a.docx", data).text == "note[^1]\n\nnote[^1]\n\nnote[^1]\n\n[^1]: note[^1]"


def test_numbers_of_lists_stay_short(tmp_path: Path) -> None:
    def read(pattern: str, kind: str, start: int) -> str:
        level = f'<w:start w:val="{start}"/><w:numFmt w:val="{kind}"/><w:lvlText w:val="{pattern}"/>'
        kinds = f'<w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0">{level}</w:lvl></w:abstractNum>'
        numbering = f'{kinds}<w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num>'
        item = p("item", '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>')
        return one(tmp_path, "a.docx", docx(item, numbering=numbering)).text

    assert read("%1.", "upperRoman", 999_999_999) == "999999999. item"
    assert read("%1.", "lowerLetter", 999_999_999) == "999999999. item"
    assert len(read("y" * 20_000, "decimal", 1)) < 200


@pytest.mark.parametrize(
    "page",
    [
        "<header>x" * 100_000 + "</header>" * 100_000 + "The end",
        "<p " + " ".join(f"a{number}=1" for number in range(100_000)) + ">The end",
        "<div>" * 100_000 + "The end" + "</div>" * 100_000,
    ],
    ids=["headers", "attributes", "blocks"],
)
def test_markup_without_end_is_read(page: str) -> None:
    with stop_endless_work():
        (result,) = read_html(page.encode(), "a.html")
    assert result.text.endswith("The end")


def test_a_script_is_not_counted_as_markup() -> None:
    script = "<script>" + "if (a<b && c>d) {}\n" * 2000 + "</script>"
    (page,) = read_html(f"{script}<ul><li>one<li>two</ul>".encode(), "a.html")
    assert page.text == "- one\n- two"


GUESSED = "its encoding is guessed from 2 bytes; if letters are wrong, save it as UTF-8"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "Über die Brücke"),
        ("a.md", "---\ndate: 2024-02-30\n---\nÜber die Brücke"),
        ("a.csv", "way;height\nÜber die Brücke;3"),
        ("a.html", "<p>Über die Brücke</p>"),
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\nÜber die Brücke\n"),
        ("a.eml", "From: a@b.example\nSubject: x\n\nÜber die Brücke"),
        ("a.jsonl", '{"text": "Über die Brücke"}\n{"text": "Am Ufer"}'),
    ],
)
def test_a_guessed_encoding_is_named_once_beside_other_notes(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_bytes(text.encode("cp1252"))
    first, *others = read_documents(tmp_path / name, name, READERS)
    assert unread_parts(first)[-1] == GUESSED
    assert len(unread_parts(first)) == 1 + (name == "a.md")
    assert not any(NOT_READ in document.metadata for document in others)
