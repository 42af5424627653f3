"""a picture of text -> its lines with their positions, read by an OCR engine that needs no network; and their page."""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from math import atan2, cos, hypot, sin
from statistics import median
from threading import Lock
from typing import Any, NamedTuple
from warnings import catch_warnings, simplefilter

from kumihimo.core.errors import SourceError
from kumihimo.readers import paragraphs, titles
from kumihimo.readers.glyphs import TextLine, is_cjk_letter, order_columns
from kumihimo.readers.page import Page, second_place
from kumihimo.text import lazy_numpy as np

DPI = 200  # of a page drawn for the engine
MAX_SIDE = 2000  # pixels: the engine makes larger pictures smaller
MIN_SCORE = 0.5  # of a line; below it, the picture is hardly of letters
GOOD_SCORE = 0.8  # of a page that is the right way up; usual are .95 and more
LETTER_SIZE = 10.0  # that pages get if nothing else tells it
SAME_SIZE = 1.35  # the engine's boxes are not exact, so lines of nearly the usual size have it
COLUMN_GAP = 1.2  # times the letter size
COLUMN_CHARS = 10  # a usual line of a column of text is at least so many letters wide; shorter ones are cells
CELL_GAP = 1.7  # times the letter size
UPRIGHT = 1.5  # height by width of a vertical line
LINE_LENGTHS = ("begin", "end", "line_position", "size", "first_word_width")  # of a line of text

_LOCK = Lock()  # the engine keeps state during a picture


class OcrLine(NamedTuple):
    """A text and its box: the corners from the top left, clockwise. score: of the engine, up to 1."""

    text: str
    corners: tuple[tuple[float, float], ...]
    score: float = 1.0


class LineBox(NamedTuple):
    """A line on the page turned upright; y grows downwards. size: of its letters."""

    text: str
    x0: float
    x1: float
    y0: float
    y1: float

    @property
    def is_vertical(self) -> bool:
        return len(self.text) > 1 and self.y1 - self.y0 > UPRIGHT * (self.x1 - self.x0)

    @property
    def middle(self) -> float:
        return (self.y0 + self.y1) / 2


def read_picture_lines(picture: Any) -> list[TextLine]:
    """Return the lines of a picture (PIL) in reading order."""
    return arrange_lines(find_lines(picture))


def fit_size(lines: Sequence[TextLine], size: float) -> list[TextLine]:
    """Return the lines as if their usual size were `size`.

    The letters of two scanned pages may have any sizes, and are no headings for that.
    """
    factor = size / (paragraphs.usual_size([lines]) or 1.0)
    return [replace(line, **{name: factor * getattr(line, name) for name in LINE_LENGTHS}) for line in lines]


def find_lines(picture: Any) -> list[OcrLine]:
    """Return the lines of a picture.

    One that is upside down or on its side is turned.
    """
    found = recognize(picture)
    if not found or (mean_score(found) >= GOOD_SCORE and not is_sideways(found)):
        return found
    turned = [recognize(picture.rotate(degrees, expand=True)) for degrees in (180, 90, 270)]
    return max(
        (found, *turned), key=lambda lines: (not is_sideways(lines), sum(len(each.text) * each.score for each in lines))
    )


def is_sideways(found: Sequence[OcrLine]) -> bool:
    """Return whether most lines run down the page.

    Lines of ideographs may.
    """
    sideways = sum(len(line.text) for line in found if _is_tall(line) and not any(map(is_cjk_letter, line.text)))
    return 2 * sideways > sum(len(line.text) for line in found)


def _is_tall(line: OcrLine) -> bool:
    (ax, ay), (bx, by), (cx, cy), *_ = line.corners
    return len(line.text) > 1 and hypot(cx - bx, cy - by) > UPRIGHT * hypot(bx - ax, by - ay)


def mean_score(found: Sequence[OcrLine]) -> float:
    """Return the engine's mean score of a character."""
    return sum(len(line.text) * line.score for line in found) / max(sum(len(line.text) for line in found), 1)


def recognize(picture: Any) -> list[OcrLine]:
    """Return the lines that the engine finds."""
    from rapidocr.inference_engine.onnxruntime.main import ONNXRuntimeError

    pixels = np.asarray(picture.convert("RGB"))[:, :, ::-1]
    try:
        with _LOCK:
            result = _load_engine()(pixels)
    except ONNXRuntimeError as error:
        if "alloc" in str(error):  # its own way to say it
            raise MemoryError from error
        raise
    if result.boxes is None or result.txts is None:
        return []
    lines = zip(result.txts, result.boxes, result.scores, strict=True)
    return [
        OcrLine(text.strip(), tuple((float(x), float(y)) for x, y in corners), float(score))
        for text, corners, score in lines
        if text.strip()
    ]


