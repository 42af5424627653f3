"""a question -> a request that excerpts do not answer, by rules; or the question with the names of earlier ones."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unicodedata import normalize

from kumihimo.core.answer import Answer
from kumihimo.core.context import Context
from kumihimo.generation.phrases import question_language
from kumihimo.generation.quoting.drafts import say
from kumihimo.index.rules.ner_cjk import find_chinese_names, find_japanese_names, has_cjk, is_chinese
from kumihimo.index.rules.ner_words import QUANTITY, WORDS
from kumihimo.text.question import ParsedQuestion
from kumihimo.text.question_types import class_stems

_RULES = Path(__file__).with_suffix(".toml")
_QUOTES = " \"'“”‘’「」『』《》"
_CAPITAL_RUN = re.compile(r"(?<!^)\b[A-Z][\w'’&-]*(?:\s+(?:(?:of|the|de|van|von)\s+)?[A-Z][\w'’&-]*)*")
_YEAR = re.compile(r"(?<!\d)[12]\d{3}(?!\d)")
_MAX_NAMES = 2


@dataclass(frozen=True, slots=True)
class Request:
    """What a question asks for.

    kind: compare, documents, list, themes or outline. subject: what it is about; empty: the whole. other:
    the second subject of a comparison, or the document of a list.
    """

    kind: str
    subject: str = ""
    other: str = ""


def read_request(asked: ParsedQuestion) -> Request | None:
    """Return what a question requests, or None for a question of detail.

    >>> read_request(ParsedQuestion("Compare the old wall and the new wall"))
    Request(kind='compare', subject='the old wall', other='the new wall')
    >>> read_request(ParsedQuestion("登場する人物を挙げて")), read_request(ParsedQuestion("Who painted the gate?"))
    (Request(kind='list', subject='person', other=''), None)
    """
    for kind in ("compare", "documents", "list", "themes", "outline"):
        if kind == "themes" and asked.topic is not None:
            return Request(kind, _clean_topic(asked.topic))
        for pattern in () if kind == "themes" else _patterns(kind):
            if match := pattern.search(asked.plain):
                groups = {name: (value or "").strip(_QUOTES) for name, value in match.groupdict().items()}
                subject = groups.get("X", "")
                return Request(kind, _read_type(subject) if kind == "list" else subject, groups.get("Y", ""))
    return None


def lists_entities(asked: ParsedQuestion) -> bool:
    """Return whether a question requests a list of entities.

    >>> [lists_entities(ParsedQuestion(text)) for text in ("List all people", "List the documents", "Who sang?")]
    [True, False, False]
    """
    request = read_request(asked)
    return request is not None and request.kind == "list" and request.subject != "documents"


def _clean_topic(topic: str) -> str:
    """Return the words of a topic without marks and particles."""
    words = re.findall(r"[\w'’&-]+", topic)
    if re.search("[ぁ-ヺ]", topic):
        words = [word for word in re.findall(r"[a-zA-Z0-9]+|[ァ-ヺー]+|[㐀-鿿々]+", topic) if len(word) > 1] or words
    return " ".join(words)


def find_pronoun(question: str) -> int | None:
    """Return the place of the first pronoun, or None.

    A question that is too short to stand alone ends with such a place.

    >>> [find_pronoun(text) for text in ("When did he leave?", "Why?", "彼はいつ辞めましたか", "Who lit the lamp?")]
    [9, 4, 0, None]
    """
    rules: Mapping[str, list[str]] = _rules()["follow_up"]
    if _matches("follow_up", "own", question):
        return None
    starts = [m.start() for pattern in rules["pronoun"] if (m := re.search(pattern, question, re.IGNORECASE))]
    return min(starts, default=len(question) if _matches("follow_up", "short", question) else None)


def names_document(name: str) -> bool:
    """Return whether a description is one of a document or file."""
    word = re.search(_rules()["words"]["minutes"], name, re.IGNORECASE)
    return word is not None or without_document_words(name) != name.strip()


def without_document_words(name: str) -> str:
    """Return a description without words such as `report`."""
    words = _rules()["words"]
    pattern = rf"\b{words['documents']}\b|の?{words['jadoc']}$|的?{words['zhdoc']}$"
    return re.sub(pattern, " ", name, flags=re.IGNORECASE).strip()


def light_words() -> frozenset[str]:
    """Return the words that name no topic."""
    return frozenset(_rules()["topics"]["light"].split())


def light_stems() -> frozenset[str]:
    """Return the stems of words that ask for topics."""
    return class_stems("corpus parts", "possible parts", "topics", "views", "generic")


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

    groups = _rules()[kind].values()
    return tuple(re.compile(expand(pattern), re.IGNORECASE) for group in groups for pattern in group)


def carry_names(question: str, history: Sequence[Answer]) -> tuple[str, str]:
    """Return the question with names of the last one, and a note.

    The note is empty if the question stands alone. A question of another year is the one before with that year.

    >>> before = Answer.of_text("Who is Maren Oldacre?", "")
    >>> carry_names("When did she leave?", [before])
    ('When did she leave? (about Maren Oldacre)', '(about Maren Oldacre)')
    >>> carry_names("And in 2022?", [Answer.of_text("What did it cost in 2021?", "")])
    ('What did it cost in 2022?', '(What did it cost in 2022?)')
    >>> carry_names("Where is Thornhead Light?", [before])
    ('Where is Thornhead Light?', '')
    """
    plain = " ".join(normalize("NFKC", question).split())
    place = find_pronoun(plain)
    is_whole_short = has_cjk(plain) and place == len(plain)
    if not history or place is None or any(start < place for start, _ in _find_names(plain) if not is_whole_short):
        return question, ""
    before = " ".join(normalize("NFKC", history[-1].question).split())
    names = [name for _, name in _find_names(before)][-_MAX_NAMES:] or list(
        filter(None, [ParsedQuestion(before).subject])
    )
    if (year := _YEAR.search(plain)) and place == len(plain) and _YEAR.search(before):
        before = _YEAR.sub(year[0], before)
        return before, f"({before})"
    if not names:
        return question, ""
    note = say("about", question_language(question, Context()), names=", ".join(names))
    return f"{question} {note}", note


def _find_names(plain: str) -> Iterator[tuple[int, str]]:
    """Yield the names in a question with their places.

    Names are capitalised words within it, and compounds in kanji or katakana.
    """
    if has_cjk(plain):
        find = find_chinese_names if is_chinese(plain) else find_japanese_names
        for span in find(plain):
            if span.type != QUANTITY and find_pronoun(span.name + "は") is None:
                yield span.start, span.name
        return
    for run in _CAPITAL_RUN.finditer(plain):
        name = re.sub(r"['’]s$", "", run[0])
        if name.casefold() not in WORDS["stop_words"]:
            yield run.start(), name
