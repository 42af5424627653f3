"""rich text (.rtf) -> a page of its text."""

import re
from collections.abc import Callable, Iterator

from kumihimo.core.errors import SourceError
from kumihimo.readers.page import Page, refuse_empty
from kumihimo.readers.text import decode

PROPERTY = re.compile(r"\{\\(title|author|subject|keywords)\s+([^{}]{1,1000})\}")
INFO = re.compile(r"\{\\info\b(?:[^{}]|\{[^{}]{0,2000}\}){0,100}\}")
ENCODING = re.compile(r"\\ansicpg\d{1,5}")
ROW_END = re.compile(r"\|$", re.M)


def read_rtf(data: bytes, name: str) -> Iterator[Page]:
    """Read the text of a file of a word processor.

    Raises SourceError if it is no rich text.
    """
    if not data.lstrip().startswith(b"{\\rtf"):
        if not decode(data, name).strip():  # an error if it is no text at all
            return
        raise SourceError(f"{name}: not rich text; name it .txt to read it as text")
    source = data.decode("latin-1")  # other letters are written as numbers
    text = _to_text(source)
    refuse_empty(text, name)
    info = INFO.search(source)
    found = dict(PROPERTY.findall(info[0])) if info else {}
    encoding = ENCODING.search(source)
    values = {key: _to_text(f"{{\\rtf1{encoding[0] if encoding else ''} {value}}}") for key, value in found.items()}
    title = values.pop("title", "")
    yield Page(title=title, text=text, metadata=values)


def _to_text(source: str) -> str:
    """Return the text of rich text, with cells apart."""
    from striprtf import striprtf

    convert: Callable[..., str] = striprtf.rtf_to_text
    text = convert(source, errors="replace")
    rows = (ROW_END.sub("", line).replace("|", " | ") if line.endswith("|") else line for line in text.split("\n"))
    return "\n".join(row.rstrip() for row in rows).replace("\0", "").strip()
