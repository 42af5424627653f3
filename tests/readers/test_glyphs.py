"""Letters and positions become lines; tests of vertical text need no font."""

from __future__ import annotations

from collections.abc import Sequence

from kumihimo.readers.glyphs import (
    HYPHEN,
    Glyph,
    TextLine,
    attach_readings,
    build_line,
    order_columns,
    split_columns,
    split_rows,
)
from kumihimo.readers.paragraphs import join_paragraphs


def row(text: str, across: float = 0, begin: float = 0, size: float = 10, made_up: str = "") -> list[Glyph]:
    """Return square letters, side by side or one below the other."""
    return [
        Glyph(letter, begin + i * size, begin + (i + 1) * size, across, size, letter in made_up)
        for i, letter in enumerate(text)
    ]


def texts(lines: Sequence[Sequence[Glyph]]) -> list[str]:
    return ["".join(glyph.letter for glyph in line_glyphs) for line_glyphs in lines]


def down(*parts: list[Glyph]) -> list[str]:
    """Return the texts of a page's columns."""
    glyphs = [glyph for part in parts for glyph in part]
    return [
        each.text
        for each in order_columns([build_line(c, cells=False) for c in attach_readings(split_columns(glyphs))])
    ]


def test_rows_end_where_a_line_ends() -> None:
    result = list(split_rows(row("ab\r\ncd\r\n\r\ne", made_up="\r\n")))
    assert texts(result) == ["ab", "cd", "e"]


def test_a_row_ends_behind_a_hyphen() -> None:
    assert texts(list(split_rows(row(f"har{HYPHEN}bour")))) == [f"har{HYPHEN}", "bour"]
    assert build_line(row(f"har{HYPHEN}"), cells=True).hyphenated
    assert build_line(row(f"har{HYPHEN}"), cells=True).text == "har"


def test_columns_are_read_from_right_to_left() -> None:
    second, first = row("港の近くにある", across=80), row("組紐の工房は、", across=100)
    assert down(second, first) == ["組紐の工房は、", "港の近くにある"]


def test_a_comma_aside_belongs_to_its_column() -> None:
    comma = Glyph("、", 30, 40, 103, 10, False)
    assert down(row("組紐の", 100), [comma], row("工房", 100, begin=40)) == ["組紐の、工房"]


def test_the_upper_tier_is_read_first() -> None:
    below = [*row("三三三三", 100, 200), *row("四四四四", 80, 200)]
    above = [*row("一一一一", 100), *row("二二二二", 80)]
    assert down(below, above) == ["一一一一", "二二二二", "三三三三", "四四四四"]


def test_columns_of_unequal_length_are_one_tier() -> None:
    assert down(row("一一", 100), row("二二二二二二", 80), row("三三三", 60, begin=30)) == [
        "一一",
        "二二二二二二",
        "三三三",
    ]


def test_a_reading_stands_behind_its_word() -> None:
    reading = row("よ", across=110, begin=32, size=5)
    assert down(row("切れた撚り直す", 100), reading) == ["切れた撚（よ）り直す"]


def test_each_reading_of_a_column_stands_behind_its_own_word() -> None:
    readings = [*row("よ", 110, 2, 5), *row("なみ", 110, 40, 5)]
    assert down(row("撚りが、波の力", 100), readings) == ["撚（よ）りが、波（なみ）の力"]


def test_a_reading_belongs_to_the_nearer_of_two_columns() -> None:
    reading = row("なみ", across=89, begin=0, size=5)  # to the right of its word, so of the left column
    assert down(row("右の列だ", 100), row("波の力だ", 80), reading) == ["右の列だ", "波（なみ）の力だ"]


def test_a_reading_over_a_row_stands_behind_its_word() -> None:
    (result,) = attach_readings([row("とうきょう", across=9, begin=0, size=4), row("東京へ行く", across=0)])
    assert build_line(result, cells=True).text == "東京（とうきょう）へ行く"


def test_a_reading_wider_than_its_word_stands_behind_it() -> None:
    reading = row("うけたま", across=110, begin=25, size=5)  # 20 long, over a letter of 10
    assert down(row("謹んで承る。", 100), reading) == ["謹んで承（うけたま）る。"]


def test_readings_that_outnumber_their_words_stand_behind_them() -> None:
    readings = [row("うけたまわ", 9, -2, 3), row("こころざし", 9, 38, 3), row("おぼしめ", 9, 74, 3)]
    (result,) = attach_readings([*readings, row("承って思志って思召")])
    assert build_line(result, cells=True).text == "承（うけたまわ）って思志（こころざし）って思召（おぼしめ）"


def test_small_kana_beside_nothing_stay() -> None:
    assert texts(attach_readings([row("ちいさい", across=300, size=4), row("東京へ行く")])) == [
        "ちいさい",
        "東京へ行く",
    ]


def test_small_letters_that_are_no_kana_are_no_reading() -> None:
    note = row("注1", across=9, begin=0, size=4)
    assert texts(attach_readings([note, row("東京へ行く")])) == ["注1", "東京へ行く"]


def test_cells_far_apart_are_parted() -> None:
    cells = [*row("Root"), *row("120", begin=80), *row("2", begin=150)]
    assert build_line(cells, cells=True).text == "Root | 120 | 2"
    assert build_line(cells, cells=False).text == "Root1202"


def test_words_are_no_cells() -> None:
    glyphs = [*row("the"), Glyph(" ", 30, 35, 0, 10, True), *row("sea", begin=36)]
    assert build_line(glyphs, cells=True).text == "the sea"


def test_a_line_has_its_position() -> None:
    result = build_line(row("the sea", across=7, begin=20), cells=True)
    assert result == TextLine(
        "the sea", begin=20, end=90, line_position=7, size=10, first_word_width=30, cells=((20, 90),)
    )


def test_generated_letters_alone_are_no_line() -> None:
    assert build_line(row("  ", made_up=" "), cells=True) == TextLine("")
    assert attach_readings([]) == []
    assert [each for each in split_columns([]) if each] == []


def test_artefacts_of_fonts_are_removed() -> None:
    assert build_line(row("\uf0b7 ﬁrst ﬂoor"), cells=True).text == "• first floor"
    assert build_line(row("⽇本\ue000の⼈"), cells=True).text == "日本\ufffdの人"
    assert build_line(row("①㌔ｱ"), cells=True).text == "①㌔ｱ"  # may be intended


def test_columns_become_a_text() -> None:
    glyphs = [*row("組紐の工房は、港の近", 100), *row("くにある。", 80), *row("　朝は八時に開く。", 60)]
    result = order_columns([build_line(each, cells=False) for each in split_columns(glyphs)])
    assert join_paragraphs([result]).text == "組紐の工房は、港の近くにある。\n\n朝は八時に開く。"
