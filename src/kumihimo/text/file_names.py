"""a title -> a name of a file that every system accepts."""

import re
from unicodedata import normalize

_MAX_CHARS = 80
_MAX_BYTES = 200  # file systems allow 255, and a suffix follows
_NOT_IN_NAMES = re.compile(r'[\x00-\x1f\x7f-\x9f\\/:*?"<>|#^\[\]%`\u200b-\u200f\u2028-\u202e\ufeff]+')
_RESERVED_NAMES = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\.|$)")  # in Windows, with any suffix


def file_name(title: str) -> str:
    """Return a file name that every system accepts.

    >>> [file_name(title) for title in ("a/b: c?", "CON", "nul.txt", "…", "Orrell, Sabine. ", "組紐", "")]
    ['a b c', '_CON', '_nul.txt', '…', 'Orrell, Sabine', '組紐', 'nameless']
    """
    name = " ".join(_NOT_IN_NAMES.sub(" ", normalize("NFC", title)).split())[:_MAX_CHARS]
    name = name.encode()[:_MAX_BYTES].decode(errors="ignore").strip(" .")
    return f"_{name}" if _RESERVED_NAMES.match(name) else name or "nameless"