@cache
def _load_engine() -> Callable[[Any], Any]:
    """Load the models, which are in the engine's wheel."""
    from rapidocr import RapidOCR

    # Its classifier turns one line in five hundred upside down; `find_lines` turns whole pages.
    engine: Callable[[Any], Any] = RapidOCR(
        params={"Global.log_level": "critical", "Global.text_score": MIN_SCORE, "Global.use_cls": False}
    )
    return engine


def arrange_lines(found: Sequence[OcrLine]) -> list[TextLine]:
    """Return the lines in reading order.

    Columns of text come one after the other, cells of a table row by row, and vertical lines from the right.
    """
    boxes = [box for box in _turn_upright(found) if box.x1 > box.x0 and box.y1 > box.y0]
    if not boxes:
        return []
    vertical = [box for box in boxes if box.is_vertical and any(map(is_cjk_letter, box.text))]
    if sum(len(box.text) for box in vertical) > sum(len(box.text) for box in boxes) / 2:
        horizontal = [box for box in boxes if box not in set(vertical)]
        return [*_horizontal_lines(horizontal), *order_columns(_vertical_lines(vertical))]
    return _horizontal_lines(boxes)


def _turn_upright(found: Sequence[OcrLine]) -> Iterator[LineBox]:
    """Yield the boxes after undoing the usual slope of the lines."""
    slopes = [_slope(line) for line in found]
    angle = median(slopes) if slopes else 0.0
    cosine, sine = cos(-angle), sin(-angle)
    for line in found:
        turned = [(x * cosine - y * sine, x * sine + y * cosine) for x, y in line.corners]
        xs, ys = sorted(x for x, _ in turned), sorted(y for _, y in turned)
        yield LineBox(line.text.strip(), *((values[0] + values[1]) / 2 if low else (values[2] + values[3]) / 2
                                       for values in (xs, ys) for low in (True, False)))  # fmt: skip


def _slope(line: OcrLine) -> float:
    """Return the angle of the longer side from its axis."""
    (ax, ay), (bx, by), (cx, cy), *_ = line.corners
    if hypot(bx - ax, by - ay) >= hypot(cx - bx, cy - by):
        return atan2(by - ay, bx - ax)
    return -atan2(cx - bx, cy - by)


def _horizontal_lines(boxes: Sequence[LineBox]) -> list[TextLine]:
    if not boxes:
        return []
    usual = median(box.y1 - box.y0 for box in boxes for _ in box.text)
    return [_to_line(row, usual) for block in _split_blocks(boxes, usual) for row in _split_rows(block)]


def _split_blocks(boxes: Sequence[LineBox], size: float) -> Iterator[Sequence[LineBox]]:
    """Yield the blocks of a page in reading order.

    A block is cut between columns, or else at its widest gap between lines.
    """
    pending = [list(boxes)]
    while pending:
        block = pending.pop()
        columns = _cut(block, lambda box: (box.x0, box.x1), COLUMN_GAP * size)
        if columns and all(_is_column(column, size) for column in columns):
            pending += reversed(columns)
        elif (bands := _cut(block, lambda box: (box.y0, box.y1), 0)) and _has_columns(block, size):
            pending += reversed(bands)
        else:
            yield block


def _has_columns(block: Sequence[LineBox], size: float) -> bool:
    """Return whether lines stand beside each other, as in columns."""
    rows = (row for row in _split_rows(block) if len(row) > 1)
    return sum(all(box.x1 - box.x0 > COLUMN_CHARS * size for box in row) for row in rows) > 1


def _is_column(column: Sequence[LineBox], size: float) -> bool:
    return len(column) > 1 and median(box.x1 - box.x0 for box in column) > COLUMN_CHARS * size


def _cut(block: Sequence[LineBox], extent: Callable[[LineBox], tuple[float, float]], gap: float) -> list[list[LineBox]]:
    """Cut a block in two at its widest gap, if any."""
    ordered = sorted(block, key=extent)
    best, place, reach = gap, 0, extent(ordered[0])[1]
    for number, box in enumerate(ordered):
        begin, end = extent(box)
        if begin - reach > best:
            best, place = begin - reach, number
        reach = max(reach, end)
    return [ordered[:place], ordered[place:]] if place else []


