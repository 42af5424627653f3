"""documents -> chunks: exact spans up to the token limit, cut at sentence ends, without lost text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from unicodedata import category

import pytest
from hypothesis import example, given, settings, strategies as st

from kumihimo.core.context import Tokenizer
from kumihimo.core.errors import SettingsError
from kumihimo.core.records import Chunk, Document
from kumihimo.index.chunks import chunks
from kumihimo.llm.local_embedder import LocalTokenizer
from kumihimo.text import chunker
from kumihimo.text.sentences import split_sentences
from tests.counters import CountingTokenizer


class CharacterTokenizer:
    """A tokenizer with one token per character."""

    fingerprint = "characters"

    def __call__(self, text: str) -> Sequence[int]:
        return range(len(text))


def make_chunks(text: str, size: int, overlap: int = 0, tokenizer: Tokenizer | None = None) -> list[Chunk]:
    document = Document(id="d", uri="d", file="d", title="T", media_type="text/plain", text=text)
    return list(chunks(document, tokenizer or CharacterTokenizer(), size=size, overlap=overlap))


def chunk_texts(text: str, size: int, overlap: int = 0) -> list[str]:
    return [chunk.text for chunk in make_chunks(text, size, overlap)]


def uncovered(text: str, chunk_list: list[Chunk]) -> str:
    """Return the text outside all chunks."""
    covered = [False] * len(text)
    for chunk in chunk_list:
        covered[chunk.start : chunk.end] = [True] * (chunk.end - chunk.start)
    return "".join(char for char, is_covered in zip(text, covered, strict=True) if not is_covered)


# -- examples


def test_a_short_text_is_one_chunk() -> None:
    assert make_chunks(" 雨。雪。\n", 600, 100) == [Chunk(title="T", start=1, end=5, tokens=4, text="雨。雪。")]


@pytest.mark.parametrize("text", ["", " \n\t\r\n", "\u3000\n"])
def test_nothing_said_makes_no_chunk(text: str) -> None:
    assert make_chunks(text, 600, 100) == []


def test_sentences_are_packed_until_no_more_fits() -> None:
    assert chunk_texts("一二。三。四五六。七。八。", 6) == ["一二。三。", "四五六。七。", "八。"]
    assert chunk_texts("一二。三。四五六。七。八。", 5) == ["一二。三。", "四五六。", "七。八。"]
    assert chunk_texts("One two. Three four. Five.", 20) == ["One two. Three four.", "Five."]


def test_a_chunk_begins_with_the_end_of_the_one_before() -> None:
    assert chunk_texts("一。二。三。四。五。", 6, 2) == ["一。二。三。", "三。四。五。"]
    assert chunk_texts("一。二。三。四。五。", 6, 4) == ["一。二。三。", "二。三。四。", "三。四。五。"]
    assert chunk_texts("一。二。三。四。五。", 6, 1) == [
        "一。二。三。",
        "四。五。",
    ]  # every sentence is longer than the overlap
    assert chunk_texts("一。二。三四五六七。八。", 7, 4) == [
        "一。二。",
        "三四五六七。",
        "八。",
    ]  # no room for the overlap
    assert chunk_texts("一。二。三四五六。八。", 7, 4) == ["一。二。", "二。三四五六。", "八。"]


def test_a_paragraph_goes_on_in_the_same_chunk() -> None:
    assert chunk_texts("一。\n\n二。\r\n\r\n三。", 6) == ["一。\n\n二。", "三。"]


def test_only_paragraphs_in_which_a_cut_falls_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    split: list[str] = []

    def record(text: str, start: int, end: int) -> list[tuple[int, int]]:
        split.append(text[start:end])
        return split_sentences(text, start, end)

    monkeypatch.setattr(chunker, "split_sentences", record)
    text = "一。二。\n\n三。四。\n\n五。六。\n\n七。八。"
    assert chunk_texts(text, 12) == ["一。二。\n\n三。四。", "五。六。\n\n七。八。"]
    assert split == ["五。六。"]


def test_a_heading_stays_with_what_it_heads() -> None:
    assert chunk_texts("一二。\n# 見\n三四五。", 8) == ["一二。", "# 見\n三四五。"]
    assert chunk_texts("一二。\n\n見\n--\n三四五。", 9) == ["一二。", "見\n--\n三四五。"]
    assert chunk_texts("# 題\n## 見\n一二三。", 13) == ["# 題\n## 見\n一二三。"]
    assert chunk_texts("一。二。\n# 題\n## 見\n三。四。", 13, 2) == ["一。二。", "# 題\n## 見\n三。四。"]


def test_nothing_is_said_twice_before_a_heading() -> None:
    assert chunk_texts("一。二。三。\n# 見\n四。五。", 8, 4) == ["一。二。三。", "# 見\n四。五。"]


def test_a_heading_stays_with_a_sentence_that_is_too_long() -> None:

    first = chunk_texts("# 見\n" + "語" * 100, 20)[0]
    assert first.startswith("# 見\n語")


def test_the_line_under_a_heading_is_in_its_chunk() -> None:

    assert chunk_texts("見出し\n===", 20) == ["見出し\n==="]


def test_items_and_rows_are_not_cut_at_full_stops() -> None:
    assert chunk_texts("- 一。二。\n- 三。四。", 9) == ["- 一。二。", "- 三。四。"]
    assert chunk_texts("| 一。 | 二。 |\n| 三。 | 四。 |", 14) == ["| 一。 | 二。 |", "| 三。 | 四。 |"]
    assert chunk_texts("- 一。二三四五六七。", 9) == ["- 一。", "二三四五六七。"]  # except one that is too long alone


def test_a_long_sentence_is_cut_at_a_space_or_comma() -> None:
    assert chunk_texts("aaaa bbbb cccc dddd", 10) == ["aaaa bbbb ", "cccc dddd"]
    assert chunk_texts("あああ、いいい、ううう、えええ", 8) == ["あああ、いいい、", "ううう、えええ"]
    assert chunk_texts("ああああ，いいい；うう", 6) == ["ああああ，", "いいい；うう"]
    assert chunk_texts("a bbbbbbbbbbbb", 6) == ["a bbbb", "bbbbbb", "bb"]  # not if the piece would be less than half


def test_a_text_without_a_break_is_cut_between_tokens() -> None:
    results = make_chunks("語" * 20_000, 600, 100)
    assert {chunk.tokens for chunk in results[:-1]} == {600}
    assert "".join(chunk.text for chunk in results) == "語" * 20_000
    tokenizer = CountingTokenizer(LocalTokenizer())
    results = make_chunks("x" * 20_000, 600, 100, tokenizer)
    assert tokenizer.characters == 20_000  # each character is tokenized once
    assert "".join(chunk.text for chunk in results) == "x" * 20_000
    assert max(chunk.tokens for chunk in results) <= 600


@pytest.mark.parametrize("text", ["เขาไปที่ตลาดน้ำ", "ພວກເຂົາຢູ່ທີ່ນີ້", "ខ្ញុំទៅផ្សារឥឡូវនេះ", "ကျွန်တော်ဈေးသွားတယ်", "हिन्दीमेंलिखीपुस्तक"])
def test_no_chunk_begins_with_a_vowel_sign(text: str) -> None:
    for size in (5, 6, 7, 8):
        pieces = chunk_texts(text * 5, size)
        assert "".join(pieces) == text * 5
        assert not [piece for piece in pieces if category(piece[0]).startswith("M")]


def test_sentences_of_all_scripts_are_packed_whole() -> None:
    for sentences in (
        "میں گیا۔ |وہ آیا۔ ",
        "यह पहला है। |यह दूसरा है। ",
        "ကျွန်တော် သွားတယ်။ |သူ လာတယ်။ ",
        "ខ្ញុំទៅផ្សារ។ |គាត់មកផ្ទះ។ ",
    ):
        pieces = chunk_texts(sentences.replace("|", "") * 6, 40)
        assert len(pieces) > 1
        assert {piece[-1] for piece in pieces} == {sentences.split("|")[0].strip()[-1]}


def test_no_chunk_is_blank() -> None:

    assert [chunk.text for chunk in make_chunks("a" + " " * 50 + "b", 10) if not chunk.text.strip()] == []


@pytest.mark.parametrize(
    "text", ["It rained. He left. " * 99, "Yes.\n\n" * 99, "- sea\n" * 99, "雨。彼は行った。" * 99]
)
def test_a_chunk_holds_no_more_tokens_than_it_may(text: str) -> None:

    tokenizer = LocalTokenizer()
    results = make_chunks(text, 100, 20, tokenizer)
    assert max(len(tokenizer(chunk.text)) for chunk in results) <= 101  # the tokenizer puts a space before a text


@pytest.mark.parametrize(("size", "overlap"), [(600, 600), (100, 101), (1, 1)])
def test_an_overlap_that_leaves_no_room_is_refused(size: int, overlap: int) -> None:
    with pytest.raises(SettingsError) as error:
        make_chunks("雨。", size, overlap)
    assert str(error.value) == f"chunks.overlap is {overlap}; it must be below chunks.size, which is {size}"


# -- any text

ODD = "ab Dr. 3.5?!…\n\r\u3000。！？「」『』（）“”彼雨、,#-|1)・\t\u2028🚢e\u0301"
SHORT = ["# Head", "It rained. He left.", "雨だった。「行く。」と言った。", "- item one", "| a | b |", "", "\r"]
LINES = st.sampled_from([*SHORT, "語" * 60, "x" * 90])
TEXTS = (
    st.text(st.sampled_from(ODD), max_size=200)
    | st.text(max_size=100)
    | st.lists(LINES, max_size=12).map("\n".join)
    | st.lists(LINES, max_size=12).map("\r\n".join)
)


@given(TEXTS, st.integers(4, 60), st.integers(0, 59), st.sampled_from([CharacterTokenizer(), LocalTokenizer()]))
@example("a" * 20_000, 7, 6, CharacterTokenizer())
@example("🚢" * 500, 8, 3, LocalTokenizer())
@settings(max_examples=400)
def test_chunks_are_what_they_say(text: str, size: int, overlap: int, tokenizer: Tokenizer) -> None:
    if not isinstance(tokenizer, CharacterTokenizer):
        size += 8  # a character may have several tokens and is not cut
    overlap = min(overlap, size - 1)
    results = make_chunks(text, size, overlap, tokenizer)
    for chunk in results:
        assert text[chunk.start : chunk.end] == chunk.text
        assert chunk.title == "T"
        assert 0 < chunk.tokens <= size
        assert chunk.start < chunk.end
    assert set("".join(uncovered(text, results).split())) <= set("-=")  # the underline of a heading
    for first, second in pairwise(results):
        assert first.start < second.start
        assert first.end < second.end
        repeated = [char for char in text[second.start : first.end] if not char.isspace() and char not in "-="]
        assert len(repeated) <= overlap or not isinstance(tokenizer, CharacterTokenizer)


@given(TEXTS, st.integers(1, 5))
@settings(max_examples=200)
def test_the_smallest_chunks_come_to_an_end_too(text: str, size: int) -> None:
    for ruler in (CharacterTokenizer(), LocalTokenizer()):
        results = make_chunks(text, size, size - 1, ruler)
        assert len(results) <= len(text)
        assert set("".join(uncovered(text, results).split())) <= set("-=")


def test_headings_without_text_are_packed() -> None:
    texts = chunk_texts("# 見\n" * 500, 40)
    assert len(texts) < 150
    assert "\n".join(texts).count("見") == 500
