"""a question -> a request that excerpts do not answer: a list, an outline, topics; by rules in requests.toml."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unicodedata import normalize

from kumihimo.text.tokens import subject_terms

_RULES = Path(__file__).with_suffix(".toml")
_KINDS = ("compare", "documents", "list", "themes", "outline")
ROW_KINDS = ("total", "average", "lowest", "highest")
_QUOTES = " \"'“”‘’「」『』《》"


@dataclass(frozen=True, slots=True)
class Request:
    """What a question asks for.

    kind: compare, documents, list, themes, outline, or one of rows. subject: what it is about; empty: the whole. other:
    the second subject of a comparison, or the document of a list.
    """

    kind: str
    subject: str = ""
    other: str = ""


def read_request(question: str) -> Request | None:
    """Return what a question requests, or None for a question of detail.

    >>> read_request("Compare the old wall and the new wall")
    Request(kind='compare', subject='the old wall', other='the new wall')
    >>> read_request("登場する人物を挙げて"), read_request("Who painted the gate?")
    (Request(kind='list', subject='person', other=''), None)
    """
    plain = " ".join(normalize("NFKC", question).split())
    for kind in _KINDS:
        for pattern in _patterns(kind):
            if match := pattern.search(plain):
                found = {name: (value or "").strip(_QUOTES) for name, value in match.groupdict().items()}
                subject = _read_type(found.get("X", "")) if kind == "list" else found.get("X", "")
                return Request(kind, subject, found.get("Y", ""))
    kinds = [kind for kind in ROW_KINDS if _matches("rows", kind, plain)]
    return Request(kinds[0], plain) if kinds else None


def find_pronoun(question: str) -> int | None:
    """Return the place of the first pronoun, or None.

    A question that is too short to stand alone ends with such a place.

    >>> [find_pronoun(text) for text in ("When did he leave?", "Why?", "彼はいつ辞めましたか", "Who lit the lamp?")]
    [9, 4, 0, None]
    """
    rules: Mapping[str, list[str]] = _rules()["follow_up"]
    found = [m.start() for pattern in rules["pronoun"] if (m := re.search(pattern, question, re.IGNORECASE))]
    return min(found, default=len(question) if _matches("follow_up", "short", question) else None)


def row_words(question: str) -> list[str]:
    """Return the terms that only name a computation: `highest`."""
    patterns = [pattern for group in _rules()["rows"].values() for pattern in group]
    return subject_terms(" ".join(m[0] for p in patterns for m in re.finditer(p, question, re.IGNORECASE)) or "-")


def without_document_words(name: str) -> str:
    """Return a description without words such as `report`."""
    words = _rules()["words"]
    pattern = rf"\b{words['documents']}\b|の?{words['jadoc']}$|的?{words['zhdoc']}$"
    return re.sub(pattern, " ", name, flags=re.IGNORECASE).strip()


def light_words() -> frozenset[str]:
    """Return the words that name no topic."""
    return frozenset(_rules()["topics"]["light"].split())


def _read_type(words: str) -> str:
    """Return the type of a list by its words: `people` gives person."""
    types: Mapping[str, str] = _rules()["types"]
    return next((name for name, pattern in types.items() if re.fullmatch(pattern, words, re.IGNORECASE)), "person")


def _matches(section: str, kind: str, text: str) -> bool:
    return any(re.search(pattern, text, re.IGNORECASE) for pattern in _rules()[section][kind])


@cache
def _rules() -> Mapping[str, Any]:
    return tomllib.loads(_RULES.read_text(encoding="utf-8"))


@cache
def _patterns(kind: str) -> tuple[re.Pattern[str], ...]:
    """Return the patterns of a kind, with words filled in."""
    words = {**_rules()["words"], "types": f"(?:{'|'.join(_rules()['types'].values())})"}

    def expand(pattern: str) -> str:
        for _ in range(3):  # words may hold other words
            for name, value in words.items():
                pattern = pattern.replace(f"<{name}>", value)
        return pattern

    return tuple(re.compile(expand(p), re.IGNORECASE) for group in _rules()[kind].values() for p in group)
