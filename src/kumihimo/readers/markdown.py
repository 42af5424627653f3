"""Markdown -> its text without front matter, markup of pages and long addresses; each line keeps its number."""

import re
from collections.abc import Iterator
from html import unescape
from html.entities import html5
from urllib.parse import unquote_to_bytes

from kumihimo.readers import front_matter, plain_text
from kumihimo.readers.page import Page
from kumihimo.readers.text import decode

FENCED = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*(?:\n(?! {0,3}\1)[^\n]*)*+(?:\n[^\n]*)?", re.M)
TITLE = re.compile(r"^ {0,3}#[ \t]++(?!#*[ \t]*$)([^\n]*)|^(?=.*\S)([^\n]+)\n {0,3}=+[ \t]*$", re.M)
# Ends a block, such as a heading in tags, within a line of the file.
LINE_SEPARATOR = "\u2028"
INLINE_NAMES = (
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img input ins kbd label mark nobr picture q rb rt "
    "ruby s samp small source span strike strong sub sup time tt u var wbr"
)
BLOCK_NAMES = (
    "address article aside blockquote body caption center col colgroup dd details div dl dt figcaption figure footer "
    "form h1 h2 h3 h4 h5 h6 head header hr html li link main menu meta nav ol p pre section summary table tbody td "
    "tfoot th thead tr ul"
)
HIDDEN_NAMES = "audio canvas iframe noscript object script style svg template title video rp"
TAG_NAMES = {*INLINE_NAMES.split(), *BLOCK_NAMES.split(), *HIDDEN_NAMES.split(), "br"}
INLINE, HIDDEN = {*INLINE_NAMES.split()}, {*HIDDEN_NAMES.split()}
MARKS = {"li": "- "} | {f"h{n}": "#" * n + " " for n in range(1, 7)}
# It begins with a set of characters, so that the search for it is fast.
TOKEN = re.compile(
    r"[<`~:{\[\]&](?:"
    r"(?<=<)(?:!--|/?(?P<tag>[a-zA-Z][a-zA-Z0-9]*)(?=[\s/>])(?:[^<>\"']++|\"[^\"\n]*+\"|'[^'\n]*+')*+>)"
    r"|(?<=`)(?P<tick>`*+)|(?<=~)(?P<tilde>~~+)|(?<=:)(?:::+(?P<box>[^\n]*+)|(?P<address>//[^\s<>\"'`()\[\]]++))"
    r"|(?<=\{)(?:\{[<%](?P<shortcode>[^{}]*+)\}\}|%[^{}]*+\}"
    r"|:?[ \t]*(?:#\w|\.[a-zA-Z]|toc\b|[\w-]+=\")[^{}\n]*+\})"
    r"|(?<=\[)(?P<open>)"
    r"|(?<=\])\((?P<target>\{\{[<%][^{}]*+\}\}[^()\s]*+|[^()\s]*+(?:\([^()\s]*+\)[^()\s]*+)*+)"
    r"|(?<=&)(?:[a-zA-Z]{2,20}|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});)"
)
CLOSING_SHORTCODE = re.compile(r"\{\{[<%]\s*/\s*(\w+)")
ANY_TAG = re.compile(r"<[^<>]*>?")
SHOWN_VALUE = re.compile(r"\b(?:caption|title|alt|text)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
ESCAPES = re.compile(r"(?:%[0-9a-fA-F]{2})+")
RANDOM_RUN = re.compile(r"[A-Za-z0-9+_-]{32,}={0,2}")
NEAR_CHARS = 300  # looked at before and after a mark in a long line
MAX_SPAN_CHARS = 2000  # of code within a line


def read_markdown(data: bytes, name: str) -> Iterator[Page]:
    """Read the text, with its title and metadata.

    The metadata is the front matter. The title comes from there, or is the first heading of the first level.
    """
    text = decode(data, name)
    metadata, body = front_matter.parse_front_matter(text)
    end, footer = plain_text.find_footer(text)
    body = min(body, end)
    text = text[:body] + drop_markup(text[body:end])
    title = metadata.pop("title", None)
    yield Page(title=str(title or first_title(text[body:])), text=text, metadata={**footer, **metadata}, body=body)


def first_title(text: str) -> str:
    """Return the first heading of the first level of Markdown, or empty.

    It stands between `# ` and the closing `#`s, or above a line of `=`. Four spaces before it make it code.
    """
    found = TITLE.search(FENCED.sub("\n\n", "\n".join(text.splitlines())))
    title = (found[1] or found[2]).strip() if found else ""
    open_ended = title.rstrip("#")
    return open_ended.strip() if found and found[1] and not open_ended[-1:].strip() else title


def drop_markup(text: str) -> str:
    r"""Drop tags, comments, shortcodes and anchors of Markdown.

    Code stays as it is. Each line keeps its number, so that a citation finds it in the file.

    >>> drop_markup("## Tides {#tides}\n<!-- to do -->\nThe <b>sea</b> &amp; `<b>`. {{< note id='3' >}}\n")
    '## Tides\n\nThe sea & `<b>`. \n'
    """
    return _Cleaner(text).clean()


class _Cleaner:
    """The pieces of a text that are kept so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pieces: list[str] = []
        self.has_text = False  # in the current line
        self.closed_names = set(CLOSING_SHORTCODE.findall(text)) if "{{" in text else set[str]()
        self.brackets: list[int] = []  # the pieces that open a link
        self.unclosed = set[str]()  # marks whose end does not come any more
        self.has_cell = False  # in the current row of a table in tags

    def clean(self) -> str:
        position = 0
        while mark := TOKEN.search(self.text, position):
            self._append(self.text[position : mark.start()])
            position = self._skip_hidden(mark) or self._skip_code(mark) or self._replace(mark)
        return "".join([*self.pieces, self.text[position:]])

    def _append(self, piece: str) -> None:
        if piece:
            start = max(piece.rfind("\n"), piece.rfind(LINE_SEPARATOR)) + 1
            self.has_text = (self.has_text and not start) or bool(piece[start:].strip(" \t|"))
            self.has_cell = self.has_cell and not start
        self.pieces.append(piece)

    def _keep(self, mark: re.Match[str], kept: str) -> int:
        self._append(kept + "\n" * mark[0].count("\n"))
        return mark.end()

    def _skip_hidden(self, mark: re.Match[str]) -> int:
        """Skip a comment, or an element that no page shows as text."""
        name = "" if mark[0] == "<!--" else (mark["tag"] or "").lower()
        if (name not in HIDDEN and mark[0] != "<!--") or mark[0].startswith("</") or mark[0].endswith("/>"):
            return 0
        end = re.compile(rf"</{name}\s*>" if name else "-->", re.I)
        found = None if name in self.unclosed else end.search(self.text, mark.end())
        if not found:
            self.unclosed.add(name)
            return self._keep(mark, "")
        self._append("\n" * self.text.count("\n", mark.start(), found.end()))
        return found.end()

    def _skip_code(self, mark: re.Match[str]) -> int:
        """Keep code as it is; return 0 if the mark begins none."""
        if mark["tick"] is None and mark["tilde"] is None:
            return 0
        ticks = mark[0]
        if len(ticks) >= 3 and not self._before(mark).strip(" \t>") and "`" not in self._rest_of_line(mark):
            end = re.compile(rf"^[ \t>]*{re.escape(ticks[0])}{{{len(ticks)},}}[ \t]*\r?$", re.M)
            found = end.search(self.text, mark.end())
            stop = found.end() if found else len(self.text)
        else:
            end = re.compile(rf"(?<!`){ticks}(?!`)")
            found = end.search(self.text, mark.end(), mark.end() + MAX_SPAN_CHARS)
            stop = found.end() if found and "\n\n" not in self.text[mark.end() : found.start()] else mark.end()
        self._append(self.text[mark.start() : stop])
        return stop

    def _before(self, mark: re.Match[str]) -> str:
        """Return what stands before a mark, near it in its line."""
        start = max(0, mark.start() - NEAR_CHARS)
        return self.text[max(start, self.text.rfind("\n", start, mark.start()) + 1) : mark.start()]

    def _rest_of_line(self, mark: re.Match[str]) -> str:
        """Return what follows a mark, near it in its line."""
        return self.text[mark.end() : mark.end() + NEAR_CHARS].partition("\n")[0]

    def _replace(self, mark: re.Match[str]) -> int:
        """Replace a mark by what a reader sees of it."""
        if mark["tag"]:
            return self._keep(mark, self._render_tag(mark))
        if mark["open"] is not None:
            self.brackets.append(len(self.pieces))
            return self._keep(mark, "[")
        if mark["target"] is not None:
            return self._end_link(mark)
        if mark["address"]:
            return self._keep(mark, ":" + shorten_address(mark["address"]))
        if mark[0].startswith("&"):
            is_known = mark[0].startswith("&#") or mark[0][1:] in html5
            return self._keep(
                mark, " ".join(unescape(mark[0]).split("\n")).replace("\xa0", " ") if is_known else mark[0]
            )
        if mark["box"] is not None:
            is_box = not self._before(mark).strip(" \t>")
            return self._keep(mark, re.sub(r"^\s*\w+|\{.*", "", mark["box"]).strip("[] ") if is_box else mark[0])
        if mark["shortcode"] is None:
            self.pieces[-1] = (
                self.pieces[-1].rstrip(" \t") if mark[0].startswith(("{#", "{.", "{:")) else self.pieces[-1]
            )
            return self._keep(mark, "")
        return self._keep(mark, self._render_shortcode(mark))

    def _render_shortcode(self, mark: re.Match[str]) -> str:
        """Return what a page shows: its values, or one word."""
        inside = mark["shortcode"].strip(" \t\n<>%/")
        values = [first or second for first, second in SHOWN_VALUE.findall(inside)]
        is_alone = not (self._before(mark) + self._rest_of_line(mark)).strip()
        is_word = inside.isalpha() and not is_alone and inside not in self.closed_names
        return f"({inside})" if is_word else "; ".join(values)

    def _end_link(self, mark: re.Match[str]) -> int:
        """Shorten the address of a link; without one, keep its text alone."""
        target, opening = mark["target"], self.brackets.pop() if self.brackets else None
        is_dropped = target.startswith(("data:", "{{")) and self.text[mark.end() : mark.end() + 1] == ")"
        if not is_dropped or opening is None:
            return self._keep(mark, f"]({shorten_address(target)}")
        self.pieces[opening] = ""
        self.pieces[opening - 1] = self.pieces[opening - 1].removesuffix("!")
        return mark.end() + 1

    def _render_tag(self, mark: re.Match[str]) -> str:
        name, is_end = mark["tag"].lower(), mark[0].startswith("</")
        if name not in TAG_NAMES:
            return mark[0]
        if name in INLINE:
            return ("）" if is_end else "（") if name == "rt" else ""
        gap = " " if "|" in self._before(mark) else LINE_SEPARATOR
        if name in ("td", "th"):
            kept = " | " if self.has_cell and not is_end else ""
            self.has_cell = True
            return kept
        self.has_cell = self.has_cell and name != "tr"
        begins = "" if is_end else MARKS.get(name, "")
        follows = ANY_TAG.sub("", self._rest_of_line(mark)).strip()
        return (gap if self.has_text and follows else "") + begins


def shorten_address(address: str) -> str:
    """Return an address as browsers show it, without keys and data.

    >>> shorten_address("//example.org/%E6%BD%AE?id=aB3" + "xY7z" * 20)
    '//example.org/潮?id=…'
    """
    shown = ESCAPES.sub(_unescape_run, address) if "%" in address else address
    return RANDOM_RUN.sub(lambda run: "…" if _is_random(run[0]) else run[0], shown)


def _unescape_run(run: re.Match[str]) -> str:
    try:
        shown = unquote_to_bytes(run[0]).decode()
    except UnicodeDecodeError:
        return "…"
    return shown if shown.isprintable() else " "


def _is_random(run: str) -> bool:
    """Return whether a run is a key or data, not words."""
    return any(map(str.isupper, run)) and any(map(str.islower, run)) and any(map(str.isdecimal, run))
