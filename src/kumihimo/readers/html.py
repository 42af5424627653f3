"""HTML, EPUB -> one page of text, with the headings and list items of Markdown."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby, takewhile
from posixpath import dirname, join, normpath
from typing import Any
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from kumihimo.core.errors import SourceError
from kumihimo.readers import page as layout
from kumihimo.readers.archive import open_archive, read_part, read_xml
from kumihimo.readers.text import decode
from kumihimo.text.sentences import collapse_spaces

Node = Any  # a node of selectolax, which is imported at the first use
CHARSET = re.compile(rb"""<(?:meta\b[^>]*?\bcharset|\?xml\b[^>]*?\bencoding)\s*=\s*["']?\s*([\w.:-]+)""", re.I)
MAX_CHARS = 32 << 20  # the parsed tree takes thirty times as much memory
HEAD_BYTES = 4096  # an encoding is declared within these
# trafilatura takes seconds for each million characters, and more for tables: it makes up to 100 cells of a span, makes
# all rows as wide as the widest, up to 100, and counts the cells of a row for each of them.
MAX_ARTICLE_CHARS, MAX_ARTICLE_CELLS, MAX_SPAN = 4 << 20, 100_000, 100
ROW_CELL_SPAN = re.compile(r"<(tr)\b|<t[dh]\b|(?:col|row)span\s*+=\s*+[\"']?([^\s\"'>]{1,3})", re.I)

# Parsers take quadratic time for nested elements, and for the attributes of one element.
TAG = re.compile(r"<(/?)([a-zA-Z][^\s/<>]*+)([^<>]*+)>")
MAX_DEPTH = 1000  # of open elements; browsers stop at 512
MAX_ATTRIBUTE_BREAKS = 5000  # between the attributes of an element
ATTRIBUTE_BREAK = re.compile(r"[\s/\"']")
RAW_TAGS = ("script", "style")
# Elements without an end tag, or closed by the next one of their kind.
VOID_NAMES = "area base br col embed hr img input link meta param source track wbr"
SIBLING_NAMES = (
    "html head body p li dt dd tr td th thead tbody tfoot colgroup option optgroup rb rt rtc rp "
    "a button nobr h1 h2 h3 h4 h5 h6"
)
UNNESTED_TAGS = {*VOID_NAMES.split(), *SIBLING_NAMES.split()}

DROPPED_SELECTOR = "script, style, noscript, template, svg, iframe, select, rp, [hidden]"
# A site's header has its name and menu, its footer the imprint. A header with the page's heading belongs to the page.
IN_SECTION = "article *, main *, section *, blockquote *"
SITE_SELECTOR = "nav, [role=navigation], [role=search], "
SITE_SELECTOR += f"header:not({IN_SECTION}):not(:has(h1)), footer:not({IN_SECTION})"
BLOCK_SELECTOR = "table, h1, h2, h3, h4, h5, h6, ul, ol, dl, pre, blockquote"
META_KEYS = {
    "description": "description",
    "og:description": "description",
    "author": "author",
    "keywords": "keywords",
    "date": "date",
    "dc.date": "date",
    "dcterms.date": "date",
    "article:published_time": "date",
}
STEP_TAGS: dict[layout.WriterStep, str] = {
    layout.PARAGRAPH: "p blockquote dl figure hr article section form fieldset details",
    layout.LINE: "body div main header footer aside dt dd caption figcaption summary legend address center",
    layout.LIST: "ul ol menu",
    layout.Writer.bullet_item: "li",
    layout.Writer.row: "tr",
    layout.Writer.table: "table",
    layout.Writer.pre: "pre",
    layout.Writer.line_break: "br",
    layout.Writer.link: "a",
    layout.Writer.ruby: "ruby",
    layout.Writer.rt: "rt",
}
TAG_STEPS: dict[str, layout.WriterStep] = {
    f"h{n}": partial(layout.Writer.heading, mark="#" * n + " ") for n in range(1, 7)
}
TAG_STEPS |= {tag: step for step, tags in STEP_TAGS.items() for tag in tags.split()}

MIN_MATCH_CHARS = 25  # shorter lines may match by chance
MIN_MENU_LINES = 3
MAX_LINK_SHARE = 0.5  # of a line's characters; outside the article, a line with more in links is a menu

CONTAINER = "META-INF/container.xml"
DC = "{http://purl.org/dc/elements/1.1/}"
OPF = "{http://www.idpf.org/2007/opf}"
CHAPTER_TYPES = ("application/xhtml+xml", "text/html")
BOOK_PROPERTIES = {
    "creator": "author",
    "language": "lang",
    "publisher": "publisher",
    "date": "date",
    "subject": "subject",
    "description": "description",
    "rights": "rights",
}


