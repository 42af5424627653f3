"""XML -> a page of its text: articles in JATS, TEI and DocBook with their sections; of all others, all text."""

import re
from collections.abc import Iterator
from functools import cache, partial
from html.entities import html5
from typing import Any, cast
from xml.etree import ElementTree

from kumihimo.core.errors import SourceError
from kumihimo.readers import page as layout
from kumihimo.readers.page import Page, Visit, Writer, layout_tree, mixed_content
from kumihimo.readers.text import decode
from kumihimo.text.sentences import collapse_spaces

DECLARATION = re.compile(rb"""\s*<\?xml\b[^>]*?\bencoding\s*=\s*["']([\w.:-]+)""")
MAX_BYTES = 64 << 20  # the parsed tree takes ten times as much memory
ROOTS = {"article", "book", "chapter", "section", "part", "set", "refentry", "TEI", "TEI.2", "teiCorpus", "text"}
# Names of the three formats, without their namespaces.
HEADERS = {"teiHeader", "article-meta", "info", "articleinfo", "bookinfo", "chapterinfo", "sectioninfo"}
DROPPED = {*HEADERS, "journal-meta", "permissions", "counts", "custom-meta-group", "indexterm", "object-id"}
KEPT = {"abstract", "trans-abstract"}  # inside what is dropped, at most two levels deep
HEADINGS = {"title", "head", "article-title", "bridgehead"}
SECTIONS = {"sec", "section", "simplesect", "div", "chapter", "part", "preface", "appendix", "app", "abstract", "ack"}
SECTIONS |= {"ref-list", "bibliography", "glossary", *(f"{name}{n}" for name in ("div", "sect") for n in range(1, 6))}
STEP_NAMES: dict[layout.WriterStep, str] = {
    layout.PARAGRAPH: "p para simpara formalpara lg table-wrap fig figure table informaltable caption note fn quote "
    "disp-quote blockquote disp-formula ab sp stage tip warning important caution sidebar example abstract",
    layout.LINE: "l label speaker byline mixed-citation element-citation bibl biblioentry term def",
    layout.LIST: "list itemizedlist orderedlist simplelist variablelist def-list listBibl",
    Writer.bullet_item: "list-item listitem item varlistentry def-item ref",
    Writer.row: "tr row",
    Writer.cell: "td th cell entry",
    Writer.pre: "pre programlisting screen literallayout code-block preformat synopsis",
    Writer.line_break: "br lb break",
    Writer.ruby: "ruby",
    Writer.rt: "rt",
}
STEPS = {name: step for step, names in STEP_NAMES.items() for name in names.split()}
Node = ElementTree.Element | str


def read_xml_page(data: bytes, name: str) -> Iterator[Page]:
    """Read the text of an XML file.

    Raises SourceError if it is broken, or very large.
    """
    if len(data) > MAX_BYTES:
        raise SourceError(f"{name}: more than {MAX_BYTES >> 20} MB of XML; cut it into several")
    declared = DECLARATION.match(data)
    text = decode(data, name, declared[1].decode("ascii", "ignore") if declared else "").lstrip()
    if not text:
        return
    root = _parse(text, name)
    if _name(root) not in ROOTS:
        yield Page(text="\n".join(_text_lines(root)))
        return
    page = layout_tree(cast(Node, root), partial(_visit, levels=_section_levels(root)))
    title, metadata = _read_header(root)
    yield Page(title=title or page.title, text=page.text, metadata=metadata, places=page.places)


def _parse(text: str, name: str) -> ElementTree.Element:
    parser = ElementTree.XMLParser()
    parser.entity.update(_named_characters())
    try:
        return ElementTree.fromstring(text, parser)
    except (ElementTree.ParseError, ValueError) as error:
        raise SourceError(f"{name}: broken XML ({error}); mend it, or name it .txt to read it as text") from error


@cache
def _named_characters() -> dict[str, str]:
    """Return the characters that a DTD would declare, by name."""
    return {name.removesuffix(";"): value for name, value in html5.items()}


def _name(node: ElementTree.Element) -> str:
    """Return the name of an element without its namespace."""
    return node.tag.rpartition("}")[2]


# -- articles and books


def _section_levels(root: ElementTree.Element) -> dict[ElementTree.Element, int]:
    """Return the level of each heading.

    It counts the sections around it.
    """
    levels, pending = dict[ElementTree.Element, int](), [(root, 1)]
    while pending:
        node, level = pending.pop()
        if _name(node) in HEADINGS:
            levels[node] = min(level, 6)
        inner = level + (_name(node) in SECTIONS)
        pending += [(child, inner) for child in node]
    return levels


def _visit(node: Node, levels: dict[ElementTree.Element, int]) -> str | Visit[Node]:
    if isinstance(node, str):
        return node
    name = _name(node)
    if name in DROPPED:
        return None, [inner for child in node for inner in (child, *child) if _name(inner) in KEPT]
    step = partial(Writer.heading, mark="#" * levels[node] + " ") if node in levels else STEPS.get(name)
    if step is None and name in SECTIONS:
        step = layout.PARAGRAPH
    return step, mixed_content(node)


def _read_header(root: ElementTree.Element) -> tuple[str, dict[str, object]]:
    """Return title and metadata: author, date."""
    header = next((node for node in root.iter() if _name(node) in HEADERS), None)
    found: dict[str, Any] = {"author": []}
    for node in header.iter() if header is not None else ():
        name = _name(node)
        if name in ("article-title", "title") and "title" not in found:
            found["title"] = _flat_text(node)
        elif name in ("contrib", "author"):
            found["author"].append(_person(node))
        elif name in ("pub-date", "pubdate", "date") and "date" not in found:
            found["date"] = node.get("when") or _date(node)
    title = found.pop("title", "")
    found["author"] = ", ".join(dict.fromkeys(filter(None, found["author"])))
    return title, {key: value for key, value in found.items() if value}


def _person(node: ElementTree.Element) -> str:
    parts = {_name(part): _flat_text(part) for part in node.iter()}
    given = parts.get("given-names") or parts.get("firstname") or parts.get("forename") or ""
    family = parts.get("surname", "")
    full = " ".join(filter(None, [given, family]))
    return full or parts.get("string-name") or parts.get("collab") or _flat_text(node)


def _date(node: ElementTree.Element) -> str:
    """Return a date in parts as 2024-05-09, else its text."""
    parts = {_name(part): (part.text or "").strip() for part in node}
    if parts.get("year", "").isdigit():
        numbers = [parts["year"], parts.get("month", ""), parts.get("day", "")]
        return "-".join(part.zfill(2) for part in numbers[: 3 if all(map(str.isdigit, numbers)) else 1])
    return _flat_text(node)


def _flat_text(node: ElementTree.Element) -> str:
    return collapse_spaces("".join(node.itertext()))


# -- other XML


def _text_lines(root: ElementTree.Element) -> Iterator[str]:
    """Yield a line for each element with text of its own."""
    pending = [root]
    while pending:
        node = pending.pop()
        own = [node.text or "", *(child.tail or "" for child in node)]
        if any(map(str.strip, own)):
            text = re.sub(r"(?:(?<!\s)[^\S\n]+)?\n\s*", " ", "".join(node.itertext())).strip()
            yield text if len(node) else f"{_name(node)}: {text}"
        else:
            pending += reversed(node)
