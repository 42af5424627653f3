"""bytes -> text: what a file says, whatever encoding it was saved in; or that it is no text at all."""

from __future__ import annotations

import codecs
import re

from charset_normalizer import from_bytes

from kumihimo.core.errors import SourceError
from kumihimo.readers.legacy_encodings import BROKEN, PLAUSIBLE, familiar, legacy

MARKS = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
ESCAPES = re.compile(rb"\x1b\$[@AB]|\x1b\$\([CDOPQ]|\x1b\([IJ]")  # how ISO-2022-JP changes character set
CONTROLS = re.compile(r"[\x00-\x07\x0e-\x1a\x1c-\x1f\ufffe\uffff]")  # tab, line ends, form feed, \b and escape are text
CHARACTERS = re.compile(r"utf-8|cp\d|iso|euc|gb|big5|koi8|mac|shift|tis")  # `rot13` and `idna` are codecs too
HIGH = bytes(range(128, 256))
SAMPLE = 4096
MANY = 20  # good characters for each broken one: damage to a text, not another encoding

# What browsers take these labels to mean; others are looked up by Python's names.
LABELS = {
    "iso-8859-1": "cp1252",
    "latin1": "cp1252",
    "us-ascii": "cp1252",
    "ascii": "cp1252",
    "shift_jis": "cp932",
    "shift-jis": "cp932",
    "x-sjis": "cp932",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc-kr": "cp949",
    "utf-16": "utf-8",  # a label one could read in ASCII is not in UTF-16
}


def decode(data: bytes, name: str = "the file", declared: str = "") -> str:
    """The text without its byte-order mark. `declared`: the encoding the file says it is in.

    >>> decode("デジタル庁".encode("cp932"))
    'デジタル庁'
    """
    text = _marked(data)
    if text is None:
        text = _wide(data) if 0 in data else _narrow(data, declared)
    if text is None:
        raise SourceError(f"{name}: cannot tell the encoding; save the file as UTF-8")
    if "\0" in text or len(CONTROLS.findall(text)) * MANY > len(text):
        raise SourceError(f"{name}: this is not text; name it by its real format, or list it in .kumiignore")
    return text


def _marked(data: bytes) -> str | None:
    for mark, encoding in MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    return None


def _wide(data: bytes) -> str:
    """UTF-16 without its mark, the way round that reads better; else binary, its zeros kept for the caller to see."""
    encoding = max(("utf-16-le", "utf-16-be"), key=lambda way: familiar(data[:SAMPLE].decode(way, "replace")))
    likely = familiar(data[:SAMPLE].decode(encoding, "replace")) > 0.5
    return data.decode(encoding if likely else "latin-1", "replace")


def _narrow(data: bytes, declared: str) -> str | None:
    if data.isascii() and ESCAPES.search(data):
        return _japanese_mail(data)
    text, encoding = _strict(data, "utf-8"), _known(declared)
    if encoding and (text is None or not _accepts_all(encoding)):
        text = _strict(data, encoding) or text
    return _guess(data) if text is None else text


def _japanese_mail(data: bytes) -> str:
    texts = [data.decode(encoding, "replace") for encoding in ("iso2022_jp_2", "iso2022_jp_ext", "iso2022_jp_2004")]
    return min(texts, key=lambda text: text.count(BROKEN))


def _known(label: str) -> str:
    label = label.strip().lower()
    try:
        name = codecs.lookup(LABELS.get(label, label)).name
    except (LookupError, ValueError):
        return ""
    return name if CHARACTERS.match(name) else ""


def _accepts_all(encoding: str) -> bool:
    """Whether it has a character for every byte, so that decoding by it proves nothing."""
    return len(HIGH.decode(encoding, "replace")) == len(HIGH)


def _strict(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeError:
        return None


def _guess(data: bytes) -> str | None:
    return _damaged(data) or _unmarked(data)


def _damaged(data: bytes) -> str | None:
    """UTF-8 with a few broken bytes among many good characters."""
    text = data.decode("utf-8", "replace")
    broken = text.count(BROKEN)
    good = sum(not char.isascii() for char in text) - broken
    return text if good >= broken * MANY else None


def _unmarked(data: bytes) -> str | None:
    score, encoding = legacy(data)
    guess = from_bytes(data).best() if score < PLAUSIBLE else None
    if guess is not None:
        return str(guess)
    return data.decode(encoding, "replace") if score > 0 else None
