"""A page becomes the text that its readers see."""

from __future__ import annotations

from pathlib import Path

import pytest

from kumihimo.readers.html import bound_markup, read_html
from kumihimo.readers.page import Page

MESSY = Path(__file__).parents[3] / "shared" / "data" / "messy" / "html"
messy = pytest.mark.skipif(not MESSY.is_dir(), reason="the shared data is not here")


def read(source: str | bytes) -> Page:
    (page,) = read_html(source if isinstance(source, bytes) else source.encode(), "a.html")
    return page


def text(source: str) -> str:
    return read(source).text


def test_title_language_and_metadata() -> None:
    page = read(
        '<html lang="ja"><head><title> The\n harbour &amp; more </title><meta name="Author" content="Ayu">'
        '<meta name="keywords" content="sea, boats"><meta property="og:description" content="About boats">'
        '<meta name="viewport" content="x"></head><body><h1>Other</h1>'
    )
    assert page.title == "The harbour & more"
    assert page.metadata == {"lang": "ja", "author": "Ayu", "keywords": "sea, boats", "description": "About boats"}


def test_without_a_title_the_first_heading_is_one() -> None:
    assert read("<svg><title>icon</title></svg><h1>The <b>harbour</b></h1>").title == "The harbour"
    assert read("<p>text").title == ""


def test_headings_items_and_paragraphs_are_lines() -> None:
    source = "<h2>Boats</h2><p>Two\n   kinds:<ul><li>old<li>new <ul><li>steel</ul></ul><ol><li><p>one</p></ol>after"
    assert text(source) == "## Boats\n\nTwo kinds:\n\n- old\n- new\n  - steel\n\n- one\n\nafter"


def test_breaks_and_rules() -> None:
    assert text("a<br>b<br><br>c<hr>d<div>e</div>f") == "a\nb\n\nc\n\nd\ne\nf"
    assert text("<h1>The<br>harbour</h1>x") == "# The harbour\n\nx"


def test_what_is_not_read_is_left_out() -> None:
    source = """<body><header><a>Shop</a></header><nav>menu</nav><div role=navigation>crumbs</div><!-- c -->
        <script>x</script><style>y</style><noscript>z</noscript><template>t</template><p hidden>h</p>
        <article><header><p>By Ayu</p></header>Text<footer>Notes</footer></article><footer>Imprint</footer>"""
    assert text(source) == "By Ayu\n\nText\nNotes"


def test_a_header_with_the_heading_stays() -> None:
    assert text("<header><h1>Harbour</h1><p>2026</p></header><p>x") == "# Harbour\n\n2026\n\nx"
    assert text("<section><div><header><h2>Pier</h2></header></div>x</section>") == "## Pier\n\nx"


def test_tables() -> None:
    source = "<table><caption>Boats</caption><tr><th>name<th>built<tr><td>Maru<td><p>19<br>22</p><tr><td><td></table>x"
    assert text(source) == "Boats\nname | built\nMaru | 19 22\n\nx"


def test_a_cell_over_several_rows_stands_in_each() -> None:
    rows = "<tr><th rowspan=2>Otaru<td>2020<td>5<tr><td>2021<td rowspan=3>7<tr><td colspan=2>none<tr><td>a<td>b"
    after = "<table><tr><td>new<td>table</table>"
    kept = "Otaru | 2020 | 5\nOtaru | 2021 | 7\nnone | 7\na | b | 7"
    assert text(f"<table>{rows}</table>{after}") == f"{kept}\n\nnew | table"
    long = "The harbour was quiet. " * 4
    assert text(f"<table><tr><td rowspan=2>{long}<td>a<tr><td>b</table>") == f"{long}| a\n| b"
    assert text("<table><tr><td rowspan=0>a<td rowspan=x>b<tr><td>c</table>") == "a | b\nc"


def test_the_text_of_cells_over_many_rows_grows_with_the_file() -> None:
    def length(rows: int) -> int:
        return len(text("<table>" + f"<tr><td rowspan=60000 colspan=2>{'x' * 50}" * rows + "</table>"))

    assert length(400) < 2.1 * length(200)


def test_a_table_for_the_layout_is_no_table() -> None:
    assert text("<table><tr><td><h1>A</h1>b<td><p>c</table>") == "# A\n\nb\n\nc"


