"""dates as people write them -> ISO 8601."""

from __future__ import annotations

import pytest
from docs.month_names import NOTICE, TABLE, read_names
from hypothesis import given, strategies as st

from kumihimo.text.dates import compare_dates, find_dates, list_dates


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("the article of 28 September 2023", ["2023-09-28"]),
        ("on September 28th, 2023, and in May 2024", ["2023-09-28", "2024-05"]),
        ("the minutes of 28 September", ["--09-28"]),
        ("the 28th of September", ["--09-28"]),
        ("the april 2019 minutes", ["2019-04"]),
        ("In the 2023 report", ["2023"]),
        ("What do the June notes say?", ["--06"]),
        ("it may be, we march on", []),
        ("May I ask what March said?", []),
        ("It cost 2000 円 and 1,999 more, in the 1980s", []),
        ("2023-09-28T10:00:00Z", ["2023-09-28"]),
        ("28/09/2023 or 9/28/2023", ["2023-09-28", "2023-09-28"]),
        ("28.09.2023", ["2023-09-28"]),
        ("05/06/2023", ["2023"]),
        ("minutes 20190412 final", ["2019-04-12"]),
        ("minutes_2019_04_12 and 2019_04.pdf", ["2019-04-12", "2019-04"]),
        ("2023年9月28日の記事", ["2023-09-28"]),
        ("９月２８日の議事録", ["--09-28"]),
        ("2023年の報告書", ["2023"]),
        ("令和5年5月の手紙", ["2023-05"]),
        ("二〇二三年五月十二日", ["2023-05-12"]),
        ("2023年9月28号的报道", ["2023-09-28"]),
        ("十月二十一日の会議、五月天", ["--10-21"]),
        ("version 2.0.1 of 32 September 2023", ["2023"]),
        ("", []),
    ],
)
def test_dates_are_read_as_people_write_them(text: str, dates: list[str]) -> None:
    assert list_dates(text) == dates


WRITTEN = {  # dates as many languages write them; | separates them
    "2023-05-03": "3. Mai 2023|am 3. Mai 2023 in Kiel|3 mai 2023|le 3 mai 2023|3 de mayo de 2023|3 de maio de 2023"
    "|3 maggio 2023|3 mei 2023|3 мая 2023 г.|3 травня 2023 р.|3 maja 2023|3 Mayıs 2023|3 Mei 2023"
    "|ngày 3 tháng 5 năm 2023|3 tháng 5, 2023|2023년 5월 3일|2023년5월3일에|3 मई 2023|३ मे, २०२३|৩ মে, ২০২৩"
    "|3 مايو 2023|٣ مايو ٢٠٢٣|3 مئی، 2023|3 மே, 2023|3 మే, 2023|3 พฤษภาคม 2566|3 พฤษภาคม พ.ศ. 2566"
    "|3 maj 2023|3. května 2023|3 Μαΐου 2023|3 במאי 2023|Mayo 3, 2023|03-May-2023|3 May 2023"
    "|May 3rd, 2023|2023年5月3日|民國112年5月3日|3 mai, 2023|3. toukokuuta 2023|3. mai 2023|3 ਮਈ 2023|3 મે, 2023",
    "2023-12-01": "1. Dezember 2023|1er décembre 2023|1 déc. 2023|1º de dezembro de 2023|1.º de dezembro de 2023"
    "|1 dicembre 2023|1º dicembre 2023|1 дек. 2023 г.|1 Aralık 2023|1 grudnia 2023|1. Dez. 2023"
    "|01.12.23, 1 december 2023|1 diciembre 2023|1 Desember 2023|2023년 12월 1일|1 दिसंबर 2023"
    "|1 ธันวาคม 2566|1 ธ.ค. 2566|1 ديسمبر 2023|1. december 2023",
    "2023-03": "März 2023|mars 2023|marzo de 2023|março de 2023|март 2023|marzec 2023|tháng 3 năm 2023|2023년 3월"
    "|मार्च 2023|مارس 2023|มีนาคม 2566|maaliskuu 2023|tháng 3/2023",
    "--10-03": "3. Oktober|3 octobre|3 de octubre|10월 3일|3 октября|3 października|3 oktober|3 अक्टूबर",
    # in doubt, the part that is sure
    "2023": "05/06/2023|Report 5 2023|im Jahr 2023|2023. május 3.|Mart 2023|2023. március",
    "": "۱۴۰۲/۰۲/۱۳|13 اردیبهشت ۱۴۰۲|3.5.23|12 set menus|1 out of 5|20 ago|las 3 marcas|5 mar|3 mai mult"
    "|3 des 5|3 parsecs|5월 32일|3 Ekim",
}


@pytest.mark.parametrize(
    ("date", "text"), [(date, text) for date, texts in WRITTEN.items() for text in texts.split("|")]
)
def test_dates_are_read_in_many_languages(date: str, text: str) -> None:
    assert list_dates(text) == ([date] if date else [])


def test_month_names_are_those_of_cldr() -> None:
    pytest.importorskip("babel")
    names = {name: read_names(language, "wide") for language, name in (("de", "März"), ("pl", "maja"), ("he", "במאי"))}
    assert [names[name][name.casefold()] for name in names] == [3, 5, 5]
    assert TABLE.read_text("utf-8").startswith(NOTICE)


def test_a_word_beside_a_number_is_no_month() -> None:
    text = "Mars 2020; 3 mai mult, 12 set menus, 1 out of 5, in 2023. On 3. Mai 2023 and le 3 mai, for 3. May 2023"
    assert [text[start:end] for start, end in find_dates(text)] == ["2020", "2023", "3. Mai 2023", "May 2023"]


@pytest.mark.parametrize(
    ("date", "asked", "share"),
    [
        ("2023-09-28", "2023-09-28", 1.0),
        ("2023-09-28", "2023-09", 1.0),
        ("2023-09-28", "2023", 1.0),
        ("2023-09-28", "--09-28", 1.0),
        ("2023-09-28", "--09", 1.0),
        ("2023-09", "--09", 1.0),
        ("2023", "2023-09-28", 0.5),
        ("2023-09", "2023-09-28", 0.5),
        ("2023", "--09", 0.0),
        ("2023-09-28", "2022-09-28", 0.0),
        ("2023-10-28", "2023-09-28", 0.0),
        ("2023-09-28", "--09-2", 0.0),
        ("--09-28", "2023-09-28", 0.5),
        ("--09-28", "--09", 1.0),
    ],
)
def test_a_compare_dates_one_that_it_is_part_of(date: str, asked: str, share: float) -> None:
    assert compare_dates(date, asked) == share


@pytest.mark.parametrize("text", ["他们相识三五十年了吗", "十十年", "二十十年", "二〇十年", "ſept 1883", "三四十年代"])
def test_odd_numbers_are_no_dates(text: str) -> None:
    assert all(len(date) >= 4 for date in list_dates(text))


@given(st.text(alphabet="〇一二三四五六七八九十零年月日0123456789/-. maySept", max_size=20))
def test_any_text_has_a_list_of_dates(text: str) -> None:
    assert all(isinstance(date, str) for date in list_dates(text))
