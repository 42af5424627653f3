"""text -> its dates as ISO 8601, shortened to what the text gives: English, Japanese, Chinese."""

import re
from collections.abc import Iterator
from itertools import zip_longest
from unicodedata import normalize

_ERAS = {"明治": 1867, "大正": 1911, "昭和": 1925, "平成": 1988, "令和": 2018}
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()  # noqa: SIM905
_MONTH = (
    "January|February|March|April|May|June|July|August|September|October|November|December"
    "|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec"
)
_KANJI_DIGITS = "〇一二三四五六七八九"
_AMBIGUOUS_MONTHS = ("may", "mar", "march")  # words too, if they are in lower case or alone
# Of file names: 20190412, 2019-04-minutes.
_FILE_DATE = r"(?<!\d)((?:19|20)\d\d)(?:[-_](\d\d)(?:[-_](\d\d))?|([01]\d)([0-3]\d))(?!\d)[-_.]?"
_KANJI = "[〇零一二三四五六七八九十]+"  # a number that is part of a longer date, or a year
_KANJI_NUMBER = rf"{_KANJI}(?=年|月{_KANJI}[日号號])|(?<=年){_KANJI}(?=月)|(?<=月){_KANJI}(?=[日号號])"
_LOCAL_DATE = r"(?<![\d./])(\d\d?)([./])(\d\d?)\2((?:19|20)\d\d)(?![\d/])"
_DIGIT = re.compile(r"\d")
_YEAR = r"1\d{3}|20\d{2}"
DATE_HINT = rf"\d|[〇零一二三四五六七八九十元][年月]|(?i:{'|'.join(_MONTHS)})"  # a text without it has no date


# Slow to compile, so `re` does it at the first use.
_DATE = rf"""(?xi)(?<![\d.,$€£¥])(?:
        (?P<year1>{_YEAR})([-/.])(?P<month1>\d\d?)(?:\2(?P<day1>\d\d?))?(?![\d./-])
        |(?:(?P<era>{"|".join(_ERAS)})(?P<era_year>\d\d?|元)|(?P<year2>\d{{4}}))年
            (?:\s?(?P<month2>\d\d?)月(?:\s?(?P<day2>\d\d?)[日号號])?)?(?![間代])
        |(?P<month3>\d\d?)月(?:\s?(?P<day3>\d\d?)[日号號])?
        |(?:(?P<day4>\d\d?)(?:st|nd|rd|th)?\ (?:of\ )?)?\b(?P<month4>{_MONTH})\b\.?
            (?:\ (?P<day5>\d\d?)(?:st|nd|rd|th)?(?!\d))?(?:,?\ (?P<year3>{_YEAR})(?!\d))?
        |(?P<year4>{_YEAR})(?![\d.,]\d|\d|s|%|\ ?[€£$円ドル])
        )"""


def find_dates(text: str) -> Iterator[tuple[int, int]]:
    """Yield the offsets of dates in a text.

    A date contains a number, and a month name begins with a capital.

    >>> text = "On 3 April 1883, and 1883年4月 too; it may be 12 of 2000 on May 5"
    >>> [text[a:b] for a, b in find_dates(text)]
    ['3 April 1883', '1883年4月', '2000', 'May 5']
    """
    for match in re.finditer(_DATE, text) if _DIGIT.search(text) else ():
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
    match = re.fullmatch(_DATE, text)
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
        name = text[:3].lower()
        return _MONTHS.index(name) + 1 if name in _MONTHS else 0
    return int(text or 0)


def list_dates(text: str) -> list[str]:
    """Return the dates in a text, which may be a file name.

    A month alone counts if it has a capital and is no other word; 05/06/2023 gives the year alone.

    >>> list_dates("minutes_2019_04_12, in the 2023 report of 28/9, 二〇二三年五月")
    ['2019-04-12', '2023', '2023-05']
    """
    plain = re.sub(_FILE_DATE, _separate_parts, normalize("NFKC", text))
    plain = re.sub(_KANJI_NUMBER, lambda match: _read_kanji_number(match[0]), plain)
    plain = re.sub(_LOCAL_DATE, lambda match: _order_parts(match[1], match[3], match[4]), plain)
    matches = (match for match in re.finditer(_DATE, plain) if not _is_other_word(match))
    return [date for match in matches if (date := _match_to_iso(match) or match["year1"] or match["year3"] or "")]


def _separate_parts(match: re.Match[str]) -> str:
    return "-".join(filter(None, match.groups())) + " "


def _read_kanji_number(text: str) -> str:
    """Return a number in digits; the text itself if it is none.

    >>> [_read_kanji_number(text) for text in ("二十三", "十", "二〇二三", "三五十")]
    ['23', '10', '2023', '三五十']
    """
    tens, ten, ones = text.replace("零", "〇").rpartition("十")
    if ten and (len(tens) > 1 or len(ones) > 1 or tens not in _KANJI_DIGITS):
        return text
    digits = "".join(str(_KANJI_DIGITS.index(digit)) for digit in ones)
    return f"{_KANJI_DIGITS.index(tens) if tens else 1}{digits or 0}" if ten else digits


def _order_parts(first: str, second: str, year: str) -> str:
    """Return the date as ISO 8601.

    If either may be the month, the year alone is sure.
    """
    day_first = [first, second] if int(second) <= 12 else [second, first]
    is_clear = first == second or (int(first) > 12) != (int(second) > 12)
    return "-".join([year, day_first[1], day_first[0]]) if is_clear else year


def _is_other_word(match: re.Match[str]) -> bool:
    """Return whether what looks like a month is another word."""
    month = match["month4"] or ""
    has_number = bool(_DIGIT.search(match[0]))
    if not month or (has_number and (month[0].isupper() or match["year3"])):
        return False
    is_clear = len(month) > 3 and month.lower() not in _AMBIGUOUS_MONTHS
    return not is_clear or not (has_number or month[0].isupper())


def compare_dates(date: str, target: str) -> float:
    """Return how well a date matches the date of a query.

    1: it gives all of the target; 0.5: a part of it; 0: it differs.

    >>> [compare_dates("2023-09-28", target) for target in ("2023-09", "--09-28", "2022")]
    [1.0, 1.0, 0.0]
    >>> compare_dates("2023", "2023-09")
    0.5
    """
    pairs = list(zip_longest(_date_parts(date), _date_parts(target), fillvalue=""))
    if any(one and other and one != other for one, other in pairs) or not any(one and other for one, other in pairs):
        return 0.0
    lacks, adds = any(other and not one for one, other in pairs), any(one and not other for one, other in pairs)
    return 1.0 if not lacks else 0.0 if adds else 0.5


def _date_parts(date: str) -> list[str]:
    """Return year, month and day as far as they are known."""
    return ["", *date[2:].split("-")] if date.startswith("--") else date.split("-")


def date_forms(date: str) -> list[str]:
    """Return the date and all dates that it is a part of.

    >>> date_forms("2023-09-28"), date_forms("--09")
    (['2023', '2023-09', '2023-09-28', '--09', '--09-28'], ['--09'])
    """
    year, *rest = _date_parts(date)
    with_year = ["-".join([year, *rest[:count]]) for count in range(len(rest) + 1)] if year else []
    return with_year + ["-".join(["-", *rest[:count]]) for count in range(1, len(rest) + 1)]
