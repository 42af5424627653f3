"""A PDF becomes the text that one reads on its pages."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.core.records import NOT_READ
from kumihimo.readers import ocr
from kumihimo.readers.glyphs import TextLine
from kumihimo.readers.page import Page
from kumihimo.readers.pdf import (
    CharBox,
    downward,
    drop_running_heads,
    leftward,
    read_pdf,
    rightward,
    writing_direction,
)
from tests import factories_office
from tests.factories_office import Fill, justified, lines

MESSY = Path(__file__).parents[3] / "shared" / "data" / "messy" / "pdf"
messy = pytest.mark.skipif(not MESSY.is_dir(), reason="the shared data is not here")
SCANNED = "if they are scanned, run `pip install 'kumihimo[ocr]'`"
HARBOUR = "The harbour was quiet in the morning and the boats lay still beside the wall while the gulls slept."
PAINT = "Nobody mends the breakwater now because the stones are heavy and the money has been spent on paint."
JAPANESE = (
    "組紐の工房は、港の近くにある。朝の八",
    "時に開き、夕方の五時に閉まる。先代の",
    "縒野ルータは、絹糸に触れなかった。",
)


@pytest.fixture(autouse=True)
def without_ocr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kumihimo.readers.pdf.has_ocr", lambda: False)


def read(data: bytes, name: str = "a.pdf") -> Page:
    (page,) = read_pdf(data, name)
    return page


def not_read(page: Page) -> list[str]:
    notes = page.metadata[NOT_READ]
    assert isinstance(notes, list)
    return notes


def text(*pages: Fill) -> str:
    return read(factories_office.pdf(*pages)).text


def test_wrapped_lines_are_paragraphs_parted_by_a_gap() -> None:
    drawn = lines(*justified(HARBOUR), "", *justified(PAINT))
    assert text(drawn) == f"{HARBOUR}\n\n{PAINT}"


def test_a_short_line_ends_a_paragraph() -> None:
    first = f"{HARBOUR} {HARBOUR} So it is."
    assert text(lines(*justified(first), *justified(PAINT))) == f"{first}\n\n{PAINT}"


def test_hyphens_at_line_ends() -> None:
    drawn = lines(
        "The people of the town went to the har-", "bour, where a well-", "known boat lay. It was well-known."
    )
    assert text(drawn) == "The people of the town went to the harbour, where a well-known boat lay. It was well-known."


def test_a_table_and_a_heading() -> None:
    def draw(canvas: Any) -> None:
        lines("The Long Arm", size=20)(canvas)
        lines(*justified(HARBOUR), y=680)(canvas)
        for row, cells in enumerate((("Section", "Stones", "Lost"), ("Root", "120", "two"), ("Elbow", "150", "forty"))):
            for column, cell in enumerate(cells):
                canvas.drawString(72 + 120 * column, 620 - 16 * row, cell)

    page = read(factories_office.pdf(draw))
    table = "Section | Stones | Lost\nRoot | 120 | two\nElbow | 150 | forty"
    assert page.text == f"## The Long Arm\n\n{HARBOUR}\n\n{table}"
    assert page.title == "The Long Arm"


def test_two_columns_are_read_one_after_the_other() -> None:
    def draw(canvas: Any) -> None:
        lines(*justified(HARBOUR, 32))(canvas)
        lines(*justified(PAINT, 32), x=320)(canvas)

    assert text(draw) == f"{HARBOUR}\n\n{PAINT}"


def gazette(number: int, words: str) -> Fill:
    """Draw a page with a running head and a page number."""

    def draw(canvas: Any) -> None:
        lines("Harbour Gazette", y=800, size=9)(canvas)
        lines(*justified(words))(canvas)
        lines(f"- {number} -", x=300, y=30, size=9)(canvas)

    return draw


def test_running_heads_and_page_numbers_go_from_three_pages_on() -> None:
    texts = [HARBOUR, PAINT, "The ferry leaves at nine, and the office opens at eight, so do not be late for either."]
    assert text(*map(gazette, (1, 2, 3), texts)) == "\n\n".join(["Harbour Gazette", *texts])
    two = text(*map(gazette, (1, 2), texts))
    assert two.count("Harbour Gazette") == 2
    assert "- 2 -" in two


def test_a_line_that_recurs_elsewhere_on_the_page_is_no_running_head() -> None:
    pages = [[TextLine(f"{word} {n}", line_position=100.0 - n) for n in range(9)] for word in ("one", "two", "three")]
    for page in pages:
        page[4] = TextLine("So it goes.", line_position=50)
    assert drop_running_heads(pages) == pages


def titled(head: str, *words: str) -> Fill:
    """Draw a page with a large line at the top."""

    def draw(canvas: Any) -> None:
        lines(head, y=760, size=18)(canvas)
        lines(*words, size=11)(canvas)

    return draw


def test_a_head_with_its_page_number_stands_once() -> None:
    def head(n: int) -> str:
        words = "Chapter 1. Tides" if n < 5 else "Chapter 2. Boats"
        return f"{n} | {words}" if n % 2 else f"{words} | {n}"

    bodies = [f"Page {n} tells of the sea." for n in range(1, 9)]
    numbered = [[TextLine(head(n), line_position=90), TextLine(body)] for n, body in enumerate(bodies, 1)]
    assert [[line.text for line in page] for page in drop_running_heads(numbered)] == [
        [head(n), body] if n in (1, 5) else [body] for n, body in enumerate(bodies, 1)
    ]
    roman = [
        [TextLine(f"Tides | {number}", line_position=90), TextLine(str(n)), TextLine(f"Total | {n}", line_position=9)]
        for n, number in zip((4, 9, 2, 30), ("i", "1 / 9", "2 / 9", "3 / 9"), strict=True)
    ]
    kept = [[line.text for line in page] for page in drop_running_heads(roman)]
    assert kept == [["Tides | i", "4", "Total | 4"], *([str(n), f"Total | {n}"] for n in (9, 2, 30))]


def test_numbered_chapters_keep_their_headings() -> None:
    result = text(*(titled(f"Chapter {n}", *justified(HARBOUR), f"That was part {n}.") for n in range(1, 7)))
    assert [line for line in result.split("\n") if line.startswith("#")] == [f"## Chapter {n}" for n in range(1, 7)]


def test_large_numbers_are_headings() -> None:
    result = text(*(titled(str(n), *justified(HARBOUR), f"That was part {n}.") for n in range(1, 7)))
    assert [line for line in result.split("\n") if line.startswith("#")] == [f"## {n}" for n in range(1, 7)]


@pytest.mark.parametrize(
    "numbers",
    [
        [f"Invoice number {n}" for n in range(1, 6)],
        [f"Step {n}" for n in range(1, 5)],
        [str(year) for year in range(2019, 2023)],
        ["3", "7", "12", "90"],  # numbers that do not go up with the pages
    ],
)
def test_numbers_in_the_text_stay(numbers: list[str]) -> None:
    result = text(*(lines(number, "Amount due 120", "Pay to the Wrack Fund") for number in numbers))
    assert re.findall("|".join(numbers), result.replace("Amount due 120", "Amount")) == numbers
    assert result.count("Amount due 120") == 1


@pytest.mark.parametrize("written", ["- {} -", "p. {}", "{} / 12", "第{}頁", "{}", "Page {} of 12", "[{}]", "{}ページ"])
def test_page_numbers_go(written: str) -> None:
    texts = [
        [TextLine(f"{word} {n}", line_position=700.0 - 14 * n, size=11) for n in range(5)]
        for word in ("one", "two", "three")
    ]
    pages = [[*page, TextLine(written.format(n), line_position=30, size=9)] for n, page in enumerate(texts, 3)]
    assert drop_running_heads(pages) == texts
    above = [[page[-1], *page[:-1]] for page in pages]
    assert drop_running_heads(above) == texts


def test_a_line_on_every_page_stays_where_it_first_stands() -> None:
    texts = [
        [TextLine(f"{word} {n}", line_position=700.0 - 14 * n) for n in range(5)]
        for word in ("one", "two", "three", "four")
    ]
    head = TextLine("Harbour Gazette", line_position=800)
    assert drop_running_heads([[head, *page] for page in texts]) == [[head, *texts[0]], *texts[1:]]
    assert drop_running_heads([[*page, head] for page in texts]) == [[*texts[0], head], *texts[1:]]


def test_pages_of_nothing_but_such_lines_stay_whole() -> None:
    pages = [[TextLine("Harbour Gazette", line_position=800), TextLine(str(n), line_position=30)] for n in range(1, 5)]
    assert drop_running_heads(pages)[1:] == pages[1:]
    page = read(factories_office.pdf(*(lines("Fit to sail.") for _ in range(3))))
    assert page.text.count("Fit to sail.") == 3
    assert "not_read" not in page.metadata


def test_only_pages_that_have_no_text_are_named() -> None:
    drawn = [gazette(1, HARBOUR), lines("Harbour Gazette", y=800, size=9), lines(), gazette(4, PAINT), lines()]
    assert read(factories_office.pdf(*drawn)).metadata["not_read"] == [f"no text on p. 3, 5; {SCANNED}"]


def test_many_threads_read_at_once() -> None:
    data = factories_office.pdf(*(lines(*(f"Boat {n} of page {p} is mended." for n in range(20))) for p in range(10)))
    expected, ready = read(data).text, Barrier(8)

    def several(_: int) -> set[str]:
        ready.wait()
        return {read(data).text for _ in range(3)}

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(several, range(8))) == [{expected}] * 8


def test_a_page_that_is_turned_is_read_in_paragraphs() -> None:
    from pypdf import PdfReader, PdfWriter

    plain = factories_office.pdf(lines(*justified(HARBOUR), "", *justified(PAINT), y=480))
    for turn in (90, 180, 270):
        writer = PdfWriter()
        page = writer.add_page(PdfReader(io.BytesIO(plain)).pages[0])
        page.rotate(-turn)
        page.transfer_rotation_to_content()  # draws the page rotated, ...
        page.rotate(turn)  # ... and turned upright again
        turned = io.BytesIO()
        writer.write(turned)
        assert read(turned.getvalue()).text == f"{HARBOUR}\n\n{PAINT}", turn


def test_letters_of_two_halves_are_whole() -> None:
    page = read(mapped({0x41: "𠮷", 0x42: "野"}, "C A B C", "A A A B", "C B C C"))
    assert page.text.split() == ["C", "𠮷", "野", "C", "𠮷", "𠮷", "𠮷", "野", "C", "野", "C", "C"]


def test_places_behind_letters_of_two_halves() -> None:
    page = read(mapped({0x41: "𠮷"}, "A A A.", "C A."))
    assert [page.text[at:] for at, _ in page.places] == [page.text, "C 𠮷."]


def mapped(letters: Mapping[int, str], *pages: str) -> bytes:
    """Return a PDF whose font maps bytes to these letters."""

    def stream(body: bytes) -> bytes:
        return b"<</Length %d>>stream\n%s\nendstream" % (len(body), body)

    chars = "".join(f"<{at:02x}> <{letter.encode('utf-16-be').hex()}> " for at, letter in letters.items())
    cmap = f"begincmap 1 begincodespacerange <00> <FF> endcodespacerange {len(letters)} beginbfchar {chars}endbfchar "
    kids = " ".join(f"{5 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>".encode(),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 4 0 R>>",
        stream(f"{cmap}endcmap".encode()),
    ]
    for n, codes in enumerate(pages):
        about = f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents {6 + 2 * n} 0 R"
        objects.append(f"{about}/Resources<</Font<</F 3 0 R>>>>>>".encode())
        objects.append(stream(f"BT /F 12 Tf 72 700 Td ({codes}) Tj ET".encode()))
    body = b"%PDF-1.4\n"
    starts = []
    for number, content in enumerate(objects, 1):
        starts.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % at for at in starts)
    count = len(objects) + 1
    head = b"xref\n0 %d\n0000000000 65535 f \n" % count
    return body + head + table + b"trailer<</Size %d/Root 1 0 R>>startxref\n%d\n%%%%EOF" % (count, len(body))


def test_pages_are_places() -> None:
    page = read(factories_office.pdf(lines("First page has words."), lines(), lines("Third page has words.")))
    assert page.text == "First page has words.\n\nThird page has words."
    assert page.places == ((0, "p. 1"), (21, "p. 2"), (23, "p. 3"))
    assert page.metadata["not_read"] == [f"no text on p. 2; {SCANNED}"]


def test_a_sentence_over_the_end_of_a_page_stays_whole() -> None:
    page = read(
        factories_office.pdf(lines("The gulls slept beside the wall and"), lines("woke when the sun came up over it."))
    )
    assert page.text == "The gulls slept beside the wall and woke when the sun came up over it."
    assert page.text[page.places[1][0] :].startswith("woke")


def picture(canvas: Any) -> None:
    from reportlab.lib.utils import ImageReader

    gif = b"GIF89a\1\0\1\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\1\0\1\0\0\2\2D\1\0;"
    canvas.drawImage(ImageReader(io.BytesIO(gif)), 72, 72, 400, 400)


@pytest.mark.parametrize("drawn", [lines(), picture], ids=["nothing", "picture"])
def test_pages_of_pictures_are_scanned(drawn: Fill) -> None:
    with pytest.raises(
        SourceError, match=r"^x/a\.pdf: no text on any of its pages \(2\), so it is scanned; .* run `pip install"
    ):
        read(factories_office.pdf(drawn, drawn), "x/a.pdf")


def test_a_locked_file() -> None:
    from reportlab.lib.pdfencrypt import StandardEncryption

    with pytest.raises(SourceError, match=r"^a\.pdf: locked with a password; save it without one$"):
        read(factories_office.pdf(lines("secret"), encrypt=StandardEncryption("open sesame", "owner")))
    opened = factories_office.pdf(lines("Not secret."), encrypt=StandardEncryption("", "owner"))
    assert read(opened).text == "Not secret."


@pytest.mark.parametrize("share", range(0, 100, 20))
def test_a_file_cut_short_is_no_whole_pdf(share: int) -> None:
    whole = factories_office.pdf(lines(HARBOUR), lines(PAINT))
    with pytest.raises(
        SourceError, match=r"^a\.pdf: not a complete PDF \(.+\); download it again, or print it to a new PDF$"
    ):
        read(whole[: len(whole) * share // 100])


def test_what_stands_before_a_pdf_is_passed_over() -> None:
    behind = b"HTTP/1.1 200 OK\r\n" * 100 + factories_office.pdf(
        lines("The harbour", "was quiet."), lines("Nobody mends it.")
    )
    page = read(behind)
    assert page.text == "The harbour was quiet.\n\nNobody mends it."
    assert page.places == ((0, "p. 1"), (24, "p. 2"))


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("The Tides", "The Tides"),
        ("v1.2 of it", "v1.2 of it"),
        ("On Node.js", "On Node.js"),
        ("Microsoft Word - a.docx", "The Long Arm"),
        ("PowerPoint Presentation", "The Long Arm"),
        ("untitled", "The Long Arm"),
        ("Untitled document", "The Long Arm"),
        ("[no title]", "The Long Arm"),
        ("The\0 Tides\0", "The Tides"),
        ("Microsoft Word - arm", "The Long Arm"),
        ("report.docx", "The Long Arm"),
        ("", "The Long Arm"),
    ],
)
def test_a_generated_title_is_none(written: str, title: str) -> None:
    def draw(canvas: Any) -> None:
        lines("The Long Arm", size=20)(canvas)
        lines(*justified(HARBOUR), y=680)(canvas)
        canvas.setAuthor("Tobit Garrow")

    page = read(factories_office.pdf(draw, title=written))
    assert page.title == title
    assert page.metadata["author"] == "Tobit Garrow"
    assert page.metadata["date"] == "2000-01-01"


def japanese(*texts: str, vertical: bool, x: float, y: float) -> Fill:
    def draw(canvas: Any) -> None:
        from reportlab.pdfbase import pdfmetrics
        from reportlab.pdfbase.cidfonts import UnicodeCIDFont

        font = UnicodeCIDFont("HeiseiMin-W3", isVertical=vertical)
        pdfmetrics.registerFont(font)
        canvas.setFont(font.fontName, 12)
        for number, words in enumerate(texts):
            canvas.drawString(x - 20 * number * vertical, y - 18 * number * (not vertical), words)

    return draw


@pytest.mark.parametrize("vertical", [False, True])
def test_japanese_across_and_down(vertical: bool) -> None:
    assert text(japanese(*JAPANESE, vertical=vertical, x=400, y=780)) == "".join(JAPANESE)


def test_two_tiers_of_columns() -> None:
    def draw(canvas: Any) -> None:
        japanese("方の五時に閉まる。先代の", "縒野は絹糸に触れなかった", vertical=True, x=500, y=400)(canvas)
        japanese("組紐の工房は、港の近くに", "ある。朝の八時に開き、夕", vertical=True, x=500, y=780)(canvas)

    words = "組紐の工房は、港の近くにある。朝の八時に開き、夕方の五時に閉まる。先代の縒野は絹糸に触れなかった"
    assert text(draw) == words


def test_which_way_most_letters_go() -> None:
    across = [CharBox(letter, False, 10.0 * i, 10.0 * i + 9, 0.0, 10.0) for i, letter in enumerate("組紐の工房")]
    down = [CharBox(letter, False, 0.0, 10.0, -10.0 * i, 10.0 - 10 * i) for i, letter in enumerate("組紐の工房")]
    hebrew = [CharBox(letter, False, -10.0 * i, 9 - 10.0 * i, 0.0, 10.0) for i, letter in enumerate("שלום")]
    latin = [CharBox(letter, False, 0.0, 10.0, -10.0 * i, 10.0 - 10 * i) for i, letter in enumerate("a list")]
    expected = [rightward, downward, leftward, rightward, rightward]
    assert [writing_direction(boxes) for boxes in (across, down, hebrew, latin, [])] == expected


@messy
def test_lines_from_right_to_left_are_joined() -> None:
    page = read((MESSY / "docling__right_to_left_01.pdf").read_bytes())
    assert "|" not in page.text
    assert max(map(len, page.text.split("\n\n"))) > 300


@messy
def test_a_table_of_a_paper() -> None:
    page = read((MESSY / "docling__2305.03393v1-pg9.pdf").read_bytes())
    assert "\nHTML 0.969 0.927 0.955 0.857 | 5.39\n4 | 4 | OTSL 0.938" in page.text
    assert "\n\n5.1 Hyper Parameter Optimization\n\nWe have chosen" in page.text


def drawn(*rows: tuple[float, Sequence[tuple[float, str]]], size: float = 12) -> Fill:
    """Draw texts at their heights and places from the left."""

    def draw(canvas: Any) -> None:
        canvas.setFont("Helvetica", size)
        for height, texts in rows:
            for x, words in texts:
                canvas.drawString(x, height, words)

    return draw


def test_a_label_apart_from_its_text_is_no_cell() -> None:
    first, second = justified(HARBOUR, 50), justified(PAINT, 50)
    rows = [(700.0 - 14 * n, [(120.0, words)]) for n, words in enumerate([*first, *second])]
    rows[0][1].insert(0, (72, "4.1"))
    rows[len(first)][1].insert(0, (72, "(b)"))
    assert text(drawn(*rows)) == f"4.1 {HARBOUR}\n\n(b) {PAINT}"


@pytest.mark.parametrize("head", [("No.", "Name"), ("Nr", "Ort")])
def test_a_numbered_table_stays_a_table(head: tuple[str, str]) -> None:
    rows = [head, ("1.", "Otaru"), ("2.", "Yoichi")]
    result = text(drawn(*((700 - 16 * n, [(72, a), (200, b)]) for n, (a, b) in enumerate(rows))))
    assert result == "\n".join(map(" | ".join, rows))


@pytest.mark.parametrize("gap", [4, 12, 30])
def test_letter_spaced_words_are_whole(gap: float) -> None:
    def draw(canvas: Any) -> None:
        canvas.setFont("Helvetica", 12)
        for n, letter in enumerate("TITLE"):
            canvas.drawString(72 + n * gap + canvas.stringWidth("TITLE"[:n], "Helvetica", 12), 700, letter)
        japanese("特", vertical=False, x=72, y=650)(canvas)
        japanese("許", vertical=False, x=84 + gap, y=650)(canvas)

    assert text(draw).split("\n\n") == ["TITLE", "特許"]


def test_the_letters_of_a_table_are_cells() -> None:
    rows = [
        (700 - 16 * n, [(72 + 60 * i, cell) for i, cell in enumerate(row)]) for n, row in enumerate(("ABCD", "1234"))
    ]
    assert text(drawn(*rows)) == "A | B | C | D\n1 | 2 | 3 | 4"


def test_a_row_with_narrow_gaps_stays_in_its_table() -> None:
    rows = [("Section", "Stones", "Lost"), ("The knuckle, inner", "150", "forty"), ("Root", "120", "two")]
    result = text(drawn(*((700 - 16 * n, [(72, a), (182, b), (260, c)]) for n, (a, b, c) in enumerate(rows))))
    assert result == "\n".join(map(" | ".join, rows))


def test_a_wrapped_cell_and_a_line_between_rows_stay_in_the_table() -> None:
    rows = [
        (700, [(72, "Rope"), (200, "laid of hemp and"), (400, "12")]),
        (686, [(200, "tarred twice")]),
        (668, [(72, "Iron")]),
        (650, [(72, "Ring"), (200, "forged"), (400, "3")]),
    ]
    assert text(drawn(*rows)) == "Rope | laid of hemp and tarred twice | 12\nIron\nRing | forged | 3"


def table_page(number: int, rows: list[tuple[str, str]], note: str) -> Fill:
    def draw(canvas: Any) -> None:
        drawn(*((700 - 16 * n, [(72, a), (200, b)]) for n, (a, b) in enumerate(rows)))(canvas)
        canvas.drawString(300, 30, note.format(number))

    return draw


def test_a_table_over_two_pages_keeps_its_header() -> None:
    head, first, second = (
        ("Harbour", "Depth"),
        [("Otaru", "9 m"), ("Yoichi", "4 m")],
        [("Suttsu", "5 m"), ("Iwanai", "6 m")],
    )
    one, two = "Otaru | 9 m\nYoichi | 4 m", "Suttsu | 5 m\nIwanai | 6 m"
    parted = text(table_page(1, [head, *first], "- {} -"), table_page(2, second, "- {} -"))
    assert parted == f"Harbour | Depth\n{one}\n\n- 1 -\n\nHarbour | Depth\n{two}\n\n- 2 -"
    assert text(table_page(1, [head, *first], ""), table_page(2, second, "")) == f"Harbour | Depth\n{one}\n{two}"
    assert (
        text(table_page(1, [head, *first], ""), table_page(2, [head, *second], "")) == f"Harbour | Depth\n{one}\n{two}"
    )


def test_the_first_page_gives_the_title() -> None:
    pages = titled("The Long Arm"), titled("Traffic Volunteers", *justified(HARBOUR))
    assert read(factories_office.pdf(*pages)).title == "The Long Arm"

    def plain(canvas: Any) -> None:
        lines("Rules of the harbour")(canvas)
        lines(*justified(HARBOUR), y=690)(canvas)

    later = titled("PAY HERE", *justified(PAINT))
    assert read(factories_office.pdf(plain, later)).title == "Rules of the harbour"
    assert read(factories_office.pdf(lines(*justified(HARBOUR)), later)).title == ""


@pytest.mark.parametrize(
    "head", ["230 EUR", "by Tobit Garrow", "Form W-9 (2024)", "Document1", "12.5.2024", "Adobe InDesign"]
)
def test_what_is_no_title(head: str) -> None:
    def draw(canvas: Any) -> None:
        lines(head, size=22, y=760)(canvas)
        lines("The Long Arm", size=18)(canvas)
        lines(*justified(HARBOUR), *justified(PAINT), y=660)(canvas)

    assert read(factories_office.pdf(draw)).title == "The Long Arm"


def test_the_heading_of_a_table_of_contents_is_no_title() -> None:
    contents = titled("Contents", "1 Tides | 2", *justified(HARBOUR))
    assert read(factories_office.pdf(contents, titled("Tides", *justified(HARBOUR)))).title == ""

    def covered(canvas: Any) -> None:
        lines("The Long Arm", size=26, y=790)(canvas)
        contents(canvas)

    assert read(factories_office.pdf(covered)).title == "The Long Arm"


def test_the_largest_heading_of_the_first_page_is_the_title() -> None:
    def draw(canvas: Any) -> None:
        lines("Coastal Works Office", size=15, y=760)(canvas)
        lines("The Long Arm", size=24)(canvas)
        lines(*justified(HARBOUR), y=660)(canvas)

    assert read(factories_office.pdf(draw)).title == "The Long Arm"


def test_filled_fields_of_a_form_are_read() -> None:
    def draw(canvas: Any) -> None:
        lines("Application for a berth")(canvas)
        form, place = canvas.acroForm, {"x": 72, "width": 200, "height": 20}
        form.textfield(name="f1", tooltip="Full name", value="Tobit Garrow", y=600, **place)
        form.textfield(name="amount", value="230", y=570, **place)
        form.textfield(name="empty", value="", y=540, **place)
        form.textfield(name="secret", value="sesame", fieldFlags="password", y=510, **place)
        form.choice(name="pier", value="North", options=["North", "South"], y=480, **place)
        form.checkbox(name="member", checked=True, x=72, y=450)
        form.checkbox(name="resident", checked=False, x=72, y=420)

    fields = ["Full name: Tobit Garrow", "amount: 230", "pier: North", "member: Yes"]
    assert text(draw).split("\n\n") == ["Application for a berth", *fields]


def scanned(stamp: str) -> Fill:
    """Draw a page that is one picture, with a little text."""

    def draw(canvas: Any) -> None:
        canvas.saveState()
        canvas.scale(1.45, 2)
        canvas.translate(-70, -70)
        picture(canvas)
        canvas.restoreState()
        lines(stamp, y=30)(canvas)

    return draw


SHIFTED = "7KHERDWVZHUHVWLOOEHVLGHWKHZDOODQGWKHJXOOVVOHSWXQWLOWKHVXQFDPHXSRYHUWKHKDUERUZKHUHQRERGBPHQGVWKHVWRQHZDOO"
FAULTY = {
    "picture": scanned("Page 3"),
    "its letters make no words": lines(*(SHIFTED[i : i + 9] + " " + SHIFTED[i + 9 : i + 40] for i in (0, 30, 60))),
}


@pytest.mark.parametrize("fault", FAULTY)
def test_a_page_whose_text_is_not_on_it_is_named(fault: str) -> None:
    page = read(factories_office.pdf(lines(*justified(HARBOUR)), FAULTY[fault]))
    [note] = not_read(page)
    assert note.startswith("p. 2: ")
    assert fault in note
    assert note.endswith("to read it by OCR, run `pip install 'kumihimo[ocr]'`")


def test_letters_without_a_meaning_are_not_read_but_named() -> None:
    page = read(mapped({0x41: "\ue001", 0x42: "\ue002"}, "C C C", "A B A B C"))
    assert page.text == "CCC"
    assert not_read(page)[0].startswith("p. 2: its letters are not read")


@pytest.mark.parametrize("fault", FAULTY)
def test_a_page_whose_text_is_not_on_it_goes_to_ocr(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [TextLine("The wall was built in 1903.", 0, 400, -20, 10, 30)]
    monkeypatch.setattr("kumihimo.readers.pdf.has_ocr", lambda: True)
    monkeypatch.setattr(ocr, "read_picture_lines", lambda _: seen)
    page = read(factories_office.pdf(lines(*justified(HARBOUR)), FAULTY[fault]))
    assert page.text == f"{HARBOUR}\n\nThe wall was built in 1903."
    assert "not_read" not in page.metadata


def test_a_page_with_a_picture_and_its_text_is_no_scan() -> None:
    assert "not_read" not in read(factories_office.pdf(scanned(HARBOUR))).metadata
    codes = lines(*(f"PPR-{n} KLM-{n} XTZ" for n in range(1000, 1006)))
    assert "not_read" not in read(factories_office.pdf(codes)).metadata


def test_a_damaged_page_is_named_and_the_others_are_read() -> None:
    import pypdf
    from pypdf.generic import ArrayObject, NameObject, NumberObject

    writer = pypdf.PdfWriter(io.BytesIO(factories_office.pdf(lines(HARBOUR), lines(PAINT))))
    tree: Any = writer.root_object["/Pages"]
    tree[NameObject("/Kids")] = ArrayObject([writer.pages[0].indirect_reference, NumberObject(7)])
    output = io.BytesIO()
    writer.write(output)
    page = read(output.getvalue())
    assert page.text == HARBOUR
    assert not_read(page) == ["p. 2: it is damaged"]
