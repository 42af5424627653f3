"""what may be the title of a document -> its title: not a file maker's words, an amount, a byline or a form's name."""

import re
from collections.abc import Callable
from itertools import takewhile

from kumihimo.text.sentences import LIST_ITEM

HEADING = re.compile("^## (.+)$", re.M)
MAX_FIRST_LINE = 80
GENERATED_TITLE = re.compile(
    r"^(untitled( \w+)?|\[?no title\]?|無題|名称未設定|无标题"
    r"|(powerpoint|word|excel) ?(presentation|document|workbook|プレゼンテーション)"
    r"|microsoft \w+( - .*)?|(presentation|document|dokument|文書|文档|book|slide|スライド|scan|print|layout) ?\d*"
    r"|(scanned|new|neues) (document|dokument)|(adobe|canva|libreoffice|openoffice|pages|quarkxpress)( [\w.]+)*|\W*)$"
    r"|\.(docx?|pptx?|xlsx?|pdf|tex|dvi|indd|qxd|odt|rtf|txt|html?|e?ps)$",
    re.I,
)
CONTENTS = re.compile(
    "(?:table of )?contents|目次|もくじ|目录|目錄|차례|목차|inhalt(?:sverzeichnis)?|table des matières|sommaire"
    "|[ií]ndice|sumário|оглавление|содержание",
    re.I,
)
_UNITS = r"(?:円|元|万|億|年|月|日|税込|税抜|約|chf|eur|usd|gbp|yen|no|nr|p|pp|vol|kg|km|cm|mm|m|g)"
_NO_TITLE = re.compile(
    rf"(?:[\W\d_]|{_UNITS}(?![^\W\d_]))*"  # an amount, a number or a date
    r"|(?:by|von|par|por|written by|verfasst von)\s+(?-i:[^\W\d_a-z]).*|(?:文責|著者?|作者|執筆|発行|編集)\s*[：:].*"
    r"|(?:別記)?(?:様式|書式|別紙|別表)第?\s*[\d一二三四五六七八九十]*号?.{0,12}"
    r"|(?:form|formular|vordruck|annex|appendix|anlage)\s+[A-Z]{0,3}[-\d./]+\w*(?:\s*\(.*\))?",
    re.I,
)


def human_title(title: str) -> str:
    """Return a document's title, or empty if a program generated it.

    >>> [human_title(title) for title in ("On Node.js", "Microsoft Word - a.docx", "Document1")]
    ['On Node.js', '', '']
    """
    return "" if GENERATED_TITLE.search(title.strip()) else title.strip()


def is_title(text: str) -> bool:
    """Return whether a line may be the title of its document.

    >>> [is_title(text) for text in ("The Long Arm", "230 円", "by Tobit Garrow", "様式第２号", "Form W-9", "1 May")]
    [True, False, False, False, False, True]
    """
    return not _NO_TITLE.fullmatch(text.strip()) and bool(human_title(text))


def first_page_title(text: str, second_page: int | None = None, size: Callable[[str], float] = len) -> str:
    """Return the title on the first page.

    It is the largest heading, or else a short first line. second_page: where the text of the second page begins.
    size: of a heading; without it the first heading counts.
    """
    first = text[:second_page].strip()
    all_headings: list[str] = HEADING.findall(first)
    headings = takewhile(lambda heading: not CONTENTS.fullmatch(heading), all_headings)
    if titles := list(filter(is_title, headings)):
        return (titles[0] if size is len else max(titles, key=size)).strip()
    line = first.split("\n")[0]
    is_short = len(line) <= MAX_FIRST_LINE and (len(line.split()) > 1 or not line.isascii())
    is_plain = " | " not in line and not is_labelled(line) and line[-1:] not in "。．.!?！？:：;；,、，"
    is_plain = is_plain and not line.startswith("## ") and not CONTENTS.fullmatch(line)
    return line if line and is_short and is_plain and is_title(line) else ""


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
