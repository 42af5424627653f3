"""the cells of a column -> their numbers and unit, as its country writes them; or why they cannot be read."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, lru_cache
from unicodedata import normalize

NUMBER_PROBLEMS = ("unclear", "units", "mixed", "separators")
# The decimal mark and the group mark of each way to write numbers. "," and "2": 12,34,567.
_STYLES = ((".", ","), (".", "2"), (",", "."), (",", " "), (".", " "), (".", "'"), (",", "'"), ("٫", "٬"))
_CODES = (
    "EUR|USD|GBP|CHF|JPY|CNY|RMB|INR|BRL|RUB|PLN|CZK|HUF|SEK|NOK|DKK|TRY|KRW|VND|IDR|THB|MXN|ARS|CLP|COP|CAD|AUD|NZD"
    "|ZAR|NGN|EGP|SAR|AED|ILS|UAH|RON|PKR|BDT|PHP|MYR|SGD|HKD|TWD|Rs|Rp|kr|Kr|Kč|zł|Ft|Fr|RM"
)
_SYMBOLS = "$¢£¤¥֏؋৳฿₠-⃀"
_CURRENCY = rf"(?:[A-Z]{{0,3}}[{_SYMBOLS}]|(?:{_CODES})\b\.?)"
_COMMA_GROUPS = re.compile(r"(?:US|HK|NT|A|C)?\$|[£¥₩₹฿₪]|USD|GBP|JPY|CNY|INR|KRW|Rs\.?")  # of countries with a point
_BODY = r"(?:\d[\d.,'٫٬ ]{0,40}|[.,٫]\d{1,40})(?<! )(?:(?<=[.,])[-–—]{1,2}|[eE][-+]?\d{1,2}(?!\d))?"
_SCALES = {"千": 3, "천": 3, "万": 4, "萬": 4, "만": 4, "億": 8, "亿": 8, "억": 8, "兆": 12, "조": 12}
_SCALE = f"[百千백천]?[{''.join(_SCALES)[2:]}]|[千천]"
_UNIT = r"(?![\s.,:;/'^()+−–—-])(?:\D{0,10}[^\W\d]\^?[23]|\D{1,12})"
_CELL = re.compile(
    rf"(?P<sign>[-−–+△▲▼▽]?)\s*(?P<before>{_CURRENCY}|%)?\s*(?P<inner>[-−+]?)"
    rf"(?P<scaled>(?:{_BODY}\s*(?:{_SCALE})\s*)*)(?P<last>(?:{_BODY})?)(?P<minus>[-−]?)\s*(?P<after>(?:{_UNIT})?)"
)
_BRACKETS = re.compile(r"([^\d()]{0,4})\(([^()]+)\)([^\d()]{0,12})")
_INVISIBLE = re.compile("[\u200b-\u200f\u061c\u2060-\u2069\ufeff]")
_SUPERSCRIPT = re.compile("[¹²³⁰-⁹]")  # an exponent or the sign of a note: never a digit of the number
_ASIAN = "[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]"  # of countries with a decimal point; compiled at the first use
_MAX_CHARS, _MAX_DIGITS = 60, 24  # of a number with its unit; of a part of it, so that sums are exact


@dataclass(frozen=True, slots=True)
class Column:
    """The numbers of a column.

    values: None for a cell without a number. unit_first: the unit is written before. problem: why no value is sure, one
    of NUMBER_PROBLEMS, or empty. examples: the cells, units or values that show the problem.
    """

    values: tuple[Decimal | None, ...]
    unit: str = ""
    unit_first: bool = False
    problem: str = ""
    examples: tuple[str, ...] = ()

    def format(self, value: Decimal) -> str:
        """Return a number with the unit, in its place."""
        if not self.unit_first:
            return f"{format_number(value)} {self.unit}".strip()
        return f"{self.unit}{' ' * (self.unit[-1].isalpha() or self.unit[-1] == '.')}{format_number(value)}"


@dataclass(frozen=True, slots=True)
class _Cell:
    """The number of a cell, by the place of a style in _STYLES."""

    text: str
    readings: dict[int, Decimal]
    unit: str
    unit_first: bool
    sign: str
    in_brackets: bool

    @property
    def is_money(self) -> bool:
        """Return whether it has a currency or a percent sign."""
        return re.fullmatch(f"{_CURRENCY}|%", self.unit) is not None


def read_column(cells: Sequence[str], others: Iterable[str] = (), *, english: bool = False) -> Column:
    """Return the numbers of a column, or why they are not sure.

    others: the other cells and the names of the table. english: the table is in English, where 1,250 is never 1.25.

    >>> [str(value) for value in read_column(["1.250 €", "980,50 €"]).values]
    ['1250', '980.50']
    >>> column = read_column(["1.250 €", "2.500 €"])
    >>> column.values, column.problem, column.examples
    ((None, None), 'separators', ('1.250 €', '1,250', '1.25'))
    """
    read = [_read_cell(cell) for cell in cells]
    found = [cell for cell in read if cell]
    none = (None,) * len(cells)
    unclear = [text for text, cell in zip(cells, read, strict=True) if not cell and any(map(str.isdecimal, text))]
    unclear += _unclear_signs(found)
    if unclear:
        return Column(none, problem="unclear", examples=tuple(unclear[:1]))
    units = Counter(cell.unit for cell in found)
    if len({_singular(unit) for unit in units}) > 1:
        return Column(none, problem="units", examples=tuple(dict.fromkeys(unit or "–" for unit in units))[:3])
    styles = _common_styles(found)
    if found and not styles:
        return Column(none, problem="mixed", examples=_opposed_cells(found))
    styles = _fitting_styles(styles, found, list(others), english)
    readings = {tuple(cell.readings[style] for cell in found) for style in styles}
    if len(readings) > 1:
        cell = next(cell for cell in found if len({cell.readings[style] for style in styles}) > 1)
        values = sorted({cell.readings[style] for style in styles}, reverse=True)
        return Column(none, problem="separators", examples=(cell.text, *map(format_number, values)))
    values_found = iter(next(iter(readings), ()))
    values_of_all = tuple(next(values_found) if cell else None for cell in read)
    return Column(values_of_all, max(units, key=lambda unit: units[unit], default=""), any(c.unit_first for c in found))


def number_unit(text: str) -> str | None:
    """Return the unit of a number; None for another text.

    >>> [number_unit(text) for text in ("12", "7,5 %", "1.250 €", "2023-05-03")]
    ['', '%', '€', None]
    """
    cell = _read_cell(text)
    return cell.unit if cell else None


def format_number(value: Decimal) -> str:
    """Return a number for people, with commas and a decimal point.

    >>> format_number(Decimal("1250.50")), format_number(Decimal("12.000")), format_number(Decimal("1E+6"))
    ('1,250.5', '12', '1,000,000')
    """
    text = f"{value:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@lru_cache(1 << 14)
def _read_cell(text: str) -> _Cell | None:
    """Return the number of a cell in all possible styles."""
    if len(text) > _MAX_CHARS:
        return None
    shown = " ".join(normalize("NFKC", _SUPERSCRIPT.sub(lambda m: f"^{normalize('NFKC', m[0])}", text)).split())
    plain = "".join(str(int(char)) if char.isdecimal() else char for char in _INVISIBLE.sub("", shown))
    plain = re.sub("[’ʼ`]", "'", plain)
    brackets = _BRACKETS.fullmatch(plain)
    match = _CELL.fullmatch("".join(brackets.groups()) if brackets else plain)
    if not match or not (match["scaled"] or match["last"]) or (brackets and match["sign"]):
        return None
    signs = [sign for sign in (match["sign"], match["inner"], match["minus"]) if sign]
    after = match["after"].strip()
    if len(signs) > 1 or (re.search("[兆조]", match["scaled"]) and not re.match("[円元원]", after)):
        return None
    is_negative = brackets is not None or (bool(signs) and signs[0] not in "+▼▽")
    values = {
        n: value for n in range(len(_STYLES)) if (value := _read_value(match["scaled"], match["last"], n)) is not None
    }
    if not values:
        return None
    unit = re.sub(
        r"(?<=[^\W\d])\^?([23])$", lambda m: "²³"[int(m[1]) - 2], " ".join(filter(None, [match["before"], after]))
    )
    if brackets and unit and not re.fullmatch(f"{_CURRENCY}|%", unit):
        return None
    readings = {n: -value if is_negative else value for n, value in values.items()}
    return _Cell(shown, readings, unit, bool(match["before"]), "".join(signs), brackets is not None)


def _read_value(scaled: str, last: str, style: int) -> Decimal | None:
    """Return the number of `1億2,345万` in a style, or None.

    last: the digits after the last scale. Each part is smaller than one of the scale before it.
    """
    pieces = [(match[1], match[2]) for match in re.finditer(rf"({_BODY})\s*({_SCALE})", scaled)]
    pieces += [(last, "")] if last else []
    total, limit = Decimal(0), Decimal("Infinity")
    for digits, scale in pieces:
        number = _style_reader(style)(digits)
        size = Decimal(10) ** sum(2 if char in "百백" else _SCALES[char] for char in scale)
        if number is None or number * size >= limit or (len(pieces) > 1 and number % 1):
            return None
        total, limit = total + number * size, size
    return total


@cache
def _style_reader(style: int) -> Callable[[str], Decimal | None]:
    """Return a function that reads digits in a style."""
    mark, group = _STYLES[style]
    groups = r"[1-9]\d?(?:,\d\d)*,\d{3}" if group == "2" else rf"[1-9]\d{{0,2}}(?:{re.escape(group)}\d{{3}})+"
    decimals = rf"{re.escape(mark)}(?:\d+|[-–—]{{1,2}})"
    pattern = re.compile(rf"(?:(?:0|[1-9]\d*|{groups})(?:{decimals})?|{re.escape(mark)}\d+)(?:[eE][-+]?\d{{1,2}})?")
    removed = "," if group == "2" else group

    def read(digits: str) -> Decimal | None:
        if len(digits) > _MAX_DIGITS or not pattern.fullmatch(digits):
            return None
        return Decimal(re.sub(r"\.?[-–—]{1,2}$", "", digits.replace(removed, "").replace(mark, ".")))

    return read


def _unclear_signs(found: Sequence[_Cell]) -> Iterator[str]:
    """Yield the cells that may be negative or not.

    A triangle is a minus in Japan and a rise elsewhere. Brackets around each plain number may count the rows.
    """
    triangles = [cell for cell in found if cell.sign and cell.sign in "△▲▼▽"]
    if not all(re.search(_ASIAN, cell.unit) or cell.sign == "△" for cell in triangles) or any(
        cell.sign in "▼▽" for cell in triangles
    ):
        yield triangles[0].text
    if found and all(cell.in_brackets and not cell.unit and re.fullmatch(r"\(\d+\)", cell.text) for cell in found):
        yield found[0].text


def _singular(unit: str) -> str:
    return unit[:-1] if len(unit) > 3 and unit.endswith("s") else unit


def _common_styles(cells: Iterable[_Cell]) -> set[int]:
    """Return the styles that read all cells."""
    readable = [set(cell.readings) for cell in cells]
    return set.intersection(*readable) if readable else set()


def _opposed_cells(found: Sequence[_Cell]) -> tuple[str, ...]:
    """Return two cells of different styles."""
    distinct = list({frozenset(cell.readings): cell for cell in found}.values())
    pairs = ((one, other) for n, one in enumerate(distinct) for other in distinct[:n])
    pair = next((pair for pair in pairs if not _common_styles(pair)), distinct[:2])
    return tuple(cell.text for cell in pair)


def _fitting_styles(styles: set[int], found: Sequence[_Cell], others: Sequence[str], english: bool) -> set[int]:
    """Return the styles that the rest of a table allows.

    Days and hours (`28.09`, `8.30`) look like numbers, so other cells count only with a currency or percent sign.
    """
    marked = {re.sub("[1-9]", "1", text) for text in others if re.search(f"[{_SYMBOLS}%]|{_CODES}", text)}
    money = [cell for text in marked if (cell := _read_cell(text)) and cell.is_money]
    styles = styles & _common_styles([*found, *money]) or styles
    has_point = english or any(re.search(_ASIAN, text) for text in [*others, *(cell.unit for cell in found)])
    has_point = has_point or all(_COMMA_GROUPS.fullmatch(cell.unit) for cell in found)
    if has_point and any("," in cell.text for cell in found):
        styles = {style for style in styles if _STYLES[style][0] != ","} or styles
    return styles
