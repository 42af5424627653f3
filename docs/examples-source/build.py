"""the texts in this folder -> the eight binary or formatted files of examples/, with the same bytes every time."""

from __future__ import annotations

import csv
import io
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from email.message import EmailMessage
from email.policy import SMTP
from html import escape
from pathlib import Path
from typing import Any

import docx
import openpyxl
import pptx
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml
from docx.text.paragraph import Paragraph as Words
from openpyxl.styles import Alignment, Font
from openpyxl.worksheet.worksheet import Worksheet
from pptx.util import Inches, Pt
from reportlab.lib.enums import TA_LEFT
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Flowable, PageBreak, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
WIDTH = A4[0] - 2 * 64 - 12  # of the text on a page
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can store
W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'

Rows = list[list[str]]


@dataclass
class Block:
    """A piece of a text: heading, paragraph, quote, bullets, numbers, table or mark."""

    kind: str
    lines: list[str]
    level: int = 0
    rows: Rows = field(default_factory=list)


@dataclass
class Text:
    """One text: front matter, blocks, footnotes and fenced files."""

    about: dict[str, str]
    blocks: list[Block]
    notes: dict[str, str]
    files: dict[str, str]

    @property
    def when(self) -> datetime:
        return datetime.fromisoformat(self.about["date"]).replace(tzinfo=UTC)


# the texts


def load_text(name: str) -> Text:
    _, front, body = (HERE / name).read_text(encoding="utf-8").split("---\n", 2)
    about = dict(line.split(": ", 1) for line in front.splitlines())
    files = dict(re.findall(r"^```(\S+)\n(.*?)^```$", body, re.M | re.S))
    body = re.sub(r"^```.*?^```$", "", body, flags=re.M | re.S)
    notes = dict(re.findall(r"^\[\^(\d+)\]: (.+)$", body, re.M))
    body = re.sub(r"^\[\^\d+\]: .+$", "", body, flags=re.M)
    return Text(about, [parse_block(piece) for piece in re.split(r"\n{2,}", body.strip())], notes, files)


def parse_block(piece: str) -> Block:
    lines = piece.splitlines()
    if piece.startswith("#"):
        marks, _, words = piece.partition(" ")
        return Block("heading", [words], len(marks))
    if piece.startswith("|"):
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        return Block("table", [], rows=[rows[0], *rows[2:]])
    for kind, start in (("quote", r"> "), ("bullets", r"- "), ("numbers", r"\d+\. ")):
        if re.match(start, piece):
            return Block(kind, [re.sub(f"^{start}", "", line) for line in lines])
    if mark := re.fullmatch(r"<!-- (\w+) -->|(---)", piece):
        return Block(mark[1] or "slide", [])
    return Block("paragraph", [piece])


def mark_up(words: str) -> str:
    """Return the words with stars as tags of HTML and reportlab."""
    words = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", escape(words, quote=False))
    return re.sub(r"\*(.+?)\*", r"<i>\1</i>", words)


def strip_marks(words: str) -> str:
    return words.replace("*", "")


def split_parts(blocks: list[Block], cut: Callable[[Block], bool]) -> Iterator[list[Block]]:
    """Yield the parts, each from a block where `cut` is true."""
    part: list[Block] = []
    for block in blocks:
        if cut(block) and part:
            yield part
            part = []
        part.append(block)
    yield part


def find_merges(rows: Rows) -> Iterator[tuple[int, int, int, int]]:
    """Yield first and last row and column of merged cells.

    A cell covers each `<` to its right and each `^` below it. Order: row, column, last row, last column.
    """
    for r, row in enumerate(rows):
        for c, cell in enumerate(row):
            wide = next((n for n in range(c + 1, len(row)) if row[n] != "<"), len(row)) - 1
            high = next((n for n in range(r + 1, len(rows)) if rows[n][c] != "^"), len(rows)) - 1
            if cell not in "<^" and (wide > c or high > r):
                yield r, c, high, wide


