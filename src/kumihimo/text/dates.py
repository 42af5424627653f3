"""text -> its dates as ISO 8601, shortened to what the text gives, with the month names of 36 languages."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import zip_longest
from pathlib import Path
from unicodedata import normalize

_NAMES = Path(__file__).with_name("month_names.tsv")  # of CLDR; `python -m docs.month_names` makes it
_ERAS = {"明治": 1867, "大正": 1911, "昭和": 1925, "平成": 1988, "令和": 2018, "民國": 1911, "民国": 1911}
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()  # noqa: SIM905
MONTH = (
    "January|February|March|April|May|June|July|August|September|October|November|December"
    "|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec"
)
_KANJI_DIGITS = "〇一二三四五六七八九"
_AMBIGUOUS_MONTHS = ("may", "mar", "march")  # words too, if they are in lower case or alone
# Of file names: 20190412, 2019-04-minutes.
_FILE_DATE = r"(?<!\d)((?:19|20)\d\d)(?:[-_](\d\d)(?:[-_](\d\d))?|([01]\d)([0-3]\d))(?!\d)[-_.]?"
_KANJI = "[〇零一二三四五六七八九十]+"  # a number that is part of a longer date, or a year
_KANJI_NUMBER = (
    rf"(?<!{_KANJI[:-1]}){_KANJI}(?=年|月{_KANJI}[日号號])|(?<=年){_KANJI}(?=月)|(?<=月){_KANJI}(?=[日号號])"
)
_LOCAL_DATE = r"(?<![\d./])(\d\d?)([./])(\d\d?)\2((?:19|20)\d\d)(?![\d/])"
_OTHER_NAMES = ("Mars", "Mart", "Marts", "Maja", "Mayo", "Marca")  # names or words; a month only beside a day
_DIGIT = re.compile(r"\d")
# Digits of other scripts. Years of the Iranian and the Islamic calendar are left as they are, and so are no years.
_DIGITS = re.compile(r"(?!(?<!\d)[١۱][٣٤۳۴]\d\d(?!\d))(?<![٠-٩۰-۹])[^\D0-9]+")
_YEAR = r"1\d{3}|20\d{2}"
_THAI_YEAR = r"2[45]\d{2}"  # of the Buddhist era
_LETTER = "[^\\W\\d_]"
_MARK = "[\\u0300-\\u036f\\u0900-\\u0e7f\\u200c\\u200d]"  # inside words of scripts of India and Thailand
_MONTH_NAME = rf"(?:[\u0e01-\u0e4e]{{1,3}}\.[\u0e01-\u0e2e]|{_LETTER}(?:{_LETTER}|{_MARK}){{1,15}})\.?"
_BEFORE_YEAR = r"(?:(?:[-/]|[,،]?\ )(?:(?:de|del|năm|พ\.ศ\.|ค\.ศ\.)\ )?)"
DATE_HINT = rf"\d|[〇零一二三四五六七八九十元][年月]|(?i:{'|'.join(MONTHS)})"  # a text without it has no date


# Slow to compile, so `re` does it at the first use.
_DATE = rf"""(?xi)(?<![\d.,$€£¥])(?:
        (?P<year1>{_YEAR})([-/.])(?P<month1>\d\d?)(?:\2(?P<day1>\d\d?))?(?![\d./-])
        |(?:(?P<era>{"|".join(_ERAS)})(?P<era_year>\d{{1,3}}|元)|(?P<year2>\d{{4}}))[年년]
            (?:\s?(?P<month2>\d\d?)[月월](?:\s?(?P<day2>\d\d?)[日号號일])?)?(?![間代간])
        |(?P<month3>\d\d?)[月월](?:\s?(?P<day3>\d\d?)[日号號일])?
        |(?:(?P<day4>\d\d?)(?:st|nd|rd|th)?\ (?:of\ )?)?\b(?P<month4>{MONTH})\b\.?
            (?:\ (?P<day5>\d\d?)(?:st|nd|rd|th)?(?!\d))?(?:,?\ (?P<year3>{_YEAR})(?!\d))?
        |(?:(?P<day6>\d\d?)\ )?tháng\ (?P<month5>\d\d?)(?:,?\ |\ năm\ |/)(?P<year5>{_YEAR})(?!\d)
        |(?P<day7>\d\d?)(?P<ordinal>\.?[ºª°oa]\b|er|\.)?[-/\ ]?(?:de\ |of\ )?(?P<name6>{_MONTH_NAME})
            (?:{_BEFORE_YEAR}(?P<year6>{_YEAR}|{_THAI_YEAR})(?!\d))?
        |(?<!{_LETTER})(?P<name7>{_MONTH_NAME})(?:\ (?P<day8>\d\d?)(?!\d))?
            {_BEFORE_YEAR}(?P<year7>{_YEAR}|{_THAI_YEAR})(?!\d)
        |(?P<year4>{_YEAR})(?![\d.,]\d|\d|s|%|\ ?[€£$円ドル])
        )"""


def find_dates(text: str) -> Iterator[tuple[int, int]]:
    """Yield the offsets of dates in a text.

    A date contains a number, and an English month begins with a capital.

    >>> text = "On 3 April 1883, and 1883年4月 too; it may be 12 of 2000 on May 5, le 3 mai 1883"
    >>> [text[a:b] for a, b in find_dates(text)]
    ['3 April 1883', '1883年4月', '2000', 'May 5', '3 mai 1883']
    """
    for match in _find_matches(text) if _DIGIT.search(text) else ():
        month = match["month4"]
        if (not month or (month[0].isupper() and _DIGIT.search(match[0]))) and _match_to_iso(match):
            yield match.start(), match.end()


def _find_matches(text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of dates whose names are months."""
    pattern, plain = re.compile(_DATE), _read_digits(text)
    match = pattern.search(plain)
    while match:
        name = match["name6"] or match["name7"]
        if is_date := not name or _is_month(match, name):
            yield match
        match = pattern.search(plain, match.end() if is_date else max(match.start("name6"), match.end("name7")))


