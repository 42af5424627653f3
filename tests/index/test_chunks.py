"""documents -> chunks: exact spans, no more than so many tokens, nothing lost, cut at sentence ends."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from time import perf_counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kumihimo.core.context import Tokenizer
from kumihimo.core.errors import SettingsError
from kumihimo.core.records import Chunk, Document
from kumihimo.index.chunks import chunks
from kumihimo.llm.local_embedder import LocalTokenizer


class Characters:
    """Each character is a token."""

    fingerprint = "characters"

    def __call__(self, text: str) -> Sequence[int]:
        return range(len(text))


def cut(text: str, size: int, overlap: int = 0, tokenizer: Tokenizer | None = None) -> list[Chunk]:
    document = Document(id="d", uri="d", file="d", title="T", media_type="text/plain", text=text)
    return list(chunks(document, tokenizer or Characters(), size=size, overlap=overlap))


def texts(text: str, size: int, overlap: int = 0) -> list[str]:
    return [chunk.text for chunk in cut(text, size, overlap)]


def lost(text: str, made: list[Chunk]) -> str:
    """What is in no chunk."""
    inside = [False] * len(text)
    for chunk in made:
        inside[chunk.start : chunk.end] = [True] * (chunk.end - chunk.start)
    return "".join(char for char, within in zip(text, inside, strict=True) if not within)


# -- by hand


def test_a_short_text_is_one_chunk() -> None:
    assert cut(" 雨。雪。\n", 600, 100) == [Chunk(title="T", start=1, end=5, tokens=4, text="雨。雪。")]


@pytest.mark.parametrize("text", ["", " \n\t\r\n", "\u3000\n"])
def test_nothing_said_makes_no_chunk(text: str) -> None:
    assert cut(text, 600, 100) == []


def test_sentences_are_packed_until_no_more_fits() -> None:
    assert texts("一二。三。四五六。七。八。", 6) == ["一二。三。", "四五六。七。", "八。"]
    assert texts("一二。三。四五六。七。八。", 5) == ["一二。三。", "四五六。", "七。八。"]
    assert texts("One two. Three four. Five.", 20) == ["One two. Three four.", "Five."]


def test_a_chunk_begins_with_the_end_of_the_one_before() -> None:
    assert texts("一。二。三。四。五。", 6, 2) == ["一。二。三。", "三。四。五。"]
    assert texts("一。二。三。四。五。", 6, 4) == ["一。二。三。", "二。三。四。", "三。四。五。"]
    assert texts("一。二。三。四。五。", 6, 1) == ["一。二。三。", "四。五。"]  # no whole sentence is so short
    assert texts("一。二。三四五六七。八。", 7, 4) == ["一。二。", "三四五六七。", "八。"]  # no room for it
    assert texts("一。二。三四五六。八。", 7, 4) == ["一。二。", "二。三四五六。", "八。"]


def test_a_paragraph_goes_on_in_the_same_chunk() -> None:
    assert texts("一。\n\n二。\r\n\r\n三。", 6) == ["一。\n\n二。", "三。"]


def test_a_heading_stays_with_what_it_heads() -> None:
    assert texts("一二。\n# 見\n三四五。", 8) == ["一二。", "# 見\n三四五。"]
    assert texts("一二。\n\n見\n--\n三四五。", 9) == ["一二。", "見\n--\n三四五。"]
    assert texts("# 題\n## 見\n一二三。", 13) == ["# 題\n## 見\n一二三。"]
    assert texts("一。二。\n# 題\n## 見\n三。四。", 13, 2) == ["一。二。", "# 題\n## 見\n三。四。"]


def test_nothing_is_said_twice_before_a_heading() -> None:
    assert texts("一。二。三。\n# 見\n四。五。", 8, 4) == ["一。二。三。", "# 見\n四。五。"]


def test_a_heading_stays_with_a_sentence_that_is_too_long() -> None:

    first = texts("# 見\n" + "語" * 100, 20)[0]
    assert first.startswith("# 見\n語")


def test_the_line_under_a_heading_is_in_its_chunk() -> None:

    assert texts("見出し\n===", 20) == ["見出し\n==="]


def test_items_and_rows_are_not_cut_at_full_stops() -> None:
    assert texts("- 一。二。\n- 三。四。", 9) == ["- 一。二。", "- 三。四。"]
    assert texts("| 一。 | 二。 |\n| 三。 | 四。 |", 14) == ["| 一。 | 二。 |", "| 三。 | 四。 |"]
    assert texts("- 一。二三四五六七。", 9) == ["- 一。", "二三四五六七。"]  # but where one alone is too long


def test_a_long_sentence_is_cut_at_a_space_or_comma() -> None:
    assert texts("aaaa bbbb cccc dddd", 10) == ["aaaa bbbb ", "cccc dddd"]
    assert texts("あああ、いいい、ううう、えええ", 8) == ["あああ、いいい、", "ううう、えええ"]
    assert texts("ああああ，いいい；うう", 6) == ["ああああ，", "いいい；うう"]
    assert texts("a bbbbbbbbbbbb", 6) == ["a bbbb", "bbbbbb", "bb"]  # not where it would leave less than half


def test_a_text_without_a_break_is_cut_between_tokens() -> None:
    made = cut("語" * 20_000, 600, 100)
    assert {chunk.tokens for chunk in made[:-1]} == {600}
    assert "".join(chunk.text for chunk in made) == "語" * 20_000
    began = perf_counter()
    made = cut("x" * 20_000, 600, 100, LocalTokenizer())
    assert perf_counter() - began < 3
    assert "".join(chunk.text for chunk in made) == "x" * 20_000
    assert max(chunk.tokens for chunk in made) <= 600


def test_no_chunk_is_blank() -> None:

    assert [chunk.text for chunk in cut("a" + " " * 50 + "b", 10) if not chunk.text.strip()] == []


@pytest.mark.parametrize(
    "text", ["It rained. He left. " * 99, "Yes.\n\n" * 99, "- sea\n" * 99, "雨。彼は行った。" * 99]
)
def test_a_chunk_holds_no_more_tokens_than_it_may(text: str) -> None:

    ruler = LocalTokenizer()
    made = cut(text, 100, 20, ruler)
    assert max(len(ruler(chunk.text)) for chunk in made) <= 101  # the tokenizer puts a space before a text


@pytest.mark.parametrize(("size", "overlap"), [(600, 600), (100, 101), (1, 1), (0, 0), (100, -1), (-5, -6)])
def test_an_overlap_that_leaves_no_room_is_refused(size: int, overlap: int) -> None:
    with pytest.raises(SettingsError) as refused:
        cut("雨。", size, overlap)
    assert str(refused.value) == (
        f"chunks.overlap is {overlap}; it must be 0 or more and below chunks.size, which is {size}"
    )


# -- whatever the text

ODD = "ab Dr. 3.5?!…\n\r\u3000。！？「」『』（）“”彼雨、,#-|1)・\t\u2028🚢e\u0301"
SHORT = ["# Head", "It rained. He left.", "雨だった。「行く。」と言った。", "- item one", "| a | b |", "", "\r"]
LINES = st.sampled_from([*SHORT, "語" * 60, "x" * 90])
TEXTS = (
    st.text(st.sampled_from(ODD), max_size=200)
    | st.text(max_size=100)
    | st.lists(LINES, max_size=12).map("\n".join)
    | st.lists(LINES, max_size=12).map("\r\n".join)
)


@given(TEXTS, st.integers(4, 60), st.integers(0, 59), st.sampled_from([Characters(), LocalTokenizer()]))
@example("a" * 20_000, 7, 6, Characters())
@example("🚢" * 500, 8, 3, LocalTokenizer())
@settings(max_examples=400, deadline=None)
def test_chunks_are_what_they_say(text: str, size: int, overlap: int, tokenizer: Tokenizer) -> None:
    if not isinstance(tokenizer, Characters):
        size += 8  # one character may be several tokens, and is not cut
    overlap = min(overlap, size - 1)
    made = cut(text, size, overlap, tokenizer)
    for chunk in made:
        assert text[chunk.start : chunk.end] == chunk.text
        assert chunk.title == "T"
        assert 0 < chunk.tokens <= size
        assert chunk.start < chunk.end
    assert set("".join(lost(text, made).split())) <= set("-=")  # a line of --- under a heading
    for one, two in pairwise(made):
        assert one.start < two.start
        assert one.end < two.end
        twice = [char for char in text[two.start : one.end] if not char.isspace() and char not in "-="]
        assert len(twice) <= overlap or not isinstance(tokenizer, Characters)


@given(TEXTS, st.integers(1, 5))
@settings(max_examples=200, deadline=None)
def test_the_smallest_chunks_come_to_an_end_too(text: str, size: int) -> None:
    for ruler in (Characters(), LocalTokenizer()):
        made = cut(text, size, size - 1, ruler)
        assert len(made) <= len(text)
        assert set("".join(lost(text, made).split())) <= set("-=")