def cell_value(cell: str) -> str | int | float | date | None:
    if re.fullmatch(r"\d{4}-\d\d-\d\d", cell):
        return date.fromisoformat(cell)
    if re.fullmatch(r"[\d,]+(\.\d+)?", cell):
        return float(cell) if "." in cell else int(cell.replace(",", ""))
    return strip_marks(cell) if cell not in ("", "^", "<") else None


# PDF


def make_style(font: str, size: float, space: float = 8, **more: Any) -> ParagraphStyle:
    wrap = "CJK" if font in ("Mincho", "Gothic") else None
    return ParagraphStyle(
        f"{font}{size}{more}", fontName=font, fontSize=size, leading=size * 1.5, spaceAfter=space, wordWrap=wrap, **more
    )


@dataclass
class Fonts:
    """The fonts and sizes of one PDF."""

    body: str
    bold: str
    size: float = 11

    def flow(self, block: Block) -> list[Flowable]:
        if block.kind in ("page", "vertical"):
            return [PageBreak()]
        if block.kind == "table":
            return [self.table(block.rows), Spacer(1, 12)]
        if block.kind == "heading":
            size = {1: 19.0, 2: 14.0, 3: 12.0}[block.level]
            return [Paragraph(mark_up(block.lines[0]), make_style(self.bold, size, spaceBefore=8, keepWithNext=1))]
        indent = {"quote": 30, "bullets": 18, "numbers": 18}.get(block.kind, 0)
        look = make_style(self.body, self.size, leftIndent=indent, bulletIndent=2, alignment=TA_LEFT)
        return [
            Paragraph(mark_up(line), look, bulletText=bullet_text(block.kind, n))
            for n, line in enumerate(block.lines, 1)
        ]

    def table(self, rows: Rows) -> Table:
        look = make_style(self.body, self.size - 1.5, space=0)
        cells = [[Paragraph(mark_up(cell), look) for cell in row] for row in rows]
        widths = [
            max(pdfmetrics.stringWidth(strip_marks(row[c]), self.body, look.fontSize) for row in rows) + 24
            for c in range(len(rows[0]))
        ]
        room = min(1, WIDTH / sum(widths))
        grid = Table(cells, [width * room for width in widths], repeatRows=1, hAlign="LEFT")
        grid.setStyle(
            TableStyle(
                [
                    ("GRID", (0, 0), (-1, -1), 0.4, "#888888"),
                    ("BACKGROUND", (0, 0), (-1, 0), "#eeeeee"),
                    ("VALIGN", (0, 0), (-1, -1), "TOP"),
                ]
            )
        )
        return grid


def bullet_text(kind: str, number: int) -> str | None:
    return {"bullets": "•", "numbers": f"{number}."}.get(kind)


class DatedCanvas(Canvas):  # type: ignore[misc]
    """A canvas with the date of the text as its only date."""

    when = datetime(2000, 1, 1, tzinfo=UTC)

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **{**keywords, "invariant": 1})
        self._doc.invariant = 1
        stamp = self._doc._timeStamp
        stamp.t, stamp.YMDhms = self.when.timestamp(), self.when.timetuple()[:6]
        stamp.dhh = stamp.dmm = 0
        stamp.tzname = "UTC"


def build_pdf(text: Text, fonts: Fonts, story: list[Flowable]) -> bytes:
    about, out = text.about, io.BytesIO()
    canvas = type("Dated", (DatedCanvas,), {"when": text.when})

    def furniture(page: Canvas, _: object) -> None:
        page.setFont(fonts.body, 8.5)
        page.drawString(64, A4[1] - 40, about["header"])
        page.drawCentredString(A4[0] / 2, 34, f"– {page.getPageNumber()} –")

    properties = {key: about[key] for key in ("title", "author", "subject", "keywords")}
    frame = SimpleDocTemplate(
        out, pagesize=A4, leftMargin=64, rightMargin=64, topMargin=68, bottomMargin=64, **properties
    )
    frame.build(story, onFirstPage=furniture, onLaterPages=furniture, canvasmaker=canvas)
    return out.getvalue()


def build_survey() -> bytes:
    text, fonts = load_text("long-arm-survey.md"), Fonts("Times-Roman", "Times-Bold", 11.5)
    return build_pdf(text, fonts, [flowable for block in text.blocks for flowable in fonts.flow(block)])