def _read_digits(text: str) -> str:
    """Return a text with digits of any script as 0 to 9."""
    if text.isascii():
        return text
    return _DIGITS.sub(lambda match: "".join(str(int(digit)) for digit in match[0]), text)


@cache
def _month_names() -> Mapping[str, tuple[int, bool]]:
    """Return the number of each month name, and whether it is whole."""
    lines = _NAMES.read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return {name: (int(month), width == "wide") for width, month, names in rows for name in names.split()}


def _fold_name(name: str) -> str:
    return normalize("NFKC", name).casefold().rstrip(".")


def _is_month(match: re.Match[str], name: str) -> bool:
    """Return whether the word of a match is surely a month.

    A short form needs day and year. A name alone beside a day is a long one, or follows an ordinal number.
    """
    month, is_whole = _month_names().get(_fold_name(name), (0, False))
    day, year = match["day7"] or match["day8"], match["year6"] or match["year7"]
    if not month or (match["ordinal"] == "." and name.capitalize() in ("May", "March")):
        return False
    if (day and year) or not is_whole:
        return bool(day and year)
    if name.rstrip(".") in _OTHER_NAMES:
        return False
    return bool(year or match["ordinal"]) or len(name) > 4 or name == name.upper() == name.lower()


def parse_iso_date(text: str) -> str:
    """Return a date as ISO 8601; empty for other texts.

    Parts that the text does not give stay empty.

    >>> texts = ("1883年4月", "April 1883", "3rd of April, 1883", "4月3日", "April", "明治16年")
    >>> [parse_iso_date(text) for text in texts]
    ['1883-04', '1883-04', '1883-04-03', '--04-03', '--04', '1883']
    >>> parse_iso_date("early April"), parse_iso_date("13月")
    ('', '')
    """
    match = re.fullmatch(_DATE, _read_digits(text))
    name = match and (match["name6"] or match["name7"])
    return _match_to_iso(match) if match and (not name or _is_month(match, name)) else ""


def _match_to_iso(match: re.Match[str]) -> str:
    """Return a matched date as ISO 8601; empty for an impossible one."""
    parts = {name.rstrip("12345678"): value for name, value in match.groupdict().items() if value}
    year, month, day = parts.get("year", ""), _parse_number(parts.get("month", "")), _parse_number(parts.get("day", ""))
    if name := parts.get("name"):
        month, _ = _month_names()[_fold_name(name)]
        is_thai = "\u0e00" < name[0] < "\u0e7f"
        year = year if year < "2400" else str(int(year) - 543) if is_thai else ""
    if era := parts.get("era"):
        year = str(_ERAS[era] + (1 if parts["era_year"] == "元" else int(parts["era_year"])))
    if not (month <= 12 and day <= 31) or ("month" in parts and not month) or ("day" in parts and not day):
        return ""
    return "-".join([year or "-", *([f"{month:02}"] if month else []), *([f"{day:02}"] if day else [])])


def _parse_number(text: str) -> int:
    """Return the number of a month name or digits, or 0."""
    if text and not text.isdecimal():
        name = text[:3].lower()
        return MONTHS.index(name) + 1 if name in MONTHS else 0
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
    matches = (match for match in _find_matches(plain) if not _is_other_word(match))
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
