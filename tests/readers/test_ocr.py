"""The lines that an OCR engine finds come in reading order; pictures and scanned pages become their text."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from math import cos, radians, sin
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.readers import ocr
from kumihimo.readers.ocr import OcrLine, arrange_lines, find_lines, read_picture
from kumihimo.readers.page import Page
from kumihimo.readers.pdf import read_pdf
from tests import factories_office
from tests.factories_office import lines

Image = pytest.importorskip("PIL.Image")


def line(text: str, x: float, y: float, width: float = 0, height: float = 20, *, degrees: float = 0) -> OcrLine:
    """Return a line; without a width, its letters are ten wide."""
    width = width or 10 * len(text)
    corners = [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]
    cosine, sine = cos(radians(degrees)), sin(radians(degrees))
    return OcrLine(text, tuple((a * cosine - b * sine, a * sine + b * cosine) for a, b in corners))


def texts(*found: OcrLine) -> list[str]:
    return [each.text for each in arrange_lines(found)]


def column(x: float, *words: str, y: float = 100) -> list[OcrLine]:
    return [line(text, x, y + 30 * number, width=300) for number, text in enumerate(words)]


def test_lines_come_from_above_and_columns_one_after_the_other() -> None:
    left, right = column(0, "left one", "left two", "left three"), column(400, "right one", "right two")
    title = line("A title over both of the columns", 0, 40, width=700)
    assert texts(*right, *reversed(left), title) == [
        "A title over both of the columns", "left one", "left two", "left three", "right one", "right two"
    ]  # fmt: skip


def test_cells_stand_in_rows_and_words_in_lines() -> None:
    found = [line("day", 0, 0), line("m", 300, 2), line("1", 0, 30), line("2.4", 300, 31)]
    assert texts(*found) == ["day | m", "1 | 2.4"]
    assert texts(line("The", 0, 0), line("sea", 38, 1)) == ["The sea"]
    assert texts(line("名前", 0, 0, 40), line("は", 45, 1)) == ["名前は"]


@pytest.mark.parametrize("degrees", [-3, 0, 3])
def test_a_page_that_is_turned_a_little_is_read_line_by_line(degrees: float) -> None:
    words = [
        line(f"{side} {n}", 700 * (side == "right"), 40 * n, degrees=degrees)
        for n in range(5)
        for side in ("left", "right")
    ]
    assert texts(*words) == [f"left {n} | right {n}" for n in range(5)]


def test_vertical_lines_come_from_the_right() -> None:
    found = [line("満ちる。", 0, 0, 20, 80), line("潮が夜に", 40, 0, 20, 80), line("百二十", 10, 200, 60, 20)]
    assert texts(*found) == ["百二十", "潮が夜に", "満ちる。"]


def test_nearly_equal_lines_have_the_same_size() -> None:
    found = [
        line("The sea rises here again", 0, 0, height=20),
        line("and falls there", 0, 30, height=24),
        line("Big", 0, 90, 90, 60),
    ]
    assert [each.size for each in arrange_lines(found)] == [20, 20, 60]
    assert [each.size for each in ocr.fit_size(arrange_lines(found), 10)] == [10, 10, 30]


def test_a_hyphen_at_the_end_splits_a_word() -> None:
    (first,) = arrange_lines([line("The har-", 0, 0)])
    assert (first.text, first.hyphenated) == ("The har", True)


class FakeEngine:
    """An engine that finds the lines of each picture, by its size."""

    def __init__(self, **found: Sequence[OcrLine]) -> None:
        self.found, self.seen = found, list[tuple[int, int]]()

    def recognize(self, picture: Any) -> list[OcrLine]:
        self.seen.append(picture.size)
        return list(self.found.get("x".join(map(str, picture.size)), ()))


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    fake = FakeEngine()
    monkeypatch.setattr(ocr, "recognize", fake.recognize)
    monkeypatch.setattr("kumihimo.readers.pdf.has_ocr", lambda: True)
    return fake


def picture_file(kind: str, *sizes: tuple[int, int], mode: str = "L") -> bytes:
    data = io.BytesIO()
    first, *others = (Image.new(mode, size) for size in sizes)
    first.save(data, kind, **({"save_all": True, "append_images": others} if others else {}))
    return data.getvalue()


def read(data: bytes) -> Page:
    (page,) = read_picture(data, "a.png")
    return page


def test_a_page_that_is_the_wrong_way_up_is_turned(engine: FakeEngine) -> None:
    engine.found = {"30x40": [line("eas", 0, 0)._replace(score=0.5)], "40x30": [line("The sea", 0, 0)]}
    assert [each.text for each in find_lines(Image.new("L", (30, 40)))] == ["The sea"]
    engine.found = {"30x40": [line("The sea", 0, 0, 20, 90)], "40x30": [line("The sea", 0, 0)]}
    assert [each.corners for each in find_lines(Image.new("L", (30, 40)))] == [line("The sea", 0, 0).corners]
    assert len(engine.seen) == 8
    engine.found = {"30x40": [line("The sea", 0, 0)]}
    assert find_lines(Image.new("L", (30, 40)))
    assert len(engine.seen) == 9, "a page that is the right way up is seen once"


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP"])
def test_a_picture_is_its_text(engine: FakeEngine, kind: str) -> None:
    engine.found = {"30x40": [line("The sea rises", 0, 0), line("and falls.", 0, 30)]}
    assert read(picture_file(kind, (30, 40), mode="RGB")) == Page(text="The sea rises and falls.")


def test_each_page_of_a_picture_is_a_place(engine: FakeEngine) -> None:
    engine.found = {"30x40": [line("The sea.", 0, 0)], "31x40": [line("The shore.", 0, 0, height=50)]}
    page = read(picture_file("TIFF", (30, 40), (32, 40), (31, 40)))
    assert page.text == "The sea.\n\nThe shore."
    assert page.places == ((0, "p. 1"), (8, "p. 2"), (10, "p. 3"))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_a_picture_without_text_has_none(engine: FakeEngine, mode: str) -> None:
    assert read(picture_file("PNG", (30, 40), mode=mode)).text == ""
    assert engine.seen == [(30, 40)]


def test_large_pictures_are_made_smaller_and_larger_ones_refused(engine: FakeEngine) -> None:
    read(picture_file("PNG", (6000, 3000), mode="1"))
    assert engine.seen == [(2000, 1000)]
    for side in (12_000, 60_000):  # the second one is refused by the library itself
        with pytest.raises(SourceError, match=r"^a\.png: more than 100 million pixels; scale the picture down"):
            read(with_side(picture_file("PNG", (9, 9)), side))
    with pytest.raises(SourceError, match="more than 100 million pixels"):
        read(picture_file("TIFF", *[(6000, 6000)] * 3, mode="1"))


def with_side(png: bytes, side: int) -> bytes:
    """Return a picture that says that it is a square of this side."""
    header = b"IHDR" + struct.pack(">II", side, side) + png[24:29]
    return png[:12] + header + struct.pack(">I", crc32(header)) + png[33:]


@pytest.mark.parametrize("cut", [0, 4, 40, -1])
def test_a_damaged_picture_is_refused_with_a_remedy(engine: FakeEngine, cut: int) -> None:
    data = b"GIF89a" if cut < 0 else picture_file("PNG", (300, 400))[:cut]
    with pytest.raises(SourceError, match=r"^a\.png: not a complete picture .* save it again"):
        read(data)


def scanned(*sizes: tuple[int, int]) -> list[factories_office.Fill]:
    """Return drawings of one picture each."""

    def drawing(size: tuple[int, int]) -> factories_office.Fill:
        def draw(canvas: Any) -> None:
            from reportlab.lib.utils import ImageReader

            canvas.setPageSize(size)
            canvas.drawImage(ImageReader(io.BytesIO(picture_file("PNG", (9, 9)))), 0, 0, *size)

        return draw

    return [drawing(size) for size in sizes]


def test_scanned_pages_of_a_pdf_are_read_and_others_only_if_they_have_no_text(engine: FakeEngine) -> None:
    engine.found = {"1000x2000": [line("The sea rises", 0, 0), line("and falls.", 0, 30)]}
    (page,) = read_pdf(factories_office.pdf(lines("A first page."), *scanned((360, 720)), lines()), "a.pdf")
    assert page.text == "A first page.\n\nThe sea rises and falls."
    assert page.places == ((0, "p. 1"), (15, "p. 2"), (39, "p. 3"))
    assert page.metadata["not_read"] == ["no text on p. 3"]
    assert engine.seen == [(1000, 2000)]


def test_a_huge_page_is_drawn_small(engine: FakeEngine) -> None:
    with pytest.raises(SourceError, match=r"^a\.pdf: no text on any of its pages \(1\), and OCR finds none"):
        list(read_pdf(factories_office.pdf(*scanned((14_000, 7_000))), "a.pdf"))
    assert engine.seen == [(2000, 1000)]


@pytest.mark.slow
def test_the_engine_reads_letters_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rapidocr")
    from PIL import ImageDraw, ImageFont

    def refuse(*_: object) -> None:
        raise AssertionError("nothing is downloaded")

    monkeypatch.setattr("socket.socket.connect", refuse)
    picture = Image.new("L", (700, 120), 255)
    ImageDraw.Draw(picture).text((20, 40), "The ferry leaves at nine.", 0, ImageFont.load_default(40))
    data = io.BytesIO()
    picture.save(data, "PNG")
    assert read(data.getvalue()).text == "The ferry leaves at nine."
