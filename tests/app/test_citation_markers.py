"""an answer -> its markers, each with the spans that it cites."""

from __future__ import annotations

import pytest

from kumihimo.app.evidence.citation_markers import find_markers, is_truncated
from kumihimo.core.answer import Answer
from kumihimo.core.context import Context
from kumihimo.core.spans import Citation, Span
from kumihimo.core.usage import Usage
from kumihimo.generation.answer import TRUNCATION_NOTE


def answer(text: str, *numbers: int) -> Answer:
    citations = tuple(Citation(n, Span("c", f"{n}.md", 0, 5, "words")) for n in numbers)
    return Answer("Who?", "braid", text, citations, Context(), Usage())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("At nine [1]. At ten [2].", [("[1]", ["1.md"]), ("[2]", ["2.md"])]),
        ("At nine[1][2]", [("[1]", ["1.md"]), ("[2]", ["2.md"])]),
        ("At nine [2, 1]", [("[2, 1]", ["2.md", "1.md"])]),
        ("From one to two [1–2]", [("[1–2]", ["1.md", "2.md"])]),
        ("九時です［１］。", [("［１］", ["1.md"])]),
        ("A list of the document: [7] and a[1](link)", []),
        ("`code [1]` and [1]", [("[1]", ["1.md"])]),
        ("Nothing.", []),
    ],
)
def test_markers_are_where_the_text_has_numbers(text: str, found: list[tuple[str, list[str]]]) -> None:
    markers = find_markers(answer(text, 1, 2))
    assert [(text[m.start : m.end], [span.uri for span in m.spans]) for m in markers] == found


def test_a_text_that_was_cut_is_known_by_its_note() -> None:
    assert is_truncated(answer(f"At nine\n\n{TRUNCATION_NOTE}"))
    assert not is_truncated(answer("At nine"))
