"""a picture of text (.png, .jpg, .tiff, .webp) -> a page of its text, with the places of its pages."""

import io
from collections.abc import Iterator
from typing import Any
from warnings import catch_warnings, simplefilter

from kumihimo.core.errors import SourceError
from kumihimo.core.wiring import FileType
from kumihimo.readers import ocr
from kumihimo.readers.glyphs import TextLine
from kumihimo.readers.page import Page, second_place
from kumihimo.readers.paragraphs import join_paragraphs
from kumihimo.readers.titles import first_page_title

FORMATS = {"PNG": "image/png", "JPEG": "image/jpeg", "TIFF": "image/tiff", "WEBP": "image/webp"}
SUFFIXES = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".tif": "TIFF", ".tiff": "TIFF", ".webp": "WEBP"}
MAX_PIXELS = 100_000_000  # of all pages: 100 pages of A4 at 100 dpi, or one of 1 m2 at 250 dpi


def read_picture(data: bytes, name: str) -> Iterator[Page]:
    """Read the text in a picture, by OCR.

    A picture without text has no page. Raise SourceError if it is damaged, or very large.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with catch_warnings():
            simplefilter("ignore")  # of large pictures, and of odd tags
            with Image.open(io.BytesIO(data), formats=tuple(FORMATS)) as picture:
                pages = [_read_lines(frame) for frame in _read_frames(picture, name)]
    except Image.DecompressionBombError as error:
        raise too_large_error(name) from error
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise SourceError(f"{name}: not a complete picture ({str(error)[:200]}); save it again") from error
    yield build_picture_page(pages)


def _read_lines(picture: Any) -> list[TextLine]:
    return ocr.fit_size(ocr.read_picture_lines(picture), ocr.LETTER_SIZE)


def build_picture_page(pages: list[list[TextLine]]) -> Page:
    """Build a page of the lines on all pages."""
    joined = join_paragraphs(pages)
    places = tuple((offset, f"p. {number}") for number, offset in enumerate(joined.page_starts, 1))
    return Page(
        title=first_page_title(joined.text, second_place(places)),
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
        upright.thumbnail((ocr.MAX_SIDE, ocr.MAX_SIDE))
        if "A" in upright.getbands() or "transparency" in upright.info:
            colours = upright.convert("RGBA")
            upright = Image.new("RGBA", colours.size, "white")
            upright.alpha_composite(colours)
        yield upright


# Without the extra, pictures are files of an unsupported type.
PICTURES = {suffix: FileType(FORMATS[kind], read_picture) for suffix, kind in SUFFIXES.items() if ocr.is_installed()}
