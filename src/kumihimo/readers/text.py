"""plain text or Markdown -> one page, to the character as it stands in the file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kumihimo.readers.decode import decode
from kumihimo.readers.front_matter import parse_front_matter
from kumihimo.readers.page import Page

FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
SETEXT = re.compile(r" {0,3}=+[ \t]*$")


def read_plain_text(data: bytes, name: str) -> Iterator[Page]:
    """The file as it is."""
    yield Page(text=decode(data, name))


def read_markdown(data: bytes, name: str) -> Iterator[Page]:
    """The file as it is, titled by its front matter, which is its metadata, or its first heading of the first level."""
    text = decode(data, name)
    metadata, body = parse_front_matter(text)
    title = metadata.pop("title", None)
    yield Page(title=str(title or _first_title(text[body:])), text=text, metadata=metadata, body=body)


def _first_title(text: str) -> str:
    fence, above = "", ""
    for line in text.splitlines():
        mark = FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence, above = ("" if fence else mark[1]), ""
        elif not fence:
            if title := _atx_title(line):
                return title
            if above and SETEXT.match(line):
                return above
            above = line.strip()
    return ""


def _atx_title(line: str) -> str:
    """What stands between `# ` and the closing `#`s; four spaces before make it code."""
    bare = line.strip()
    if not bare.startswith(("# ", "#\t")) or line.startswith(("    ", "\t")):
        return ""
    title = bare[1:].strip()
    open_ended = title.rstrip("#")
    return title if open_ended[-1:].strip() else open_ended.strip()
