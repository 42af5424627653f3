"""a passage -> the 5W1H slots and the predicate, by rules instead of a model.

No grammar is parsed. English uses the kinds of words, Japanese particles, Chinese a list of verbs. In other
languages only dates are found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from kumihimo.index.rules import srl_chinese, srl_english, srl_japanese
from kumihimo.text.dates import find_dates

MAX_CHARS = 3000  # only a passage without sentences is longer


@cache
def _script_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    return re.compile("[\u3041-\u3096\u30a1-\u30fa]"), re.compile("[\u3400-\u9fff]")


def find_slots(text: str) -> Iterator[tuple[str, str]]:
    """Yield slots and values, in the words of the text.

    >>> dict(find_slots("In 1883 Helen Stoner visited Holmes in London because of her fear."))
    {'when': '1883', 'who': 'Helen Stoner', 'predicate': 'visited', 'what': 'Holmes', 'where': 'London', 'why': 'fear'}
    >>> dict(find_slots("ヘレンは昨夜、寝室で口笛を聞いた。"))
    {'who': 'ヘレン', 'when': '昨夜', 'where': '寝室', 'what': '口笛', 'predicate': '聞いた'}
    >>> dict(find_slots("1883年，福爾摩斯在倫敦發現了毒蛇。"))
    {'when': '1883年', 'where': '倫敦', 'who': '福爾摩斯', 'predicate': '發現', 'what': '毒蛇'}
    """
    text = text[:MAX_CHARS]
    for start, end in find_dates(text):
        yield "when", text[start:end]
    if text.isascii():
        kana = han = 0
    else:
        kana, han = (len(letters.findall(text)) for letters in _script_patterns())
    if (kana + han) * 4 < len(text):
        yield from srl_english.find_english_slots(text)
    elif kana * 20 >= kana + han:
        yield from srl_japanese.find_japanese_slots(text)
    else:
        yield from srl_chinese.find_chinese_slots(text)
