"""PowerPoint (.pptx) -> one page of text, with the places where its slides begin."""

import io
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from kumihimo.readers import page as layout
from kumihimo.readers.archive import A, open_archive, read_core_properties, visit_element
from kumihimo.readers.page import Page, Visit, Writer, first_heading, join_with_places, layout_tree, refuse_empty

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
    slides = Presentation(io.BytesIO(data)).slides
    slide_texts = ("\n\n".join(filter(None, _slide_texts(slide))) for slide in slides)
    text, places = join_with_places((text, ((0, f"slide {number}"),)) for number, text in enumerate(slide_texts, 1))
    refuse_empty(text, name)
    yield Page(title=title or first_heading(text), text=text, metadata=metadata, places=places)


def _slide_texts(slide: Any) -> Iterator[str]:
    from pptx.oxml import parse_xml

    yield layout_tree(slide.shapes._spTree, _visit_node).text
    for relation in slide.part.rels.values():
        if relation.reltype.endswith("/diagramData"):
            yield layout_tree(parse_xml(relation.target_part.blob), _visit_node).text
    for chart in _find_charts(slide.shapes):
        yield "\n".join(_chart_rows(chart))
    frame = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    if frame is not None and frame.text.strip():
        yield f"Notes: {frame.text.strip()}"


def _visit_node(node: Node) -> str | Visit[Node]:
    if node.tag == f"{P}sp" and _placeholder_type(node) in CHROME_TYPES:
        return ""
    if node.tag == f"{A}p":
        return _paragraph_step(node), node
    content = layout.PARAGRAPH if node.tag == f"{P}txBody" else visit_element(node)
    title_first = sorted(node, key=lambda inner: _placeholder_type(inner) not in TITLE_TYPES)
    return content if isinstance(content, str) else (content, title_first)


def _paragraph_step(node: Node) -> layout.WriterStep:
    placeholder = next(map(_placeholder_type, node.iterancestors(f"{P}sp")), "none")
    if placeholder in TITLE_TYPES:
        return partial(Writer.heading, mark="## ")
    if placeholder not in BODY_TYPES or node.find(f"{A}pPr/{A}buNone") is not None:
        return layout.LINE
    mark = f"{_item_number(node)}." if _is_numbered(node) else "-"
    return partial(Writer.item, mark="  " * _indent_level(node) + f"{mark} ")


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
        sibling_depth = _indent_level(sibling)
        if sibling_depth < depth or (sibling_depth == depth and not _is_numbered(sibling)):
            break
        number += sibling_depth == depth
    return number


def _placeholder_type(shape: Node) -> str:
    """Return a placeholder's type, or "none" for another shape."""
    holder = shape.find(f"{P}nvSpPr/{P}nvPr/{P}ph")
    return "none" if holder is None else str(holder.get("type") or "")


def _find_charts(shapes: Iterable[Any]) -> Iterator[Any]:
    for shape in shapes:
        if getattr(shape, "has_chart", False):
            yield shape.chart
        elif hasattr(shape, "shapes"):
            yield from _find_charts(shape.shapes)


def _chart_rows(chart: Any) -> Iterator[str]:
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
