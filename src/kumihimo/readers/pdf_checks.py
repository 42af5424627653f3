"""a page of a PDF -> the values of its form, and whether its text layer is what one sees on the page."""

import ctypes
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal
from unicodedata import category, normalize

from kumihimo.readers import glyphs, paragraphs

MAX_WRONG_SHARE = 0.3  # of letters without a meaning
MIN_VOWEL_SHARE = 0.2  # of Latin letters; all languages have more
MIN_LATIN_LETTERS = 100  # of a page whose words can be judged
MAX_STAMP_LETTERS = 60  # of a page number, a stamp and the like
MIN_PICTURE_SHARE = 0.6  # of a page that is a scan
DEFAULT_SIZE = 10.0  # of the letters of a page without text
PASSWORD_FLAG = 1 << 13
VOWELS = frozenset("aeiouy")
SHORT_WORDS = frozenset(
    re.findall(
        r"\w+", "the and of to in is for a de la le et en el que los der die das und von zu il di che da do na i van"
    )
)
Fault = Literal["", "picture", "wrong letters", "doubtful letters", "damage"]


def find_fault(page: Any, letters: Sequence[str]) -> Fault:
    """Return why a text layer is not the text of its page."""
    counts = Counter(letters)
    visible = sum(count for letter, count in counts.items() if letter.strip())
    wrong = sum(count for letter, count in counts.items() if _is_wrong(letter))
    if visible and wrong > MAX_WRONG_SHARE * visible:
        return "wrong letters"
    if visible <= MAX_STAMP_LETTERS and _picture_share(page) > MIN_PICTURE_SHARE:
        return "picture"
    return "doubtful letters" if _has_no_words(counts, letters) else ""


def _is_wrong(letter: str) -> bool:
    """Return whether a letter is private, unknown or a control code."""
    return letter == "\ufffd" or (letter not in "\t\r\n\x02" and category(letter) in ("Co", "Cc", "Cn"))


def _has_no_words(counts: Counter[str], letters: Sequence[str]) -> bool:
    """Return whether Latin letters make no words.

    They have hardly a vowel, and no short word.
    """
    latin = Counter[str]()
    for letter, count in counts.items():
        if letter.isalpha() and (plain := normalize("NFD", letter)[0].lower()).isascii():
            latin[plain] += count
    vowels = sum(count for letter, count in latin.items() if letter in VOWELS)
    if latin.total() < MIN_LATIN_LETTERS or vowels >= MIN_VOWEL_SHARE * latin.total():
        return False
    return SHORT_WORDS.isdisjoint(re.findall(r"[a-z]+", "".join(letters).lower()))


def _picture_share(page: Any) -> float:
    """Return how much of a page its largest picture covers."""
    import pypdfium2.raw as pdfium

    width, height = page.get_size()
    areas: list[float] = [0.0]
    for picture in page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_IMAGE]):
        left, bottom, right, top = picture.get_bounds()
        areas.append((right - left) * (top - bottom))
    return max(areas) / max(float(width * height), 1.0)


def read_fields(document: Any, page: Any, lines: Sequence[glyphs.TextLine]) -> Iterator[glyphs.TextLine]:
    """Yield a line for each filled field of a form."""
    size = paragraphs.usual_size([lines]) or DEFAULT_SIZE
    lowest = min((line.line_position for line in lines), default=0.0)
    for number, (label, value) in enumerate(dict(_list_fields(document.formenv.raw, page)).items(), 1):
        position = lowest - 2 * number * paragraphs.MAX_LEADING * paragraphs.MIN_LEADING * size
        yield glyphs.TextLine(f"{label}: {value}", 0.0, 0.0, position, size)


def _list_fields(form: Any, page: Any) -> Iterator[tuple[str, str]]:
    """Yield the label and value of each filled field."""
    import pypdfium2.raw as pdfium

    for index in range(pdfium.FPDFPage_GetAnnotCount(page.raw)):
        field = pdfium.FPDFPage_GetAnnot(page.raw, index)
        kind = pdfium.FPDFAnnot_GetFormFieldType(form, field)
        is_marked = kind in (pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON)
        is_written = kind in (
            pdfium.FPDF_FORMFIELD_TEXTFIELD,
            pdfium.FPDF_FORMFIELD_COMBOBOX,
            pdfium.FPDF_FORMFIELD_LISTBOX,
        )
        is_secret = pdfium.FPDFAnnot_GetFormFieldFlags(form, field) & PASSWORD_FLAG if is_written else 0
        if (is_written and not is_secret) or (is_marked and pdfium.FPDFAnnot_IsChecked(form, field)):
            names = pdfium.FPDFAnnot_GetFormFieldAlternateName, pdfium.FPDFAnnot_GetFormFieldName
            label = next(filter(None, (_read_text(name, form, field) for name in names)), "field")
            if value := _read_text(pdfium.FPDFAnnot_GetFormFieldValue, form, field):
                yield label, value
        pdfium.FPDFPage_CloseAnnot(field)


def _read_text(function: Callable[..., int], form: Any, field: Any) -> str:
    """Return a text of a field on one line."""
    length = function(form, field, None, 0)
    buffer = (ctypes.c_ushort * (length // 2 + 1))()
    function(form, field, buffer, length)
    return " ".join(bytes(buffer)[:length].decode("utf-16-le", "replace").replace("\0", "").split())
