"""a title -> a name of a file that every system accepts."""

import re
from unicodedata import normalize

_MAX_CHARS = 80
_MAX_BYTES = 200  # file systems allow 255, and a suffix follows
_NOT_IN_NAMES = re.compile(r'[\x00-\x1f\x7f-\x9f\\/:*?"<>|#^\[\]%`\u200b-\u200f\u2028-\u202e\ufeff]+')
_RESERVED_NAMES = re.compile(r"(?i)(con|prn|aux|nul|conin\$|conout\$|com[\d¹²³]|lpt[\d¹²³]) *(\.|$)")


def is_reserved(name: str) -> bool:
    """Return whether Windows takes a name for a device, with any suffix.

    >>> [is_reserved(name) for name in ("CON", "nul.txt", "Aux .md", "com¹", "CONIN$", "console.md", "com10")]
    [True, True, True, True, True, False, False]
    """
    return bool(_RESERVED_NAMES.match(name))


def file_name(title: str) -> str:
    """Return a file name that every system accepts.

    >>> [file_name(title) for title in ("a/b: c?", "CON", "nul.txt", "…", "Orrell, Sabine. ", "組紐", "")]
    ['a b c', '_CON', '_nul.txt', '…', 'Orrell, Sabine', '組紐', 'nameless']
    """
    name = " ".join(_NOT_IN_NAMES.sub(" ", normalize("NFC", title)).split())[:_MAX_CHARS]
    name = name.encode()[:_MAX_BYTES].decode(errors="ignore").strip(" .")
    return f"_{name}" if is_reserved(name) else name or "nameless"
