"""A presentation becomes the text of its slides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.readers.page import Page
from kumihimo.readers.pptx import read_pptx
from tests import factories_office
from tests.counters import count_lines

TITLE, BULLETS, ONLY_TITLE, BLANK = 0, 1, 5, 6


def read(data: bytes) -> Page:
    (page,) = read_pptx(data, "a.pptx")
    return page


def text(fill: factories_office.Fill) -> str:
    return read(factories_office.pptx(fill)).text


def slide(show: Any, kind: int = BLANK, title: str = "") -> Any:
    new_slide = show.slides.add_slide(show.slide_layouts[kind])
    if title:
        new_slide.shapes.title.text = title
    return new_slide


def box(shapes: Any, words: str) -> None:
    shapes.add_textbox(0, 0, 99, 99).text_frame.text = words


def test_titles_bullets_and_their_levels() -> None:
    def fill(show: Any) -> None:
        body = slide(show, BULLETS, "The Long Arm").placeholders[1].text_frame
        body.text = "dry stones"
        for words, level in (("of a tonne", 1), ("no mortar", 0)):
            paragraph = body.add_paragraph()
            paragraph.text, paragraph.level = words, level

    assert text(fill) == "## The Long Arm\n\n- dry stones\n  - of a tonne\n- no mortar"


def test_the_title_comes_first_wherever_it_stands() -> None:
    def fill(show: Any) -> None:
        new_slide = slide(show, ONLY_TITLE, "The Long Arm")
        box(new_slide.shapes, "No bullet.")
        tree = new_slide.shapes._spTree
        tree.append(new_slide.shapes.title._element)

    assert text(fill) == "## The Long Arm\n\nNo bullet."


def test_paragraphs_of_a_body_that_are_no_bullets() -> None:
    def fill(show: Any) -> None:
        from pptx.oxml import parse_xml

        frame = slide(show, BULLETS, "Tides").placeholders[1].text_frame
        frame.text = "Running text."
        frame.paragraphs[0]._p.get_or_add_pPr().append(parse_xml(f"<a:buNone {factories_office.NAMES}/>"))

    assert text(fill) == "## Tides\n\nRunning text."


def test_slides_are_places() -> None:
    def fill(show: Any) -> None:
        slide(show, TITLE, "Tides")
        slide(show)
        box(slide(show).shapes, "The sea rises.")
        show.core_properties.title, show.core_properties.author = "On tides", "Ayu"

    page = read(factories_office.pptx(fill))
    assert page.text == "## Tides\n\n\n\nThe sea rises."
    assert page.places == ((0, "slide 1"), (10, "slide 2"), (12, "slide 3"))
    assert (page.title, page.metadata["author"]) == ("On tides", "Ayu")


def test_without_a_title_the_first_slide_has_one() -> None:
    assert read(factories_office.pptx(lambda show: slide(show, TITLE, "Tides"))).title == "Tides"


def test_tables_groups_and_breaks() -> None:
    def fill(show: Any) -> None:
        shapes = slide(show).shapes
        table = shapes.add_table(2, 2, 0, 0, 99, 99).table
        for place, words in enumerate(("boat", "built", "Maru", "1922")):
            table.cell(place // 2, place % 2).text = words
        inner = shapes.add_group_shape().shapes.add_group_shape().shapes
        box(inner, "deep in groups")
        box(shapes, "one\vline\nand another")

    assert text(fill) == "boat | built\nMaru | 1922\n\ndeep in groups\n\none\nline\nand another"


def test_notes() -> None:
    def fill(show: Any) -> None:
        new_slide = slide(show, ONLY_TITLE, "Tides")
        new_slide.notes_slide.notes_text_frame.text = "Speak slowly."

    assert text(fill) == "## Tides\n\nNotes: Speak slowly."


def test_numbers_of_a_chart() -> None:
    def fill(show: Any) -> None:
        from pptx.chart.data import CategoryChartData
        from pptx.enum.chart import XL_CHART_TYPE

        data: Any = CategoryChartData()  # type: ignore[no-untyped-call]
        data.categories = ["Root", "Elbow"]
        data.add_series("stones", (120, 150.5))
        data.add_series("lost", (2, None))
        chart = slide(show).shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 99, 99, data).chart
        chart.has_title = True
        chart.chart_title.text_frame.text = "Loss"

    assert text(fill) == "Loss\nRoot; stones: 120; lost: 2\nElbow; stones: 150.5"


def charted(data: Any, kind: str) -> factories_office.Fill:
    def fill(show: Any) -> None:
        from pptx.enum.chart import XL_CHART_TYPE

        slide(show).shapes.add_chart(XL_CHART_TYPE[kind], 0, 0, 99, 99, data)

    return fill


def by_category(categories: list[str], **series: Sequence[float]) -> factories_office.Fill:
    from pptx.chart.data import CategoryChartData

    data: Any = CategoryChartData()  # type: ignore[no-untyped-call]
    data.categories = categories
    for name, values in series.items():
        data.add_series(name, values)
    return charted(data, "COLUMN_CLUSTERED")


def test_the_figures_of_a_chart_are_whole() -> None:
    result = text(by_category(["Root", "Elbow"], stones=(1234567, 7654321.5), lost=(0.1 + 0.2, -3)))
    assert result == "Root; stones: 1234567; lost: 0.3\nElbow; stones: 7654321.5; lost: -3"


def test_the_work_for_a_chart_grows_with_its_categories() -> None:
    def count(size: int) -> int:
        categories = [f"c{n}" for n in range(size)]
        data = factories_office.pptx(by_category(categories, one=range(size), two=range(size, 2 * size)))
        texts: list[str] = []
        lines = count_lines(lambda: texts.append(read(data).text), folder="")  # with those of python-pptx
        assert texts[0].splitlines() == [f"c{n}; one: {n}; two: {n + size}" for n in range(size)]
        return lines

    assert count(200) < 4 * count(50)


def test_the_points_of_a_plane_are_there() -> None:
    from pptx.chart.data import XyChartData

    data: Any = XyChartData()  # type: ignore[no-untyped-call]
    series = data.add_series("depth")
    for x, y in ((1, 250), (3, 4.5)):
        series.add_data_point(x, y)
    assert "depth: (1, 250), (3, 4.5)" in text(charted(data, "XY_SCATTER"))


def test_a_numbered_list() -> None:
    def fill(show: Any) -> None:
        from pptx.oxml import parse_xml

        frame = slide(show, BULLETS, "Mending").placeholders[1].text_frame
        for number, words in enumerate(("count", "carry", "lay", "rest")):
            paragraph = frame.add_paragraph() if number else frame.paragraphs[0]
            paragraph.text = words
            if words != "rest":
                mark = parse_xml(f'<a:buAutoNum {factories_office.NAMES} type="arabicPeriod"/>')
                paragraph._p.get_or_add_pPr().append(mark)

    assert text(fill) == "## Mending\n\n1. count\n2. carry\n3. lay\n- rest"


def test_nodes_of_a_diagram() -> None:
    def fill(show: Any) -> None:
        from pptx.opc.package import Part
        from pptx.opc.packuri import PackURI

        points = "".join(f"<d:pt><d:t><a:p><a:r><a:t>{n}</a:t></a:r></a:p></d:t></d:pt>" for n in ("count", "mend"))
        space = f'xmlns:d="http://schemas.openxmlformats.org/drawingml/2006/diagram" {factories_office.NAMES}'
        blob = f"<d:dataModel {space}><d:ptLst>{points}</d:ptLst></d:dataModel>".encode()
        new_slide = slide(show, ONLY_TITLE, "Work")
        kind = "application/vnd.openxmlformats-officedocument.drawingml.diagramData+xml"
        part = Part(PackURI("/ppt/diagrams/data1.xml"), kind, show.part.package, blob)
        new_slide.part.relate_to(part, f"{factories_office.RELATIONS}/diagramData")

    assert text(fill) == "## Work\n\ncount\nmend"


@pytest.mark.parametrize("chrome", ["sldNum", "dt", "ftr", "hdr"])
def test_what_is_on_every_slide_is_left_out(chrome: str) -> None:
    def fill(show: Any) -> None:
        shapes = slide(show, BULLETS, "Tides").placeholders
        shapes[1].text_frame.text = "Page 12 of Ours Ltd."
        shapes[1]._element.nvSpPr.nvPr.ph.set("type", chrome)

    assert text(fill) == "## Tides"


def test_without_text_there_is_nothing_to_read() -> None:
    with pytest.raises(SourceError, match=r"^a\.pptx: contains no text"):
        text(lambda show: slide(show))
    with pytest.raises(SourceError, match=r"^a\.pptx: contains no text"):
        text(lambda show: None)


def test_a_deck_has_the_title_of_its_first_slide_though_no_placeholder_marks_it() -> None:
    def fill(show: Any) -> None:
        box(slide(show).shapes, "State of the breakwater")
        slide(show, TITLE, "Costs")

    assert read(factories_office.pptx(fill)).title == "State of the breakwater"


def test_figures_and_notes_give_no_title() -> None:
    def noted(show: Any) -> None:
        slide(show).notes_slide.notes_text_frame.text = "Speak slowly"

    assert read(factories_office.pptx(by_category(["Root", "Elbow"], stones=(1, 2), lost=(3, 4)))).title == ""
    assert read(factories_office.pptx(noted)).title == ""
