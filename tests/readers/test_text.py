"""Plain text and Markdown are kept character by character."""

from __future__ import annotations

import pytest

from kumihimo.readers.page import Page
from kumihimo.readers.text import read_markdown, read_plain_text


def title(text: str) -> str:
    (page,) = read_markdown(text.encode(), "a.md")
    assert page.text == text
    return page.title


def test_plain_text_is_verbatim_but_for_the_byte_order_mark() -> None:
    text = "one\r\n two\t\r\n\r\n\u3000三\u2028end\n"
    assert list(read_plain_text(text.encode("utf-8-sig"), "a.txt")) == [Page(text=text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# The harbour\n\ntext", "The harbour"),
        ("text\n\n#  港 ##\r\n", "港"),
        ("# C#\n", "C#"),
        ("The harbour\r\n===\r\ntext", "The harbour"),
        ("## Second level\n", ""),
        ("#hashtag\n", ""),
        ("    # code\n# Title", "Title"),
        ("```sh\n# a comment\n```\n# Title\n", "Title"),
        ("~~~~\n# no\n~~~\n# no\n~~~~\n# Title\n", "Title"),
        ("===\n", ""),
        ("# \n# Title", "Title"),
        ("---\ntitle: 'Front matter'\n# a comment\n---\n# Heading\n", "Front matter"),
        ("---\ndate: 2026-01-01\n---\n# Heading\n", "Heading"),
        ("---\n\nno front matter\n\n# Heading", "Heading"),
        ("", ""),
    ],
)
def test_the_title_of_markdown(text: str, expected: str) -> None:
    assert title(text) == expected