def _split_rows(block: Iterable[LineBox]) -> Iterator[list[LineBox]]:
    """Yield the boxes of each line, from the left."""
    row: list[LineBox] = []
    for box in sorted(block, key=lambda box: box.middle):
        if row and box.middle - row[0].middle > min(box.y1 - box.y0, row[0].y1 - row[0].y0) / 2:
            yield sorted(row, key=lambda box: box.x0)
            row = []
        row.append(box)
    if row:
        yield sorted(row, key=lambda box: box.x0)


def _to_line(row: Sequence[LineBox], usual: float) -> TextLine:
    pieces = [row[0].text]
    for left, right in pairwise(row):
        both_cjk = is_cjk_letter(left.text[-1]) and is_cjk_letter(right.text[0])
        gap = right.x0 - left.x1
        pieces += [" | " if gap > CELL_GAP * usual else "" if both_cjk else " ", right.text]
    text, begin, end = "".join(pieces), row[0].x0, max(box.x1 for box in row)
    size = median(box.y1 - box.y0 for box in row)
    is_hyphenated = len(text) > 2 and text[-1] == "-" and text[-2].isalpha()
    first = 1 if is_cjk_letter(text[0]) else len(text.split()[0])
    return TextLine(
        text=text[:-1] if is_hyphenated else text,
        begin=begin,
        end=end,
        line_position=-median(box.middle for box in row),
        size=_snap(size, usual),
        first_word_width=first * (end - begin) / len(text),
        hyphenated=is_hyphenated,
    )


def _vertical_lines(boxes: Sequence[LineBox]) -> list[TextLine]:
    size = median(box.x1 - box.x0 for box in boxes for _ in box.text)
    return [
        TextLine(box.text, box.y0, box.y1, (box.x0 + box.x1) / 2, _snap(box.x1 - box.x0, size), size) for box in boxes
    ]


def _snap(size: float, usual: float) -> float:
    """Return the usual size for one that is nearly as large."""
    return usual if usual / SAME_SIZE < size < usual * SAME_SIZE else size


# -- files of pictures

FORMATS = ("PNG", "JPEG", "TIFF", "WEBP")
MAX_PIXELS = 100_000_000  # of all pages: 100 pages of A4 at 100 dpi, or one of 1 m2 at 250 dpi


def read_picture(data: bytes, name: str) -> Iterator[Page]:
    """Read the text in a picture, by OCR.

    A picture without text has no page. Raise SourceError if it is damaged, or very large.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with catch_warnings():
            simplefilter("ignore")  # of large pictures, and of odd tags
            with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
                pages = [_read_lines(frame) for frame in _read_frames(picture, name)]
    except Image.DecompressionBombError as error:
        raise too_large_error(name) from error
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise SourceError(f"{name}: not a complete picture ({str(error)[:200]}); save it again") from error
    yield build_picture_page(pages)


def _read_lines(picture: Any) -> list[TextLine]:
    return fit_size(read_picture_lines(picture), LETTER_SIZE)


def build_picture_page(pages: list[list[TextLine]]) -> Page:
    """Build a page of the lines on all pages."""
    joined = paragraphs.join_paragraphs(pages)
    places = tuple((offset, f"p. {number}") for number, offset in enumerate(joined.page_starts, 1))
    return Page(
        title=titles.first_page_title(joined.text, second_place(places)),
        text=joined.text,
        places=places if len(pages) > 1 else (),
    )


def too_large_error(name: str) -> SourceError:
    """Return the error for a picture with too many pixels."""
    return SourceError(f"{name}: more than {MAX_PIXELS // 1_000_000} million pixels; scale the picture down, or cut it")


def _read_frames(picture: Any, name: str) -> Iterator[Any]:
    """Yield the pages of a picture, upright and on white."""
    from PIL import Image, ImageOps, ImageSequence

    pixels = 0
    for frame in ImageSequence.Iterator(picture):
        pixels += frame.width * frame.height
        if pixels > MAX_PIXELS:  # before its pixels are unpacked
            raise too_large_error(name)
        upright = ImageOps.exif_transpose(frame)
        upright.thumbnail((MAX_SIDE, MAX_SIDE))
        if "A" in upright.getbands() or "transparency" in upright.info:
            colours = upright.convert("RGBA")
            upright = Image.new("RGBA", colours.size, "white")
            upright.alpha_composite(colours)
        yield upright