def read_html(data: bytes, name: str) -> Iterator[layout.Page]:
    """Read a web page without its menus.

    The metadata is its language, description, author, keywords and date.
    """
    return read_full_html(data, name, is_web_page=True)


def read_full_html(data: bytes, name: str, encoding: str = "", *, is_web_page: bool = False) -> Iterator[layout.Page]:
    """Read an HTML page in full.

    encoding: the encoding that the container declares. is_web_page: leave out the menus of its site.
    """
    tree, source = parse_html(data, name, encoding)
    if tree.body is None:
        return
    dropped = tree.css(DROPPED_SELECTOR)
    if is_web_page:
        dropped += tree.css(SITE_SELECTOR)
    page = layout.layout_tree(tree.body, partial(_visit_node, dropped={node.mem_id for node in dropped}))
    page = remove_menus(page, source) if is_web_page else page
    node = tree.css_first("head > title") or tree.css_first("h1")
    title = collapse_spaces(node.text()) if node else ""
    yield layout.Page(title=title, text=page.text, metadata=_read_metadata(tree), places=page.places)


def parse_html(data: bytes, name: str, encoding: str = "") -> tuple[Node, str]:
    """Return the tree of a page, and its source without endless markup.

    encoding: as the container declares it. Raise SourceError if the page is too large, MemoryError if there is too
    little memory.
    """
    from selectolax import lexbor

    declared = CHARSET.search(data[:HEAD_BYTES])
    source = decode(data, name, encoding or (declared[1].decode("ascii", "ignore") if declared else ""))
    if len(source) > MAX_CHARS:
        raise SourceError(f"{name}: a page of more than {MAX_CHARS >> 20} MB; cut it into several")
    source = bound_markup(source)
    try:
        return lexbor.LexborHTMLParser(source), source
    except lexbor.SelectolaxError as error:  # it takes any markup
        raise MemoryError from error


def _read_metadata(tree: Node) -> dict[str, object]:
    root = tree.css_first("html")
    metadata: dict[str, object] = {"lang": root.attributes.get("lang")} if root else {}
    for node in tree.css("meta[content]"):
        key = META_KEYS.get((node.attributes.get("name") or node.attributes.get("property") or "").lower(), "")
        metadata[key] = metadata.get(key) or collapse_spaces(node.attributes.get("content") or "")
    return {key: value for key, value in metadata.items() if key and value}


def bound_markup(source: str) -> str:
    """Remove tags that nest too deep, and attributes beyond number.

    The text stays, in the elements around it.

    >>> page = "<b>" * 2000 + "deep" + "</b>" * 2000 + "<i>"
    >>> bound_markup(page) == "<b>" * 1000 + "deep" + "</b>" * 1000 + "<i>"
    True
    """
    return TAG.sub(_TagBounds().bound, source)


