"""PowerPoint (.pptx) -> one page of text, with the places where its slides begin."""

import io
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from kumihimo.readers import archive, page as layout, tables, titles
from kumihimo.readers.archive import A

Node = Any  # an element of lxml, which is not typed
P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
TITLE_TYPES = {"title", "ctrTitle"}
CHROME_TYPES = {"sldNum", "dt", "ftr", "hdr"}  # on every slide
BODY_TYPES = {"body", "obj", ""}
SHAPES = "its shapes"
MAX_REASON_CHARS = 200


def read_pptx(data: bytes, name: str) -> Iterator[layout.Page]:
    """Read each slide's title, shapes, tables, diagrams, charts and notes."""
    from pptx import Presentation

    with archive.open_archive(data, name) as package:
        title, metadata = archive.read_core_properties(package, name)
        data = archive.to_transitional(package, data)
    slides = {slide.part: slide for slide in Presentation(io.BytesIO(data)).slides}.values()
    parts, unread, opening = list[tuple[str, layout.Places]](), list[str](), list[tuple[str, str]]()
    for number, slide in enumerate(slides, 1):
        texts = list(_read_slide(slide, number, unread))
        opening = opening or texts
        parts.append(("\n\n".join(text for _, text in texts), ((0, f"slide {number}"),)))
    text, places = layout.join_with_places(parts)
    title = title or titles.first_page_title(dict(opening).get(SHAPES, ""))  # not from a chart, and not from notes
    yield layout.finish_page(layout.Page(title=title, text=text, metadata=metadata, places=places), name, unread)


def _read_slide(slide: Any, number: int, unread: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the parts of a slide with their texts.

    Add to `unread` what is broken or unknown.
    """
    for label, read_text in _list_slide_parts(slide):
        try:
            text = read_text()
        except Exception as error:  # noqa: BLE001 (python-pptx may raise anything for one shape; the others are read)
            unread.append(f"slide {number}: {label} ({str(error)[:MAX_REASON_CHARS]})")
        else:
            yield from [(label, text)] if text else ()
    unread += [f"slide {number}: {part}" for part in archive.describe_entities(slide.shapes._spTree)]


def _list_slide_parts(slide: Any) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield each part of a slide: a label and a function.

    The function reads the part.
    """
    yield SHAPES, lambda: layout.layout_tree(slide.shapes._spTree, SlideVisitor().visit).text
    relations = slide.part.rels.values()
    diagrams = (each.target_part for each in relations if each.reltype.endswith("/diagramData"))
    for part in dict.fromkeys(diagrams):
        yield "a diagram", partial(_read_diagram, part)
    for part in dict.fromkeys(_find_chart_parts(slide.shapes)):
        yield "a chart", partial(lambda part: "\n".join(_chart_rows(part.chart)), part)
    if slide.has_notes_slide:
        yield "its notes", lambda: _read_notes(slide.notes_slide.notes_text_frame)


def _read_diagram(part: Any) -> str:
    from pptx.oxml import parse_xml

    return layout.layout_tree(parse_xml(part.blob), SlideVisitor().visit).text


def _read_notes(frame: Any) -> str:
    text = "" if frame is None else frame.text.strip()
    return f"Notes: {text}" if text else ""


class SlideVisitor:
    """The visitor of a slide's elements; it numbers paragraphs."""

    def __init__(self) -> None:
        self.parent: Node = None  # of the last paragraph
        self.numbers: dict[int, int] = {}  # of the last paragraph of each depth

    def visit(self, node: Node) -> str | layout.Visit[Node]:
        if node.tag == f"{P}sp" and _placeholder_type(node) in CHROME_TYPES:
            return ""
        if node.tag == f"{A}p":
            return self._paragraph_step(node), node
        content = layout.PARAGRAPH if node.tag == f"{P}txBody" else archive.visit_element(node)
        title_first = sorted(node, key=lambda inner: _placeholder_type(inner) not in TITLE_TYPES)
        return content if isinstance(content, str) else (content, title_first)

    def _paragraph_step(self, node: Node) -> layout.WriterStep:
        placeholder = next(map(_placeholder_type, node.iterancestors(f"{P}sp")), "none")
        depth, number = _indent_level(node), self._next_number(node)
        if placeholder in TITLE_TYPES:
            return partial(layout.Writer.heading, mark="## ")
        if placeholder not in BODY_TYPES or node.find(f"{A}pPr/{A}buNone") is not None:
            return layout.LINE
        mark = f"{number}." if number else "-"
        return partial(layout.Writer.item, mark="  " * depth + f"{mark} ")

    def _next_number(self, paragraph: Node) -> int:
        """Return the paragraph's place among the numbered ones of its depth.

        Counting starts after the last paragraph that is less deep, or not numbered; its own number is 0.
        """
        parent, depth = paragraph.getparent(), _indent_level(paragraph)
        numbers = self.numbers if parent is self.parent else {}
        is_numbered = paragraph.find(f"{A}pPr/{A}buAutoNum") is not None
        self.numbers = {level: number for level, number in numbers.items() if level <= depth}
        self.numbers[depth] = self.numbers.get(depth, 0) + 1 if is_numbered else 0
        self.parent = parent
        return self.numbers[depth]


def _indent_level(paragraph: Node) -> int:
    properties = paragraph.find(f"{A}pPr")
    return min(int(properties.get("lvl") or 0), layout.MAX_LIST_INDENT) if properties is not None else 0


def _placeholder_type(shape: Node) -> str:
    """Return a placeholder's type, or "none" for another shape."""
    holder = shape.find(f"{P}nvSpPr/{P}nvPr/{P}ph")
    return "none" if holder is None else str(holder.get("type") or "")


def _find_chart_parts(shapes: Iterable[Any]) -> Iterator[Any]:
    for shape in shapes:
        if getattr(shape, "has_chart", False):
            yield shape.chart_part
        elif hasattr(shape, "shapes"):
            yield from _find_chart_parts(shape.shapes)


def _chart_rows(chart: Any) -> Iterator[str]:
    """Yield a row for each category, with the values of all series."""
    if chart.has_title and chart.chart_title.has_text_frame:
        yield chart.chart_title.text_frame.text
    for plot in chart.plots:
        series = [(each.name, each.values) for each in plot.series]
        rows = list[list[str]]()
        for index, category in enumerate(plot.categories):
            figures = (_format_figure(values[index]) if index < len(values) else "" for _, values in series)
            rows.append([str(category), *figures])
        yield from tables.render_table(["", *(name for name, _ in series)], rows) if rows else ()
        for each in plot.series if not rows else ():  # a scatter chart
            x_values = (value.text or "" for value in each._element.xpath(".//c:xVal//c:v"))
            points = zip(x_values, map(_format_figure, each.values), strict=False)
            yield f"{each.name}: {', '.join(f'({x}, {y})' for x, y in points)}"


def _format_figure(value: float | None) -> str:
    return "" if value is None else f"{value:.15g}"
