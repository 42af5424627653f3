"""an old Word file (.doc, Word 97 to 2003) -> one page of text, with the headings, lists and rows of Markdown."""

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from kumihimo.core.errors import SourceError
from kumihimo.readers.markup import MarkupBlocks
from kumihimo.readers.ole import open_ole, read_summary
from kumihimo.readers.page import Page, PageLayout, finish_page

MAGIC, FIRST_VERSION = 0xA5EC, 0x00C1  # of Word 97
ENCRYPTED, SECOND_TABLE = 0x0100, 0x0200  # flags of the header
# Offsets in the header.
FLAGS, LENGTHS, PARAGRAPH_PAGES, PIECES = 0x0A, 0x4C, 0x0102, 0x01A2
PAGE_BYTES = 512
COMPRESSED = 0x40000000
# Properties of a paragraph, and the bytes of their values by the upper bits of their number.
ROW_END, OUTLINE_LEVEL, LIST_LEVEL, LIST = 0x2417, 0x2640, 0x260A, 0x460B
VALUE_BYTES = {0: 1, 1: 1, 2: 2, 3: 4, 4: 2, 5: 2, 7: 3}
LONG_VALUE = 0xD608
MAX_HEADING = 9  # style numbers 1 to 9 are those of headings
FIELD_BEGIN, FIELD_RESULT, FIELD_END = "\x13", "\x14", "\x15"
FIELD_MARK = re.compile(f"([{FIELD_BEGIN}{FIELD_RESULT}{FIELD_END}])")
SPECIAL = str.maketrans({"\x0b": "\n", "\x0c": "\n", "\x0e": "\n", "\x1e": "-", "\xa0": " ", "\x1f": None})
CONTROL = re.compile("[\x00-\x08\x0e-\x1f\ufffe\uffff]")


class DocPiece(NamedTuple):
    """A run of characters. start: the number of the first one. offset, width: where they are, and their bytes."""

    start: int
    end: int
    offset: int
    width: int


class ParagraphProperties(NamedTuple):
    """The properties of a paragraph that say what it is. list_level: -1 if it is no item."""

    heading: int = 0
    list_level: int = -1
    is_row_end: bool = False


def read_doc(data: bytes, name: str) -> Iterator[Page]:
    """Read the headings, texts, lists, tables and notes.

    Raise SourceError if it is older, locked or damaged.
    """
    file = open_ole(data, name)
    main = file.read_stream("WordDocument")
    if len(main) < PIECES + 8 or _number(main, 0, "H") != MAGIC:
        raise SourceError(f"{name}: not a Word file of 1997 to 2003; save it as .docx")
    flags = _number(main, FLAGS, "H")
    if flags & ENCRYPTED:
        raise SourceError(f"{name}: locked with a password; save it without one")
    if _number(main, 2, "H") < FIRST_VERSION:
        raise SourceError(f"{name}: not a Word file of 1997 to 2003; save it as .docx")
    table = file.read_stream("1Table" if flags & SECOND_TABLE else "0Table")
    try:
        layout = _DocReader(main, table, name).read()
    except (struct.error, LookupError) as error:
        raise SourceError(f"{name}: damaged, so its text is not found; save it again as .docx") from error
    title, metadata = read_summary(file)
    title = title or layout.title
    yield finish_page(Page(title=title, text=layout.text, metadata=metadata, places=layout.places), name)


def _number(data: bytes, offset: int, kind: str = "I") -> int:
    return int(struct.unpack_from(f"<{kind}", data, offset)[0])


