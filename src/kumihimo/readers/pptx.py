"""PowerPoint (.pptx) -> one page of text, with the places where its slides begin."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from kumihimo.readers.archive import opened
from kumihimo.readers.layout import Step, Visit, Writer, layout, line, nothing, paragraph
from kumihimo.readers.ooxml import DROPPED, TEXTS, VISITS, A, about
from kumihimo.readers.page import Page, first_heading, joined, refuse_empty

if TYPE_CHECKING:
    from pptx.chart.chart import Chart
    from pptx.slide import Slide

Node = Any  # an element of lxml, which tells no types
P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
TITLES = {"title", "ctrTitle"}
CHROME = {"sldNum", "dt", "ftr", "hdr"}  # on every slide
BODIES = {"body", "obj", ""}


def pptx(data: bytes, name: str) -> Iterator[Page]:
    """Each slide: its title, the text of its shapes, tables, diagrams and charts, its notes."""
    from pptx import Presentation

    with opened(data, name) as archive:
        title, metadata = about(archive, name)
    show = Presentation(io.BytesIO(data))
    said = ("\n\n".join(filter(None, _said(slide))) for slide in show.slides)
    text, places = joined((each, ((0, f"slide {number}"),)) for number, each in enumerate(said, 1))
    refuse_empty(text, name)
    yield Page(title=title or first_heading(text), text=text, metadata=metadata, places=places)


def _said(slide: Slide) -> Iterator[str]:
    yield layout(slide.shapes._spTree, _look).text
    for part in _diagrams(slide):
        yield layout(part, _look).text
    for chart in _charts(slide.shapes):
        yield "\n".join(_rows(chart))
    frame = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    if frame is not None and frame.text.strip():
        yield f"Notes: {frame.text.strip()}"


def _look(node: Node) -> str | Visit[Node]:
    if node.tag in TEXTS:
        return node.text or ""
    if node.tag in DROPPED or not isinstance(node.tag, str):
        return ""
    if node.tag == f"{P}sp" and _kind(node) in CHROME:
        return ""
    enter, leave = _paragraph(node) if node.tag == f"{A}p" else VISITS.get(node.tag, (nothing, nothing))
    if node.tag == f"{P}txBody":
        enter = leave = paragraph
    return enter, leave, sorted(node, key=lambda inner: not (inner.tag == f"{P}sp" and _kind(inner) in TITLES))


def _paragraph(node: Node) -> tuple[Step, Step]:
    shape = next(node.iterancestors(f"{P}sp"), None)
    if shape is not None and _kind(shape) in TITLES:
        return partial(Writer.heading, mark="## "), Writer.end_heading
    if shape is None or _kind(shape) not in BODIES:
        return line, line
    own = node.find(f"{A}pPr")
    if own is not None and own.find(f"{A}buNone") is not None:
        return line, line
    depth = _depth(node)
    number = f"{_number(node)}." if _counted(node) else "-"
    return partial(Writer.item_of, mark="  " * depth + f"{number} "), Writer.end_item


def _depth(paragraph: Node) -> int:
    own = paragraph.find(f"{A}pPr")
    return int(own.get("lvl") or 0) if own is not None else 0


def _counted(paragraph: Node) -> bool:
    return paragraph.find(f"{A}pPr/{A}buAutoNum") is not None


def _number(paragraph: Node) -> int:
    """Its place among the counted paragraphs of its depth, since the last one that is less deep."""
    number, depth = 1, _depth(paragraph)
    for before in paragraph.itersiblings(f"{A}p", preceding=True):
        if _depth(before) < depth or (_depth(before) == depth and not _counted(before)):
            break
        number += _depth(before) == depth
    return number


def _kind(shape: Node) -> str:
    """What a placeholder is for; "none" where the shape is no placeholder."""
    holder = shape.find(f"{P}nvSpPr/{P}nvPr/{P}ph")
    return "none" if holder is None else str(holder.get("type") or "")


def _diagrams(slide: Slide) -> Iterator[Node]:
    from pptx.oxml import parse_xml

    for relation in slide.part.rels.values():
        if relation.reltype.endswith("/diagramData"):
            yield parse_xml(relation.target_part.blob)


def _charts(shapes: Iterable[Any]) -> Iterator[Chart]:
    for shape in shapes:
        if getattr(shape, "has_chart", False):
            yield shape.chart
        elif hasattr(shape, "shapes"):
            yield from _charts(shape.shapes)


def _rows(chart: Chart) -> Iterator[str]:
    """A row for each category: what every series says of it."""
    if chart.has_title and chart.chart_title.has_text_frame:
        yield chart.chart_title.text_frame.text
    for plot in chart.plots:
        series = [(each.name, each.values) for each in plot.series]
        categories = [str(category) for category in plot.categories]
        for place, category in enumerate(categories):
            said = ((name, row[place]) for name, row in series if place < len(row) and row[place] is not None)
            yield "; ".join([category, *(f"{name}: {_figure(value)}" for name, value in said)])
        for each in plot.series if not categories else ():  # points of a plane
            across = (value.text or "" for value in each._element.xpath(".//c:xVal//c:v"))
            points = zip(across, map(_figure, each.values), strict=False)
            yield f"{each.name}: {', '.join(f'({x}, {y})' for x, y in points)}"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.15g}"
