"""rich text (.rtf) -> a page of its text."""

import re
from collections.abc import Callable, Iterator

from kumihimo.core.errors import SourceError
from kumihimo.readers.page import LayoutLine, Page, PageLayout, finish_page
from kumihimo.readers.text import decode

PROPERTY = re.compile(r"\{\\(title|author|subject|keywords)\s++([^{}]{1,1000})\}")
INFO = re.compile(r"\{\\info\b(?:[^{}]|\{[^{}]{0,2000}\}){0,100}\}")
ENCODING = re.compile(r"\\ansicpg\d{1,5}")
STYLESHEET = "{\\stylesheet"
STYLE = re.compile(r"\\s(\d{1,5})\b([^;]{0,2000});")
HEADING_NAME = re.compile(r"\bheading ([1-9])\s*$", re.I)
LEVEL = re.compile(r"\\outlinelevel([0-8])(?!\d)")
PARAGRAPH = re.compile(r"([{}])|\\(?:[{}\\]|(?:(pard)|s(\d{1,5})|outlinelevel(\d)|(par))(?![a-z\d]))")
MARK = 0xE700  # private letters, which end the paragraphs of headings; the last digit is the level
MARKED = re.compile(rf"(?:(?<!\s)\s+)?([{chr(MARK + 1)}-{chr(MARK + 9)}])\??\s*$")
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
    layout = _layout(_to_text(mark_headings(source)))
    info = INFO.search(source)
    found = dict(PROPERTY.findall(info[0])) if info else {}
    encoding = ENCODING.search(source)
    values = {key: _to_text(f"{{\\rtf1{encoding[0] if encoding else ''} {value}}}") for key, value in found.items()}
    title = values.pop("title", "") or layout.title
    yield finish_page(Page(title=title, text=layout.text, metadata=values, places=layout.places), name)


def mark_headings(source: str) -> str:
    """Return the source with a letter at the end of each heading."""
    begin, end_of_styles = _find_styles(source)
    levels = dict(_heading_levels(source[begin:end_of_styles]))
    parts, levels_outside, level, position = list[str](), list[int](), 0, 0
    for match in PARAGRAPH.finditer(source, end_of_styles):
        brace, restart, style, outline, end = match.groups()
        if brace == "{":
            levels_outside.append(level)
        elif brace:
            level = levels_outside.pop() if levels_outside else 0
        elif end and level:
            parts += [source[position : match.start()], f"\\u{MARK + level - 0x10000}?"]
            position = match.start()
        elif restart:
            level = 0
        elif style:
            level = levels.get(int(style), 0)
        elif outline:
            level = (int(outline) + 1) % 10
    return "".join([*parts, source[position:]])


def _find_styles(source: str) -> tuple[int, int]:
    """Return where the list of styles begins and ends."""
    begin, depth = source.find(STYLESHEET), 0
    for match in re.finditer(r"\\.|[{}]", source[begin:] if begin >= 0 else "", re.S):
        depth += (match[0] == "{") - (match[0] == "}")
        if not depth:
            return begin, begin + match.end()
    return 0, 0


def _heading_levels(sheet: str) -> Iterator[tuple[int, int]]:
    """Yield the numbers of the styles of headings, and their levels."""
    for style in STYLE.finditer(sheet):
        name, level = HEADING_NAME.search(style[2]), LEVEL.search(style[2])
        if name or level:
            yield int(style[1]), int(name[1]) if name else int(level[1]) + 1  # type: ignore[index]


def _layout(text: str) -> PageLayout:
    """Return the lines of a text, with its headings apart."""
    lines, gap, after_heading = list[LayoutLine](), 0, False
    for line in text.split("\n"):
        mark = MARKED.search(line)
        words = MARKED.sub("", line).strip() if mark else line
        if words.strip():
            prefix = "#" * min(ord(mark[1]) - MARK, 6) + " " if mark else ""
            lines.append(LayoutLine(max(gap, 2) if mark or after_heading else gap, prefix, words))
            after_heading, gap = bool(mark), 0
        gap += 1
    return PageLayout((*lines,))


def _to_text(source: str) -> str:
    """Return the text of rich text, with cells apart."""
    from striprtf import striprtf

    convert: Callable[..., str] = striprtf.rtf_to_text
    text = convert(source, errors="replace")
    rows = (ROW_END.sub("", line).replace("|", " | ") if line.endswith("|") else line for line in text.split("\n"))
    joined = "\n".join(row.rstrip() for row in rows).replace("\0", "").strip()
    return joined.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")  # 𠮷 is written as two numbers
