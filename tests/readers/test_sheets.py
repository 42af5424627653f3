"""A workbook becomes its tables; each row repeats the column names."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.readers import archive
from kumihimo.readers.ole import open_ole
from kumihimo.readers.page import Page
from kumihimo.readers.workbooks import read_format, read_workbook
from tests import factories_office
from tests.counters import stop_endless_work
from tests.factories_office import changed, sheet, unzipped, xlsx
from tests.factories_ole import compound

MESSY = Path(__file__).parents[3] / "shared" / "data" / "messy" / "xlsx"
messy = pytest.mark.skipif(not MESSY.is_dir(), reason="the shared data is not here")

SHARES = (Path(__file__).parent / "old_office" / "shares.xls").read_bytes()

Row = tuple[object, ...]
BOATS: tuple[Row, ...] = (("boat", "built"), ("Maru", 1922), ("Hoshi", 1930))


def read(data: bytes, name: str = "a.xlsx") -> Page:
    (page,) = read_workbook(data, name)
    return page


def text(*rows: Row) -> str:
    return read(factories_office.xlsx(lambda book: sheet(book, "S", *rows))).text


def test_each_row_repeats_the_column_names() -> None:
    assert text(*BOATS) == "boat: Maru; built: 1922\n\nboat: Hoshi; built: 1930"
    assert text(("boat", "built"), ("Maru", None), ("Hoshi", 1930)) == "boat: Maru\n\nboat: Hoshi; built: 1930"


def test_a_table_of_numbers_has_no_header() -> None:
    assert text(("Maru", 12), ("Hoshi", 14)) == "Maru; 12\n\nHoshi; 14"


def test_a_title_and_notes_around_a_table() -> None:
    result = text(("Boats of the harbour",), *BOATS, ("Counted in May",))
    assert result.startswith("## Boats of the harbour\n\nboat: Maru; built: 1922")
    assert result.endswith("\n\nCounted in May")


def test_a_long_title_is_a_paragraph() -> None:
    assert text(("word " * 40,), *BOATS).startswith("word word")


def test_several_tables_of_a_sheet_and_margins() -> None:
    shifted = [(None, None, *row) for row in BOATS]
    result = text((), (), *shifted, (), ("harbour", "depth"), ("Otaru", "deep"))
    assert result == "boat: Maru; built: 1922\n\nboat: Hoshi; built: 1930\n\nharbour: Otaru; depth: deep"


def test_a_cell_merged_over_rows_stands_in_each() -> None:
    def fill(book: Any) -> None:
        worksheet = sheet(
            book, "S", (), (None, "year", "boat", "crew"), (None, 1922, "Maru", "five"), (None, None, "Hoshi", "six")
        )
        worksheet.merge_cells("B3:B4")

    assert (
        read(factories_office.xlsx(fill)).text
        == "year: 1922; boat: Maru; crew: five\n\nyear: 1922; boat: Hoshi; crew: six"
    )


def test_a_cell_merged_over_columns_stands_once() -> None:
    def fill(book: Any) -> None:
        sheet(book, "S", ("Boats of the harbour", None), *BOATS).merge_cells("A1:B1")

    assert read(factories_office.xlsx(fill)).text.startswith("## Boats of the harbour\n\nboat: Maru")


def test_values() -> None:
    rows = (
        ("kind", "value"),
        ("whole", 3),
        ("part", 0.1 + 0.2),
        ("yes", True),
        ("day", date(2024, 5, 1)),
        ("moment", datetime(2024, 5, 1, 8, 30)),
        ("hour", time(8, 30)),
        ("span", timedelta(hours=27, minutes=5)),
        ("lines", "a\n b"),
        ("big", 12345678901234),
    )
    values = "3 0.3 true 2024-05-01 2024-05-01_08:30:00 08:30:00 27:05:00 a_b 12345678901234".replace(" ", "\n").split()
    read_values = [line.partition("value: ")[2].replace(" ", "_") for line in text(*rows).split("\n\n")]
    assert read_values == values


def test_numbers_show_the_percent_sign_and_the_unit_of_their_format() -> None:
    formats = {"0.0%": 0.075, "0%": 0.125, '#,##0.00 "€"': 1250.5, "[$CHF-807] #,##0": -980, "0.0,": 1250, "0.00": 0.25}
    formats |= {"dd.mm.yyyy": 45049, "[h]:mm": 1.0625, '0" kg";[Red]-0" kg"': -3, "General": 7}

    def fill(book: Any) -> None:
        made = sheet(book, "S", (), (None, "name", "value"), *[(None, "x", value) for value in formats.values()])
        for row, code in enumerate(formats, 3):
            made.cell(row, 3).number_format = code

    values = [line.partition("value: ")[2] for line in read(factories_office.xlsx(fill)).text.split("\n\n")]
    assert values == ["7.5 %", "13 %", "1250.5 €", "-CHF 980", "1250", "0.25", "2023-05-03", "25:30:00", "-3 kg", "7"]


@pytest.mark.parametrize("value", [1e300, float("inf"), 0.5])
@pytest.mark.parametrize("code", ["0.00%", f"0.{'0' * 5000}%", "[$" * 5000])
def test_numbers_and_formats_without_sense(value: float, code: str) -> None:
    with stop_endless_work(10):
        shown = read_format(code)
    assert shown is None or shown(value)


def test_a_cell_far_away_walks_around_no_limit() -> None:
    book = xlsx(lambda book: sheet(book, "S", ("a", "b"), (1, 2)))
    (path,) = (name for name in unzipped(book) if "sheet1" in name)
    part = unzipped(book)[path].replace(b'r="A1"', b"r = 'XFD1048576'")
    with pytest.raises(SourceError, match="has over 8,000,000 cells"):
        list(read_workbook(changed(book, {path: part}), "a.xlsx"))


def test_a_sheet_of_an_old_workbook_has_no_more_cells_than_the_format() -> None:
    streams = {"/".join(path): open_ole(SHARES, "x").read_stream(*path) for path in open_ole(SHARES, "x").streams}
    size = streams["Workbook"].index(b"\x00\x02\x0e\x00")
    large = streams["Workbook"][: size + 4] + b"\xff" * 12 + streams["Workbook"][size + 16 :]
    with pytest.raises(SourceError, match="unpacks to far more than its size"):
        list(read_workbook(compound({**streams, "Workbook": large}), "a.xls"))


def test_an_old_workbook_with_a_damaged_directory_is_not_read() -> None:
    damaged = SHARES.replace("Workbook".encode("utf-16-le"), "Workbuch".encode("utf-16-le"))
    with pytest.raises(SourceError, match="its directory is damaged"):
        list(read_workbook(damaged, "a.xls"))


def test_numbers_of_old_workbooks_show_their_unit() -> None:
    data = (Path(__file__).parent / "old_office" / "shares.xls").read_bytes()
    assert read(data, "shares.xls").text == (
        "town: Otaru; share: 7.5 %; part: 50 %; price: 1250.5 €; day: 2023-05-03"
        "\n\ntown: 小樽; share: 0.75; part: 3; price: 980 €; day: 2024-12-01"
    )


def test_long_numbers_are_as_they_are_written() -> None:
    result = text(("name", "number"), ("a", 1234567890123456), ("b", 1e15), ("c", -(10**15)), ("d", 0.1), ("e", 1e-7))
    numbers = [line.partition("number: ")[2] for line in result.split("\n\n")]
    assert numbers == ["1234567890123456", "1000000000000000", "-1000000000000000", "0.1", "1e-07"]


def test_a_workbook_of_hidden_sheets_is_refused() -> None:
    def fill(book: Any) -> None:
        sheet(book, "Shown")
        sheet(book, "Secret", *BOATS).sheet_state = "hidden"

    with pytest.raises(SourceError, match=r"^a\.xlsx: the visible sheets are empty; unhide"):
        read(factories_office.xlsx(fill))


def test_a_cell_far_away_is_refused() -> None:
    def fill(book: Any) -> None:
        sheet(book, "S", *BOATS).cell(1_000_000, 9, "far")

    with pytest.raises(
        SourceError, match=r"^a\.xlsx: .*sheet1\.xml .*8,000,000 cells; split it, or clear its far edges$"
    ):
        read(factories_office.xlsx(fill))


def test_more_text_than_a_document_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = factories_office.xlsx(lambda book: sheet(book, "S", *BOATS))
    monkeypatch.setattr(archive, "MAX_TEXT_BYTES", 1 << 20)
    assert "Maru" in read(data).text
    monkeypatch.setattr(archive, "MAX_TEXT_BYTES", 4000)
    with pytest.raises(SourceError, match=r"^a\.xlsx: more than .* MB of text; cut it .*, or save a table as CSV$"):
        read(data)


def test_sheets_are_places_and_hidden_ones_are_left_out() -> None:
    def fill(book: Any) -> None:
        sheet(book, "Boats", *BOATS)
        sheet(book, "Secret", ("not", "shown")).sheet_state = "hidden"
        sheet(book, "Deep", ("not", "shown")).sheet_state = "veryHidden"
        sheet(book, "Empty")
        sheet(book, "港", ("name", "depth"), ("小樽", "deep"))
        book.properties.title, book.properties.creator = "The harbour", "Ayu"
        book.properties.created = datetime(2024, 5, 1, 8)

    page = read(factories_office.xlsx(fill))
    assert page.text == "boat: Maru; built: 1922\n\nboat: Hoshi; built: 1930\n\nname: 小樽; depth: deep"
    assert page.places == ((0, "sheet Boats"), (51, "sheet 港"))
    assert (page.title, page.metadata) == ("The harbour", {"author": "Ayu", "date": "2024-05-01"})


def test_a_column_of_words_is_a_line_each() -> None:
    assert text(("rope",), ("tar",), ("nails",)) == "rope\n\ntar\n\nnails"


def test_one_cell_alone_is_no_title() -> None:
    assert text(("rope",)) == "rope"


def test_an_empty_workbook_holds_no_document(tmp_path: Path) -> None:
    assert factories_office.every(tmp_path, "a.xlsx", factories_office.xlsx(lambda book: sheet(book, "S"))) == []


def test_formulas_show_their_saved_values() -> None:
    data = factories_office.xlsx(lambda book: sheet(book, "S", ("a", "b"), ("x", "=1+1")))
    part = (
        factories_office.unzipped(data)["xl/worksheets/sheet1.xml"]
        .replace(b"<v></v>", b"<v>2</v>")
        .replace(b"<v />", b"<v>2</v>")
    )
    assert read(factories_office.changed(data, {"xl/worksheets/sheet1.xml": part})).text == "a: x; b: 2"


@messy
def test_a_workbook_of_office_97() -> None:
    page = read((MESSY / "markitdown__test.xls").read_bytes(), "a.xls")
    assert page.places[0][1].startswith("sheet ")
    assert len({label for _, label in page.places}) == len(page.places)


@messy
def test_a_table_with_a_title() -> None:
    assert "## " in read((MESSY / "docling__xlsx_05_table_with_title.xlsx").read_bytes()).text


def test_what_is_no_workbook() -> None:
    for data in (b"plain text", b"", b"PK\3\4 not a zip"):
        with pytest.raises(SourceError, match=r"^a\.xlsx: .*; save it again"):
            read(data)


def test_a_row_after_an_empty_one_keeps_the_names_of_its_columns() -> None:
    assert (
        text(("city", "founded"), ("Otaru", 1922), (), ("Yoichi", 1872))
        == "city: Otaru; founded: 1922\n\ncity: Yoichi; founded: 1872"
    )
    apart = text(("city", "ships"), ("Otaru", 12), (), ("port", "2019", "2020"), ("Yoichi", 3, 4))
    assert apart.endswith("port: Yoichi; 2019: 3; 2020: 4")


def test_a_title_with_a_note_beside_it_names_no_column() -> None:
    rows: tuple[Row, ...] = (
        ("Boats of the harbour", None, None, "in metres"),
        ("boat", "built", "length", "beam"),
        ("Maru", 1922, 12, 3),
    )
    page = read(factories_office.xlsx(lambda book: sheet(book, "S", *rows)))
    assert page.text == "## Boats of the harbour in metres\n\nboat: Maru; built: 1922; length: 12; beam: 3"
    assert page.title == "Boats of the harbour in metres"