class VerticalText(Flowable):  # type: ignore[misc]
    """Vertical lines, the first at the right, each character placed by itself."""

    FONT, SIZE, LEADING = "Mincho", 11.0, 19.0
    LYING, CORNER = "ー「」『』（）…—", "、。"  # turned in vertical lines; moved to the upper right corner

    def __init__(self, blocks: list[Block]) -> None:
        super().__init__()
        self.blocks = blocks

    def wrap(self, width: float, height: float) -> tuple[float, float]:
        self.width, self.height = width, height
        return width, height

    def draw(self) -> None:
        text = self.canv.beginText()
        right = self.width - self.SIZE
        for block in self.blocks:
            size = self.SIZE + 6 if block.kind == "heading" else self.SIZE
            text.setFont(self.FONT, size)
            lines = fold_lines("　" * (block.kind != "heading") + block.lines[0], int(self.height / size) - 1)
            for line in lines:
                for place, character in enumerate(line):
                    self.put(text, character, size, right, self.height - place * size)
                right -= self.LEADING * (1.6 if block.kind == "heading" else 1)
        if right + self.LEADING < 0:
            raise ValueError("the columns run off the page; shorten the text")
        self.canv.drawText(text)

    def put(self, text: Any, character: str, size: float, left: float, top: float) -> None:
        if character in self.LYING:
            text.setTextTransform(0, -1, 1, 0, left + 0.12 * size, top)
        else:
            aside = 0.6 * size * (character in self.CORNER)
            text.setTextTransform(1, 0, 0, 1, left + aside, top - 0.88 * size + aside)
        text.textOut(character)


def fold_lines(words: str, length: int) -> Iterator[str]:
    """Yield lines of about this length.

    Some marks may not begin a line, and others may not end one.
    """
    while words:
        end = min(length, len(words))
        while words[end : end + 1] and words[end] in "、。」』）ーゃゅょっァィゥェォャュョッ・":
            end += 1
        while end > 1 and words[end - 1] in "「『（":
            end -= 1
        yield words[:end]
        words = words[end:]


def register_fonts() -> None:
    """Register Debian's fonts-ipaexfont; the PDF embeds the characters in use."""
    for name, file in (("Mincho", "ipaexfont-mincho/ipaexm.ttf"), ("Gothic", "ipaexfont-gothic/ipaexg.ttf")):
        pdfmetrics.registerFont(TTFont(name, f"/usr/share/fonts/opentype/{file}"))


def build_koho() -> bytes:
    register_fonts()
    text, fonts = load_text("koho-shioyori.md"), Fonts("Mincho", "Gothic", 10.5)
    story: list[Flowable] = []
    for part in split_parts(text.blocks, lambda block: block.kind in ("page", "vertical")):
        if part[0].kind == "vertical":
            story += [PageBreak(), VerticalText(part[1:])]
        else:
            story += [flowable for block in part for flowable in fonts.flow(block)]
    return build_pdf(text, fonts, story)


# Word


def set_properties(file: Any, text: Text) -> None:
    about, to = text.about, file.core_properties
    to.title, to.author, to.subject, to.keywords = (about[k] for k in ("title", "author", "subject", "keywords"))
    to.created = to.modified = text.when
    to.last_modified_by, to.comments = about["author"], ""


def add_runs(to: Words, words: str) -> None:
    for piece in re.split(r"(\*\*.+?\*\*|\*.+?\*|\[\^\d+\])", words):
        if note := re.fullmatch(r"\[\^(\d+)\]", piece):
            high = '<w:rPr><w:vertAlign w:val="superscript"/></w:rPr>'
            to._p.append(parse_xml(f'<w:r {W}>{high}<w:footnoteReference w:id="{note[1]}"/></w:r>'))
        elif piece:
            run = to.add_run(strip_marks(piece))
            run.bold, run.italic = piece.startswith("**") or None, bool(re.match(r"\*[^*]", piece)) or None


