"""a chunk and its document -> title, date, sentence before and full names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kumihimo.core.records import Chunk
from kumihimo.index.chunk_background import ChunkBackground, Description, find_reading, read_background
from kumihimo.index.name_records import NameMerges
from tests.factories_tables import table

TEXT = "Ines Roy came to Oban. She was late. She had a dog. Roy left again."
FIRST = Chunk(id="d.00000", title="Ferries", start=0, end=51, tokens=9, text=TEXT[:51])
SECOND = Chunk(id="d.00001", title="Ferries", start=37, end=len(TEXT), tokens=9, text=TEXT[37:])
MERGES = NameMerges((("Roy", "Ines Roy", "surname"), ("HL", "Hebrides Lines", "acronym")), id="d")


def background(chunk: Chunk, *dates: str) -> ChunkBackground:
    described = [Description(dates, id="d", text="Ferries")] if dates else []
    tables = table(Chunk, [FIRST, SECOND]), table(NameMerges, [MERGES]), table(Description, described)
    return read_background(chunk, *tables)


def test_the_sentence_before_is_the_one_before_the_overlap() -> None:
    assert background(FIRST).before == ""
    assert background(SECOND).before == "She was late."


def test_a_short_form_gets_its_full_name_unless_the_chunk_has_it() -> None:
    assert background(FIRST).known_names == ""
    assert background(SECOND).known_names == "Ines Roy (Roy)"


def test_the_most_precise_date_with_a_year_counts() -> None:
    assert background(FIRST).date == ""
    assert background(FIRST, "--05-02", "2024", "2024-05-02", "2023-01-01").date == "2024-05-02"


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("0079_0506c070", ""),
        ("IMG_2045", ""),
        ("3f2a9c1e-77b0-41d2", ""),
        *((title, title) for title in ("Ferries", "report2024", "COVID-19", "GPT-4", "1984", "Q3-2024", "第7回会議")),
    ],
)
def test_a_code_is_no_title(title: str, shown: str) -> None:
    assert background(Chunk(id="d.00000", title=title, start=0, end=3, tokens=1, text="Roy")).title == shown


def test_a_name_inside_a_word_is_no_short_form() -> None:
    chunk = replace(FIRST, text="Royal visitors came.")
    assert background(chunk).known_names == ""


@pytest.mark.parametrize(("tail_start", "is_tail"), [(23, True), (37, False)])  # it repeats 28 or 14, and adds 16
def test_a_last_chunk_that_mostly_repeats_is_read_with_the_one_before(tail_start: int, is_tail: bool) -> None:
    spans = enumerate([(0, 36), (23, 51), (tail_start, len(TEXT))])
    chunks = [replace(FIRST, id=f"d.0000{n}", start=start, end=end, text=TEXT[start:end]) for n, (start, end) in spans]
    readings = [find_reading(chunk, table(Chunk, chunks)) for chunk in chunks]
    together = [TEXT[:36], TEXT[23:], TEXT[23:]]
    assert [reading.chunk.text for reading in readings] == (together if is_tail else [c.text for c in chunks])
    assert [reading.own for reading in readings] == chunks
    assert find_reading(chunks[1], table(Chunk, chunks[:2])).chunk == chunks[1]
