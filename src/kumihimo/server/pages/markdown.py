r"""a text in Markdown -> blocks, which a template writes as HTML; or its pieces without the signs of Markdown.

static/markdown.js and static/plain_text.js do the same in the browser. Links become their words, and HTML stays text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["paragraph", "heading", "list", "table", "code", "quote"]
_INLINE = re.compile(
    r"\*\*(?P<strong>\S(?:.{0,400}?\S)?)\*\*|`(?P<code>[^`\n]+)`|\ue000(?P<cite>[\d,]+)\ue001"
    r"|!?\[(?P<link>[^\[\]\n]{1,300})\]\((?:[^()\s]|\([^()\s]{0,200}\)){0,500}\)",
    re.S,
)
_HEADING = re.compile(r"(#{1,6})\s++(.*)")
_ITEM = re.compile(r"(\s*)([-*•]|\d{1,9}[.)])\s++(.*)")
_ROW = re.compile(r"\s*\|(.*)\|\s*")
_RULER = re.compile(r"[\s|:]*+-[\s|:-]*")
_CELL_END = re.compile(r"(?<!\\)\|")
_ADDRESS = r"\((?:[^()\s]|\([^()\s]{0,200}\)){0,500}(?: \"[^\"\n]{0,200}\")?\)"
_SIGN = re.compile(
    r"^[ \t]*(?:```.*|(?:[-*_=:|][ \t]*){3,})$\n?"  # the fence of code, a ruler
    r"|(?:^|(?<=^…)|(?<=[.!?。！？…] ))[ ]{0,3}#{1,6}[ ]+|(?<= )#{2,6}[ ]+"  # a heading; a snippet is one line
    r"|^[ ]{0,3}>[> ]*"  # a quotation
    rf"|!?\[(?=[^\[\]\n]{{0,300}}\](?:{_ADDRESS}|\([^)\s]{{0,500}}\Z))"  # a link before its words
    rf"|\](?:{_ADDRESS}|\([^)\s]{{0,500}}\Z)"  # and behind them, perhaps cut off
    r"|!?\[\[(?:[^\[\]|\n]{1,300}\|)?(?P<wiki>[^\[\]|\n]{1,300})\]\]"
    r"|\*\*|`+"
    r"|(?<![\w*])\*(?P<star>[^\s*](?:[^*\n]{0,300}[^\s*])?)\*(?![\w*])"
    r"|(?<![\w_])_(?P<line>[^\s_](?:[^_\n]{0,300}[^\s_])?)_(?![\w_])",
    re.M,
)


@dataclass(frozen=True, slots=True)
class InlinePiece:
    """A stretch of a line. kind: text, strong, code or cite: source numbers, as `write_cite` marks them."""

    kind: str
    text: str
    pieces: tuple["InlinePiece", ...] = ()  # of strong text


@dataclass(slots=True)
class MarkdownBlock:
    """A block: a paragraph, a list with blocks as its items, or a table with lines as its rows.

    level: of a heading. start: the number of the first item; 0: bullets.
    """

    kind: Kind
    text: str = ""
    level: int = 0
    start: int = 0
    items: list["MarkdownBlock"] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    has_head: bool = False
    indent: int = 0

    @property
    def pieces(self) -> tuple[InlinePiece, ...]:
        return tuple(inline_pieces(self.text))

    @property
    def cells(self) -> list[list[tuple[InlinePiece, ...]]]:
        return [[tuple(inline_pieces(cell)) for cell in row] for row in self.rows]


def write_cite(_: str, numbers: Sequence[int]) -> str:
    """Return a marker of citations that no text has by itself."""
    return f"\ue000{','.join(map(str, numbers))}\ue001"


def inline_pieces(text: str) -> Iterator[InlinePiece]:
    """Yield the pieces of a line.

    >>> [(piece.kind, piece.text) for piece in inline_pieces(f"The **arm** leaks {write_cite('', [2])}.")]
    [('text', 'The '), ('strong', 'arm'), ('text', ' leaks '), ('cite', '2'), ('text', '.')]
    """
    end = 0
    for match in _INLINE.finditer(text):
        if match.start() > end:
            yield InlinePiece("text", text[end : match.start()])
        kind = str(match.lastgroup)
        inner = match[kind]
        if kind == "link":
            yield from inline_pieces(inner)
        else:
            yield InlinePiece(kind, inner, tuple(inline_pieces(inner)) if kind == "strong" else ())
        end = match.end()
    if end < len(text):
        yield InlinePiece("text", text[end:])


def markdown_blocks(text: str) -> list[MarkdownBlock]:
    """Return the blocks of a text.

    >>> [(block.kind, block.text) for block in markdown_blocks("# A\\n\\nOne\\ntwo.\\n- three")]
    [('heading', 'A'), ('paragraph', 'One\\ntwo.'), ('list', '')]
    """
    parser = _Parser()
    for line in text.split("\n"):
        parser.add_line(line)
    return parser.blocks


@dataclass(slots=True)
class _Parser:
    """The blocks so far, and the one that the next line may continue."""

    blocks: list[MarkdownBlock] = field(default_factory=list)
    current: MarkdownBlock | None = None  # a paragraph, an item, a table or code
    items: MarkdownBlock | None = None  # the list that is open
    after_blank: bool = False

    def add_line(self, line: str) -> None:
        """Add a line to the block that is open, or begin one."""
        if self.current and self.current.kind == "code":
            self._continue_code(line)
        elif line.strip().startswith("```"):
            self._begin(MarkdownBlock("code"))
        elif not line.strip():
            self.after_blank, self.current = True, None
            return
        elif heading := _HEADING.fullmatch(line):
            self._begin(MarkdownBlock("heading", heading[2].strip(), level=len(heading[1])))
            self.current = None
        elif row := _ROW.fullmatch(line):
            self._add_row([cell.strip().replace("\\|", "|") for cell in _CELL_END.split(row[1])], line)
        elif item := _ITEM.fullmatch(line):
            self._add_item(len(item[1]), item[2], item[3])
        else:
            self._add_text(line)
        self.after_blank = False

    def _begin(self, block: MarkdownBlock) -> None:
        self.blocks.append(block)
        self.current, self.items = block, None

    def _continue_code(self, line: str) -> None:
        assert self.current
        if line.strip().startswith("```"):
            self.current = None
        else:
            self.current.text += f"{line}\n"

    def _add_row(self, cells: list[str], line: str) -> None:
        if not (self.current and self.current.kind == "table"):
            self._begin(MarkdownBlock("table"))
        assert self.current
        if len(self.current.rows) == 1 and _RULER.fullmatch(line):
            self.current.has_head = True
        else:
            self.current.rows.append(cells)

    def _add_item(self, indent: int, marker: str, text: str) -> None:
        item, number = MarkdownBlock("paragraph", text), int(marker[:-1]) if marker[:-1] else 0
        parent = self.items
        if parent and indent >= parent.indent + 2 and parent.items:
            last = parent.items[-1]
            if not last.items:
                last.items.append(MarkdownBlock("list", start=number, indent=indent))
            last.items[-1].items.append(item)
        else:
            if not parent or bool(parent.start) != bool(number):
                self._begin(MarkdownBlock("list", start=number, indent=indent))
                parent = self.items = self.current
            assert parent
            parent.items.append(item)
        self.current = item

    def _add_text(self, line: str) -> None:
        text, quoted = line.strip(), line.startswith(">")
        indented = line[:1].isspace()
        if self.current and self.current.kind in ("paragraph", "quote"):
            self.current.text += f"\n{text.lstrip('> ') if quoted else text}"
        elif self.items and indented and self.after_blank:
            self.items.items[-1].text += f"\n{text}"
        else:
            self._begin(MarkdownBlock("quote", text.lstrip("> ")) if quoted else MarkdownBlock("paragraph", text))


def plain_text(text: str) -> str:
    r"""Return a text without the signs of Markdown.

    Those are links, headings, quotations, rulers, fences, bold and italic type and code.

    >>> plain_text("# Tide\n---\nThe **arm** _leaks_: [plan](a.md), snake_case, 2 * 3 * 4 [7]")
    'Tide\nThe arm leaks: plan, snake_case, 2 * 3 * 4 [7]'
    """
    return "".join(piece for piece, _ in marked_pieces(text, ()))


def marked_pieces(text: str, marks: Sequence[Sequence[int]]) -> list[tuple[str, bool]]:
    """Return the pieces of a text, and whether each is marked.

    Signs of Markdown are left out. marks: start and end of each, in order.

    >>> marked_pieces("One [**two**](a.md) three", [(7, 10)])
    [('One ', False), ('two', True), (' three', False)]
    """
    signs = list(_sign_spans(text, 0, len(text)))
    pieces, end = list[tuple[str, bool]](), 0
    for start, stop in [*marks, (len(text), len(text))]:
        pieces += [(_without(text, signs, end, start), False), (_without(text, signs, start, stop), True)]
        end = stop
    return [piece for piece in pieces if piece[0]]


def _sign_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for match in _SIGN.finditer(text, start, end):
        if inner := match.lastgroup:
            yield match.start(), match.start(inner)
            yield from _sign_spans(text, *match.span(inner))
            yield match.end(inner), match.end()
        else:
            yield match.span()


def _without(text: str, signs: Sequence[tuple[int, int]], start: int, end: int) -> str:
    """Return `[start, end)` of a text without the signs."""
    kept = []
    for first, last in signs:
        if start < last and first < end:
            kept.append(text[start : max(start, first)])
            start = last
    return "".join([*kept, text[start:end]])