class _TagBounds:
    """The tags that are open while a page is scanned."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.counts = Counter[str]()
        self.raw = ""  # the open script or style, which may hold what looks like a tag

    def bound(self, tag: re.Match[str]) -> str:
        """Return the tag, the tag without attributes, or nothing."""
        is_end, name, rest = bool(tag[1]), tag[2].lower(), tag[3]
        if self.raw:
            self.raw = "" if is_end and name == self.raw else self.raw
            return tag[0]
        if name in RAW_TAGS:
            self.raw = "" if is_end else name
        elif name not in UNNESTED_TAGS and not rest.endswith("/") and self._depth_of(name, is_end) > MAX_DEPTH:
            return ""
        if len(rest) > MAX_ATTRIBUTE_BREAKS and len(ATTRIBUTE_BREAK.findall(rest)) > MAX_ATTRIBUTE_BREAKS:
            return f"<{tag[1]}{tag[2]}>"
        return tag[0]

    def _depth_of(self, name: str, is_end: bool) -> int:
        """Open or close an element, and return its depth."""
        if not is_end:
            self.names.append(name)
            self.counts[name] += 1
            return len(self.names)
        if not self.counts[name]:
            return 0
        depth, closed = len(self.names), ""
        while closed != name:  # the elements inside it end too
            depth, closed = len(self.names), self.names.pop()
            self.counts[closed] -= 1
        return depth


def _visit_node(node: Node, dropped: set[int]) -> str | layout.Visit[Node]:
    if node.is_text_node:
        return node.text_content or ""
    if node.mem_id in dropped:
        return ""
    if node.tag in ("td", "th"):
        spans = node.attributes
        return layout.cell_step(spans.get("rowspan"), spans.get("colspan")), node.iter(include_text=True)
    is_layout_row = node.tag == "tr" and node.css_first(BLOCK_SELECTOR) is not None  # its cells hold blocks
    step = layout.LINE if is_layout_row else TAG_STEPS.get(node.tag or "")
    return step, node.iter(include_text=True)


def remove_menus(page: layout.PageLayout, source: str) -> layout.PageLayout:
    """Remove link lists before and after the article.

    trafilatura locates the article, if it is installed.
    """
    article = _keep_alnum(_extract_article(source))

    def is_outside(line: layout.LayoutLine) -> bool:
        text = _keep_alnum(line.text)
        return len(text) < MIN_MATCH_CHARS or text not in article

    before, after = (list(takewhile(is_outside, lines)) for lines in (page.lines, reversed(page.lines)))
    if len(before) == len(page.lines):
        return page
    inside = page.lines[len(before) : len(page.lines) - len(after)]
    return layout.PageLayout((*_drop_link_lists(before), *inside, *_drop_link_lists(reversed(after))))


def _drop_link_lists(lines: Iterable[layout.LayoutLine]) -> Iterator[layout.LayoutLine]:
    """Drop runs of link lines.

    Several links in a row are a menu; a single one may be a heading or a reference.
    """
    for is_link, group in groupby(lines, key=_is_link_line):
        run = list(group)
        if not is_link or len(run) < MIN_MENU_LINES:
            yield from run


def _is_link_line(line: layout.LayoutLine) -> bool:
    return line.link_chars > MAX_LINK_SHARE * len(line.text) and not line.is_heading


def _extract_article(source: str) -> str:
    if len(source) > MAX_ARTICLE_CHARS or _count_cells(source) > MAX_ARTICLE_CELLS:
        return ""
    try:
        from trafilatura import extract

        return extract(source, favor_recall=True) or ""
    except Exception:  # noqa: BLE001 (without it, and on failure, the page stays as it is)
        return ""


def _count_cells(source: str) -> int:
    """Return how many cells trafilatura makes; long rows count for more."""
    rows, width, widest, cells, size = 1, 0, 0, 0, 0  # size: of the last cell
    for row, span in ROW_CELL_SPAN.findall(source):
        factor = max(int(span), 1) if len(span) < 3 and span.isdecimal() else MAX_SPAN
        more = 0 if row else size * (factor - 1) if span else 1
        rows, width, size = (rows + 1, 0, 0) if row else (rows, width + more, size + more if span else 1)
        cells, widest = cells + more * (1 + width // 1000), max(widest, min(width, MAX_SPAN))
    return cells + rows * widest


def _keep_alnum(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def read_epub(data: bytes, name: str) -> Iterator[layout.Page]:
    """Read the chapters of a book in reading order."""
    with open_archive(data, name) as archive:
        root = read_xml(archive, CONTAINER, name, "export the book again").find(".//{*}rootfile")
        path = "" if root is None else root.get("full-path", "")
        package = read_xml(archive, path, name, "export the book again")
        chapters, unread = list[layout.Page](), list[str]()
        for chapter in dict.fromkeys(_chapter_paths(package, dirname(path))):
            try:
                chapters += read_full_html(read_part(archive, chapter, name), f"{name}: {chapter}")
            except SourceError as error:
                unread.append(str(error))
    text, places = layout.join_with_places(
        (page.text, page.places or ((0, page.title and f"§ {page.title}"),)) for page in chapters if page.text
    )
    if unread and not text.strip():
        raise SourceError(unread[0])
    title, metadata = package.findtext(f".//{DC}title", ""), _read_book_properties(package)
    yield layout.finish_page(layout.Page(title=title, text=text, metadata=metadata, places=places), name, unread)


def _chapter_paths(package: Element, folder: str) -> Iterator[str]:
    items = {item.get("id"): item for item in package.iter(f"{OPF}item")}
    for reference in package.iter(f"{OPF}itemref"):
        item = items.get(reference.get("idref"), Element("missing"))
        if item.get("media-type") in CHAPTER_TYPES and "nav" not in item.get("properties", "").split():
            yield normpath(join(folder, unquote(item.get("href", ""))))


def _read_book_properties(package: Element) -> dict[str, object]:
    metadata: dict[str, object] = {}
    for term, key in BOOK_PROPERTIES.items():
        values = [value for element in package.iter(f"{DC}{term}") if (value := " ".join((element.text or "").split()))]
        if values:
            metadata[key] = values[0] if len(values) == 1 else values
    return metadata
