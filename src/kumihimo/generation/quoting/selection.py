"""a question about the set of documents -> conditions on their fields, an order and what is asked."""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, reduce
from operator import ge, gt, le, lt
from pathlib import Path
from typing import Any

from kumihimo.text.dates import find_dates, parse_iso_date

QUOTES = "\"'“”‘’「」『』《》"
_MAX_CHARS = 200  # of a question; a longer one asks for more than documents
# The edge of an English word, also in Japanese and Chinese. A set whose case counts compiles faster.
_EDGE = "(?-i:(?<![A-Za-z])(?=[A-Za-z])|(?<=[A-Za-z])(?![A-Za-z]))"
SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {"<": lt, "≤": le, "≥": ge, ">": gt}
FILE_NAME = re.compile(r"[\w)-]\.[A-Za-z]\w{1,4}$")
_FIELDS = ("author", "date", "language", "folder")


def read_selection(question: str, has_folder: Callable[[str], object] | None = None) -> dict[str, str]:
    """Return what a question says of documents; empty for others.

    The keys: mention (in quotation marks: a phrase), title, author, date (`< 2023`: before), language, kind, noun
    (document, text), folder, order, asks (count, contents, list, which). has_folder: whether a folder has a name.

    >>> read_selection("How many files are from May 2020?")
    {'date': '2020-05', 'asks': 'count', 'noun': 'document'}
    >>> read_selection("最新の資料"), read_selection("How many people came to the meeting?")
    ({'noun': 'document', 'order': 'newest'}, {})
    """
    found, rest = dict[str, str](), question if len(question) <= _MAX_CHARS else ""
    is_ascii = rest.isascii()
    rest = _label("contents", is_ascii).sub(" ", rest)
    for name, _, pattern in _patterns("free", is_ascii):
        if name not in found and (match := _search(pattern, rest, is_ascii)):
            found[name] = _read_mention(match["X"]) if name == "mention" else match["X"].strip(QUOTES + " ")
            rest = _replace(rest, match.span(), match.groupdict().get("N") or "which documents")
    if "title" in found:
        return found
    dates = list(find_dates(rest))
    if len(dates) == 1:
        date = rest[slice(*dates[0])]
        periods = find_periods(rest, re.escape(date.removesuffix("年")))
        sign, span = next(((sign, match.span()) for sign, match in periods), ("", dates[0]))
        found["date"] = f"{sign} {parse_iso_date(date)}".strip()
        rest = _replace(rest, span)
    for name, value, pattern in _patterns("values", is_ascii):
        if name not in found and (match := _search(pattern, rest, is_ascii)):
            found[name] = value
            rest = _replace(rest, match.span())
    fillers = _patterns("filler", is_ascii)
    rest = reduce(lambda text, filler: _compile(filler[2], is_ascii).sub(" ", text), fillers, rest)
    if (word := re.fullmatch(r"\W*(\w[\w-]*)\W*", rest)) and has_folder and has_folder(word[1]):
        found["folder"], rest = word[1], ""
    return found if _is_request(found) and not re.search(r"\w", rest) else {}


def _read_mention(text: str) -> str:
    """Return what documents mention; in quotation marks, a phrase.

    >>> _read_mention("the word quay"), _read_mention("「潮の道」という語"), _read_mention("quay")
    ('quay', '"潮の道"', 'quay')
    """
    value = _label("words", text.isascii()).sub("", text).strip(QUOTES + " ")
    return f'"{value}"' if text[0] in QUOTES and not set(QUOTES) & set(value) else value


def _is_request(found: Mapping[str, str]) -> bool:
    """Return whether the parts of a question ask for documents."""
    asks, has_field = found.get("asks"), not found.keys().isdisjoint(_FIELDS)
    is_known = not found.keys().isdisjoint(("noun", "kind"))
    if not is_known and ("folder" not in found or found.keys().isdisjoint(("asks", "order"))):
        return False
    if "order" in found:
        return asks != "count" and "mention" not in found
    if asks == "contents":
        return "date" in found
    return has_field or asks in ("count", "list") or (asks == "which" and "mention" in found)


def find_periods(text: str, date: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield the sign of each `before 2023`, and its match.

    date: its pattern. The text may change between the matches of two patterns.
    """
    for sign, patterns in read_rules("selection")["times"].items():
        for pattern in usable(patterns, text.isascii()):
            yield from ((sign, match) for match in re.finditer(pattern.replace("<V>", date), text, re.IGNORECASE))


def without_document_words(name: str) -> str:
    """Return a description without words such as `report`.

    >>> [without_document_words(name) for name in ("the snow report", "図書館の手引きの文書", "文書館")]
    ['the snow', '図書館の手引き', '文書館']
    """
    kept = _document_word().sub(lambda word: " " if word[0].isascii() or word.end() == len(name) else word[0], name)
    return kept.strip()


def names_document(name: str) -> bool:
    """Return whether a description is one of a document or file."""
    return without_document_words(name) != name.strip() or FILE_NAME.search(name) is not None


@cache
def _document_word() -> re.Pattern[str]:
    nouns = "|".join([*read_rules("selection")["names"], *_nouns("noun", "kind")])
    return re.compile(f"[の的]?(?:{nouns})".replace(r"\b", _EDGE), re.IGNORECASE)


def _nouns(*sections: str, is_ascii: bool = False) -> list[str]:
    values = read_rules("selection")["values"]
    return [pattern for name in sections for group in values[name].values() for pattern in usable(group, is_ascii)]


def _replace(text: str, span: tuple[int, int], by: str = "") -> str:
    return f"{text[: span[0]]} {by} {text[span[1] :]}"


@cache
def read_rules(name: str) -> Mapping[str, Any]:
    """Return the rules in a file of this folder."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))


def usable(patterns: Iterable[str], is_ascii: bool) -> list[str]:
    """Return the patterns for a text.

    For one in ASCII, these are those in ASCII: those of other scripts take longer to compile.
    """
    return [pattern for pattern in patterns if not is_ascii or pattern.isascii()]


@cache
def _patterns(section: str, is_ascii: bool) -> list[tuple[str, str, str]]:
    """Return the patterns of a section with their names and values."""
    return [
        (name, value, pattern)
        for name, group in read_rules("selection")[section].items()
        for value, pattern in (
            ((value, "|".join(usable(each, is_ascii))) for value, each in group.items())
            if isinstance(group, dict)
            else (("", each) for each in usable(group, is_ascii))
        )
    ]


def _label(name: str, is_ascii: bool) -> re.Pattern[str]:
    return _compile("|".join(usable(read_rules("selection")["label"][name], is_ascii)), is_ascii)


def _search(pattern: str, text: str, is_ascii: bool) -> re.Match[str] | None:
    """Return the first match of a pattern in a text.

    The nouns take long to compile, so they stand in a pattern only if the text holds one.
    """
    has_noun = _compile("<noun>", is_ascii).search(text) is not None
    return _compile(pattern, is_ascii, has_noun=has_noun).search(text)


@cache
def _compile(pattern: str, is_ascii: bool, *, has_noun: bool = True) -> re.Pattern[str]:
    nouns = "|".join(_nouns("kind", "noun", is_ascii=is_ascii)) if has_noun else "(?!)"
    filled = pattern.replace("<noun>", f"(?:{nouns})")
    return re.compile(filled.replace(r"\b", _EDGE), re.IGNORECASE)
