"""a Japanese or Chinese sentence -> abbreviations that it spells out: 欧州中央銀行（ECB）, 以下「欧銀」."""

import re
from collections.abc import Iterator

from kumihimo.index.rules.name_forms import NAME_WORDS

_HAN_KANA = "々〆ー・\u30a1-\u30fa\u3400-\u9fff"
_END = "|".join(sorted(NAME_WORDS["cjk_organisation_ends"], key=lambda word: (-len(word), word)))
_NAME = rf"[{_HAN_KANA}]{{2,20}}(?:{_END})"
_LATIN = r"[A-Z][A-Z&]{1,7}"
_BEFORE = re.compile(rf"({_NAME})[」』]?\s?[（(](?:[^（）()]{{0,60}}[、，,;；:： ])?({_LATIN})[）)]")
_AFTER = re.compile(rf"(?<![A-Za-z&])({_LATIN})[（(]({_NAME})[、，,）)]")
_SHORT = re.compile(
    rf"([{_HAN_KANA}]{{3,20}})[」』]?\s?[（(][^（）()]{{0,60}}?(?:略称|略稱|简称|簡稱|以下|以降)(?:は|[、，:：]|\s)?"
    rf"[「『“]?([{_HAN_KANA}A-Za-z&]{{2,12}}?)[」』”]?(?:と(?:略す|いう|する|呼ぶ|表記))?[）)]"
)


def find_cjk_abbreviations(text: str) -> Iterator[tuple[str, str]]:
    """Yield abbreviations with what they stand for.

    >>> text = "欧州中央銀行（ECB）と国際連合（以下「国連」）。WHO（世界保健機関）の田中（NHK）。"
    >>> list(find_cjk_abbreviations(text))
    [('ECB', '欧州中央銀行'), ('WHO', '世界保健機関'), ('国連', '国際連合')]
    """
    if "（" not in text and "(" not in text:
        return
    for match in _BEFORE.finditer(text):
        yield match[2], match[1]
    for match in _AFTER.finditer(text):
        yield match[1], match[2]
    for match in _SHORT.finditer(text):
        if is_short_form(match[2], match[1]):
            yield match[2], match[1]


def is_short_form(short: str, name: str) -> bool:
    """Return whether a name has the letters of an abbreviation, in order.

    >>> is_short_form("国連", "国際連合"), is_short_form("東京", "国際連合")
    (True, False)
    """
    letters = iter(name)
    return short != name and all(letter in letters for letter in short)
