"""words and patterns of questions in English, Japanese and Chinese -> what they say of one: broad words, its topic."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from kumihimo.text.tokens import subject_terms

_WORDS = Path(__file__).with_name("question_words.tsv")
_NOUN_CLASSES = ("views", "topics")
_CLASSES = ("corpus parts", "possible parts", "people", "say", "contain", "frequent", *_NOUN_CLASSES, "discussed")


def extract_topic(question: str) -> str:
    """Return the topic of a question without corpus-level wording.

    Empty if no topic is left.

    >>> extract_topic("Which guests discuss the role of failure in schools?")
    'failure schools?'
    >>> extract_topic("How often do they disagree?")
    ''
    >>> subject_terms(extract_topic("ゲストは教育についてどのように語っていますか"))
    ['教育']
    >>> subject_terms(extract_topic("嘉宾们如何看待教育？"))
    ['教育']
    """
    if not question.isascii() and _matches("cjk", question):
        rest = cut_pattern("cjk corpus", cut_pattern("cjk generic", question))
        return rest if subject_terms(rest) else ""
    generic = class_stems("corpus", "generic", *(name for name in _CLASSES if name != "people"))
    return " ".join(word for word in question.split() if not generic.issuperset(subject_terms(word)))


def has_broad_words(question: str) -> bool:
    """Return whether the word classes combine as in a broad question."""
    words = frozenset(re.findall(r"[a-z]+", question))
    has = {name: not words.isdisjoint(word_class(name)) for name in _CLASSES}
    speaks = has["say"] or not class_stems("say").isdisjoint(subject_terms(question))
    past = _matches("past", question)
    yes_no = question_pattern("any").match(question)
    contains = has["contain"] and (yes_no or any(has[name] for name in _NOUN_CLASSES))
    if has["corpus parts"] and (speaks or yes_no or any(has[name] for name in ("frequent", "contain", *_NOUN_CLASSES))):
        return True
    if not past and (has["possible parts"] or has["people"]) and (speaks or contains):
        return True
    if has["views"] and (has["frequent"] or _matches("about", question)):
        return True
    if _matches("portrayed", question) or (_matches("there are", question) and (has["topics"] or has["views"])):
        return True
    return not past and _asks_what_is_discussed(has, question, says=speaks)


def _asks_what_is_discussed(has: Mapping[str, bool], question: str, *, says: bool) -> bool:
    """Return whether a question asks what is discussed or often mentioned.

    Examples: `Which cures are discussed?`, `... often mentioned?`
    """
    if _matches("are discussed", question) or _matches("parts about", question):
        return True
    often = has["frequent"] and (has["topics"] or has["discussed"])
    return _matches("plural", question) and (often or (has["topics"] and (says or has["discussed"])))


# -- word classes and patterns


@cache  # read at the first question
def _rows() -> Mapping[tuple[str, str], str]:
    lines = _WORDS.read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return {(kind, name): value for kind, name, _, value in rows}


@cache
def word_class(name: str) -> frozenset[str]:
    """Return the words of a class.

    >>> "guests" in word_class("corpus parts")
    True
    """
    return frozenset(_rows()["words", name].split())


@cache
def class_stems(*names: str) -> frozenset[str]:
    """Return the stems of the words of these classes."""
    return frozenset(subject_terms(" ".join(word for name in names for word in sorted(word_class(name)))))


@cache  # most questions need few patterns, and some take long to compile
def question_pattern(name: str) -> re.Pattern[str]:
    """Return a compiled pattern.

    >>> bool(question_pattern("single fact").search("Who built it?"))
    True
    """
    return re.compile(_pattern_text(name))


def cut_pattern(name: str, text: str) -> str:
    """Return a text with a space in place of each match.

    The patterns of Japanese and Chinese match nothing in ASCII, and take longest to compile.
    """
    return text if text.isascii() and name.startswith("cjk") else question_pattern(name).sub(" ", text)


def _pattern_text(name: str) -> str:
    return re.sub("<<([a-z ]+)>>", lambda match: _pattern_text(match[1]), _rows()["pattern", name])


def _matches(pattern: str, text: str) -> bool:
    return question_pattern(pattern).search(text) is not None
