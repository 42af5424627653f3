"""Subtitles become what is said, with the time of each cue."""

from __future__ import annotations

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.readers.page import Page
from kumihimo.readers.subtitles import read_subtitles


def read(text: str, name: str = "a.vtt") -> Page:
    (page,) = read_subtitles(text.encode(), name)
    return page


def test_speakers_and_pauses_begin_paragraphs() -> None:
    page = read(
        "WEBVTT - Board of May\n\nNOTE first\n\nSTYLE\n::cue { color: red }\n\n1\n00:00:01.000 --> 00:00:03.000\n"
        "<v Ana>Good <i>morning</i>.\n\n00:00:03.500 --> 00:00:05.000 align:start\n<v Ana>We begin &amp; end.</v>\n\n"
        "01:00:05.000 --> 01:00:06.000\n<v.loud Ben Orr>Yes.\n\n01:00:30.000 --> 01:00:31.000\n<v.loud Ben Orr>No.\n"
    )
    assert page.text == "Ana: Good morning. We begin & end.\n\nBen Orr: Yes.\n\nBen Orr: No."
    assert page.places == ((0, "0:01"), (19, "0:03"), (36, "1:00:05"), (51, "1:00:30"))
    assert page.title == "Board of May"


def test_cues_of_a_script_without_spaces_are_joined_without_one() -> None:
    page = read(
        "1\r\n00:00:01,000 --> 00:00:03,000\r\n潮が\r\n\r\n2\r\n00:00:03,000 --> 00:00:04,000\r\n満ちる。\r\n", "a.srt"
    )
    assert (page.text, page.places) == ("潮が満ちる。", ((0, "0:01"), (2, "0:03")))


def test_lines_that_roll_up_stand_once() -> None:
    cues = [("a b", ""), ("a b", "c d"), ("c d", "e f"), ("e f", "")]
    text = "WEBVTT\n\n" + "\n".join(
        f"00:00:0{n}.000 --> 00:00:0{n + 1}.000\n{one}\n{two}\n" for n, (one, two) in enumerate(cues)
    )
    assert read(text).text == "a b c d e f"


def test_tags_are_left_out_and_what_only_looks_like_one_stays() -> None:
    text = "00:01.000 --> 00:02.000\n<c.yellow>5 < 6</c> <00:00:01.500>and {\\an8}<b>x</b>\n"
    assert read(f"WEBVTT\n\n{text}").text == "5 < 6 and x"


@pytest.mark.parametrize("text", ["WEBVTT\n", "WEBVTT\n\n00:01.000 --> 00:02.000\n\n", ""])
def test_without_words_there_is_no_text(text: str) -> None:
    assert read(text).text == ""


def test_other_text_is_refused_with_a_remedy() -> None:
    with pytest.raises(SourceError, match=r"^a\.vtt: has no line such as 00:00:01\.000 --> .*; name it \.txt"):
        read("The ferry leaves at nine.")


@pytest.mark.parametrize("part", ["<v ", "<", "{\\", "<v.a", "&lt;"])
def test_marks_without_an_end_take_little_time(part: str) -> None:
    assert len(read("WEBVTT\n\n00:01.000 --> 00:02.000\n" + part * 100_000).text) > 50_000
