"""plain text or Markdown -> one page, identical to the file in every character."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kumihimo.readers.decode import decode
from kumihimo.readers.front_matter import parse_front_matter
from kumihimo.readers.page import Page

FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
SETEXT = re.compile(r" {0,3}=+[ \t]*$")


def read_plain_text(data: bytes, name: str) -> Iterator[Page]:
    """Read the file as it is."""
    yield Page(text=decode(data, name))


def read_markdown(data: bytes, name: str) -> Iterator[Page]:
    """Read the file as it is, with its title and metadata.

    The metadata is the front matter. The title comes from there, or is the first heading of the first level.
    """
    text = decode(data, name)
    metadata, body = parse_front_matter(text)
    title = metadata.pop("title", None)
    yield Page(title=str(title or _first_title(text[body:])), text=text, metadata=metadata, body=body)


def _first_title(text: str) -> str:
    fence, previous = "", ""
    for line in text.splitlines():
        marker = FENCE.match(line)
        if marker and (not fence or marker[1].startswith(fence)):
            fence, previous = ("" if fence else marker[1]), ""
        elif not fence:
            if title := _atx_title(line):
                return title
            if previous and SETEXT.match(line):
                return previous
            previous = line.strip()
    return ""


def _atx_title(line: str) -> str:
    """Return the text of an ATX heading, or empty.

    It stands between `# ` and the closing `#`s. Four spaces before make it code.
    """
    bare = line.strip()
    if not bare.startswith(("# ", "#\t")) or line.startswith(("    ", "\t")):
        return ""
    title = bare[1:].strip()
    open_ended = title.rstrip("#")
    return title if open_ended[-1:].strip() else open_ended.strip()
