"""HTML -> one page of text, with the headings and list items of Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from selectolax.lexbor import LexborHTMLParser, LexborNode

from kumihimo.core.errors import SourceError
from kumihimo.readers.boilerplate import without_menus
from kumihimo.readers.decode import decode
from kumihimo.readers.layout import Layout, Step, Visit, Writer, layout, line, nothing, paragraph
from kumihimo.readers.page import Page
from kumihimo.text.sentences import folded

CHARSET = re.compile(rb"""<(?:meta\b[^>]*?\bcharset|\?xml\b[^>]*?\bencoding)\s*=\s*["']?\s*([\w.:-]+)""", re.I)
LARGEST = 32 << 20  # characters: a tree of them takes thirty times as much memory
HEAD = 4096  # bytes in which an encoding is declared

DROPPED = "script, style, noscript, template, svg, iframe, select, rp, [hidden]"
NAVIGATION = "nav, [role=navigation], [role=search]"
BLOCKS = "table, h1, h2, h3, h4, h5, h6, ul, ol, dl, pre, blockquote"
OWN = {"article", "main", "section", "blockquote"}
META = {
    "description": "description",
    "og:description": "description",
    "author": "author",
    "keywords": "keywords",
    "date": "date",
    "dc.date": "date",
    "dcterms.date": "date",
    "article:published_time": "date",
}


def html(data: bytes, name: str) -> Iterator[Page]:
    """What a reader of the page reads; its language, description, author, keywords and date as metadata."""
    return _page(data, name, "", _of_a_site, without_menus)


def chapter(data: bytes, name: str, encoding: str = "") -> Iterator[Page]:
    """The same of a page that stands on no site, so that all of it is meant. encoding: as whoever sends it says."""
    return _page(data, name, encoding, lambda _: [], lambda written, _: written)


def _page(
    data: bytes,
    name: str,
    encoding: str,
    chrome: Callable[[LexborHTMLParser], list[LexborNode]],
    tidied: Callable[[Layout, str], Layout],
) -> Iterator[Page]:
    declared = CHARSET.search(data[:HEAD])
    source = decode(data, name, encoding or (declared[1].decode("ascii", "ignore") if declared else ""))
    if len(source) > LARGEST:
        raise SourceError(f"{name}: a page of more than {LARGEST >> 20} MB; cut it into several")
    tree = LexborHTMLParser(source)
    if tree.body is not None:
        dropped = {node.mem_id for node in [*tree.css(DROPPED), *chrome(tree)]}
        written = tidied(layout(tree.body, partial(_look, dropped=dropped)), source)
        yield Page(title=_title(tree), text=written.text, metadata=_metadata(tree), places=written.places)


def _title(tree: LexborHTMLParser) -> str:
    found = tree.css_first("head > title") or tree.css_first("h1")
    return folded(found.text()) if found else ""


def _metadata(tree: LexborHTMLParser) -> dict[str, object]:
    root = tree.css_first("html")
    found: dict[str, object] = {"lang": root.attributes.get("lang")} if root else {}
    for node in tree.css("meta[content]"):
        key = META.get((node.attributes.get("name") or node.attributes.get("property") or "").lower(), "")
        found[key] = found.get(key) or folded(node.attributes.get("content") or "")
    return {key: value for key, value in found.items() if key and value}


def _of_a_site(tree: LexborHTMLParser) -> list[LexborNode]:
    return [*tree.css(NAVIGATION), *(node for node in tree.css("header, footer") if _of_the_site(node))]


def _of_the_site(node: LexborNode) -> bool:
    """A site's name and menu above, its imprint below; but a header with the page's heading is the page's."""
    if node.tag == "header" and node.css_first("h1"):
        return False
    above = node.parent
    while above is not None and above.tag not in OWN:
        above = above.parent
    return above is None


def _look(node: LexborNode, dropped: set[int]) -> str | Visit[LexborNode]:
    if node.is_text_node:
        return node.text_content or ""
    if node.mem_id in dropped:
        return ""
    enter, leave = LINE if _for_layout(node) else TAGS.get(node.tag or "", INLINE)
    return enter, leave, node.iter(include_text=True)


def _for_layout(node: LexborNode) -> bool:
    """A row of a table that is there for the layout: its cells are blocks."""
    return node.tag == "tr" and node.css_first(BLOCKS) is not None


def _each(names: str, enter: Step, leave: Step) -> Iterator[tuple[str, tuple[Step, Step]]]:
    return ((name, (enter, leave)) for name in names.split())


INLINE = (nothing, nothing)
LINE = (line, line)
TAGS: dict[str, tuple[Step, Step]] = {
    **{f"h{n}": (partial(Writer.heading, mark="#" * n + " "), Writer.end_heading) for n in range(1, 7)},
    **dict(_each("p table blockquote dl figure hr article section form fieldset details", paragraph, paragraph)),
    **dict(_each("body div main header footer aside dt dd caption figcaption summary legend address center", *LINE)),
    **dict(_each("ul ol menu", Writer.list, Writer.end_list)),
    **dict(_each("td th", Writer.cell, line)),
    "li": (Writer.item, Writer.end_item),
    "tr": (Writer.row, Writer.end_row),
    "pre": (Writer.pre, Writer.end_pre),
    "br": (Writer.br, nothing),
    "a": (Writer.link, Writer.end_link),
    "ruby": (Writer.ruby, Writer.end_ruby),
    "rt": (Writer.rt, Writer.end_rt),
}