def test_pre_is_verbatim() -> None:
    assert (
        text("x<pre>\ndef f():\n    <b>return</b>  1\n\n# c<br>e\n</pre>y")
        == "x\n\ndef f():\n    return  1\n\n# c\ne\n\ny"
    )


def test_entities_spaces_and_soft_hyphens() -> None:
    assert text("<p>a&nbsp;&nbsp;b &lt;c&gt; &eacute; Donau&shy;dampf\t\n x") == "a b <c> é Donaudampf x"


def test_a_line_wrapped_between_ideographs_is_no_space() -> None:
    assert text("<p>吾輩は\n      猫である。\nName\nis") == "吾輩は猫である。 Name is"
    assert text("<p>　字下げ　あり</p>") == "　字下げ　あり"


def test_ruby_keeps_the_word_whole() -> None:
    assert text("<ruby>東<rp>(</rp><rt>とう</rt><rp>)</rp>京<rt>きょう</rt></ruby>へ行く") == "東京（とうきょう）へ行く"
    assert text("<ruby>東京<rt></rt></ruby><rt>stray</rt>") == "東京stray"


@pytest.mark.parametrize(
    "declaration", ['<meta charset="Shift_JIS">', "<meta http-equiv=x content='text/html;charset=sjis'>"]
)
def test_the_declared_encoding_is_used(declaration: str) -> None:
    assert read((declaration + "<p>薔薇").encode("cp932")).text == "薔薇"


def test_the_encoding_of_xhtml() -> None:
    source = '<?xml version="1.0" encoding="EUC-JP"?><html xmlns="http://www.w3.org/1999/xhtml"><body><p>薔薇</p></body></html>'
    assert read(source.encode("euc_jp")).text == "薔薇"


def test_empty_files_and_fragments() -> None:
    assert text("") == ""
    assert text("no tags at all") == "no tags at all"


@pytest.mark.parametrize("tag", ["div", "ul><li", "table><tr><td", "ruby><rt", "pre", "h1", "b"])
def test_nesting_deeper_than_the_stack(tag: str) -> None:
    assert "END" in text(f"<{tag}>x" * 3000 + "END")


@messy
def test_nested_tables_of_docling() -> None:
    page = read((MESSY / "docling__table_06.html").read_bytes())
    assert (page.title, page.text[:49]) == ("Header", "# Header\n\nThis is the first paragraph.\n\nA | B\n\nA1")
    assert all(cell in page.text for cell in ["A1 | B1 | C1", "III | IV", "E3 | E4", "VII | VIII", "F1", "2..."])
    assert page.text.endswith("\n\nAfter table")


@messy
def test_a_declared_arabic_page_of_tika() -> None:
    assert read((MESSY / "tika__testHTMLNoisyMetaEncoding_1.html").read_bytes()).text.startswith(
        "وأعرب الاتحاد الجزائري"
    )


@messy
def test_a_blog_keeps_its_article_and_loses_its_menu() -> None:
    page = read((MESSY / "markitdown__test_blog.html").read_bytes())
    assert "\n- Just by tuning the inference parameters" in page.text
    assert "\n\n# Does Model and Inference Parameter Matter" in page.text
    assert "Copyright" not in page.text


@pytest.mark.parametrize("part", ["<a", "<a ", "<aaaaaaaaaaaaaaaa", "<", "</", "<a b='"])
def test_tags_that_never_end_are_scanned_once(part: str) -> None:
    assert len(bound_markup(part * 100_000)) == len(part) * 100_000


HUGE_TABLES = {  # trafilatura makes a hundred thousand cells of each, or takes quadratic time for those of a row
    "a long row": "<tr>" + "<td>a" * 15_000,
    "spans": "<tr>" + "<td title='>' rowspan=&#57;9 colspan = '99999'>a" * 11,
    "narrow rows below a wide one": "<tr>" + "<td>a" * 100 + "<tr><td>a" * 999,
}


@pytest.mark.parametrize("rows", HUGE_TABLES.values(), ids=HUGE_TABLES)
def test_the_article_of_a_page_with_a_huge_table_is_not_located(rows: str, monkeypatch: pytest.MonkeyPatch) -> None:
    located: list[str] = []
    monkeypatch.setattr("trafilatura.extract", lambda source, **_: located.append(source))
    assert "| a" in read(f"<table>{rows}</table>").text
    assert located == []
    assert "| a" in read("<table><tr><td colspan=3>a<td>a</table>").text
    assert len(located) == 1
