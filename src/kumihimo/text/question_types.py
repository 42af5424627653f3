"""question -> whether it is corpus-level or broad, and its topic: by word lists in English, Japanese and Chinese."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from kumihimo.text.tokens import STOPWORDS, subject_terms

_WORDS = Path(__file__).with_name("question_words.tsv")
_NOUN_CLASSES = ("views", "topics")
_CLASSES = ("corpus parts", "possible parts", "people", "say", "contain", "frequent", *_NOUN_CLASSES, "discussed")


def has_content_words(question: str) -> bool:
    """Return whether a question has more than function words.

    Names may be made of these: a capital within the sentence counts.

    >>> [has_content_words(text) for text in ("the of and is it what", "What is it about?", "Who are The Who?")]
    [False, True, True]
    >>> [has_content_words(text) for text in ("これは何ですか", "何についてですか", "这是什么？", "什么是爱？")]
    [False, True, False, True]
    """
    names = question_pattern("name").finditer(question)
    words = re.findall(r"(?<!['’])\b\w+", question_pattern("cjk function").sub(" ", question.lower()))
    return not STOPWORDS.issuperset(words) or any(name[0] != "I" for name in names)


def question_terms(question: str) -> set[str]:
    """Return the subject terms of a question; empty if it is corpus-level.

    >>> question_terms("What are the main themes of these stories?"), question_terms("这些文档的主要主题是什么？")
    (set(), set())
    >>> question_terms("What do people in the stories say of ferries?")
    {'ferry'}
    >>> sorted(question_terms("Who is the main speaker?"))
    ['main', 'speaker']
    """
    terms = set(subject_terms(question_pattern("cjk corpus").sub(" ", question))) - class_stems("corpus")
    return terms or (set(subject_terms(question)) if _matches("single fact", question) else terms)


def detect_topic(question: str, *, force: bool = False) -> str | None:
    """Return the topic of a broad question.

    Empty for a corpus-level question, None for a specific one. force: treat every question as broad or corpus-level.

    >>> detect_topic("What do the guests say of tides?"), detect_topic("What are the main themes?")
    ('tides?', '')
    >>> detect_topic("Where is Osk?") is None
    True
    """
    if not question_terms(question) and not _matches("single fact", question):
        return ""
    if force:
        return extract_topic(question)
    return (extract_topic(question) or None) if is_broad(question) else None


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
    if _matches("cjk", question):
        rest = question_pattern("cjk corpus").sub(" ", question_pattern("cjk generic").sub(" ", question))
        return rest if subject_terms(rest) else ""
    generic = class_stems("corpus", "generic", *(name for name in _CLASSES if name != "people"))
    return " ".join(word for word in question.split() if not generic.issuperset(subject_terms(word)))


def is_broad(question: str) -> bool:
    """Return whether a question is broad: about many documents, not one thing.

    Broad questions ask what parts or authors of the corpus say, how often, or which views are common.

    >>> [is_broad(f"What {rest}?") for rest in ("do guests say of tides", "do guests say of Osk", "is the tide")]
    [True, False, False]
    """
    if _matches("cjk", question):
        one_fact = _matches("single fact", question_pattern("cjk parts").sub("", question))
        return _matches("cjk broad", question) and not one_fact and not _matches("cjk name", question)
    if _matches("factoid", question) or _matches("first person", question) or contains_name(question):
        return False
    return _has_broad_words(question.lower())


def contains_name(question: str) -> bool:
    """Return whether a Latin-script question contains a name or a year.

    A name is a capitalised word within the sentence. Acronyms do not count.

    >>> contains_name("What do guests say of AI and VR?"), contains_name("What do guests say of Osk?")
    (False, True)
    """
    names = question_pattern("name").finditer(question)
    return any(not question_pattern("acronym").fullmatch(name[0]) for name in names)


def _has_broad_words(question: str) -> bool:
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


def _pattern_text(name: str) -> str:
    return re.sub("<<([a-z ]+)>>", lambda match: _pattern_text(match[1]), _rows()["pattern", name])


def _matches(pattern: str, text: str) -> bool:
    return question_pattern(pattern).search(text) is not None
