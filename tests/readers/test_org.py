"""An Org file becomes its words, with its headings as sections."""

from __future__ import annotations

import pytest

from kumihimo.readers.org import read_org
from kumihimo.readers.page import Page


def read(text: str) -> Page:
    (page,) = read_org(text.encode(), "a.org")
    return page


def test_headings_are_sections_and_keywords_metadata() -> None:
    page = read(
        "#+TITLE: Tide book\n#+AUTHOR: Sabine Orrell\n#+OPTIONS: toc:nil\n# comment\n"
        "* TODO [#A] Tides :sea:moon:\n:PROPERTIES:\n:ID: 17\n:END:\nHigh.\n** 潮\n夜に。\n"
    )
    assert page.text == "# Tides\n\nHigh.\n\n## 潮\n\n夜に。"
    assert (page.title, page.metadata) == ("Tide book", {"author": "Sabine Orrell"})
    assert page.places == ((0, "§ Tides"), (16, "§ 潮"))


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("*High* /water/ at =nine_o= and ~a*b~, +no+.", "High water at nine_o and a*b, no."),
        ("2 * 3 * 4 and a/b/c and snake_case_name", "2 * 3 * 4 and a/b/c and snake_case_name"),
        ("[[https://example.org][the log]] and [[https://example.org]]", "the log and https://example.org"),
        ("A note[fn:1].\n\n[fn:1] Its text.", "A note[1].\n\n[1] Its text."),
        ("- one\n  goes on\n- [ ] two\n  1. inner\n- term :: sense",
         "- one goes on\n- [ ] two\n  1. inner\n- term: sense"),
        ("| day | m |\n|-----+---|\n| 1 | 2.4 |\n#+TBLFM: $1=2\n\nAfter.", "day | m\n1 | 2.4\n\nAfter."),
        ("#+CAPTION: The tides\n#+BEGIN_SRC sh\nif tide\n  *rise*\n#+END_SRC\nAfter.",
         "The tides\n\nif tide\n  *rise*\n\nAfter."),
        ("#+begin_quote\nQuoted words.\n#+end_quote\nAfter.", "Quoted words.\n\nAfter."),
        ("#+begin_export html\n<b>x</b>\n#+end_export\n#+begin_comment\nx\n#+end_comment\nShown.", "Shown."),
        (":LOGBOOK:\nno end, so it is text", ":LOGBOOK: no end, so it is text"),
        (": as *it* is", "as *it* is"),
        ("名前は\nまだ無い。", "名前はまだ無い。"),
    ],
)  # fmt: skip
def test_marks_become_words(source: str, text: str) -> None:
    assert read(source).text == text
