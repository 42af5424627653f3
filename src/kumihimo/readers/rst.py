"""reStructuredText (.rst) -> a page of its text, with its headings as sections.

It reads line by line, without docutils: nothing is included, fetched or executed, and the time grows with the text.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kumihimo.readers.markup import MarkupBlocks
from kumihimo.readers.page import Page
from kumihimo.readers.text import decode

ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*$")
MIN_ADORNMENT = 4  # of a line shorter than its title, and of a rule
DIRECTIVE = re.compile(r"( *)\.\. (?:\|[^|\n]{1,100}\| )?([\w:+.-]{1,60})::(?:\s+(.*))?$")
NOTE = re.compile(r"( *)\.\. (\[[\w#*.-]{1,60}\])\s(.*)")
COMMENT = re.compile(r"( *)(?:\.\.|__)(?: |$)")
OPTION = re.compile(r" *:[\w -]{1,60}:(?: |$)")
FIELD = re.compile(r" *:((?:[^:\n\\]|\\.){1,100}):(?: +(.*)|$)")
BULLET = re.compile(r"( *)[-*+•‣](?: +(.*)|$)")
NUMBERED = re.compile(r"( *)(\(?(?:\d{1,9}|[a-zA-Z#]|[ivxlc]{1,9})[.)]) +(.*)")
LINE_BLOCK = re.compile(r" *\|(?: (.*)|$)")
GRID_BORDER = re.compile(r" *\+[-=+]+\+$")
SIMPLE_BORDER = re.compile(r" *=+(?: +=+)+$")
COLUMN = re.compile("=+")

VERBATIM = {"code", "code-block", "sourcecode", "parsed-literal", "math", "doctest", "prompt", "graphviz", "mermaid"}
DROPPED = {"raw", "include", "literalinclude", "image", "toctree", "contents", "index", "meta", "highlight", "role"}
DROPPED |= {"default-role", "replace", "unicode", "sectnum", "module", "currentmodule", "autosummary", "tabularcolumns"}
NAMED = {"deprecated", "versionadded", "versionchanged", "seealso", "todo"}  # the name is part of the text
PROPERTIES = {"author": "author", "authors": "author", "date": "date", "keywords": "keywords", "version": "version"}
PROPERTIES |= {"description": "description", "subject": "subject", "language": "language"}


def read_rst(data: bytes, name: str) -> Iterator[Page]:
    """Read the headings, texts, lists and tables.

    Comments, targets, pictures, and what other files hold are left out.
    """
    lines = [line.rstrip() for line in decode(data, name).expandtabs(8).splitlines()]
    substitutions = find_substitutions(lines)
    reader = RstReader(lines, MarkupBlocks(lambda text: remove_roles(text, substitutions)))
    while reader.number < len(lines):
        reader.read_line()
    layout = reader.blocks.layout()
    yield Page(title=layout.title, text=layout.text, metadata=reader.metadata, places=layout.places)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _join_cells(row: Sequence[str], cells: Sequence[str]) -> list[str]:
    return [f"{above}\n{cell}".strip() for above, cell in zip(row, cells, strict=True)]


@dataclass(slots=True)
class RstReader:
    """The place in the lines, and the open block.

    levels: the adornments of headings, in the order of their levels. indent: of the open block.
    """

    lines: Sequence[str]
    blocks: MarkupBlocks
    number: int = 0
    levels: list[tuple[str, bool]] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    indent: int = 0

    def read_line(self) -> None:
        """Read a line, or the block that begins there."""
        line = self.lines[self.number]
        self.number += 1
        if not line.strip():
            self._read_blank()
        elif not (self._read_table(line) or self._read_heading(line) or self._read_explicit(line)):
            self._read_text(line)

    def _read_blank(self) -> None:
        opens_literal = bool(self.blocks.lines) and self.blocks.lines[-1].endswith("::")
        if opens_literal:
            last = self.blocks.lines[-1]
            self.blocks.lines[-1] = "" if last == "::" else last[:-2].rstrip() if last.endswith(" ::") else last[:-1]
        self.blocks.end()
        if opens_literal:
            self.blocks.verbatim(self._take_indented(self.indent))

    def _take_indented(self, indent: int) -> Sequence[str]:
        """Return the next lines with a larger indent, and pass them."""
        start = end = self.number
        while self.number < len(self.lines):
            line = self.lines[self.number]
            if line and _indent(line) <= indent:
                break
            self.number += 1
            end = self.number if line else end
        self.number = end
        return self.lines[start:end]

    # -- headings

    def _read_heading(self, line: str) -> bool:
        """Read a heading or a rule. Return whether one begins here."""
        if self.blocks.lines:
            return False
        first, second = (self.lines[n] if n < len(self.lines) else "" for n in (self.number, self.number + 1))
        if ADORNMENT.match(line) and (len(line) >= MIN_ADORNMENT or second == line):
            if first.strip() and second == line:
                self._write_heading((line[0], True), first)
                self.number += 2
            return True
        if line[0] == " " or not ADORNMENT.match(first) or len(first) < min(len(line), MIN_ADORNMENT):
            return False
        self._write_heading((first[0], False), line)
        self.number += 1
        return True

    def _write_heading(self, adornment: tuple[str, bool], text: str) -> None:
        if adornment not in self.levels:
            self.levels.append(adornment)
        self.blocks.heading(self.levels.index(adornment) + 1, text)

    # -- directives, notes, comments

    def _read_explicit(self, line: str) -> bool:
        if directive := DIRECTIVE.match(line):
            self.blocks.end()
            self._read_directive(len(directive[1]), directive[2].lower().rpartition(":")[2], directive[3] or "")
        elif note := NOTE.match(line):
            self.blocks.end()
            self.blocks.add(f"{note[2]} {note[3]}")
            self.indent = len(note[1]) + 3
        elif comment := COMMENT.match(line):
            self.blocks.end()
            if line.strip() != ".." or (self.number < len(self.lines) and self.lines[self.number]):
                self._take_indented(len(comment[1]))
        else:
            return False
        return True

    def _read_directive(self, indent: int, name: str, argument: str) -> None:
        if name in DROPPED:
            self._take_indented(indent)
            return
        while (
            self.number < len(self.lines) and OPTION.match(line := self.lines[self.number]) and _indent(line) > indent
        ):
            self.number += 1
        if name in VERBATIM:
            text = [argument] if name == "math" and argument else []
            self.blocks.verbatim([*text, *self._take_indented(indent)])
        elif name == "list-table":
            self._add(argument, indent)
            self.blocks.end()
            self._read_list_table(self._take_indented(indent))
        else:
            label = f"{name}: " if name in NAMED and not argument else f"{name} " if name in NAMED else ""
            self._add(label + ("" if name == "figure" else argument), indent + 3)
            if name not in NAMED:
                self.blocks.end(1)

    def _add(self, text: str, indent: int) -> None:
        self.indent = indent
        if text:
            self.blocks.add(text)

    def _read_list_table(self, lines: Sequence[str]) -> None:
        """Write the rows of a list of lists."""
        row = list[str]()
        for line in map(str.strip, lines):
            if line.startswith("* - ") or line == "* -":
                self.blocks.row(row)
                row = [line[4:]]
            elif line.startswith("- ") or line == "-":
                row.append(line[2:])
            elif row:
                row[-1] = f"{row[-1]} {line}".strip()
        self.blocks.row(row)
        self.blocks.end()

    # -- tables

    def _read_table(self, line: str) -> bool:
        """Read a table. Return whether one begins here."""
        if not (is_grid := GRID_BORDER.match(line)) and not SIMPLE_BORDER.match(line):
            return False
        for row in self._grid_rows() if is_grid else self._simple_rows(line):
            if row:
                self.blocks.row(row)
        self.blocks.end()
        return True

    def _grid_rows(self) -> Iterator[list[str]]:
        row = list[str]()
        while self.number < len(self.lines) and (line := self.lines[self.number].strip()).startswith(("|", "+")):
            self.number += 1
            cells = [] if GRID_BORDER.match(line) else [cell.strip() for cell in line.strip("|").split("|")]
            if len(cells) != len(row):
                yield row
                row = cells
            else:
                row = _join_cells(row, cells)
        yield row

    def _simple_rows(self, line: str) -> Iterator[list[str]]:
        row, columns, was_border = list[str](), [match.start() for match in COLUMN.finditer(line)], True
        while self.number < len(self.lines) and not (was_border and not self.lines[self.number]):
            line, was_border = self.lines[self.number], False
            self.number += 1
            if SIMPLE_BORDER.match(line):
                yield row
                row, columns, was_border = [], [match.start() for match in COLUMN.finditer(line)], True
            elif line.strip("- "):
                cells = [line[start:end].strip() for start, end in pairwise([*columns, len(line)])]
                if not line.isascii():  # wide letters take two columns
                    cells = re.split(r" {2,}", line.strip())
                if row and len(row) == len(cells) and not cells[0]:
                    row = _join_cells(row, cells)
                else:
                    yield row
                    row = cells
        yield row

    # -- texts and lists

    def _read_text(self, line: str) -> None:
        is_start, indent = not self.blocks.lines, _indent(line)
        if bullet := BULLET.match(line):
            self._begin_item(len(bullet[1]), "-", bullet[2] or "", 2)
        elif (numbered := NUMBERED.match(line)) and (is_start or self.indent > indent):
            mark = "-" if "#" in numbered[2] else numbered[2]
            self._begin_item(len(numbered[1]), mark, numbered[3], len(numbered[2]) + 1)
        elif is_start and (entry := FIELD.match(line)):
            self._read_field(entry[1], entry[2] or "", indent)
        elif entry := LINE_BLOCK.match(line):
            self.blocks.end(1)
            self.blocks.add(entry[1] or "")
        else:
            if not is_start and indent != self.indent and len(self.blocks.lines) == 1 and not self.blocks.prefix:
                self.blocks.end(1)  # a term, and its definition
            self.indent = self.indent if self.blocks.lines else indent
            self.blocks.add(line)

    def _begin_item(self, indent: int, mark: str, text: str, width: int) -> None:
        self.blocks.item(indent // 2, mark, text)
        self.indent = indent + width

    def _read_field(self, name: str, value: str, indent: int) -> None:
        key = PROPERTIES.get(name.lower())
        if key and len(self.levels) <= 1:
            self.metadata.setdefault(key, value)
        if value:
            self.blocks.add(f"{name}: {value}")
            self.indent = indent + 3
            if self.number < len(self.lines) and FIELD.match(self.lines[self.number]):
                self.blocks.end(1)


MAX_REPLACEMENT = 200  # characters: a longer one could grow a text without end
SUBSTITUTION = re.compile(r" *\.\. \|([^|\n]{1,100})\| ([\w-]{1,40})::\s*(.*)")
INLINE = re.compile(
    r"\\(?:\s|(\S))?"  # 1: an escape
    r"|``((?:[^`]|`(?!`)){1,2000})``"  # 2: code
    r"|(?::([\w:.+-]{1,60}):|_)?`([^`]{1,2000})`(?::[\w:.+-]{1,60}:)?_{0,2}"  # 3, 4: a role or reference
    r"|\*\*(?=\S)((?:[^*]|\*(?!\*)){1,2000})(?<=\S)\*\*"  # 5
    r"|(?<![\w*])\*(?=[^\s*])([^*]{1,2000})(?<=\S)\*(?![\w*])"  # 6
    r"|\|([^|\s](?:[^|\n]{0,98}[^|\s])?)\|_{0,2}"  # 7: a substitution
    r"|\[([\w#*.-]{1,60})\]_(?!\w)"  # 8: a note
    r"|(?<![\w.+-])([a-zA-Z0-9](?:[\w.+-]{0,60}[a-zA-Z0-9])?)__?(?=[\s'\")\]}>\-/:.,;!?]|$)"  # 9: a reference
)
TARGET = re.compile(r"(?:(?<!\s)\s+)?<[^<>]{0,2000}>\s*$")


def find_substitutions(lines: Iterable[str]) -> dict[str, str]:
    """Return the texts that stand for names such as `|release|`.

    A picture has none.
    """
    texts: dict[str, str] = {}
    for line in lines:
        if match := SUBSTITUTION.match(line):
            texts[match[1]] = remove_roles(match[3][:MAX_REPLACEMENT], {}) if match[2] == "replace" else ""
    return texts


def remove_roles(text: str, substitutions: Mapping[str, str]) -> str:
    """Return the words of a paragraph.

    >>> remove_roles("**High** water_: `the tide <https://example.org>`_, :doc:`a` and ``b_c`` [1]_.", {})
    'High water: the tide, a and b_c [1].'
    """

    def replace(match: re.Match[str]) -> str:
        escaped, code, role, reference, strong, emphasis, name, note, word = match.groups()
        if reference:
            return _reference_text(reference, role or "")
        if name:
            return substitutions.get(name, f"|{name}|")
        if note:
            return f"[{note}]"
        return escaped or code or strong or emphasis or word or ""

    return INLINE.sub(replace, text)


def _reference_text(reference: str, role: str) -> str:
    """Return the visible text of a reference.

    After `~` it is the last part of a name.
    """
    text = TARGET.sub("", reference) or reference.strip(" <>")
    if role and text.startswith("~"):
        return text.rpartition(".")[2].lstrip("~")
    return text.lstrip("!") if role else text
