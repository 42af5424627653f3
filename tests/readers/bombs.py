"""a size -> a file that a careless reader never finishes, or finishes with all memory: one of each kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests import factories_office
from tests.factories_office import changed, chapter, docx, epub, p, pptx, sheet, unzipped, xlsx, zipped

SHEET = "xl/worksheets/sheet1.xml"


def wide_header(n: int) -> bytes:
    """A short table below a header of 20,000 letters."""
    return (b"h" * 20_000) + b",b\n" + b"1,2\n" * (60 * n)


def long_keys(n: int) -> bytes:
    return json.dumps({"k" * 20_000: {str(i): i for i in range(60 * n)}}).encode()


def nested_lists(n: int) -> bytes:
    return b"[" * (500 * n) + b"]" * (500 * n)


def one_line(n: int) -> bytes:
    """A line without spaces."""
    return b"x" * (50_000 * n)


def quoted_cell(n: int) -> bytes:
    return b'a,b\n"' + b"cell\n" * (10_000 * n) + b'",2\n'


def yaml_anchors(n: int) -> bytes:
    """Front matter that grows tenfold with each line."""
    rows = ["a0: &a0 [x, x, x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10))]
    return ("---\n" + "\n".join(rows) + "\n---\n" + "The sea. " * n).encode()


def repeated_chapter(n: int) -> bytes:
    """A book whose spine names one chapter again and again."""
    return epub({"a.xhtml": chapter("<p>The sea.</p>" * 900)}, spine='<itemref idref="c0"/>' * (100 * n))


def spine_loop(n: int) -> bytes:
    """A book whose chapter is the package itself, and whose chapters name each other."""
    data = epub({f"{i}.xhtml": chapter(f'<a href="{(i + 1) % 9}.xhtml">x</a>') for i in range(9)})
    package = unzipped(data)["OEBPS/book.opf"].decode()
    loop = '<item id="loop" href="book.opf" media-type="application/xhtml+xml"/></manifest>'
    package = package.replace("</manifest>", loop).replace("</spine>", '<itemref idref="loop"/>' * n + "</spine>")
    return changed(data, {"OEBPS/book.opf": package})


def workbook(rows: str, extra: str = "", strings: str = "") -> bytes:
    """A workbook whose first sheet holds these rows of XML."""
    data = xlsx(lambda book: sheet(book, "S", ("a", "b"), ("x", 1)))
    head = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
    parts = {SHEET: f"{head}{rows}</sheetData>{extra}</worksheet>"}
    if strings:
        parts["xl/sharedStrings.xml"] = (
            f'<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><si><t>{strings}</t></si></sst>'
        )
    return changed(data, parts)


def merged_cells(n: int) -> bytes:
    """A cell of 90,000 letters merged over many rows."""
    rows = "".join(f'<row r="{i}"><c r="A{i}" t="s"><v>0</v></c><c r="B{i}"><v>1</v></c></row>' for i in (1,))
    rows += "".join(f'<row r="{i}"><c r="B{i}"><v>1</v></c></row>' for i in range(2, 60 * n))
    return workbook(rows, f'<mergeCells count="1"><mergeCell ref="A1:A{60 * n}"/></mergeCells>', "m" * 90_000)


def shared_string(n: int) -> bytes:
    """A string of 70,000 letters that many cells share."""
    cells = "".join(f'<row r="{i}"><c r="A{i}" t="s"><v>0</v></c></row>' for i in range(1, 100 * n))
    return workbook(cells, strings="s" * 70_000)


def styled_cells(n: int) -> bytes:
    """Empty cells that have a style, with one value among them."""
    cells = "".join(f'<c r="{column}{{0}}" s="0"/>' for column in "ABCDEFGHIJ")
    rows = "".join(f'<row r="{i}">{cells.format(i)}</row>' for i in range(2, 100 * n))
    return workbook(f'<row r="1"><c r="A1"><v>1922</v></c></row>{rows}')


def far_corner(_: int) -> bytes:
    return workbook('<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>')


def many_operators(n: int) -> bytes:
    """A PDF of one page that draws a letter again and again."""
    return _pdf(b"BT /F1 1 Tf " + b"(x) Tj 1 0 Td " * (15_000 * n) + b"ET")


def recursive_forms(n: int) -> bytes:
    """A PDF whose form draws itself, twice."""
    return _pdf(b"/X Do " * n, form=b"/X Do /X Do BT /F1 12 Tf (x) Tj ET")


def page_loop(_: int) -> bytes:
    """A PDF whose tree of pages leads back to its root."""
    return _pdf(b"BT /F1 12 Tf (x) Tj ET").replace(b"/Kids [3 0 R]", b"/Kids [2 0 R]")


def _pdf(content: bytes, form: bytes = b"") -> bytes:
    resources = b"/Resources << /Font << /F1 5 0 R >> /XObject << /X 6 0 R >> >>"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R " + resources + b" >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Length %d %s >>\nstream\n%s\nendstream"
        % (len(form), resources, form),
    ]
    body = b"%PDF-1.4\n" + b"".join(b"%d 0 obj\n%s\nendobj\n" % (i, o) for i, o in enumerate(objects, 1))
    return body + b"trailer << /Root 1 0 R /Size 7 >>\n%%EOF"


def nested_blocks(n: int) -> bytes:
    return b"<div>" * (100 * n) + b"deep"


def many_attributes(n: int) -> bytes:
    return b"<p " + b" ".join(b'a%d="x"' % i for i in range(100 * n)) + b">The sea.</p>"


def nested_tables(n: int) -> bytes:
    return b"<table><tr><td>" * (20 * n) + b"deep"


def huge_span(n: int) -> bytes:
    return b"<table>" + b'<tr><td rowspan="65534" colspan="1000">x</td></tr>' * (10 * n) + b"</table>"


def many_parts(n: int) -> bytes:
    """A letter of many small parts."""
    part = b"--B\nContent-Type: text/plain\nContent-Disposition: attachment; filename=a.txt\n\nx\n"
    return b"From: a@b.c\nSubject: s\nContent-Type: multipart/mixed; boundary=B\n\n" + part * (10 * n) + b"--B--\n"


def letter_in_letter(n: int) -> bytes:
    """A letter in a letter in a letter."""
    inner = b"From: a@b.c\nSubject: innermost\n\nThe sea.\n"
    for _ in range(min(n, 60)):
        inner = b"From: a@b.c\nSubject: s\nContent-Type: message/rfc822\n\n" + inner
    return inner


def nested_multiparts(n: int) -> bytes:
    heads = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (i, i) for i in range(10 * n))
    return b"From: a@b.c\nSubject: s\n" + heads + b"Content-Type: text/plain\n\nx\n"


def archive_in_archive(n: int) -> bytes:
    """A letter with an archive in an archive in an archive."""
    inner = zipped({"zeros.txt": b"0" * (10_000 * n)})
    for level in range(9):
        inner = zipped({f"{level}-{copy}.zip": inner for copy in range(9)})
    return factories_office.letter(a_zip=inner, a_docx=inner, a_xlsx=inner)


def unpacking(n: int) -> bytes:
    """A Word file whose text packs a thousand to one."""
    return docx(p("0" * (500_000 * n)))


def entities(_: int) -> bytes:
    """A Word file whose entities grow tenfold with each other."""
    laughs = "".join(f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 10}">' for i in range(10))
    data = docx(p("&k;"))
    text = unzipped(data)["word/document.xml"].decode().replace("?>", f'?><!DOCTYPE x [<!ENTITY a "lol">{laughs}]>', 1)
    return changed(data, {"word/document.xml": text})


def tables_in_tables(n: int) -> bytes:
    return docx("<w:tbl><w:tr><w:tc>" * (5 * n) + p("deep") + "</w:tc></w:tr></w:tbl>" * (5 * n))


def nested_groups(n: int) -> bytes:
    """A slide with a group in a group in a group."""

    def fill(show: Any) -> None:
        show.slides.add_slide(show.slide_layouts[0]).shapes.title.text = "Tides"

    data, path = pptx(fill), "ppt/slides/slide1.xml"
    slide = unzipped(data)[path].decode()
    groups = "<p:grpSp><p:nvGrpSpPr/><p:grpSpPr/>" * (5 * n) + "</p:grpSp>" * (5 * n)
    return changed(data, {path: slide.replace("</p:spTree>", f"{groups}</p:spTree>")})


def roles(n: int) -> bytes:
    """Openings of roles, code and tables that never end, and one text that stands in many places."""
    return b".. |x| replace:: " + b"y" * 9000 + b"\n\n" + b":a:`b ``c |x| **d *e `_ [1_ \\ +--+\n" * (2000 * n)


def drawers(n: int) -> bytes:
    """Drawers, blocks, links and marks that never end."""
    return b":a:\n *b /c =d ~e [[f [fn:g:h <<i\n#+begin_src\n" * (2000 * n)


def braces(n: int) -> bytes:
    r"""Groups, formulas, environments and `\verb` that never end."""
    return b"\\begin{verbatim}\\[ $a \\footnote{\\section{\\begin{x}\\verb|\\item[\\title{\\'{" * (1000 * n)


BOMBS: dict[str, tuple[str, Callable[[int], bytes]]] = {  # the suffix and the maker of each kind
    make.__name__: (suffix, make)
    for suffix, makers in {
        ".csv": (wide_header, quoted_cell),
        ".json": (long_keys, nested_lists),
        ".txt": (one_line,),
        ".md": (yaml_anchors,),
        ".rst": (roles,),
        ".org": (drawers,),
        ".tex": (braces,),
        ".epub": (repeated_chapter, spine_loop),
        ".xlsx": (merged_cells, shared_string, styled_cells, far_corner),
        ".pdf": (many_operators, recursive_forms, page_loop),
        ".html": (nested_blocks, many_attributes, nested_tables, huge_span),
        ".eml": (many_parts, letter_in_letter, nested_multiparts, archive_in_archive),
        ".docx": (unpacking, entities, tables_in_tables),
        ".pptx": (nested_groups,),
    }.items()
    for make in makers
}