def add_footnotes(file: Any, notes: dict[str, str]) -> None:
    """Add the part for footnotes, which python-docx does not support."""
    mark = '<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:footnoteRef/></w:r>'
    lines = [
        f'<w:footnote w:id="{n}"><w:p>{mark}<w:r><w:t xml:space="preserve"> {escape(words)}</w:t></w:r></w:p>'
        "</w:footnote>"
        for n, words in notes.items()
    ]
    xml = f'<?xml version="1.0" encoding="UTF-8"?><w:footnotes {W}>{"".join(lines)}</w:footnotes>'
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"
    part = Part(PackURI("/word/footnotes.xml"), kind, xml.encode(), file.part.package)
    file.part.relate_to(part, RELATIONSHIP_TYPE.FOOTNOTES)


def add_numbering(file: Any) -> int:
    """Add a numbering from one, since lists of a style continue otherwise."""
    kinds = file.part.numbering_part.element
    own = file.styles["List Number"].element.pPr.numPr.numId.val
    number = kinds.add_num(kinds.num_having_numId(own).abstractNumId.val)
    number.add_lvlOverride(0).add_startOverride(1)
    return int(number.numId)


def add_table(file: Any, rows: Rows) -> None:
    table = file.add_table(len(rows), len(rows[0]), style="Table Grid")
    for r, row in enumerate(rows):
        for c, cell in enumerate(row):
            add_runs(table.cell(r, c).paragraphs[0], cell if cell not in ("<", "^") else "")
    for r, c, high, wide in find_merges(rows):
        merged = table.cell(r, c).merge(table.cell(high, wide))
        for empty in [p for p in merged.paragraphs[1:] if not p.text]:
            empty._p.getparent().remove(empty._p)
    file.add_paragraph()


def build_report() -> bytes:
    text, file = load_text("wrack-fund-report.md"), docx.Document()
    set_properties(file, text)
    looks = {"quote": "Quote", "bullets": "List Bullet", "numbers": "List Number"}
    for block in text.blocks:
        if block.kind == "table":
            add_table(file, block.rows)
        number = add_numbering(file) if block.kind == "numbers" else None
        for line in block.lines:
            look = f"Heading {block.level}" if block.kind == "heading" else looks.get(block.kind)
            words = file.add_paragraph(style=look)
            add_runs(words, line)
            if number is not None:
                words._p.get_or_add_pPr().get_or_add_numPr().get_or_add_numId().val = number
    add_footnotes(file, text.notes)
    return save_file(file)


# slides


def build_talk() -> bytes:
    text, file = load_text("school-talk.md"), pptx.Presentation()
    set_properties(file, text)
    for n, part in enumerate(split_parts(text.blocks, lambda block: block.kind == "slide")):
        blocks = [block for block in part if block.kind != "slide"]
        tabled = any(block.kind == "table" for block in blocks)
        slide = file.slides.add_slide(file.slide_layouts[0 if n == 0 else 5 if tabled else 1])
        for block in blocks:
            add_block(slide, block)
    return save_file(file)


def add_block(slide: Any, block: Block) -> None:
    if block.kind == "heading":
        slide.shapes.title.text = strip_marks(block.lines[0])
    elif block.kind == "quote":
        slide.notes_slide.notes_text_frame.text = strip_marks(" ".join(block.lines))
    elif block.kind == "table":
        table = slide.shapes.add_table(
            len(block.rows), len(block.rows[0]), Inches(0.6), Inches(1.7), Inches(8.8), Inches(4)
        ).table
        for r, row in enumerate(block.rows):
            for c, cell in enumerate(row):
                table.cell(r, c).text = strip_marks(cell)
    else:
        write_lines(slide.placeholders[1].text_frame, block)


def write_lines(frame: Any, block: Block) -> None:
    for n, line in enumerate(block.lines):
        words = frame.paragraphs[0] if n == 0 else frame.add_paragraph()
        words.text = strip_marks(line)
        if block.kind == "numbers":
            words._p.get_or_add_pPr().append(parse_xml(f'<a:buAutoNum {A} type="arabicPeriod"/>'))
        words.font.size = Pt(24)


# sheets