class _DocReader:
    """The streams of a file, and the parts of its text."""

    def __init__(self, main: bytes, table: bytes, name: str) -> None:
        self.main, self.table, self.name = main, table, name
        self.pieces = list(self._read_pieces())
        self.starts = [piece.start for piece in self.pieces]
        self.runs = sorted(self._read_runs())

    def read(self) -> PageLayout:
        """Return the text, with the notes and text boxes at the end."""
        if sum(piece.end - piece.start for piece in self.pieces) > len(self.main):
            raise SourceError(f"{self.name}: unpacks to far more than its size, like a zip bomb; it is not read")
        text = "".join(self._piece_text(piece) for piece in self.pieces)
        body, notes, headers, _, comments, end_notes, boxes = (
            _number(self.main, LENGTHS + 4 * number) for number in range(7)
        )
        blocks = MarkupBlocks(str)
        self._write(text, 0, body, blocks)
        after = body + notes + headers
        self._write(text, body, body + notes, blocks)
        self._write(text, after + comments, after + comments + end_notes + boxes, blocks)
        return blocks.layout()

    def _read_pieces(self) -> Iterator[DocPiece]:
        """Yield the pieces of the text, in order."""
        position, size = _number(self.main, PIECES), _number(self.main, PIECES + 4)
        end = position + size
        while position < end and self.table[position] == 1:  # changes of properties
            position += 3 + _number(self.table, position + 1, "H")
        count = (_number(self.table, position + 1) - 4) // 12
        numbers = struct.unpack_from(f"<{count + 1}I", self.table, position + 5)
        for number in range(count):
            place = _number(self.table, position + 5 + 4 * (count + 1) + 8 * number + 2)
            start, stop = numbers[number], numbers[number + 1]
            if stop > start:
                is_narrow = bool(place & COMPRESSED)
                offset = (place & ~COMPRESSED) // 2 if is_narrow else place
                yield DocPiece(start, stop, offset, 1 if is_narrow else 2)

    def _piece_text(self, piece: DocPiece) -> str:
        data = self.main[piece.offset : piece.offset + (piece.end - piece.start) * piece.width]
        # A surrogate pair keeps its two places until all positions are known.
        return data.decode("cp1252", "replace") if piece.width == 1 else _decode_units(data)

    def _read_runs(self) -> Iterator[tuple[int, ParagraphProperties]]:
        """Yield the offset where each paragraph begins, and its properties."""
        position, size = _number(self.main, PARAGRAPH_PAGES), _number(self.main, PARAGRAPH_PAGES + 4)
        count = max(size - 4, 0) // 8
        for number in range(count):
            page = _number(self.table, position + 4 * (count + 1) + 4 * number) & 0x3FFFFF
            start = page * PAGE_BYTES
            data = self.main[start : start + PAGE_BYTES]
            runs = data[PAGE_BYTES - 1] if len(data) == PAGE_BYTES else 0
            for run in range(runs):
                place = 2 * data[4 * (runs + 1) + 13 * run]
                yield _number(data, 4 * run), _read_properties(data, place) if place else ParagraphProperties()

    def _properties(self, position: int) -> ParagraphProperties:
        """Return the properties of the paragraph of a character."""
        if not self.runs or not self.pieces:
            return ParagraphProperties()
        piece = self.pieces[max(bisect_right(self.starts, position) - 1, 0)]
        offset = piece.offset + (position - piece.start) * piece.width
        after = bisect_right(self.runs, offset, key=lambda run: run[0])
        return self.runs[max(after - 1, 0)][1]

    def _write(self, text: str, start: int, end: int, blocks: MarkupBlocks) -> None:
        """Write a part of the text, paragraph by paragraph."""
        cells, cell, in_table = list[str](), list[str](), False
        for match in re.finditer("[^\r\x07]*[\r\x07]?", text[start:end]):
            mark, content = match[0][-1:], _clean(match[0].rstrip("\r\x07"))
            properties = self._properties(start + max(match.end() - 1, 0))
            if not in_table and mark == "\x07":
                blocks.end()
            in_table = mark == "\x07" or bool(cells)
            if mark == "\x07" and properties.is_row_end:
                blocks.row(cells)
                cells, cell = [], []
            elif mark == "\x07":
                cells.append(" ".join([*cell, content]).strip())
                cell = []
            elif cells and content:  # a paragraph within a cell
                cell.append(content)
            else:
                _write_paragraph(content, properties, blocks)
        blocks.row(cells)
        blocks.end()


def _write_paragraph(text: str, properties: ParagraphProperties, blocks: MarkupBlocks) -> None:
    if not text.strip():
        blocks.end()
    elif properties.heading:
        blocks.heading(properties.heading, text)
    elif properties.list_level >= 0:
        blocks.item(properties.list_level, "-", text)
        blocks.end(1)
    else:
        blocks.end()
        for line in text.split("\n"):
            blocks.add(line)
            blocks.end(1)
        blocks.end()


def _read_properties(data: bytes, place: int) -> ParagraphProperties:
    """Read the properties of a paragraph from a page of them."""
    size = 2 * data[place] - 1
    if size < 0:
        place, size = place + 1, 2 * data[place + 1]
    values, position, end = dict[int, int](), place + 3, min(place + 1 + size, len(data))
    style = _number(data, place + 1, "H")
    while position + 3 <= end:
        number = _number(data, position, "H")
        width = VALUE_BYTES.get(number >> 13) or (
            _number(data, position + 2, "H") + 1 if number == LONG_VALUE else data[position + 2] + 1
        )
        values[number] = int.from_bytes(data[position + 2 : position + 2 + min(width, 2)], "little")
        position += 2 + width
    level = values.get(OUTLINE_LEVEL, MAX_HEADING) + 1
    heading = style if 1 <= style <= MAX_HEADING else level if level <= MAX_HEADING else 0
    is_item = values.get(LIST, 0) not in (0, 0xF801)
    return ParagraphProperties(heading, values.get(LIST_LEVEL, 0) & 15 if is_item else -1, bool(values.get(ROW_END)))


def _decode_units(data: bytes) -> str:
    """Decode UTF-16 so that each unit is a character."""
    return "".join(map(chr, struct.unpack(f"<{len(data) // 2}H", data[: len(data) // 2 * 2])))


def _without_codes(text: str) -> str:
    """Return a text with the results of its fields, without their codes."""
    fields, hidden, kept = list[bool](), 0, list[str]()
    for part in FIELD_MARK.split(text):
        if part == FIELD_BEGIN:
            fields.append(True)
            hidden += 1
        elif part == FIELD_RESULT and fields and fields[-1]:
            fields[-1] = False
            hidden -= 1
        elif part == FIELD_END and fields:
            hidden -= fields.pop()
        elif not hidden:
            kept.append(part)
    return text if hidden else "".join(kept)  # a code that ends in another paragraph


def _clean(text: str) -> str:
    """Return a text without the codes of fields, and with whole characters."""
    text = CONTROL.sub("", _without_codes(text).translate(SPECIAL))
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").strip()
