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
