"""the numbering of a Word document -> the label of each numbered paragraph: `1.2`, `(b)`, `第三条`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

BULLET = "-"
ROMAN = {1000: "m", 900: "cm", 500: "d", 400: "cd", 100: "c", 90: "xc", 50: "l", 40: "xl"}
ROMAN |= {10: "x", 9: "ix", 5: "v", 4: "iv", 1: "i"}
KANJI = "〇一二三四五六七八九"
IROHA = "イロハニホヘトチリヌルヲワカヨタレソツネナラムウヰノオクヤマケフコエテアサキユメミシヱヒモセス"
AIUEO = "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲン"


@dataclass(frozen=True, slots=True)
class ListLevel:
    """A level of a list.

    pattern: `%1.%2` stands for the numbers of the first and second level.
    """

    number_format: str = BULLET
    pattern: str = ""
    start: int = 1


@dataclass(slots=True)
class Numbering:
    """Counters that work like Word's: a paragraph restarts deeper levels."""

    lists: Mapping[str, tuple[str, Mapping[int, ListLevel]]]  # list id -> the counter it shares, and its levels
    counts: dict[str, dict[int, int]] = field(default_factory=dict)

    def next_label(self, list_id: str, depth: int) -> str:
        """Return the label of the next paragraph, or an empty string.

        >>> legal = {0: ListLevel("japaneseCounting", "第%1条"), 1: ListLevel("lowerRoman", "%1-%2)")}
        >>> numbering = Numbering({"7": ("7", legal)})
        >>> [numbering.next_label("7", depth) for depth in (0, 1, 1, 0, 1)]
        ['第一条', '一-i)', '一-ii)', '第二条', '二-i)']
        """
        counter_id, levels = self.lists.get(list_id, ("", {}))
        level = levels.get(depth, ListLevel())
        if level.number_format == "bullet":
            return BULLET
        counts = self.counts.setdefault(counter_id, {})
        counts[depth] = counts.get(depth, level.start - 1) + 1
        for deeper in [index for index in counts if index > depth]:
            del counts[deeper]

        def number(match: re.Match[str]) -> str:
            index = int(match[1]) - 1
            referenced = levels.get(index, ListLevel())
            return format_list_number(counts.get(index, referenced.start), referenced.number_format)

        return "" if level.number_format == "none" else re.sub(r"%(\d)", number, level.pattern)


def format_list_number(number: int, number_format: str) -> str:
    """Write a number in one of Word's formats.

    >>> forms = ("decimal", "upperRoman", "lowerLetter", "japaneseCounting", "aiueo", "new")
    >>> [format_list_number(14, form) for form in forms]
    ['14', 'XIV', 'n', '十四', 'セ', '14']
    """
    return NUMBER_FORMATS.get(number_format, str)(number)


def _roman(number: int) -> str:
    text = ""
    for value, letters in ROMAN.items():
        text += letters * (number // value)
        number %= value
    return text


def _letter(number: int) -> str:
    """Return a number as letters; after z, Word doubles them: aa, bb."""
    return chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)


def _kanji(number: int) -> str:
    if not 0 < number < 100:
        return "".join(KANJI[int(digit)] for digit in str(number))
    tens, ones = divmod(number, 10)
    ten = "" if not tens else "十" if tens == 1 else f"{KANJI[tens]}十"
    return ten + (KANJI[ones] if ones else "")


NUMBER_FORMATS: dict[str, Callable[[int], str]] = {
    "lowerRoman": _roman,
    "upperRoman": lambda n: _roman(n).upper(),
    "lowerLetter": _letter,
    "upperLetter": lambda n: _letter(n).upper(),
    "decimalZero": lambda n: f"{n:02d}",
    "decimalFullWidth": lambda n: str(n).translate({ord("0") + i: ord("０") + i for i in range(10)}),
    "decimalEnclosedCircle": lambda n: chr(0x2460 + n - 1) if 0 < n <= 20 else str(n),
    "aiueoFullWidth": lambda n: AIUEO[(n - 1) % len(AIUEO)],
    "aiueo": lambda n: AIUEO[(n - 1) % len(AIUEO)],
    "irohaFullWidth": lambda n: IROHA[(n - 1) % len(IROHA)],
    "iroha": lambda n: IROHA[(n - 1) % len(IROHA)],
    **dict.fromkeys(("japaneseCounting", "japaneseDigitalTenThousand", "chineseCounting", "ideographDigital"), _kanji),
}
