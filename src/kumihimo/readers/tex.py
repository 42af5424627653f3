r"""LaTeX (.tex) -> a page of its text, with its headings as sections.

It reads token by token, without macros: nothing is included or executed, and the time grows with the text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from textwrap import dedent
from unicodedata import normalize

from kumihimo.readers import tex_names
from kumihimo.readers.page import LINE, PARAGRAPH, Page, PageLayout, Writer
from kumihimo.readers.text import decode
from kumihimo.text.sentences import collapse_spaces

TOKEN = re.compile(
    r"(?<!\\)%[^\n]*(?:\n[ \t]*)?"  # a comment, and the indent of the line after it
    r"|\\(?:begin|end)[ \t]*\{[^{}\n]{1,60}\}"
    r"|\\verb\*?([^\sa-zA-Z*])[^\n]{0,1000}?\1"
    r"|\\[a-zA-Z@]+\*?|\\\\\*?(?:[ \t]*\[[^\]\n]{0,40}\])?|\\.|\\\n"
    r"|\n[ \t]*\n\s*|\$\$?|---?|``|''|[{}\[\]~&]|[^\\%{}\[\]$~&\n`'-]+|.|\n",
)
MATH_CHARS = 5000  # a formula in a line; a longer one is a missing sign
LABEL = re.compile(r"\s{0,20}\[([^\[\]\n]{0,300})\]")
MAX_PLACEMENT = 4  # letters in the brackets of a figure: `[htbp]`
ACCENTED = re.compile(r"\s?(?:\{\s?(?:\\?([a-zA-Z]?))\s?\}|\\([ij])(?![a-zA-Z]) ?|([a-zA-Z]))")
MAX_PROPERTIES = 20
PROPERTY = re.compile(r"\\(title|author|date|keywords)\s{0,20}(?:\[[^\]\n]{0,500}\]\s{0,20})?\{")
BEGIN, END = r"\begin{document}", r"\end{document}"


def read_tex(data: bytes, name: str) -> Iterator[Page]:
    """Read the text of a document.

    The settings before it, and comments, are left out. Formulas stay as they are.
    """
    source = decode(data, name).replace("\r\n", "\n").replace("\r", "\n")
    begin = source.find(BEGIN)
    body = source[begin + len(BEGIN) :] if begin >= 0 else source
    end = body.find(END)
    metadata = _read_properties(source)
    title = metadata.pop("title", "")
    layout = _layout(body if end < 0 else body[:end], title)
    yield Page(title=title or layout.title, text=layout.text, metadata=metadata, places=layout.places)


def _layout(source: str, title: str = "") -> PageLayout:
    reader = TexReader(source, title)
    while reader.position < len(source):
        reader.read_token()
    reader.close_all()
    return PageLayout(tuple(reader.writer.lines))


def _read_properties(source: str) -> dict[str, str]:
    r"""Return the arguments of `\title` and the like."""
    found: dict[str, str] = {}
    for match in islice(PROPERTY.finditer(source), MAX_PROPERTIES):
        inside = source[match.end() : match.end() + 1000]
        cut = inside[: _group_end(inside)].replace(r"\and", ", ").replace(r"\footnote", r"\thanks")
        lines = (line.strip(" ,") for line in _layout(cut).text.split("\n"))
        text = re.sub(r"(?:(?<! ) +)?,[ ,]*", ", ", ", ".join(filter(None, lines)))
        if text:
            found.setdefault(match[1], text)
    return found


def _group_end(text: str) -> int:
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if depth < 0:
            return position
    return len(text)


@dataclass(slots=True)
class TexGroup:
    """An open brace, bracket or environment.

    muted: its text is left out. step: ends the block that it began. roles: those of the arguments after it.
    """

    closing: str
    muted: bool = False
    suffix: str = ""
    step: Iterator[None] | None = None
    is_heading: bool = False
    roles: list[str] = field(default_factory=list)


@dataclass(slots=True)
class TexReader:
    """The place in the source, and the open groups.

    roles: what becomes of the next arguments of a command. absent: ends of environments that do not come.
    """

    source: str
    title: str = ""
    position: int = 0
    writer: Writer = field(default_factory=Writer)
    groups: list[TexGroup] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)
    absent: set[str] = field(default_factory=set)
    takes_options: bool = False
    lists: int = 0

    def read_token(self) -> None:
        match = TOKEN.match(self.source, self.position)
        assert match  # the last two alternatives match any character
        token, self.position = match[0], match.end()
        if token[0] == "%":
            return
        if token[0] == "\\":
            self._read_command(token, match[1])
        elif token in ("{", "["):
            self._open(token)
        elif token in ("}", "]"):
            self._close(token)
        elif token[0] == "\n" and token.count("\n") > 1:
            self._end_paragraph()
        elif token[0] == "$":
            self._read_math(token)
        else:
            self._write_plain(token)

    # -- texts

    def _write(self, text: str) -> None:
        if not (self.groups and self.groups[-1].muted):
            self.writer.write(text)

    def _write_plain(self, token: str) -> None:
        if not token.strip() and (self.roles or self.takes_options):
            return
        if self.roles and self.roles[0] == "drop":  # an argument without braces
            if token.startswith("#"):  # those of a macro
                return
            self.roles.pop(0)
            token = token.lstrip()[1:]
        self._end_command()
        self._write({"~": " ", "&": " | ", "--": "–", "---": "—", "``": "“", "''": "”"}.get(token, token))

    def _end_command(self) -> None:
        self.roles = []
        self.takes_options = False

    def _end_paragraph(self) -> None:
        has_open_heading = any(group.is_heading for group in self.groups[-9:])
        while self.groups and (self.groups[-1].muted or has_open_heading):  # a brace that is never closed
            group = self.groups.pop()
            next(group.step or iter(()), None)
            has_open_heading = has_open_heading and not group.is_heading
        self._end_command()
        if not self.writer.is_inline:
            self.writer.break_block(2)

    def _read_math(self, token: str) -> None:
        """Write a formula as it is."""
        limit = self.position + MATH_CHARS
        blank = self.source.find("\n\n", self.position, limit)
        end = self.source.find(token, self.position, limit if blank < 0 or token == "$$" else blank)
        while end > 0 and self.source[end - 1] == "\\":
            end = self.source.find(token, end + 1, limit)
        self._end_command()
        stop = end + len(token) if end >= 0 else self.position
        self._write(self.source[self.position - len(token) : stop])
        self.position = stop

    # -- groups

    def _open(self, token: str) -> None:
        muted = bool(self.groups and self.groups[-1].muted)
        if token == "[":
            if not self.takes_options:
                self._write_plain(token)
            else:
                self.groups.append(TexGroup("]", True, roles=self.roles))
                self._end_command()
            return
        role, *following = self.roles or ["keep"]
        self._end_command()
        group = TexGroup("}", muted or role == "drop", roles=following)
        if not group.muted:
            self._apply_role(role, group)
        self.groups.append(group)

    def _apply_role(self, role: str, group: TexGroup) -> None:
        kind, _, value = role.partition(":")
        if kind == "heading":
            group.step, group.is_heading = self.writer.heading(value), True
            next(group.step)
        elif kind == "block":
            group.step = PARAGRAPH(self.writer)
            next(group.step)
        elif kind == "around":
            before, _, group.suffix = value.partition(" _ ")
            self.writer.write(before)

    def _close(self, token: str) -> None:
        if not self.groups or self.groups[-1].closing != token:
            if token == "]":
                self._write_plain(token)
            return
        group = self.groups.pop()
        self._write(group.suffix)
        next(group.step or iter(()), None)
        self.roles, self.takes_options = group.roles, bool(group.roles)

    def close_all(self) -> None:
        while self.groups:
            next(self.groups.pop().step or iter(()), None)
        self.writer.end_line(0)

    # -- commands

    def _read_command(self, token: str, verbatim_mark: str | None) -> None:
        name = token[1:].rstrip("*")
        if self.roles[:1] == ["drop"] and name.isalpha():  # an argument without braces
            self.roles.pop(0)
        elif verbatim_mark:
            self._write(token[token.index(verbatim_mark) + 1 : -1])
        elif token.startswith((r"\begin", r"\end")) and token.endswith("}"):
            self._read_environment(token[token.index("{") + 1 : -1].strip(), token.startswith(r"\begin"))
        elif token in (r"\[", r"\("):
            self._read_display(token, {r"\[": r"\]", r"\(": r"\)"}[token])
        elif token.startswith("\\\\"):
            self._break_line()
        elif name in tex_names.ACCENTS and not (
            name.isalpha() and self.source[self.position : self.position + 1].isalpha()
        ):
            self._read_accent(tex_names.ACCENTS[name])
        elif name in tex_names.CHARACTERS:
            self._write_character(tex_names.CHARACTERS[name])
        else:
            self._read_named(name)

    def _write_character(self, character: str) -> None:
        self._end_command()
        self._write(character)
        if character.isalpha():  # the space after the name only ends it
            self._skip_spaces()

    def _skip_spaces(self) -> None:
        while self.source[self.position : self.position + 1] in (" ", "\t"):
            self.position += 1

    def _read_named(self, name: str) -> None:
        self._end_command()
        self.takes_options = True
        if name == "item":
            self._begin_item()
        elif name in tex_names.ROLES:
            if name == "bibitem":
                self.writer.break_block(1)
            self.roles = list(tex_names.ROLES[name])
        elif name in tex_names.SPACES:
            self.takes_options = False
            self._write(tex_names.SPACES[name])
        elif name in tex_names.BLOCKS:
            self._begin_block(name)
        if not self.roles:
            self.takes_options = self.takes_options and self.source.startswith("[", self.position)

    def _begin_block(self, name: str) -> None:
        self._end_paragraph()
        if name == "maketitle" and self.title:
            step = self.writer.heading("# ")
            next(step)
            self.writer.write(self.title)
            next(step, None)
        self.roles = ["block"] if tex_names.BLOCKS[name] else []
        self.takes_options = tex_names.BLOCKS[name]

    def _break_line(self) -> None:
        self._end_command()
        if self.writer.is_inline:
            self._write(" ")
        elif not (self.groups and self.groups[-1].muted):
            self.writer.break_block(1)

    def _begin_item(self) -> None:
        self._close_item()
        if self.groups and self.groups[-1].muted:
            return
        self.groups.append(TexGroup("item", step=self.writer.item("  " * max(min(self.lists, 9) - 1, 0) + "- ")))
        next(self.groups[-1].step or iter(()))
        label = LABEL.match(self.source, self.position)
        self.takes_options = False
        if label:
            self.position = label.end()
            self._write(f"{_layout(label[1]).text}: " if label[1].strip() else "")

    def _close_item(self) -> None:
        if self.groups and self.groups[-1].closing == "item":
            next(self.groups.pop().step or iter(()), None)

    def _read_accent(self, mark: str) -> None:
        self._end_command()
        match = ACCENTED.match(self.source, self.position)
        if match:
            self.position = match.end()
            self._write(normalize("NFC", f"{match[1] or match[2] or match[3] or ''}{mark}"))

    # -- environments

    def _read_environment(self, name: str, begins: bool) -> None:
        self._end_command()
        bare = name.rstrip("*")
        if begins and bare in tex_names.MATH | tex_names.RAW | {"comment"}:
            self._read_raw(name, bare)
        elif begins:
            self._begin_environment(name, bare)
        else:
            self._end_environment(name)

    def _begin_environment(self, name: str, bare: str) -> None:
        is_list = bare in tex_names.LISTS
        self.lists += is_list
        muted = bool(self.groups and self.groups[-1].muted)
        step = (LINE if is_list and self.lists > 1 else PARAGRAPH)(self.writer)
        next(step)
        self.groups.append(TexGroup(name, muted, step=step))
        self.roles, self.takes_options = list(tex_names.ENVIRONMENT_ARGUMENTS.get(bare, ())), True
        label = LABEL.match(self.source, self.position)
        if label and bare not in tex_names.ENVIRONMENT_ARGUMENTS and len(label[1]) > MAX_PLACEMENT:
            self._write(f"({_layout(label[1]).text}) ")  # the name of a theorem
            self.position = label.end()

    def _end_environment(self, name: str) -> None:
        self._close_item()
        if not any(group.closing == name for group in self.groups[-20:]):
            return
        while (group := self.groups.pop()).closing != name:
            next(group.step or iter(()), None)
        next(group.step or iter(()), None)
        self.lists -= bool(self.lists) and name.rstrip("*") in tex_names.LISTS

    def _read_raw(self, name: str, bare: str) -> None:
        """Write formulas or code as they are; leave out a comment."""
        inside = self._take_until(rf"\end{{{name}}}")
        if inside is not None and bare in tex_names.RAW:
            self._write_block(re.sub(r"^(?:\[[^\]\n]{0,300}\])?(?:\{\w{1,40}\})?[ \t]*\n", "", inside))
        elif inside is not None and bare in tex_names.MATH:
            self._write_block(re.sub(r"\\label\{[^{}\n]{0,200}\}", "", inside))

    def _read_display(self, token: str, end: str) -> None:
        inside = self._take_until(end)
        if inside is not None and token == r"\(":
            self._write(f"${inside}$")
        elif inside is not None:
            self._write_block(inside)

    def _take_until(self, end: str) -> str | None:
        """Take the source up to an end, or None without one."""
        stop = -1 if end in self.absent else self.source.find(end, self.position)
        if stop < 0:  # the search would be made again for each begin
            self.absent.add(end)
            return None
        inside, self.position = self.source[self.position : stop], stop + len(end)
        return inside

    def _write_block(self, text: str) -> None:
        if self.groups and self.groups[-1].muted:
            return
        if self.writer.is_inline:
            self.writer.write(collapse_spaces(text))
            return
        step = self.writer.pre()
        next(step)
        self.writer.write(dedent("\n".join(line.rstrip() for line in text.split("\n") if line.strip())))
        next(step, None)
        self.writer.line.clear()
