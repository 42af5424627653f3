"""Rich text becomes its text."""

from __future__ import annotations

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.readers.page import Page
from kumihimo.readers.rtf import read_rtf


def read(data: bytes) -> Page:
    (page,) = read_rtf(data, "a.rtf")
    return page


def test_text_encodings_and_properties() -> None:
    page = read(
        rb"{\rtf1\ansi\ansicpg932{\fonttbl\f0 Mincho;}{\info{\title \'93\'fa\'96\'7b}{\author Sabine Orrell}}"
        rb"\'92\'aa \u28526? {\b bold}\par {\*\generator x}next\'85\par}"
    )
    assert page.text == "潮 潮 bold\nnext…" or page.text.startswith("潮 潮 bold\nnext")
    assert (page.title, page.metadata) == ("日本", {"author": "Sabine Orrell"})


def test_cells_stand_apart() -> None:
    assert read(rb"{\rtf1 \trowd day\cell m\cell\row \trowd 1\cell 2.4\cell\row after | all}").text == (
        "day | m\n1 | 2.4\nafter | all"
    )


def test_pictures_alone_are_refused() -> None:
    with pytest.raises(SourceError, match=r"^a\.rtf: contains no text"):
        read(rb"{\rtf1 {\pict\pngblip 89504e47}}")


def test_other_text_is_refused_with_a_remedy() -> None:
    with pytest.raises(SourceError, match=r"^a\.rtf: not rich text; name it \.txt"):
        read(b"The ferry leaves at nine.")


STYLES = rb"{\stylesheet{\s0 Normal;}{\s4\sb240 heading 2;}{\*\cs9 Strong;}{\s7\outlinelevel0 My own;}}"


def test_paragraphs_in_the_style_of_headings_are_sections() -> None:
    page = read(
        rb"{\rtf1\ansi " + STYLES + rb"\pard\plain\s7 {\b Tides}\par\pard\s0 At noon.\par"
        rb"\pard\s4 High\par Water\par\pard It rises.\par\pard\outlinelevel2 \u28526?\par}"
    )
    assert page.text == "# Tides\n\nAt noon.\n\n## High\n\n## Water\n\nIt rises.\n\n### 潮"
    assert page.title == "Tides"
    assert [label for _, label in page.places] == ["§ Tides", "§ High", "§ Water", "§ 潮"]
    assert all(page.text[at:].startswith("#") for at, _ in page.places)


def test_letters_that_are_written_as_two_numbers() -> None:
    assert read(rb"{\rtf1 \u-10174?\u-8265?\u37326?}").text == "𠮷野"


def test_styles_that_do_not_end_are_no_styles() -> None:
    assert read(rb"{\rtf1 The tide.{\stylesheet{\s1 heading 1;").text == "The tide."
