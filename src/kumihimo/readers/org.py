"""an outline of Emacs (.org) -> a page of its text, with its headings as sections."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from kumihimo.readers.markup import MarkupBlocks
from kumihimo.readers.page import Page
from kumihimo.readers.text import decode

HEADING = re.compile(r"(\*+)[ \t]+(.*)")
TASK = re.compile(r"(?:(?:TODO|DONE|NEXT|WAITING|CANCELL?ED|COMMENT)[ \t]+)?(?:\[#\w\][ \t]*)?")
TAGS = re.compile(r"(?<![ \t])[ \t]+:[\w@#%:]{1,200}:$")
KEYWORD = re.compile(r"[ \t]*#\+([\w-]{1,60})(?:\[[^\]\n]{0,200}\])?:[ \t]*(.*)")
BEGIN = re.compile(r"[ \t]*#\+begin_(\w{1,40})\b", re.I)
DRAWER = re.compile(r"[ \t]*:[\w-]{1,40}:[ \t]*$")
DRAWER_END = re.compile(r"[ \t]*:end:[ \t]*$", re.I)
ITEM = re.compile(r"([ \t]*)(?:([-+]|(?<=[ \t])\*)|(\d{1,9}[.)]))[ \t]+(?:\[@\d+\][ \t]*)?(.*)")
TERM = re.compile(r"(.{1,200}?)(?<![ \t])[ \t]++::(?:[ \t]+|$)")
ROW = re.compile(r"[ \t]*\|(.*)")
RULE = re.compile(r"[ \t]*-{5,}[ \t]*$")
VERBATIM = {"src", "example", "verse"}
DROPPED = {"comment", "export"}
PROPERTIES = {"title", "author", "date", "keywords", "description", "subtitle", "language", "filetags"}
KEPT_KEYWORDS = {"caption", "subtitle", "description"}

# Marks stand at the edge of a word. A link has a description or is its address.
EDGE, AFTER = r"(?<![^\s('\"{\-、。，（「『])", r"(?![^\s)'\"}\-.,:;!?、。，）」』])"
INLINE = re.compile(
    r"\[\[([^\[\]\n]{1,2000})\](?:\[([^\[\]]{1,2000})\])?\]"
    r"|\[fn:([\w-]{1,60})\]"
    r"|\[fn:[\w-]{0,60}:([^\[\]]{1,2000})\]"
    r"|<<<?([^<>\n]{1,200})>>>?"
    rf"|{EDGE}([*/_=~+])(?=\S)((?:(?!\6)[\s\S]){{1,1000}})(?<=\S)\6{AFTER}"
    r"|\\\\[ \t]*$",
    re.M,
)


def read_org(data: bytes, name: str) -> Iterator[Page]:
    """Read the headings, texts, lists and tables.

    Drawers, comments and settings are left out. The metadata is that of the file's keywords.
    """
    lines = decode(data, name).expandtabs(8).splitlines()
    blocks, metadata = MarkupBlocks(remove_marks), dict[str, str]()
    edges = [number for number, line in enumerate(lines) if DRAWER_END.match(line) or HEADING.match(line)]
    number = 0
    while number < len(lines):
        if DRAWER.match(lines[number]) and (end := _find_drawer_end(lines, edges, number)):
            number = end
        else:
            number = _read_line(lines, number, blocks, metadata)
    layout = blocks.layout()
    title = metadata.pop("title", "")
    yield Page(title=title or layout.title, text=layout.text, metadata=metadata, places=layout.places)


def _read_line(lines: Sequence[str], number: int, blocks: MarkupBlocks, metadata: dict[str, str]) -> int:
    """Read a line or block; return the number of the next line."""
    line = lines[number]
    if heading := HEADING.match(line):
        text = TAGS.sub("", heading[2])
        blocks.heading(len(heading[1]), text[TASK.match(text).end() :])  # type: ignore[union-attr]
    elif begin := BEGIN.match(line):
        return _read_block(lines, number, begin[1].lower(), blocks)
    elif keyword := KEYWORD.match(line):
        _read_keyword(keyword[1].lower(), keyword[2].strip(), blocks, metadata)
    elif not line.strip() or RULE.match(line) or line.lstrip().startswith(("# ", "#+")) or line.strip() == "#":
        blocks.end()
    else:
        _read_text(line, blocks)
    return number + 1


def _read_text(line: str, blocks: MarkupBlocks) -> None:
    if row := ROW.match(line):
        inside = row[1].strip().removesuffix("|")
        is_rule = not inside.strip("-+: ")
        blocks.row([] if is_rule else [cell.strip() for cell in inside.split("|")])
    elif item := ITEM.match(line):
        text = TERM.sub(r"\1: ", item[4], count=1)
        blocks.item(len(item[1]) // 2, "-" if item[2] else item[3], text)
    elif line.lstrip().startswith(": "):  # a line as it is
        blocks.verbatim([line.lstrip()[2:]])
    else:
        if line.startswith("[fn:"):  # the text of a note
            blocks.end(1)
        blocks.add(line)


def _read_keyword(key: str, value: str, blocks: MarkupBlocks, metadata: dict[str, str]) -> None:
    blocks.end()
    if key in PROPERTIES and value:
        metadata[key] = f"{metadata[key]} {value}" if key in metadata else value
    if key in KEPT_KEYWORDS:
        blocks.add(value)
        blocks.end()


def _read_block(lines: Sequence[str], number: int, kind: str, blocks: MarkupBlocks) -> int:
    """Read a block such as `#+begin_src`; return the next line's number."""
    if kind not in VERBATIM | DROPPED:  # its text is read as any other; its end is a comment
        blocks.end()
        return number + 1
    end = next((n for n in range(number + 1, len(lines)) if re.match(rf"[ \t]*#\+end_{kind}\b", lines[n], re.I)), None)
    inside = lines[number + 1 : end]
    if kind in VERBATIM:
        blocks.verbatim([re.sub(r"^([ \t]*),(?=[*#])", r"\1", line) for line in inside])
    blocks.end()
    return len(lines) if end is None else end + 1


def _find_drawer_end(lines: Sequence[str], edges: Sequence[int], number: int) -> int:
    """Return the number of the line after a drawer, or 0.

    edges: the numbers of headings and ends. A drawer without an end is text.
    """
    edge = edges[following] if (following := bisect_right(edges, number)) < len(edges) else None
    return edge + 1 if edge is not None and DRAWER_END.match(lines[edge]) else 0


def remove_marks(text: str) -> str:
    """Return the text without the marks of fonts, links and notes.

    >>> remove_marks("*High* water, /at last/: [[https://example.org][the tide]], =a_b= and [fn:1].")
    'High water, at last: the tide, a_b and [1].'
    """
    return INLINE.sub(_replace_mark, text)


def _replace_mark(match: re.Match[str]) -> str:
    address, described, note, inline_note, target, mark, inside = match.groups()
    if address:
        return described or address.removeprefix("file:")
    if note or inline_note:
        return f"[{note}]" if note else f" ({inline_note})"
    if mark:
        return inside if mark in "=~" else remove_inner_marks(inside)
    return target or "\n"


def remove_inner_marks(text: str) -> str:
    """Return the text without the marks inside other marks."""
    return INLINE.sub(lambda match: match[7] or match[2] or match[1] or match[0], text)
