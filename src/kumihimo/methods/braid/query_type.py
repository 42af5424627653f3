"""question -> whether it is broad, and its topic: by word lists in English, Japanese and Chinese."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kumihimo.methods.shared.question_words import class_stems, question_pattern, word_class
from kumihimo.methods.shared.report_extracts import question_terms
from kumihimo.text.tokens import subject_terms

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
    if question_pattern("cjk").search(question):
        rest = question_pattern("cjk corpus").sub(" ", question_pattern("cjk generic").sub(" ", question))
        return rest if subject_terms(rest) else ""
    generic = class_stems("corpus", "generic", *(name for name in _CLASSES if name != "people"))
    return " ".join(word for word in question.split() if not generic.issuperset(subject_terms(word)))


def detect_topic(question: str, *, force: bool = False) -> str | None:
    """Return the topic of a broad question.

    Empty for a corpus-level question, None for a specific one. force: treat every question as broad or corpus-level.

    >>> detect_topic("What do the guests say of tides?"), detect_topic("What are the main themes?")
    ('tides?', '')
    >>> detect_topic("Where is Osk?") is None
    True
    """
    if not question_terms(question) and not question_pattern("single fact").search(question):
        return ""
    if force:
        return extract_topic(question)
    return (extract_topic(question) or None) if is_broad(question) else None


def is_broad(question: str) -> bool:
    """Return whether a question is broad: about many documents, not one thing.

    Broad questions ask what parts or authors of the corpus say, how often, or which views are common.

    >>> [is_broad(f"What {rest}?") for rest in ("do guests say of tides", "do guests say of Osk", "is the tide")]
    [True, False, False]
    """
    if question_pattern("cjk").search(question):
        return (
            bool(question_pattern("cjk broad").search(question))
            and not question_pattern("cjk name").search(question)
            and not question_pattern("single fact").search(question_pattern("cjk parts").sub("", question))
        )
    if any(question_pattern(name).search(question) for name in ("factoid", "first person")) or contains_name(question):
        return False
    return _has_broad_words(frozenset(re.findall(r"[a-z]+", question.lower())), question.lower())


def contains_name(question: str) -> bool:
    """Return whether a Latin-script question contains a name or a year.

    A name is a capitalised word within the sentence. Acronyms do not count.

    >>> contains_name("What do guests say of AI and VR?"), contains_name("What do guests say of Osk?")
    (False, True)
    """
    return any(
        not question_pattern("acronym").fullmatch(match[0]) for match in question_pattern("name").finditer(question)
    )


def _has_broad_words(words: frozenset[str], question: str) -> bool:
    """Return whether the word classes combine as in a broad question."""
    has = {name: not words.isdisjoint(word_class(name)) for name in _CLASSES}
    speaks = has["say"] or not class_stems("say").isdisjoint(subject_terms(question))
    past = bool(question_pattern("past").search(question))
    yes_no = question_pattern("any").match(question)
    contains = has["contain"] and (yes_no or any(has[name] for name in _NOUN_CLASSES))
    if has["corpus parts"] and (speaks or yes_no or any(has[name] for name in ("frequent", "contain", *_NOUN_CLASSES))):
        return True
    if not past and (has["possible parts"] or has["people"]) and (speaks or contains):
        return True
    if has["views"] and (has["frequent"] or question_pattern("about").search(question)):
        return True
    return not past and _asks_what_is_discussed(has, question, says=speaks)


def _asks_what_is_discussed(has: Mapping[str, bool], question: str, *, says: bool) -> bool:
    """Return whether a question asks what is discussed or often mentioned.

    Examples: `Which cures are discussed?`, `... often mentioned?`
    """
    plural = bool(question_pattern("plural").search(question))
    topical, frequent = plural and has["topics"], has["frequent"]
    passive = question_pattern("are discussed").search(question) or question_pattern("parts about").search(question)
    return bool(passive) or (topical and (frequent or says)) or (plural and frequent and has["discussed"])
