"""HTML -> one page of text, with the headings and list items of Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from selectolax.lexbor import LexborHTMLParser, LexborNode

from kumihimo.core.errors import SourceError
from kumihimo.readers.boilerplate import remove_menus
from kumihimo.readers.decode import decode
from kumihimo.readers.layout import (
    PageLayout,
    Visit,
    Writer,
    WriterStep,
    break_line,
    break_paragraph,
    layout_tree,
    stay_inline,
)
from kumihimo.readers.page import Page
from kumihimo.text.sentences import collapse_spaces

CHARSET = re.compile(rb"""<(?:meta\b[^>]*?\bcharset|\?xml\b[^>]*?\bencoding)\s*=\s*["']?\s*([\w.:-]+)""", re.I)
MAX_CHARS = 32 << 20  # the parsed tree takes thirty times as much memory
HEAD_BYTES = 4096  # an encoding is declared within these

DROPPED_SELECTOR = "script, style, noscript, template, svg, iframe, select, rp, [hidden]"
NAVIGATION_SELECTOR = "nav, [role=navigation], [role=search]"
BLOCK_SELECTOR = "table, h1, h2, h3, h4, h5, h6, ul, ol, dl, pre, blockquote"
SECTION_TAGS = {"article", "main", "section", "blockquote"}
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


def read_html(data: bytes, name: str) -> Iterator[Page]:
    """Read a web page without its menus.

    The metadata is its language, description, author, keywords and date.
    """
    return _read_page(data, name, "", _find_site_chrome, remove_menus)


def read_full_html(data: bytes, name: str, encoding: str = "") -> Iterator[Page]:
    """Read an HTML page outside of any web site, in full.

    encoding: the encoding that the container declares.
    """
    return _read_page(data, name, encoding, lambda _: [], lambda page_layout, _: page_layout)


def _read_page(
    data: bytes,
    name: str,
    encoding: str,
    chrome: Callable[[LexborHTMLParser], list[LexborNode]],
    clean: Callable[[PageLayout, str], PageLayout],
) -> Iterator[Page]:
    declared = CHARSET.search(data[:HEAD_BYTES])
    source = decode(data, name, encoding or (declared[1].decode("ascii", "ignore") if declared else ""))
    if len(source) > MAX_CHARS:
        raise SourceError(f"{name}: a page of more than {MAX_CHARS >> 20} MB; cut it into several")
    tree = LexborHTMLParser(source)
    if tree.body is not None:
        dropped = {node.mem_id for node in [*tree.css(DROPPED_SELECTOR), *chrome(tree)]}
        page_layout = clean(layout_tree(tree.body, partial(_visit_node, dropped=dropped)), source)
        yield Page(
            title=_find_title(tree), text=page_layout.text, metadata=_read_metadata(tree), places=page_layout.places
        )


def _find_title(tree: LexborHTMLParser) -> str:
    node = tree.css_first("head > title") or tree.css_first("h1")
    return collapse_spaces(node.text()) if node else ""


def _read_metadata(tree: LexborHTMLParser) -> dict[str, object]:
    root = tree.css_first("html")
    metadata: dict[str, object] = {"lang": root.attributes.get("lang")} if root else {}
    for node in tree.css("meta[content]"):
        key = META_KEYS.get((node.attributes.get("name") or node.attributes.get("property") or "").lower(), "")
        metadata[key] = metadata.get(key) or collapse_spaces(node.attributes.get("content") or "")
    return {key: value for key, value in metadata.items() if key and value}


def _find_site_chrome(tree: LexborHTMLParser) -> list[LexborNode]:
    return [*tree.css(NAVIGATION_SELECTOR), *(node for node in tree.css("header, footer") if _is_site_chrome(node))]


def _is_site_chrome(node: LexborNode) -> bool:
    """Return whether a header or footer belongs to the site.

    A site's header has its name and menu, its footer the imprint. A header with the page's heading belongs to the page.
    """
    if node.tag == "header" and node.css_first("h1"):
        return False
    ancestor = node.parent
    while ancestor is not None and ancestor.tag not in SECTION_TAGS:
        ancestor = ancestor.parent
    return ancestor is None


def _visit_node(node: LexborNode, dropped: set[int]) -> str | Visit[LexborNode]:
    if node.is_text_node:
        return node.text_content or ""
    if node.mem_id in dropped:
        return ""
    enter, leave = LINE_STEPS if _is_layout_row(node) else TAG_STEPS.get(node.tag or "", INLINE_STEPS)
    return enter, leave, node.iter(include_text=True)


def _is_layout_row(node: LexborNode) -> bool:
    """Return whether a table row serves the layout: its cells hold blocks."""
    return node.tag == "tr" and node.css_first(BLOCK_SELECTOR) is not None


def _repeat_steps(
    names: str, enter: WriterStep, leave: WriterStep
) -> Iterator[tuple[str, tuple[WriterStep, WriterStep]]]:
    return ((name, (enter, leave)) for name in names.split())


INLINE_STEPS = (stay_inline, stay_inline)
LINE_STEPS = (break_line, break_line)
TAG_STEPS: dict[str, tuple[WriterStep, WriterStep]] = {
    **{f"h{n}": (partial(Writer.heading, mark="#" * n + " "), Writer.end_heading) for n in range(1, 7)},
    **dict(
        _repeat_steps(
            "p table blockquote dl figure hr article section form fieldset details", break_paragraph, break_paragraph
        )
    ),
    **dict(
        _repeat_steps(
            "body div main header footer aside dt dd caption figcaption summary legend address center", *LINE_STEPS
        )
    ),
    **dict(_repeat_steps("ul ol menu", Writer.list, Writer.end_list)),
    **dict(_repeat_steps("td th", Writer.cell, break_line)),
    "li": (Writer.item, Writer.end_item),
    "tr": (Writer.row, Writer.end_row),
    "pre": (Writer.pre, Writer.end_pre),
    "br": (Writer.line_break, stay_inline),
    "a": (Writer.link, Writer.end_link),
    "ruby": (Writer.ruby, Writer.end_ruby),
    "rt": (Writer.rt, Writer.end_rt),
}
