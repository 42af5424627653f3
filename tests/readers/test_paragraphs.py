"""Lines on pages become a text in paragraphs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kumihimo.readers.glyphs import TextLine
from kumihimo.readers.paragraphs import join_paragraphs

WIDTH = 400.0


def page(*texts: str, top: float = 700, size: float = 10, end: float = WIDTH) -> list[TextLine]:
    """Return full-width lines, 14 apart.

    An empty text is a gap. After `<` the line is short, after `>` it is indented.
    """
    lines: list[TextLine] = []
    for number, text in enumerate(texts):
        begin, width = (20.0, end) if text.startswith(">") else (0.0, 150.0) if text.startswith("<") else (0.0, end)
        if text := text.lstrip("<>"):
            lines.append(TextLine(text, begin, width, top - 14 * number, size, first_word_width=30))
    return lines


def text(*pages: Sequence[TextLine]) -> str:
    return join_paragraphs(pages).text


def test_wrapped_lines_are_one_paragraph() -> None:
    assert text(page("The harbour was quiet", "in the morning", "<and the boats lay still.")) == (
        "The harbour was quiet in the morning and the boats lay still."
    )


def test_a_gap_parts_paragraphs() -> None:
    assert text(page("One a", "one b", "", "two a", "two b")) == "One a one b\n\ntwo a two b"


def test_an_indent_parts_paragraphs() -> None:
    assert text(page("One a", "one b", ">two a", "two b")) == "One a one b\n\ntwo a two b"


def test_a_line_that_had_room_ends_a_paragraph() -> None:
    assert text(page("One a", "<one b", "two a", "two b")) == "One a one b\n\ntwo a two b"


def test_lines_of_cjk_are_joined_without_a_space() -> None:
    assert text(page("組紐の工房は、港の近く", "にある。")) == "組紐の工房は、港の近くにある。"
    assert text(page("長さはおよそ", "268 m")) == "長さはおよそ 268 m"


def test_a_word_parted_by_a_hyphen_is_whole_again() -> None:
    first = page("went to the har")[0]
    hyphened = TextLine(
        first.text, first.begin, first.end, first.line_position, first.size, first.first_word_width, hyphenated=True
    )
    assert text([hyphened, *page("bour at nine", top=686)]) == "went to the harbour at nine"


def test_a_hyphen_that_the_word_has_elsewhere_stays() -> None:
    parted = TextLine("where a well", 0, WIDTH, 700, 10, 30, hyphenated=True)
    assert text([parted, *page("known boat lay", "<a Well-known, well-known.", top=686)]).startswith(
        "where a well-known boat"
    )


@pytest.mark.parametrize(
    ("above", "below", "whole"),
    [
        ("the mend", "ing of it", "the mending of it"),
        ("the old Smith", "Jones firm", "the old Smith-Jones firm"),
        ("on pages 120", "135 of it", "on pages 120-135 of it"),
        ("a well", "known builder", "a well-known builder"),
    ],
)
def test_a_hyphen_goes_where_it_only_parts(above: str, below: str, whole: str) -> None:
    parted = TextLine(above, 0, WIDTH, 700, 10, 30, hyphenated=True)
    assert text([parted, *page(below, "<who was well-known.", top=686)]).startswith(f"{whole} who")


def test_a_hyphen_that_pdfium_left_alone_joins() -> None:
    assert text(page("the old well-", "known boat")) == "the old well-known boat"


@pytest.mark.parametrize("mark", ["- ", "• ", "1. ", "(2) ", "３） ", "① ", "・"])
def test_items_have_lines_of_their_own(mark: str) -> None:
    assert text(page("We need", f"{mark}rope and", f"{mark}tar")) == f"We need\n{mark}rope and\n{mark}tar"


def test_an_item_may_be_wrapped() -> None:
    assert text(page("- rope of the best", ">kind", "- tar")) == "- rope of the best kind\n- tar"


def test_references_have_lines_of_their_own() -> None:
    result = text(page("[1] Oldacre, M. The tide gates", ">of Brannet", "[2] Garrow, T. The Long Arm", "<[12] Ayu"))
    assert result == "[1] Oldacre, M. The tide gates of Brannet\n[2] Garrow, T. The Long Arm\n[12] Ayu"


@pytest.mark.parametrize("words", ["1.5 metres long", "2024 was wet", "a) no"])
def test_a_number_in_a_sentence_is_no_item(words: str) -> None:
    assert text(page("The wall was built", words)) == f"The wall was built {words}"


def test_rows_of_a_table_are_lines_apart_from_the_text() -> None:
    result = text(page("Of the stones", "Root | 120 | 2", "Elbow | 150 | 41", "nothing is left"))
    assert result == "Of the stones\n\nRoot | 120 | 2\nElbow | 150 | 41\n\nnothing is left"


def test_what_is_larger_is_a_heading() -> None:
    result = text([*page("The Long Arm", size=16), *page("It was laid dry", "in 1903.", top=670)])
    assert result == "## The Long Arm\n\nIt was laid dry in 1903."


def test_a_heading_of_two_lines_is_one() -> None:
    large = [TextLine("On the mending of", 0, WIDTH, 700, 16, 20), TextLine("the Long Arm", 0, 150, 682, 16, 30)]
    assert text([*large, *page(*["It was laid dry"] * 9, top=640)]).startswith(
        "## On the mending of the Long Arm\n\nIt"
    )


def test_a_long_or_closed_line_is_no_heading() -> None:
    small = page(*["so it went on"] * 20, top=600)
    assert not text([*page("word " * 40 + "end", size=16), *small]).startswith("#")
    assert not text([*page("It was large.", size=16), *small]).startswith("#")


def test_a_sentence_goes_over_the_end_of_a_page() -> None:
    written = join_paragraphs([page("It rained and"), page("then it snowed.")])
    assert (written.text, written.page_starts) == ("It rained and then it snowed.", [0, 14])
    assert written.text[14:] == "then it snowed."


def test_a_page_that_ends_with_a_stop_ends_a_paragraph() -> None:
    assert text(page("It rained."), page("Then it snowed.")) == "It rained.\n\nThen it snowed."


def test_a_sentence_goes_on_in_the_next_column() -> None:
    first = page("The wall was", "laid dry and", top=300, end=180)
    second = [TextLine("has no mortar", 220, 400, 700, 10, 20), TextLine("in it.", 220, 260, 686, 10, 20)]
    assert text([*first, *second]) == "The wall was laid dry and has no mortar in it."


def test_pages_without_text_begin_where_the_text_before_ends() -> None:
    written = join_paragraphs([[], page("One."), [], page("Two.")])
    assert (written.text, written.page_starts) == ("One.\n\nTwo.", [0, 0, 4, 6])
    assert join_paragraphs([]).text == ""
    assert join_paragraphs([[], []]).page_starts == [0, 0]


def test_a_heading_begins_its_page_with_its_mark() -> None:
    written = join_paragraphs([page(*["It rained"] * 5), [*page("Snow", size=16), *page("fell.", top=660)]])
    assert written.text[written.page_starts[1] :] == "## Snow\n\nfell."


def test_lines_that_stand_nowhere_are_lines() -> None:
    assert text([TextLine("One"), TextLine("two")], [TextLine("three")]) == "One\ntwo\nthree"


def test_korean_lines_join_with_a_space_unless_a_known_word_is_split() -> None:
    lines = page("매듭은 바다에서 배를", "지키는 줄이다. 줄을 매는 사람은 매", "듭은 여섯 번 맨다고 말한다.")
    assert text(lines) == "매듭은 바다에서 배를 지키는 줄이다. 줄을 매는 사람은 매듭은 여섯 번 맨다고 말한다."


@pytest.mark.parametrize(
    "label", ["第７条　", "第十二条の二　", "２　", "一　", "イ　", "4.2 The ", "(b) ", "（三）", "§ 3 ", "Article 9 "]
)
def test_a_hanging_article_is_one_paragraph(label: str) -> None:
    lines = page(f"{label}A boat that", ">lies at the wall.", ">It pays", f"{label}A boat in", ">need does not.")
    assert text(lines) == f"{label}A boat that lies at the wall. It pays\n\n{label}A boat in need does not."


def test_a_hanging_article_goes_on_over_the_end_of_a_page() -> None:
    first, second = page("第７条　船は、壁に", ">横付けする"), page(">ことができる。", "第８条　船を", ">動かす。")
    assert text(first, second) == "第７条　船は、壁に横付けすることができる。\n\n第８条　船を動かす。"


def test_a_label_in_the_middle_of_a_sentence_begins_no_paragraph() -> None:
    assert text(page("船は、前条及び", "第７条 の規定による", "<ものとする。")) == (
        "船は、前条及び第７条 の規定によるものとする。"
    )


def test_a_caption_begins_the_next_article() -> None:
    lines = page("第１条　船は、壁に横付けする。", "（係留の手数料）", "第２条　船は、手数料を", ">納める。")
    assert text(lines) == "第１条　船は、壁に横付けする。\n\n（係留の手数料）\n第２条　船は、手数料を納める。"


def test_an_indent_after_a_full_line_begins_a_paragraph() -> None:
    assert (
        text(page("It rained all day.", ">Then it snowed", "and froze."))
        == "It rained all day.\n\nThen it snowed and froze."
    )


def test_a_line_further_left_within_a_sentence_goes_on() -> None:
    assert (
        text(page(">It rained and", ">it snowed", "below the picture.")) == "It rained and it snowed below the picture."
    )


def test_a_reference_in_a_sentence_is_no_item() -> None:
    assert text(page("It leaks, as Garrow", "[3] had written.")) == "It leaks, as Garrow [3] had written."


def test_a_summary_as_wide_as_two_columns_does_not_widen_them() -> None:
    wide = [TextLine("The summary of it", 0, 400, 760 - 14 * n, 10, 30) for n in range(3)]
    first = page("It rained and", "it snowed", "and froze and", top=700, end=180)
    second = [TextLine("it was cold", 220, 400, 700 - 14 * n, 10, 30) for n in range(3)]
    assert text([*wide, *first, *second]).endswith(
        "\n\nIt rained and it snowed and froze and it was cold it was cold it was cold"
    )


def test_an_article_below_its_numbered_heading_begins_a_paragraph() -> None:
    heading = TextLine("6. Notices", 0, 50, 700, 10, 10)
    body = [TextLine("6.1 The Supplier shall", 0, WIDTH, 686, 10, 15), TextLine("deliver.", 54, 120, 672, 10, 30)]
    assert text([heading, *body]) == "6. Notices\n\n6.1 The Supplier shall deliver."