def build_figures() -> bytes:
    text, file = load_text("harbour-figures.md"), openpyxl.Workbook()
    file.remove(file.active)
    for part in split_parts(text.blocks, lambda block: block.kind == "heading"):
        fill_sheet(file.create_sheet(part[0].lines[0]), part[1:])
    to, about = file.properties, text.about
    to.title, to.creator, to.subject, to.keywords = (about[k] for k in ("title", "author", "subject", "keywords"))
    to.created, to.lastModifiedBy = text.when.replace(tzinfo=None), about["author"]
    return save_file(file)


def fill_sheet(to: Worksheet, blocks: list[Block]) -> None:
    width = next(len(block.rows[0]) for block in blocks if block.kind == "table")
    for n, block in enumerate(blocks):
        if block.kind == "table":
            to.append([])
            write_table(to, block.rows, to.max_row + (2 if n else 1))
            continue
        row = to.max_row + 2 if n and blocks[n - 1].kind == "table" else n + 1
        to.cell(row, 1, strip_marks(block.lines[0])).font = Font(bold=n == 0, size=14 if n == 0 else 11)
        if n == 0:
            to.merge_cells(start_row=row, end_row=row, start_column=1, end_column=width)


def write_table(to: Worksheet, rows: Rows, top: int) -> None:
    for r, row in enumerate(rows):
        for c, cell in enumerate(row):
            at = to.cell(top + r, c + 1, cell_value(cell))
            at.font, at.alignment = Font(bold=r == 0), Alignment(vertical="top", wrap_text=r == 0)
            if isinstance(at.value, date):
                at.number_format = "yyyy-mm-dd"
    for r, c, high, wide in find_merges(rows):
        to.merge_cells(start_row=top + r, start_column=c + 1, end_row=top + high, end_column=wide + 1)
    for c in range(len(rows[0])):
        longest = max(len(row[c]) for row in rows[1:])
        to.column_dimensions[openpyxl.utils.get_column_letter(c + 1)].width = min(max(longest + 2, 12), 60)


def build_loans() -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows(load_text("seed-loans.md").blocks[0].rows)
    return out.getvalue().encode()


# book


XHTML = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE html>\n'
    '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" xml:lang="{language}" '
    'lang="{language}">\n<head><meta charset="utf-8"/><title>{title}</title></head>\n<body>\n{body}\n</body>\n</html>\n'
)
CONTAINER = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="EPUB/package.opf" media-type="application/oebps-package+xml"/></rootfiles></container>\n'
)


def make_page(language: str, title: str, body: str) -> str:
    return XHTML.format(language=language, title=escape(title), body=body)


def mark_up_ruby(words: str) -> str:
    return re.sub(r"\{(.+?)\|(.+?)\}", r"<ruby>\1<rt>\2</rt></ruby>", mark_up(words))


def make_chapter(blocks: list[Block]) -> tuple[str, str]:
    title, body = blocks[0].lines[0], "\n".join(f"<p>{mark_up_ruby(block.lines[0])}</p>" for block in blocks[1:])
    language = "ja" if re.search("[ぁ-ん]", title) else "en"
    return title, make_page(language, title, f"<h1>{title}</h1>\n{body}")


def build_tales() -> bytes:
    text = load_text("net-loft-tales.md")
    chapters = [make_chapter(part) for part in split_parts(text.blocks, lambda block: block.kind == "heading")]
    names = [f"chapter-{n}.xhtml" for n in range(1, len(chapters) + 1)]
    toc = "".join(f'<li><a href="{name}">{title}</a></li>' for name, (title, _) in zip(names, chapters, strict=True))
    nav = make_page("en", text.about["title"], f'<nav epub:type="toc"><h1>Contents</h1><ol>{toc}</ol></nav>')
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as book:
        add_entry(book, "mimetype", b"application/epub+zip", zipfile.ZIP_STORED)
        add_entry(book, "META-INF/container.xml", CONTAINER.encode())
        add_entry(book, "EPUB/package.opf", make_package(text, names).encode())
        add_entry(book, "EPUB/nav.xhtml", nav.encode())
        for name, (_, body) in zip(names, chapters, strict=True):
            add_entry(book, f"EPUB/{name}", body.encode())
    return out.getvalue()


