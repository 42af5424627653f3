"""A page keeps its article and loses the link menus around it."""

from __future__ import annotations

import sys
from functools import partial

import pytest

from kumihimo.readers.html import read_full_html, read_html
from kumihimo.readers.page import Page
from tests.counters import count_lines, stop_endless_work

SENTENCES = " ".join(
    f"In the year {1900 + n} the harbour was mended by the people of the town, who carried stones for {n + 2} weeks."
    for n in range(12)
)
MENU = "".join(f"<li><a href=/{name}>{name} of the site</a></li>" for name in ("News", "Shop", "Login"))
PAGE = f"""<html><head><title>Harbour</title></head><body>
<ul>{MENU}</ul>
<div id=main><h1>The harbour</h1><p>{SENTENCES}</p>
<h2>Read on</h2><ul><li><a href=a>The survey of the old breakwater</a></li>
<li><a href=b>The ledger of stones</a></li></ul>
<p>{SENTENCES.replace("mended", "painted")}</p></div>
<ul>{MENU.replace("site", "end")}</ul></body></html>"""


def read(source: str) -> Page:
    (page,) = read_html(source.encode(), "a.html")
    return page


def test_lists_of_links_around_the_article_go() -> None:
    pytest.importorskip("trafilatura")
    text = read(PAGE).text
    assert text.startswith("# The harbour\n\nIn the year 1900")
    assert "of the site" not in text
    assert "of the end" not in text


def test_a_list_of_links_in_the_article_stays() -> None:
    pytest.importorskip("trafilatura")
    assert "- The survey of the old breakwater\n- The ledger of stones" in read(PAGE).text


ARTICLE = f"<p>{SENTENCES}</p><p>{SENTENCES.replace('mended', 'painted')}</p>"


def test_a_heading_that_is_a_link_stays() -> None:
    pytest.importorskip("trafilatura")
    head = "<div><a href=/>Harbours</a></div><h1><a href=/p>How it was mended</a></h1>"
    assert "# How it was mended\n\nIn the year 1900" in read(f"<body>{head}{ARTICLE}</body>").text


def test_a_heading_that_is_a_link_stays_below_a_menu() -> None:
    pytest.importorskip("trafilatura")
    text = read(f"<body><ul>{MENU}</ul><h1><a href=/p>How it was mended</a></h1>{ARTICLE}</body>").text
    assert text.startswith("# How it was mended\n\nIn the year 1900")


def test_one_reference_after_the_article_stays() -> None:
    pytest.importorskip("trafilatura")
    after = "<p>All of it: <a href=r>Report of the Wrack Fund, 2023</a></p>"
    assert read(f"<body>{ARTICLE}{after}</body>").text.endswith("All of it: Report of the Wrack Fund, 2023")


def test_three_links_one_after_the_other_go_and_two_stay() -> None:
    pytest.importorskip("trafilatura")
    links = [f"<p><a href=/{name}>{name}</a></p>" for name in ("News", "Shop", "Login")]
    three, two = "".join(links), "".join(links[:2])
    plain = read(f"<body>{ARTICLE}</body>").text
    assert read(f"<body>{three}{ARTICLE}{three}</body>").text == plain
    assert read(f"<body>{ARTICLE}{two}</body>").text == f"{plain}\n\nNews\n\nShop"


def long_page(paragraphs: int) -> str:
    sentence = "tells how the stones were carried over the bar and laid in the gap"
    article = "".join(f"<p>Paragraph {n} {sentence} {n * 7} times.</p>" for n in range(paragraphs))
    return f"<html><body><article>{article}</article></body></html>"


def test_the_work_for_a_page_grows_with_its_length() -> None:
    few, many = (count_lines(partial(read, long_page(paragraphs))) for paragraphs in (250, 1000))
    assert many < 5 * few
    with stop_endless_work():
        assert read(long_page(20_000)).text.count("\n\n") == 19_999


def test_without_trafilatura_everything_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    text = read(PAGE).text
    assert text.startswith("- News of the site")
    assert text.endswith("Login of the end")


def test_a_chapter_of_a_book_has_no_menu() -> None:
    (page,) = read_full_html(PAGE.encode(), "a.xhtml")
    assert page.text.startswith("- News of the site")


def test_a_page_of_links_only_stays() -> None:
    assert read(f"<ul>{MENU}</ul>").text == "- News of the site\n- Shop of the site\n- Login of the site"


def test_sections_are_places() -> None:
    page = read(PAGE)
    assert [label for _, label in page.places] == ["§ The harbour", "§ Read on"]
    assert page.text[page.places[1][0] :].startswith("## Read on\n")


def test_a_section_is_named_shortly() -> None:
    page = read(f"<p>Before.<h2>{'long ' * 50}</h2><p>x")
    assert page.places[0] == (0, "")
    assert page.places[1][1] == "§ " + ("long " * 50)[:80]
