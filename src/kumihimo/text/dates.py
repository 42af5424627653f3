"""a text -> the dates in it, as ISO 8601."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

_ERAS = {"明治": 1867, "大正": 1911, "昭和": 1925, "平成": 1988, "令和": 2018}
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()  # noqa: SIM905
_MONTH = (
    "January|February|March|April|May|June|July|August|September|October|November|December"
    "|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec"
)
_DIGIT = re.compile(r"\d")
_YEAR = r"1\d{3}|20\d{2}"


@cache  # slow to compile, so only at the first use
def _date_pattern() -> re.Pattern[str]:
    return re.compile(
        rf"""(?<![\d.,$€£¥])(?:
        (?P<year1>{_YEAR})([-/.])(?P<month1>\d\d?)(?:\2(?P<day1>\d\d?))?(?![\d./-])
        |(?:(?P<era>{"|".join(_ERAS)})(?P<era_year>\d\d?|元)|(?P<year2>\d{{4}}))年
            (?:\s?(?P<month2>\d\d?)月(?:\s?(?P<day2>\d\d?)日)?)?(?![間代])
        |(?P<month3>\d\d?)月(?:\s?(?P<day3>\d\d?)日)?
        |(?:(?P<day4>\d\d?)(?:st|nd|rd|th)?\ (?:of\ )?)?\b(?P<month4>{_MONTH})\b\.?
            (?:\ (?P<day5>\d\d?)(?:st|nd|rd|th)?(?!\d))?(?:,?\ (?P<year3>{_YEAR})(?!\d))?
        |(?P<year4>{_YEAR})(?![\d.,]\d|\d|s|%|\ ?[€£$円ドル])
        )""",
        re.X | re.I,
    )


def find_dates(text: str) -> Iterator[tuple[int, int]]:
    """Yield the offsets of dates in a text.

    A date contains a number, and a month name begins with a capital.

    >>> text = "On 3 April 1883, and 1883年4月 too; it may be 12 of 2000 on May 5"
    >>> [text[a:b] for a, b in find_dates(text)]
    ['3 April 1883', '1883年4月', '2000', 'May 5']
    """
    for match in _date_pattern().finditer(text) if _DIGIT.search(text) else ():
        month = match["month4"]
        if (not month or (month[0].isupper() and _DIGIT.search(match[0]))) and _match_to_iso(match):
            yield match.start(), match.end()


def parse_iso_date(text: str) -> str:
    """Return a date as ISO 8601; empty for other texts.

    Parts that the text does not give stay empty.

    >>> texts = ("1883年4月", "April 1883", "3rd of April, 1883", "4月3日", "April", "明治16年")
    >>> [parse_iso_date(text) for text in texts]
    ['1883-04', '1883-04', '1883-04-03', '--04-03', '--04', '1883']
    >>> parse_iso_date("early April"), parse_iso_date("13月")
    ('', '')
    """
    match = _date_pattern().fullmatch(text)
    return _match_to_iso(match) if match else ""


def _match_to_iso(match: re.Match[str]) -> str:
    """Return a matched date as ISO 8601; empty for an impossible one."""
    groups = {name: value for name, value in match.groupdict().items() if value}
    parts = {name.rstrip("12345"): value for name, value in groups.items()}
    year, month, day = parts.get("year", ""), _parse_number(parts.get("month", "")), _parse_number(parts.get("day", ""))
    if era := parts.get("era"):
        year = str(_ERAS[era] + (1 if parts["era_year"] == "元" else int(parts["era_year"])))
    if not (month <= 12 and day <= 31) or ("month" in parts and not month) or ("day" in parts and not day):
        return ""
    return "-".join([year or "-", *([f"{month:02}"] if month else []), *([f"{day:02}"] if day else [])])


def _parse_number(text: str) -> int:
    """Return the number of a month name or digits, or 0."""
    if text and not text.isdecimal():
        return _MONTHS.index(text[:3].lower()) + 1
    return int(text or 0)