def make_package(text: Text, names: list[str]) -> str:
    about = {key: escape(words) for key, words in text.about.items()}
    items = "".join(
        f'<item id="c{n}" href="{name}" media-type="application/xhtml+xml"/>' for n, name in enumerate(names, 1)
    )
    spine = "".join(f'<itemref idref="c{n}"/>' for n in range(1, len(names) + 1))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id">\n'
        '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f'<dc:identifier id="id">{about["id"]}</dc:identifier><dc:title>{about["title"]}</dc:title>'
        f"<dc:language>en</dc:language><dc:language>ja</dc:language><dc:creator>{about['author']}</dc:creator>"
        f"<dc:publisher>{about['publisher']}</dc:publisher><dc:description>{about['subject']}</dc:description>"
        f"<dc:date>{about['date']}</dc:date>"
        f'<meta property="dcterms:modified">{about["date"]}T00:00:00Z</meta></metadata>\n'
        '<manifest><item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
        f"{items}</manifest>\n<spine>{spine}</spine>\n</package>\n"
    )


# mail


def build_mail() -> bytes:
    text, message = load_text("orrell-mail.md"), EmailMessage(policy=SMTP)
    about = text.about
    message["From"], message["To"], message["Cc"] = about["from"], about["to"], about["cc"]
    message["Subject"], message["Date"] = about["subject"], datetime.fromisoformat(about["date"])
    message["Message-ID"] = f"<{about['id']}>"
    message.set_content("\n\n".join(block_text(block) for block in text.blocks) + "\n")
    body = "\n".join(block_html(block) for block in text.blocks)
    message.add_alternative(f"<!DOCTYPE html>\n<html><body>\n{body}\n</body></html>\n", subtype="html")
    name, words = next(iter(text.files.items()))
    message.add_attachment(words, subtype=name.rpartition(".")[2], filename=name)
    message.set_boundary("=_brannet_outer")
    next(message.iter_parts()).set_boundary("=_brannet_inner")
    return message.as_bytes()


def block_text(block: Block) -> str:
    numbered = block.kind == "numbers"
    return "\n".join(
        f"{n}. {strip_marks(line)}" if numbered else strip_marks(line) for n, line in enumerate(block.lines, 1)
    )


def block_html(block: Block) -> str:
    if block.kind == "numbers":
        return "<ol>" + "".join(f"<li>{mark_up(line)}</li>" for line in block.lines) + "</ol>"
    return f"<p>{mark_up(block.lines[0])}</p>"


# files


def add_entry(archive: zipfile.ZipFile, name: str, data: bytes, how: int = zipfile.ZIP_DEFLATED) -> None:
    info = zipfile.ZipInfo(name, EPOCH)
    info.compress_type, info.external_attr, info.create_system = how, 0o644 << 16, 3
    archive.writestr(info, data)


def save_file(file: Any) -> bytes:
    """Return an Office file without the time of writing."""
    original, out = io.BytesIO(), io.BytesIO()
    file.save(original)
    with zipfile.ZipFile(original) as source, zipfile.ZipFile(out, "w") as target:
        for name in source.namelist():
            add_entry(target, name, fix_modified(source.read(name), name))
    return out.getvalue()


def fix_modified(data: bytes, name: str) -> bytes:
    """Return core properties with the creation date as modification date.

    openpyxl always stores the time of saving.
    """
    if name != "docProps/core.xml":
        return data
    created = re.search(rb"<dcterms:created[^>]*>([^<]*)<", data)
    return re.sub(rb"(<dcterms:modified[^>]*>)[^<]*", rb"\g<1>" + (created[1] if created else b""), data)


FILES: dict[str, Callable[[], bytes]] = {
    "long-arm-survey.pdf": build_survey,
    "koho-shioyori.pdf": build_koho,
    "wrack-fund-report.docx": build_report,
    "school-talk.pptx": build_talk,
    "harbour-figures.xlsx": build_figures,
    "seed-loans.csv": build_loans,
    "net-loft-tales.epub": build_tales,
    "orrell-mail.eml": build_mail,
}


def main(folder: Path) -> None:
    for name, make in FILES.items():
        (folder / name).write_bytes(make())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else EXAMPLES)
