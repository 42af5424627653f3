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

Node = Any  # an element of lxml, which is not typed
P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
TITLE_TYPES = {"title", "ctrTitle"}
CHROME_TYPES = {"sldNum", "dt", "ftr", "hdr"}  # on every slide
BODY_TYPES = {"body", "obj", ""}


def read_pptx(data: bytes, name: str) -> Iterator[Page]:
    """Read each slide's title, shapes, tables, diagrams, charts and notes."""
    from pptx import Presentation

    with open_archive(data, name) as archive:
        title, metadata = read_core_properties(archive, name)
    presentation = Presentation(io.BytesIO(data))
    slide_texts = ("\n\n".join(filter(None, _slide_texts(slide))) for slide in presentation.slides)
    text, places = join_with_places(
        (slide_text, ((0, f"slide {number}"),)) for number, slide_text in enumerate(slide_texts, 1)
    )
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
    enter, leave = ELEMENT_STEPS.get(node.tag, (stay_inline, stay_inline))
    if node.tag == f"{A}p":
        enter, leave = _paragraph_steps(node)
    if node.tag == f"{P}txBody":
        enter = leave = break_paragraph
    return enter, leave, sorted(node, key=lambda inner: not _is_title(inner))


def _is_title(node: Node) -> bool:
    return bool(node.tag == f"{P}sp") and _placeholder_type(node) in TITLE_TYPES


def _paragraph_steps(node: Node) -> tuple[WriterStep, WriterStep]:
    shape = next(node.iterancestors(f"{P}sp"), None)
    if shape is not None and _placeholder_type(shape) in TITLE_TYPES:
        return partial(Writer.heading, mark="## "), Writer.end_heading
    if shape is None or _placeholder_type(shape) not in BODY_TYPES:
        return break_line, break_line
    properties = node.find(f"{A}pPr")
    if properties is not None and properties.find(f"{A}buNone") is not None:
        return break_line, break_line
    depth = _indent_level(node)
    number = f"{_item_number(node)}." if _is_numbered(node) else "-"
    return partial(Writer.marked_item, mark="  " * depth + f"{number} "), Writer.end_item


def _indent_level(paragraph: Node) -> int:
    properties = paragraph.find(f"{A}pPr")
    return int(properties.get("lvl") or 0) if properties is not None else 0


def _is_numbered(paragraph: Node) -> bool:
    return paragraph.find(f"{A}pPr/{A}buAutoNum") is not None


def _item_number(paragraph: Node) -> int:
    """Return the paragraph's place among the numbered ones of its depth.

    Counting starts after the last paragraph that is less deep, or not numbered.
    """
    number, depth = 1, _indent_level(paragraph)
    for sibling in paragraph.itersiblings(f"{A}p", preceding=True):
        if _indent_level(sibling) < depth or (_indent_level(sibling) == depth and not _is_numbered(sibling)):
            break
        number += _indent_level(sibling) == depth
    return number


def _placeholder_type(shape: Node) -> str:
    """Return a placeholder's type, or "none" for another shape."""
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
    """Yield a row for each category, with the values of all series."""
    if chart.has_title and chart.chart_title.has_text_frame:
        yield chart.chart_title.text_frame.text
    for plot in chart.plots:
        series = [(each.name, each.values) for each in plot.series]
        categories = [str(category) for category in plot.categories]
        for index, category in enumerate(categories):
            cells = ((name, row[index]) for name, row in series if index < len(row) and row[index] is not None)
            yield "; ".join([category, *(f"{name}: {_format_figure(value)}" for name, value in cells)])
        for each in plot.series if not categories else ():  # a scatter chart
            x_values = (value.text or "" for value in each._element.xpath(".//c:xVal//c:v"))
            points = zip(x_values, map(_format_figure, each.values), strict=False)
            yield f"{each.name}: {', '.join(f'({x}, {y})' for x, y in points)}"


def _format_figure(value: float | None) -> str:
    return "" if value is None else f"{value:.15g}"
