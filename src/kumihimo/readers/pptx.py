"""PowerPoint (.pptx) -> one page of text, with the places where its slides begin."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from kumihimo.readers.archive import open_archive
from kumihimo.readers.layout import Visit, Writer, WriterStep, break_line, break_paragraph, layout_tree, stay_inline
from kumihimo.readers.ooxml import DROPPED_TAGS, ELEMENT_STEPS, TEXT_TAGS, A, read_core_properties
from kumihimo.readers.page import Page, first_heading, join_with_places, refuse_empty

if TYPE_CHECKING:
    from pptx.chart.chart import Chart
    from pptx.slide import Slide

Node = Any  # an element of lxml, which tells no types
P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
TITLE_TYPES = {"title", "ctrTitle"}
CHROME_TYPES = {"sldNum", "dt", "ftr", "hdr"}  # on every slide
BODY_TYPES = {"body", "obj", ""}


def read_pptx(data: bytes, name: str) -> Iterator[Page]:
    """Each slide: its title, the text of its shapes, tables, diagrams and charts, its notes."""
    from pptx import Presentation

    with open_archive(data, name) as archive:
        title, metadata = read_core_properties(archive, name)
    show = Presentation(io.BytesIO(data))
    said = ("\n\n".join(filter(None, _slide_texts(slide))) for slide in show.slides)
    text, places = join_with_places((each, ((0, f"slide {number}"),)) for number, each in enumerate(said, 1))
    refuse_empty(text, name)
    yield Page(title=title or first_heading(text), text=text, metadata=metadata, places=places)


def _slide_texts(slide: Slide) -> Iterator[str]:
    yield layout_tree(slide.shapes._spTree, _visit_node).text
    for part in _diagram_parts(slide):
        yield layout_tree(part, _visit_node).text
    for chart in _find_charts(slide.shapes):
        yield "\n".join(_chart_rows(chart))
    frame = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    if frame is not None and frame.text.strip():
        yield f"Notes: {frame.text.strip()}"


def _visit_node(node: Node) -> str | Visit[Node]:
    if node.tag in TEXT_TAGS:
        return node.text or ""
    if node.tag in DROPPED_TAGS or not isinstance(node.tag, str):
        return ""
    if node.tag == f"{P}sp" and _placeholder_type(node) in CHROME_TYPES:
        return ""
    enter, leave = (
        _paragraph_steps(node) if node.tag == f"{A}p" else ELEMENT_STEPS.get(node.tag, (stay_inline, stay_inline))
    )
    if node.tag == f"{P}txBody":
        enter = leave = break_paragraph
    return (
        enter,
        leave,
        sorted(node, key=lambda inner: not (inner.tag == f"{P}sp" and _placeholder_type(inner) in TITLE_TYPES)),
    )


def _paragraph_steps(node: Node) -> tuple[WriterStep, WriterStep]:
    shape = next(node.iterancestors(f"{P}sp"), None)
    if shape is not None and _placeholder_type(shape) in TITLE_TYPES:
        return partial(Writer.heading, mark="## "), Writer.end_heading
    if shape is None or _placeholder_type(shape) not in BODY_TYPES:
        return break_line, break_line
    own = node.find(f"{A}pPr")
    if own is not None and own.find(f"{A}buNone") is not None:
        return break_line, break_line
    depth = _indent_level(node)
    number = f"{_item_number(node)}." if _is_numbered(node) else "-"
    return partial(Writer.marked_item, mark="  " * depth + f"{number} "), Writer.end_item


def _indent_level(paragraph: Node) -> int:
    own = paragraph.find(f"{A}pPr")
    return int(own.get("lvl") or 0) if own is not None else 0


def _is_numbered(paragraph: Node) -> bool:
    return paragraph.find(f"{A}pPr/{A}buAutoNum") is not None


def _item_number(paragraph: Node) -> int:
    """Its place among the counted paragraphs of its depth, since the last one that is less deep."""
    number, depth = 1, _indent_level(paragraph)
    for before in paragraph.itersiblings(f"{A}p", preceding=True):
        if _indent_level(before) < depth or (_indent_level(before) == depth and not _is_numbered(before)):
            break
        number += _indent_level(before) == depth
    return number


def _placeholder_type(shape: Node) -> str:
    """What a placeholder is for; "none" where the shape is no placeholder."""
    holder = shape.find(f"{P}nvSpPr/{P}nvPr/{P}ph")
    return "none" if holder is None else str(holder.get("type") or "")


def _diagram_parts(slide: Slide) -> Iterator[Node]:
    from pptx.oxml import parse_xml

    for relation in slide.part.rels.values():
        if relation.reltype.endswith("/diagramData"):
            yield parse_xml(relation.target_part.blob)


def _find_charts(shapes: Iterable[Any]) -> Iterator[Chart]:
    for shape in shapes:
        if getattr(shape, "has_chart", False):
            yield shape.chart
        elif hasattr(shape, "shapes"):
            yield from _find_charts(shape.shapes)


def _chart_rows(chart: Chart) -> Iterator[str]:
    """A row for each category: what every series says of it."""
    if chart.has_title and chart.chart_title.has_text_frame:
        yield chart.chart_title.text_frame.text
    for plot in chart.plots:
        series = [(each.name, each.values) for each in plot.series]
        categories = [str(category) for category in plot.categories]
        for place, category in enumerate(categories):
            said = ((name, row[place]) for name, row in series if place < len(row) and row[place] is not None)
            yield "; ".join([category, *(f"{name}: {_format_figure(value)}" for name, value in said)])
        for each in plot.series if not categories else ():  # points of a plane
            across = (value.text or "" for value in each._element.xpath(".//c:xVal//c:v"))
            points = zip(across, map(_format_figure, each.values), strict=False)
            yield f"{each.name}: {', '.join(f'({x}, {y})' for x, y in points)}"


def _format_figure(value: float | None) -> str:
    return "" if value is None else f"{value:.15g}"
