"""A passage is shown with the text around it, within its page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.app.browse.source_files import surround
from kumihimo.core.spans import Span
from tests.factories_graph_text import document, put

PAGES = ("The first page ends here.\n", "A second page tells of Ada Holm and of the net.\n", "A third.")


@pytest.mark.parametrize(
    ("passage", "around", "before", "after"),
    [
        ("Ada Holm", 1000, "A second page tells of ", " and of the net.\n"),  # no further than the page
        ("Ada Holm", 9, "tells of ", " and of t"),
        ("Ada Holm", 11, "tells of ", " and of the"),  # no half word at the beginning
        ("Ada Holm", 0, "", ""),
        ("net.\nA third", 5, "the ", "."),  # a passage may be on two pages
        ("first", 9, "", " page end"),  # the front matter, here of four characters, is left out
    ],
)
def test_a_passage_stays_on_its_page(tmp_path: Path, passage: str, around: int, before: str, after: str) -> None:
    made, chunks = document("notes/a.pdf", "".join(PAGES))
    starts = (0, len(PAGES[0]), len(PAGES[0] + PAGES[1]))
    made = replace(made, body=4, places=tuple((start, f"p. {n}") for n, start in enumerate(starts, 1)))
    put(tmp_path / ".kumi", {"documents": [made], "chunks": chunks})
    start = made.text.index(passage)
    span = Span(chunks[0].id, made.uri, start, start + len(passage), passage)
    with Kumihimo.open(tmp_path / ".kumi") as kumi, kumi.snapshot() as snapshot:
        page = surround(snapshot, span, around)
        gone = surround(snapshot, replace(span, uri="notes/gone.pdf"), around)
    text, first, last = page["text"], page["start"], page["end"]
    assert (text[:first], text[first:last], text[last:]) == (before, passage, after)
    assert made.text[page["first"] :].startswith(text)
    assert gone == {"text": passage, "start": 0, "end": len(passage), "first": start}
