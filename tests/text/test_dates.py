"""dates as people write them -> ISO 8601."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from kumihimo.text.dates import compare_dates, list_dates


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
