"""A row of a table makes sense by itself, and no cell is lost."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from kumihimo.readers.page import Page
from kumihimo.readers.tables import read_delimited

MESSY = Path(__file__).parents[3] / "shared" / "data" / "messy" / "csv"
messy = pytest.mark.skipif(not MESSY.is_dir(), reason="the shared data is not here")


def lines(source: str, name: str = "a.csv") -> list[str]:
    (page,) = read_delimited(source.encode(), name)
    return page.text.split("\n\n")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_each_row_names_its_columns(delimiter: str) -> None:
    source = "city,founded\r\nOtaru,1922\r\nGenève,58\r\n".replace(",", delimiter)
    assert lines(source) == ["city: Otaru; founded: 1922", "city: Genève; founded: 58"]


def test_a_delimiter_within_quotes_or_numbers_cuts_nothing() -> None:
    assert lines('a,b\n"x, y","say ""hi""\nthere"\n') == ['a: x, y; b: say "hi" there']
    assert lines("name;price\nrope;1,50\noar;12,00\n") == ["name: rope; price: 1,50", "name: oar; price: 12,00"]
    assert lines("a\tb\nx, y, z\t1\nu, v, w\t2\n", "a.tsv") == ["a: x, y, z; b: 1", "a: u, v, w; b: 2"]


def test_the_delimiter_line_of_excel() -> None:
    assert lines("sep=;\r\na;b\r\n1,5;2\r\n") == ["a: 1,5; b: 2"]


def test_rows_too_long_too_short_and_empty() -> None:
    assert lines("a,b\n1\n\n1,2,3,4\n,,\n,5\n") == ["a: 1", "a: 1; b: 2; 3; 4", "b: 5"]


def test_a_table_without_header() -> None:
    assert lines("1,2\n3,4\n") == ["1; 2", "3; 4"]
    assert lines("Otaru,35,x\nKobe,36,y\n") == ["Otaru; 35; x", "Kobe; 36; y"]
    assert lines("Nord;1.250 €\nSüd;(980,50) €\n") == ["Nord; 1.250 €", "Süd; (980,50) €"]


def test_years_may_be_names_of_columns() -> None:
    assert lines("country,2019,2020\nJapan,1,2\n") == ["country: Japan; 2019: 1; 2020: 2"]


def test_a_header_alone_and_a_single_column() -> None:
    assert lines("a,b\n") == ["a; b"]
    assert lines("word\nsea\nship\n") == ["word: sea", "word: ship"]
    assert list(read_delimited(b"", "a.csv")) == []
    assert list(read_delimited(b"\n,,\n", "a.csv")) == []


def test_a_column_of_texts_makes_documents() -> None:
    rows = [
        "ID,Title,Text,date,city",
        "7,Sea,The sea.,2026-01-02,Kobe",
        ",Sky,The sky.",
        "7,,Again.,,,extra",
        "8,No text",
    ]
    assert list(read_delimited("\r\n".join(rows).encode(), "a.csv")) == [
        Page("7", "Sea", "The sea.", {"date": "2026-01-02", "city": "Kobe"}, "2026-01-02"),
        Page("2", "Sky", "The sky."),
        Page("7~2", "", "Again.", {"column 6": "extra"}),
        Page("8", "No text", ""),
    ]


def test_a_text_without_id_or_title_is_a_column_like_others() -> None:
    assert lines("text,n\nsea,1\n") == ["text: sea; n: 1"]


def test_columns_of_the_same_name_do_not_hide_each_other() -> None:
    (page,) = read_delimited(b"id,text,x,x,\n1,sea,a,b,c\n", "a.csv")
    assert page.metadata == {"x": "a", "x~2": "b", "column 5": "c"}


def test_a_book_in_one_cell() -> None:
    book = "word " * 400_000
    (page,) = read_delimited(f'id,text\n1,"{book}"\n'.encode(), "a.csv")
    assert page.text == book.strip()


@messy
def test_real_tables() -> None:
    def real(name: str) -> list[str]:
        (page,) = read_delimited((MESSY / name).read_bytes(), name)
        return page.text.split("\n\n")

    assert real("markitdown__test_mskanji.csv")[-1] == "名前: 髙橋淳; 年齢: 35; 住所: 名古屋"
    assert real("docling__csv-too-many-columns.csv")[1] == "1: a; 2: b; 3: c; 4: d; e"
    assert "Company: Dominguez;Mcmillan and Donovan; City: Bensonview" in real("docling__csv-semicolon.csv")[3]


# Tables whose header is long


def test_a_long_header_stands_above_its_rows_again_and_again() -> None:
    names = [f"how many boats of kind {number} came" for number in range(8)]
    rows = [f"{number},,,{number % 7},,5,,x\n" for number in range(600)]
    found = lines(",".join(names) + "\n" + "".join(rows))
    header = f"columns: {'; '.join(names)}"
    assert found[:3] == [header, "0; ; ; 0; ; 5; ; x", "1; ; ; 1; ; 5; ; x"]
    places = [place for place, line in enumerate(found) if line == header]
    shares = [sum(map(len, found[a + 1 : b])) for a, b in pairwise(places)]
    assert len(found) == 600 + len(places)
    assert all(1500 <= chars <= 1530 for chars in shares)


def test_short_names_stay_in_the_rows() -> None:
    names = [f"boats of kind {number}" for number in range(12)]  # over 200 characters, but no row fills all
    found = lines(",".join(names) + "\n" + "12,,,14,,,,,,,,x\n" * 3)
    assert found == ["boats of kind 0: 12; boats of kind 3: 14; boats of kind 11: x"] * 3


def test_a_header_makes_the_text_no_more_than_ten_times_as_long() -> None:
    for header, row in (("h" * 20_000 + ",b", "1,2"), ("h" * 190 + ",b", "1,"), ("h" * 60, "1")):
        data = f"{header}\n" + f"{row}\n" * 5000
        (page,) = read_delimited(data.encode(), "a.csv")
        assert page.text.startswith("columns: h")
        assert page.text.count("\n1") == 5000
        assert len(page.text) <= 10 * len(data)


def test_long_names_are_cut_in_the_metadata_of_rows() -> None:
    name = "h" * 20_000
    pages = list(read_delimited(f"{name},{name},text,id\n".encode() + b"3,4,y,\n" * 500, "a.csv"))
    assert [*pages[0].metadata] == ["h" * 20, f"{'h' * 20}~2"]
    (page,) = read_delimited(f"{name},text,id\n{'long ' * 100},x,7\n".encode(), "a.csv")
    assert [*page.metadata] == ["h" * 200]


def test_a_title_in_the_first_row_names_no_column() -> None:
    (page,) = read_delimited(b"Boats of the harbour,,\nboat,built,length\nMaru,1922,12\nHoshi,1930,9\n", "a.csv")
    assert page.title == "Boats of the harbour"
    assert page.text.split("\n\n") == [
        "## Boats of the harbour",
        "boat: Maru; built: 1922; length: 12",
        "boat: Hoshi; built: 1930; length: 9",
    ]
