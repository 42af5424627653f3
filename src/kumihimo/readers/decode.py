"""bytes -> text, whatever the encoding; an error if they are not text."""

from __future__ import annotations

import codecs
import re

from charset_normalizer import from_bytes

from kumihimo.core.errors import SourceError
from kumihimo.readers.legacy_encodings import PLAUSIBLE_SCORE, REPLACEMENT_CHAR, detect_legacy_encoding, familiar_share

BYTE_ORDER_MARKS = (  # UTF-32 first: its little-endian mark begins with the one of UTF-16
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# ISO-2022-JP switches character sets with these.
ISO_2022_ESCAPE = re.compile(rb"\x1b\$[@AB]|\x1b\$\([CDOPQ]|\x1b\([IJ]")
# Tab, line ends, form feed, \b and escape are text.
CONTROL_CHAR = re.compile(r"[\x00-\x07\x0e-\x1a\x1c-\x1f\ufffe\uffff]")
TEXT_CODEC = re.compile(r"utf-8|cp\d|iso|euc|gb|big5|koi8|mac|shift|tis")  # `rot13` and `idna` are codecs too
HIGH_BYTES = bytes(range(128, 256))
SAMPLE_BYTES = 4096
GOOD_PER_BROKEN = 20  # with fewer good characters for each broken one, it is another encoding, not damage

# How browsers interpret these labels; Python knows the others.
ENCODING_LABELS = {
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
    "utf-16": "utf-8",  # a label readable as ASCII is not in UTF-16
}


def decode(data: bytes, name: str = "the file", declared: str = "") -> str:
    """Decode bytes to text, without the byte-order mark.

    declared: the encoding that the file itself names.
    Raise SourceError if the encoding is unknown, or the bytes are not text.

    >>> decode("デジタル庁".encode("cp932"))
    'デジタル庁'
    """
    text = _decode_with_bom(data)
    if text is None:
        text = _decode_utf16(data) if 0 in data else _decode_narrow(data, declared)
    if text is None:
        raise SourceError(f"{name}: cannot tell the encoding; save the file as UTF-8")
    if "\0" in text or len(CONTROL_CHAR.findall(text)) * GOOD_PER_BROKEN > len(text):
        raise SourceError(f"{name}: this is not text; name it by its real format, or list it in .kumiignore")
    return text


def _decode_with_bom(data: bytes) -> str | None:
    for bom, encoding in BYTE_ORDER_MARKS:
        if data.startswith(bom):
            return data[len(bom) :].decode(encoding, "replace")
    return None


def _decode_utf16(data: bytes) -> str:
    """Decode UTF-16 without a byte-order mark.

    Use the byte order that reads better. Binary data keeps its zeros, so that the caller can detect them.
    """
    encoding = max(
        ("utf-16-le", "utf-16-be"),
        key=lambda byte_order: familiar_share(data[:SAMPLE_BYTES].decode(byte_order, "replace")),
    )
    is_text = familiar_share(data[:SAMPLE_BYTES].decode(encoding, "replace")) > 0.5
    return data.decode(encoding if is_text else "latin-1", "replace")


def _decode_narrow(data: bytes, declared: str) -> str | None:
    if data.isascii() and ISO_2022_ESCAPE.search(data):
        return _decode_iso_2022_jp(data)
    text, encoding = _decode_strict(data, "utf-8"), _resolve_label(declared)
    if encoding and (text is None or not _accepts_all(encoding)):
        text = _decode_strict(data, encoding) or text
    return _decode_guessing(data) if text is None else text


def _decode_iso_2022_jp(data: bytes) -> str:
    texts = [data.decode(encoding, "replace") for encoding in ("iso2022_jp_2", "iso2022_jp_ext", "iso2022_jp_2004")]
    return min(texts, key=lambda text: text.count(REPLACEMENT_CHAR))


def _resolve_label(label: str) -> str:
    label = label.strip().lower()
    try:
        name = codecs.lookup(ENCODING_LABELS.get(label, label)).name
    except (LookupError, ValueError):
        return ""
    return name if TEXT_CODEC.match(name) else ""


def _accepts_all(encoding: str) -> bool:
    """Return whether every byte decodes, so that success proves nothing."""
    return len(HIGH_BYTES.decode(encoding, "replace")) == len(HIGH_BYTES)


def _decode_strict(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeError:
        return None


def _decode_guessing(data: bytes) -> str | None:
    return _decode_damaged_utf8(data) or _decode_legacy(data)


def _decode_damaged_utf8(data: bytes) -> str | None:
    """Decode UTF-8 with few broken bytes; None if there are many."""
    text = data.decode("utf-8", "replace")
    broken = text.count(REPLACEMENT_CHAR)
    good = sum(not char.isascii() for char in text) - broken
    return text if good >= broken * GOOD_PER_BROKEN else None


def _decode_legacy(data: bytes) -> str | None:
    score, encoding = detect_legacy_encoding(data)
    guess = from_bytes(data).best() if score < PLAUSIBLE_SCORE else None
    if guess is not None:
        return str(guess)
    return data.decode(encoding, "replace") if score > 0 else None
