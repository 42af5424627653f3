"""HTML -> one page of text, with the headings and list items of Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

from kumihimo.ports.readers.decode import decode
from kumihimo.ports.readers.layout import folded, layout
from kumihimo.ports.readers.page import Page

CHARSET = re.compile(rb"""<(?:meta\b[^>]*?\bcharset|\?xml\b[^>]*?\bencoding)\s*=\s*["']?\s*([\w.:-]+)""", re.I)
HEAD = 4096  # bytes in which an encoding is declared

DROPPED = "script, style, noscript, template, nav, svg, iframe, select, rp, [hidden], [role=navigation], [role=search]"
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
    declared = CHARSET.search(data[:HEAD])
    tree = LexborHTMLParser(decode(data, name, declared[1].decode("ascii", "ignore") if declared else ""))
    if tree.body is not None:
        yield Page(title=_title(tree), text=layout(tree.body, _dropped(tree)), metadata=_metadata(tree))


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


def _dropped(tree: LexborHTMLParser) -> set[int]:
    chrome = (node for node in tree.css("header, footer") if _of_the_site(node))
    return {node.mem_id for node in [*tree.css(DROPPED), *chrome]}


def _of_the_site(node: LexborNode) -> bool:
    """A site's name and menu above, its imprint below; but a header with the page's heading is the page's."""
    if node.tag == "header" and node.css_first("h1"):
        return False
    above = node.parent
    while above is not None and above.tag not in OWN:
        above = above.parent
    return above is None
