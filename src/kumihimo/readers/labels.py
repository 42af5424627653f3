"""a line -> its label, if it begins an article of a law or contract, or an item of a list."""

import re

from kumihimo.text.sentences import LIST_ITEM

_NUMERALS = r"\d〇一二三四五六七八九十百千"
_ARTICLE = rf"第[{_NUMERALS}]+[条條章节節款編编項项](?:の[{_NUMERALS}]+)*"
_SHORT = r"[(（\[]?(?:\d{1,3}|[a-zA-Z]|[ivx]{2,4}|[ア-ン]|[一二三四五六七八九十]{1,2})[.)）\]、]"
LABEL = re.compile(
    rf"{_ARTICLE}(?:[\s（(]|$)|附\s*則|[{_NUMERALS}ア-ン]{{1,3}}\u3000|\d{{1,2}}(?:\.\d{{1,2}})+\.?\s+[^\W\da-z]"
    r"|§§? ?\d|[（(][a-zA-Zア-ン一二三四五六七八九十]{1,4}[）)]\s?\S"
    r"|(?:Article|Artikel|Section|Clause|Chapter|Art\.)\s\d+[a-z]?[.:]?(?:\s[A-Z]|$)"
)
# A label that stands apart from its text, as a cell would.
LABEL_CELL = re.compile(
    rf"({_ARTICLE}|§§? ?\d+[a-z]?|(?:Article|Artikel|Section|Clause) \d+[.:]?|{_SHORT}|[•·‣◦・○●■□▪–-]"
    r"|\d{1,2}(?:\.\d{1,2})+\.?(?= \| [^|]{12})|\d{1,2}(?=[^|]*\| [^|]*[ぁ-ん][^|]*$)) \| (?=[^|]*[^\W\d_]{2}[^|]*$)"
)
CAPTION = re.compile(r"[（(【［][^（）()【】\d]{1,40}[）)】］]")  # of the article below it


def is_labelled(text: str) -> bool:
    """Return whether a line begins an article or a list item.

    >>> [is_labelled(text) for text in ("第７条　町長は、", "4.2 Delivery", "(b) by sea", "第７条の規定", "4.2 metres")]
    [True, True, True, False, False]
    """
    return bool(LABEL.match(text) or LIST_ITEM.match(text))
