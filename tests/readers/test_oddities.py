"""Odd files are read as intended, or refused; no crash, hang or flood."""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.readers.front_matter import parse_front_matter
from kumihimo.readers.glyphs import TextLine
from kumihimo.readers.html import read_html
from kumihimo.readers.mail import read_mail
from kumihimo.readers.paragraphs import join_paragraphs
from tests import factories_office
from tests.counters import count_lines, stop_endless_work
from tests.factories_office import changed, every, lines, one, p, unzipped

DECOMPRESSOR: Any = zlib.decompressobj
MIXED = "Content-Type: multipart/mixed; boundary=B\n\n--B\n"


def run_reader(folder: Path, name: str, data: bytes) -> str:
    """Read the file in a process; fail on a crash or hang."""
    (folder / name).write_bytes(data)
    code = (
        "import resource, sys; from pathlib import Path; from kumihimo.readers import READERS\n"
        "from kumihimo.readers.documents import read_documents\n"
        "from kumihimo.core.errors import SourceError\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
        "try: print(len(read_documents(Path(sys.argv[1]), 'a', READERS)))\n"
        "except SourceError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, folder / name], timeout=60, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-300:]
    return done.stdout


class CountingDecompressor:
    """What `zlib.decompressobj` returns, which counts the bytes it unpacks."""

    unpacked = 0

    def __init__(self, *arguments: Any) -> None:
        self.inner = DECOMPRESSOR(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def decompress(self, data: bytes, *arguments: Any) -> bytes:
        result: bytes = self.inner.decompress(data, *arguments)
        CountingDecompressor.unpacked += len(result)
        return result


def nested_readings(times: int) -> bytes:
    return b"<ruby><rt>" * times + b"deep"


# Crashes, hangs and floods


def test_a_cell_in_the_farthest_corner_does_not_end_the_process(tmp_path: Path) -> None:
    data = factories_office.xlsx(lambda book: factories_office.sheet(book, "S", ("a", "b"), ("x", 1)))
    path = "xl/worksheets/sheet1.xml"
    far = unzipped(data)[path].replace(b'"A2"', b'"A1048576"').replace(b'"B2"', b'"XFD1048576"')
    assert run_reader(tmp_path, "a.xlsx", changed(data, {path: far}))


def test_merged_cells_are_read_no_further_than_the_rows(tmp_path: Path) -> None:
    data = factories_office.xlsx(lambda book: factories_office.sheet(book, "S", ("a", "b"), ("x", 1)))
    path = "xl/worksheets/sheet1.xml"

    def with_merged(times: int) -> bytes:
        merged = b"</sheetData><mergeCells>" + b'<mergeCell ref="A1:A1048576"/>' * times + b"</mergeCells>"
        return changed(data, {path: unzipped(data)[path].replace(b"</sheetData>", merged)})

    assert run_reader(tmp_path, "a.xlsx", with_merged(100))
    assert count_lines(lambda: every(tmp_path, "b.xlsx", with_merged(3))) < 10_000


@pytest.mark.parametrize(("name", "path"), [("a.docx", "word/document.xml"), ("a.epub", "OEBPS/a.xhtml")])
def test_a_part_that_lies_about_its_size_is_not_unfolded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, path: str
) -> None:
    package = {
        "a.docx": factories_office.docx(p("x")),
        "a.epub": factories_office.epub({"a.xhtml": factories_office.chapter("x")}),
    }[name]
    lie = bytearray(changed(package, {path: b" " * (64 << 20)}))
    struct.pack_into("<I", lie, lie.rindex(path.encode()) - 46 + 24, 100)
    (tmp_path / name).write_bytes(lie)
    monkeypatch.setattr(zlib, "decompressobj", CountingDecompressor)
    CountingDecompressor.unpacked = 0
    with pytest.raises(SourceError):
        every(tmp_path, name, bytes(lie))
    assert CountingDecompressor.unpacked < 4 << 20


def test_brackets_in_a_head_are_not_parsed() -> None:
    text = "---\n" + "[" * 600 + "\n---\n"
    assert parse_front_matter(text) == ({}, 0)
    assert count_lines(lambda: parse_front_matter(text), folder="") < 100  # with those of the YAML parser


def test_a_subject_of_many_words_is_decoded_in_part(tmp_path: Path) -> None:
    def count(words: int) -> int:
        """Return the lines run, with those of Python's own parser; its memory grows even faster."""
        data = b"From: a@b\r\nSubject: " + b"=?utf-8?q?a?= " * words + b"\r\n\r\nx"
        return count_lines(lambda: every(tmp_path, "a.eml", data), folder="")

    count(4000)  # loads what every mail needs
    assert count(16_000) < 1.1 * count(4000)


def test_the_work_for_readings_of_readings_grows_with_their_number() -> None:
    def count(times: int) -> int:
        return count_lines(lambda: list(read_html(nested_readings(times), "a.html")))

    assert count(2000) < 5 * count(500)
    with stop_endless_work():
        list(read_html(nested_readings(100_000), "a.html"))


# Silent losses


def test_attachments_of_one_name_are_all_read(tmp_path: Path) -> None:
    message = EmailMessage()
    message["Subject"] = "x"
    message.set_content("y")
    for content in (b"first", b"second"):
        message.add_attachment(content, "application", "octet-stream", filename="report.txt")
    assert [d.text for d in every(tmp_path, "a.eml", message.as_bytes())][1:] == ["first", "second"]


def test_a_letter_goes_on_behind_an_attachment() -> None:
    parts = "Content-Type: text/plain\n\nFirst.\n--B\nContent-Type: image/png; name=a.png\n\nx\n--B\n"
    data = f"From: a@b\nSubject: x\n{MIXED}{parts}Content-Type: text/plain\n\nSecond.\n--B--\n"
    (page,) = read_mail(data.encode(), "a.eml")
    assert "First." in page.text
    assert "Second." in page.text


def test_a_letter_that_is_its_attachment(tmp_path: Path) -> None:
    head = b"From: a@b\nSubject: scan\nContent-Type: text/csv\nContent-Disposition: attachment; filename=a.csv\n\n"
    assert any("boat: Maru" in d.text for d in every(tmp_path, "a.eml", head + b"boat,built\nMaru,1922\n"))


@pytest.mark.parametrize("kind", ["signed", "alternative", "related"])
def test_attachments_deeper_in_a_letter(tmp_path: Path, kind: str) -> None:
    """Test signed letters, and an alternative with a mixed part (Apple Mail)."""
    inner = (
        "Content-Type: multipart/mixed; boundary=C\n\n--C\nContent-Type: text/html\n\n<p>Hello.\n--C\n"
        "Content-Type: text/csv\nContent-Disposition: attachment; filename=a.csv\n\nboat,built\nMaru,1922\n--C--\n"
    )
    plain = "" if kind != "alternative" else "Content-Type: text/plain\n\nHello.\n--B\n"
    data = f"From: a@b\nSubject: x\nContent-Type: multipart/{kind}; boundary=B\n\n--B\n{plain}{inner}--B--\n"
    assert any("boat: Maru" in d.text for d in every(tmp_path, "a.eml", data.encode()))


def test_rows_of_numbers_on_many_pages_are_no_running_heads(tmp_path: Path) -> None:
    def rows(number: int) -> factories_office.Fill:
        def draw(canvas: Any) -> None:
            for row in range(6):
                for column in range(3):
                    canvas.drawString(72 + 120 * column, 700 - 16 * row, str(1000 + 100 * number + 10 * row + column))

        return draw

    text = one(tmp_path, "a.pdf", factories_office.pdf(*map(rows, range(4)))).text
    assert [figure for figure in ("1000", "1010", "1251", "1352") if figure not in text] == []


def test_pages_that_are_alike_are_not_scanned(tmp_path: Path) -> None:
    tickets = [lines(f"Ticket {n}", "Ferry to Otaru") for n in range(1, 5)]
    assert "Ferry to Otaru" in one(tmp_path, "a.pdf", factories_office.pdf(*tickets)).text


# Wrong output


def test_a_cell_of_one_letter_stays_in_its_row(tmp_path: Path) -> None:
    def draw(canvas: Any) -> None:
        for row, cells in enumerate((("Section", "Stones", "Lost"), ("Root", "120", "2"), ("Elbow", "150", "41"))):
            for column, cell in enumerate(cells):
                canvas.drawString(72 + 120 * column, 700 - 16 * row, cell)

    assert (
        one(tmp_path, "a.pdf", factories_office.pdf(draw)).text
        == "Section | Stones | Lost\nRoot | 120 | 2\nElbow | 150 | 41"
    )


@pytest.mark.parametrize("mark", ["３）", "1）", "１．", "2、"])
def test_japanese_items_need_no_space(mark: str) -> None:
    texts = ("次の三つを用意する", f"{mark}縄と針を", f"{mark}糸")
    result = join_paragraphs([[TextLine(text, 0, 400, 700 - 14 * n, 10, 30) for n, text in enumerate(texts)]])
    assert result.text == "\n".join(texts)


def test_a_heading_of_two_lines_is_one_heading() -> None:
    large = [TextLine("On the mending of", 0, 400, 700, 16, 30), TextLine("the Long Arm", 0, 150, 680, 16, 30)]
    body = [TextLine("It was laid dry", 0, 400, 640 - 14 * n, 10, 30) for n in range(9)]
    assert join_paragraphs([[*large, *body]]).text.startswith("## On the mending of the Long Arm\n\nIt was")


def test_an_empty_heading_or_item_makes_none_of_what_follows(tmp_path: Path) -> None:
    (page,) = read_html(b"<h2></h2><p>Running text.", "a.html")
    assert page.text == "Running text."
    outlined = p("", '<w:outlineLvl w:val="0"/>') + p("Running text.")
    assert one(tmp_path, "a.docx", factories_office.docx(outlined)).text == "Running text."

    def fill(show: Any) -> None:
        slide = show.slides.add_slide(show.slide_layouts[5])
        slide.shapes.add_textbox(0, 0, 9, 9).text_frame.text = "Running text."

    assert one(tmp_path, "a.pptx", factories_office.pptx(fill)).text == "Running text."


def test_no_title_is_invented(tmp_path: Path) -> None:
    heading = p("The sea", '<w:outlineLvl w:val="0"/>')
    assert one(tmp_path, "a.docx", factories_office.docx(heading)).title == "The sea"


def test_one_odd_address_does_not_refuse_the_letter() -> None:
    for header in ("To: a:b:;c", 'From: "a" <', "From: a@["):
        (page,) = read_mail(f"{header}\nSubject: x\n\nThe ferry leaves.\n".encode(), "a.eml")
        assert "The ferry leaves." in page.text


def test_headers_in_an_old_encoding() -> None:
    (page,) = read_mail("Subject: 会議の資料です\n\nx".encode("cp932"), "a.eml")
    assert page.title == "会議の資料です"


def test_a_letter_labelled_ascii_that_is_not() -> None:
    body = "組紐の会議は朝の九時に始まります。遅れないでください。"
    (page,) = read_mail(b"Subject: x\nContent-Type: text/plain; charset=us-ascii\n\n" + body.encode("euc_jp"), "a.eml")
    assert page.text.endswith(body)


def test_a_text_holds_no_nul() -> None:
    (page,) = read_mail(b"Subject: =?utf-8?q?a=00b?=\n\nx", "a.eml")
    assert "\0" not in page.title + page.text
