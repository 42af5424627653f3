"""A Word file becomes its text, as printed with all changes accepted."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.readers.docx import Numbering, format_list_number, read_docx
from kumihimo.readers.page import Page
from tests import factories_office
from tests.factories_office import changed, p

MESSY = Path(__file__).parents[3] / "shared" / "data" / "messy" / "docx"
messy = pytest.mark.skipif(not MESSY.is_dir(), reason="the shared data is not here")


def read(data: bytes) -> Page:
    (page,) = read_docx(data, "a.docx")
    return page


def text(body: str, **parts: str) -> str:
    return read(factories_office.docx(body, **parts)).text


STYLED = (("H2", "two"), ("Own", "ours"), ("Outlined", "three"), ("Round", "round"), ("gone", "gone"))


def run(words: str) -> str:
    return f"<w:r><w:t>{words}</w:t></w:r>"


def style(id: str, name: str, inner: str = "", more: str = "") -> str:
    return f'<w:style w:type="paragraph" w:styleId="{id}" {more}><w:name w:val="{name}"/>{inner}</w:style>'


def level(depth: int, form: str, pattern: str, inner: str = "") -> str:
    return f'<w:lvl w:ilvl="{depth}">{inner}<w:numFmt w:val="{form}"/><w:lvlText w:val="{pattern}"/></w:lvl>'


def numbering(*levels: str) -> str:
    kind = f'<w:abstractNum w:abstractNumId="1">{"".join(levels)}</w:abstractNum>'
    return f'{kind}<w:num w:numId="7"><w:abstractNumId w:val="1"/></w:num>'


def item(words: str, depth: int = 0, id: str = "7") -> str:
    return p(words, f'<w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="{id}"/></w:numPr>')


def test_a_file_of_the_usual_template() -> None:
    def fill(document: Any) -> None:
        document.add_heading("Tides", 0)
        document.add_paragraph("The sea rises.")
        document.add_heading("Boats", 1)
        document.add_paragraph("old", style="List Bullet")
        document.add_paragraph("new", style="List Bullet")
        document.add_paragraph("first", style="List Number")
        document.add_paragraph("second", style="List Number")
        table = document.add_table(2, 2)
        for cell, words in zip((c for row in table.rows for c in row.cells), "abcd", strict=True):
            cell.text = words
        document.core_properties.author, document.core_properties.title = "Ayu", "On the tides"

    page = read(factories_office.word(fill))
    assert page.text == ("# Tides\n\nThe sea rises.\n\n# Boats\n\n- old\n- new\n1. first\n2. second\n\na | b\nc | d")
    assert (page.title, page.metadata["author"]) == ("On the tides", "Ayu")
    assert page.places == ((0, "§ Tides"), (25, "§ Boats"))


def test_headings_by_style_by_what_it_is_based_on_and_by_outline() -> None:
    styles = (
        style("H2", "heading 2", "<w:pPr><w:outlineLvl w:val='1'/></w:pPr>")
        + style("Own", "Ours", '<w:basedOn w:val="H2"/>')
        + style("Round", "Loop", '<w:basedOn w:val="Round"/>')
        + style("Outlined", "Chapter", "<w:pPr><w:outlineLvl w:val='2'/></w:pPr>")
    )
    body = "".join(p(words, f'<w:pStyle w:val="{id}"/>') for id, words in STYLED)
    body += p("four", '<w:outlineLvl w:val="3"/>') + p("text", '<w:outlineLvl w:val="9"/>')
    assert text(body, styles=styles) == "## two\n\n## ours\n\n### three\n\nround\n\ngone\n\n#### four\n\ntext"


def test_before_the_first_heading_is_no_section() -> None:
    page = read(factories_office.docx(p("Preface.") + p("Sea", '<w:outlineLvl w:val="0"/>') + p("It rises.")))
    assert page.places == ((0, ""), (10, "§ Sea"))


def test_nested_lists_and_bullets() -> None:
    levels = numbering(level(0, "decimal", "%1."), level(1, "lowerLetter", "%1.%2)"), level(2, "bullet", "\uf0b7"))
    body = item("a") + item("b", 1) + item("c", 1) + item("d", 2) + item("e") + item("f", 1)
    assert text(body, numbering=levels) == "1. a\n  1.a) b\n  1.b) c\n    - d\n2. e\n  2.a) f"


def test_japanese_numbers() -> None:
    levels = numbering(
        level(0, "japaneseCounting", "第%1条"), level(1, "decimalFullWidth", "（%2）"), level(2, "aiueo", "%3．")
    )
    body = item("紐") + item("糸", 1) + item("絹", 2) + item("麻", 2) + item("色")
    assert text(body, numbering=levels) == "第一条 紐\n  （１） 糸\n    ア． 絹\n    イ． 麻\n第二条 色"


def test_numbers_and_levels_that_word_does_not_have() -> None:
    counters = Numbering({"7": ("7", {})})
    assert format_list_number(-5, "japaneseCounting") == "-5"
    for depth in range(2000):
        counters.next_label("7", depth)
    assert len(counters.counts["7"]) == 9


def test_lists_that_begin_elsewhere_or_number_nothing() -> None:
    again = '<w:num w:numId="8"><w:abstractNumId w:val="1"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="5"/>'
    levels = numbering(level(0, "decimal", "%1."), level(1, "none", "x")) + f"{again}</w:lvlOverride></w:num>"
    body = item("a") + item("b", 0, "8") + item("c") + item("none", 1) + item("off", 0, "0") + item("lost", 0, "99")
    assert text(body, numbering=levels) == "1. a\n5. b\n2. c\n\nnone\n\noff\n\nlost"


def test_a_numbered_heading_keeps_its_number() -> None:
    about = '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="7"/></w:numPr><w:outlineLvl w:val="0"/>'
    page = read(
        factories_office.docx(
            p("Scope", about) + p("Terms", about), numbering=numbering(level(0, "decimal", "Art. %1"))
        )
    )
    assert page.text == "# Art. 1 Scope\n\n# Art. 2 Terms"


def test_tables_with_merged_cells() -> None:
    def cell(words: str, about: str = "") -> str:
        return f"<w:tc><w:tcPr>{about}</w:tcPr>{p(words)}</w:tc>"

    rows = [
        cell("Boats", '<w:gridSpan w:val="2"/>'),
        cell("old", '<w:vMerge w:val="restart"/>') + cell("Maru"),
        cell("", "<w:vMerge/>") + cell("Hoshi"),
    ]
    body = p("Before.") + f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>" + p("After.")
    assert text(body) == "Before.\n\nBoats\nold | Maru\n| Hoshi\n\nAfter."


def test_a_table_within_a_table_and_paragraphs_in_a_cell_stay_in_the_row() -> None:
    inner = f"<w:tbl><w:tr><w:tc>{p('x')}</w:tc><w:tc>{p('y')}</w:tc></w:tr></w:tbl>"
    row = f"<w:tr><w:tc>{p('one')}{p('two')}</w:tc><w:tc>{inner}{p('')}</w:tc></w:tr>"
    assert "\n" not in text(f"<w:tbl>{row}</w:tbl>")
    assert text(f"<w:tbl>{row}</w:tbl>").startswith("one two | x")


def test_a_list_in_a_cell_keeps_its_numbers() -> None:
    def fill(document: Any) -> None:
        cell = document.add_table(1, 2).rows[0].cells[1]
        cell.paragraphs[0].text = "Do:"
        for words in ("count", "carry"):
            cell.add_paragraph(words, style="List Number")

    assert read(factories_office.word(fill)).text == "| Do: 1. count 2. carry"


DECIMAL = level(0, "decimal", "%1.")


def test_deleted_paragraphs_are_not_numbered() -> None:
    gone = (
        '<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="7"/></w:numPr><w:rPr><w:del w:id="1"/></w:rPr></w:pPr>'
        '<w:del w:id="2"><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>'
    )
    assert text(item("one") + gone + item("two"), numbering=numbering(DECIMAL)).split() == ["1.", "one", "2.", "two"]


def test_two_lists_of_one_kind_go_on_counting() -> None:
    def numbers(more: str) -> str:
        return numbering(DECIMAL) + f'<w:num w:numId="8"><w:abstractNumId w:val="1"/>{more}</w:num>'

    anew = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/></w:lvlOverride>'
    body = item("one") + item("two") + item("three", id="8") + item("four", id="8")
    assert text(body, numbering=numbers("")) == "1. one\n2. two\n3. three\n4. four"
    assert text(body, numbering=numbers(anew)) == "1. one\n2. two\n1. three\n2. four"


def test_changes_are_accepted() -> None:
    body = (
        f"<w:p>{run('It leaves at ')}<w:del w:id='1'><w:r><w:delText>nine</w:delText></w:r></w:del>"
        f"<w:ins w:id='2'>{run('ten')}</w:ins><w:moveFrom w:id='3'>{run(' old')}</w:moveFrom>"
        f"<w:moveTo w:id='4'>{run(' now')}</w:moveTo>{run('.')}</w:p>"
    )
    assert text(body) == "It leaves at ten now."


def test_readings_stand_behind_their_word() -> None:
    ruby = (
        f"<w:r><w:ruby><w:rubyPr/><w:rt>{run('とうきょう')}</w:rt><w:rubyBase>{run('東京')}</w:rubyBase></w:ruby></w:r>"
    )
    assert text(f"<w:p>{ruby}{run('へ行く')}</w:p>") == "東京（とうきょう）へ行く"


def test_notes_stand_at_the_end() -> None:
    def noted(kind: str, id: int) -> str:
        return f'<w:r><w:{kind}Reference w:id="{id}"/></w:r>'

    body = f"<w:p>{run('The wall')}{noted('footnote', 2)}{run(' moved')}{noted('endnote', 1)}{run('.')}</w:p>"
    footnotes = (
        f'<w:footnote w:id="0">{p("separator")}</w:footnote><w:footnote w:id="2">{p("Built 1903.")}</w:footnote>'
    )
    result = text(body, footnotes=footnotes, endnotes=f'<w:endnote w:id="1">{p("By a hand.")}</w:endnote>')
    assert result == "The wall[^1] moved[^2].\n\n[^1]: Built 1903.\n\n[^2]: By a hand."


def test_a_note_that_is_not_there_is_left_out() -> None:
    body = f'<w:p>{run("The wall")}<w:r><w:footnoteReference w:id="9"/></w:r></w:p>'
    assert text(body, footnotes="") == "The wall[^1]"


@pytest.mark.parametrize("kind", ["footnote", "endnote"])
def test_notes_that_lie_nowhere(kind: str) -> None:
    body = f'<w:p>{run("The wall")}<w:r><w:{kind}Reference w:id="2"/></w:r>{run(" moved.")}</w:p>'
    assert text(body) == "The wall[^1] moved."


def test_a_text_box_is_read_once() -> None:
    inner = f"<w:txbxContent>{p('In the box.')}</w:txbxContent>"
    box = (
        f'<mc:AlternateContent><mc:Choice Requires="wps"><w:drawing><wps:txbx>{inner}</wps:txbx></w:drawing>'
        "</mc:Choice>"
        f"<mc:Fallback><w:pict><v:textbox>{inner}</v:textbox></w:pict></mc:Fallback></mc:AlternateContent>"
    )
    result = text(f"<w:p>{run('Before the box.')}<w:r>{box}</w:r></w:p>" + p("After."))
    assert result.count("In the box.") == 1
    assert result.split() == ["Before", "the", "box.", "In", "the", "box.", "After."]


def test_fields_show_their_result() -> None:
    field = (
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>PAGEREF _Toc \\h</w:instrText></w:r>'
        f'<w:r><w:fldChar w:fldCharType="separate"/></w:r>{run("12")}<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )
    assert text(f"<w:p>{run('See page ')}{field}{run('.')}</w:p>") == "See page 12."
    assert text(f'<w:p><w:fldSimple w:instr="DATE">{run("1 May")}</w:fldSimple></w:p>') == "1 May"


def test_links_controls_formulas_tabs_and_breaks() -> None:
    formula = "<m:oMath><m:r><m:t>a+b</m:t></m:r></m:oMath>"
    control = f"<w:sdt><w:sdtPr/><w:sdtContent>{p('in a control')}</w:sdtContent></w:sdt>"
    broken = "<w:r><w:tab/><w:t>x</w:t><w:br/><w:t>y</w:t></w:r>"
    body = f"<w:p><w:hyperlink>{run('a link')}</w:hyperlink>{broken}{formula}</w:p>"
    assert text(body + control) == "a link x\nya+b\n\nin a control"


def test_a_tab_to_a_margin_parts_words() -> None:
    tab = '<w:r><w:ptab w:relativeTo="margin" w:alignment="right" w:leader="none"/></w:r>'
    assert text(f"<w:p>{run('Left')}{tab}{run('Right')}</w:p>").split() == ["Left", "Right"]


def test_without_text_there_is_nothing_to_read() -> None:
    with pytest.raises(SourceError, match=r"^a\.docx: contains no text, perhaps pictures of text; .*\(OCR\) first$"):
        text("<w:p><w:r><w:drawing/></w:r></w:p>")


def test_a_file_that_is_no_word_file() -> None:
    with pytest.raises(SourceError, match=r"^a\.docx: damaged, or not what its name says"):
        read(b"plain text")
    with pytest.raises(SourceError, match=r"^a\.docx: locked with a password, or in an old format"):
        read(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))


def test_properties_of_the_file() -> None:
    def fill(document: Any) -> None:
        document.add_paragraph("The sea.")
        about = document.core_properties
        about.author, about.subject, about.keywords, about.comments = " Ayu ", "Sea", "tide, sea", "A draft"
        about.created = datetime(2024, 5, 1, 8)

    page = read(factories_office.word(fill))
    assert page.title == ""
    assert page.metadata == {
        "author": "Ayu", "subject": "Sea", "keywords": "tide, sea", "description": "A draft", "date": "2024-05-01"
    }  # fmt: skip


def test_without_properties_the_heading_is_the_title() -> None:
    page = read(factories_office.docx(p("The Tides", '<w:outlineLvl w:val="0"/>') + p("The sea.")))
    assert (page.title, page.metadata) == ("The Tides", {})


def test_parts_beyond_the_text_may_be_strange() -> None:
    odd = changed(factories_office.docx(p("The sea.")), {"customXml/item1.xml": "<broken", "word/media/../../x": b"\0"})
    assert read(odd).text == "The sea."


@messy
def test_tables_and_sections_of_shared_files() -> None:
    tables = read((MESSY / "docling__word_tables.docx").read_bytes()).text
    assert "Nested table" in tables or " | " in tables
    page = read((MESSY / "markitdown__test.docx").read_bytes())
    assert page.places[0] == (0, "§ AutoGen: Enabling Next-Gen LLM Applications via Multi-Agent Conversation")
