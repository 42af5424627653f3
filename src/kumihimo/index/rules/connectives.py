"""pairs of passages -> discourse relations by their connectives, in English, Japanese and Chinese."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from kumihimo.core.records import DiscourseRelation, Passage

# Confidences. They are not measured: only their order has a meaning.
START_CONFIDENCE = 0.8  # a sentence begins with an adverb that links it to the one before: "However, ..."
SPLIT_CONFIDENCE = 0.7  # a sentence continues in the next passage, and a conjunction joins the two parts
INSIDE_CONFIDENCE = 0.5  # the adverb stands inside the sentence, between commas: "The ferry, however, ..."
ALONE_CONFIDENCE = 0.4  # a conjunction begins a sentence with no other clause: "Because the tide had turned."

_TABLE_PATH = Path(__file__).with_suffix(".tsv")
_COMMAS = ",，、"
_COMMA = f"[{_COMMAS}]"
# The adverbs of these senses may also stand inside a sentence.
_INSIDE_SENSES = ("result", "contra-expectation", "juxtaposition", "opposition", "instantiation", "synchronous")
_LINE_START = re.compile(r"[\s>#*•・\-–—「『“\"'‘(（【\[]*(?:\d{1,3}[.)．、）]\s*)?")
_SENTENCE = re.compile(r"(?:[^.?!。？！\n]|[.?!](?!\s))*")  # up to its final punctuation
_TRAILING_COMMA = re.compile(rf"{_COMMA}\Z")
_LAST_SENTENCE = re.compile(r"(?:.*(?:[.?!]\s|[。？！\n]))?(.*)\Z", re.S)
_MAX_SENTENCE_CHARS = 400  # longer sentences are cut
_MAX_ALONE_BYTES = 45  # of a sentence with one clause, without a comma
_WORD_JOINING_SENSES = ("conjunction", "disjunctive")  # within a sentence, these also join words


def link_passages(pairs: Iterable[tuple[Passage, Passage]]) -> Iterator[DiscourseRelation]:
    """Yield the relations that connectives mark between adjacent passages.

    Passages further apart get none. Arg2 is the text with the connective, as in the PDTB.
    """
    previous_id = ""
    for earlier, later in pairs:
        if earlier.id != previous_id and (relation := find_explicit_relation(earlier.text, later.text)):
            sense, forward, confidence = relation
            first, second = (earlier, later) if forward else (later, earlier)
            yield DiscourseRelation(first.id, second.id, confidence, text=sense)
        previous_id = earlier.id


def find_explicit_relation(earlier: str, later: str) -> tuple[str, bool, float] | None:
    """Return the relation of two adjacent texts, or None.

    It is the sense, whether the first text is Arg1, and the confidence.

    >>> find_explicit_relation("The tide had turned.", "Therefore the ferry waited.")
    ('result', True, 0.8)
    >>> find_explicit_relation("船は遅れた。", "なぜなら、潮が引いていたからだ。")
    ('reason', True, 0.8)
    >>> find_explicit_relation("Because the tide had turned,", "the ferry waited.")
    ('reason', False, 0.7)
    >>> find_explicit_relation("The ferry waited.", "Because the tide had turned, nobody minded.")
    """
    if _continues_sentence(earlier, later):
        return _split_relation(earlier, later)
    if connective := _leading_connective(later, "adverb", "backward"):
        kind, sense = connective
        return sense, kind == "adverb", START_CONFIDENCE
    sentence = _first_sentence(later)
    if connective := _leading_connective(later, "conjunction"):
        has_other_clause = len(sentence.encode()) > _MAX_ALONE_BYTES or re.search(_COMMA, sentence)
        return None if has_other_clause else (connective[1], True, ALONE_CONFIDENCE)
    inner_match = _inside_pattern().search(sentence)
    return (_connective_of(inner_match[1])[1], True, INSIDE_CONFIDENCE) if inner_match else None


def _first_sentence(text: str) -> str:
    match = _SENTENCE.match(_strip_line_start(text)[:_MAX_SENTENCE_CHARS])
    return match[0] if match else ""


def _strip_line_start(text: str) -> str:
    """Return the text without bullet, number and opening quotation marks."""
    return _LINE_START.sub("", text, count=1)


def _continues_sentence(earlier: str, later: str) -> bool:
    """Return whether the second text continues a sentence of the first.

    Then the first ends with a comma, or the second begins with a small letter.
    """
    start = later.lstrip()[:1]
    return bool(_TRAILING_COMMA.search(earlier.rstrip())) or (start.islower() and earlier.rstrip()[-1:].isalnum())


def _split_relation(earlier: str, later: str) -> tuple[str, bool, float] | None:
    """Return the relation between two halves of a sentence."""
    if connective := _leading_connective(later, "conjunction"):
        return connective[1], True, SPLIT_CONFIDENCE
    last_sentence = _LAST_SENTENCE.match(earlier.rstrip()[-_MAX_SENTENCE_CHARS:])
    if last_sentence and (connective := _leading_connective(last_sentence[1], "conjunction")):
        return connective[1], False, SPLIT_CONFIDENCE
    pattern, senses = _ending_pattern()
    if ending := pattern.search(earlier.rstrip()):
        return senses[ending[1]], False, SPLIT_CONFIDENCE
    connective = _leading_connective(later, "adverb")
    return (connective[1], True, SPLIT_CONFIDENCE) if connective and connective[1] not in _WORD_JOINING_SENSES else None


def _leading_connective(text: str, *kinds: str) -> tuple[str, str] | None:
    """Return kind and sense of a leading connective of these kinds."""
    start = _strip_line_start(text)
    match = _leading_pattern(start[:1].casefold()[:1]).match(start)
    connective = _connective_of(match[0]) if match else None
    return connective if connective and connective[0] in kinds else None


class _Connective(NamedTuple):
    """A connective of the table.

    text: with its comma, if one must follow.
    """

    kind: str
    sense: str
    language: str
    text: str

    @property
    def bare(self) -> str:
        return self.text.rstrip(_COMMAS)


@cache  # loaded and compiled on first use
def _load_connectives() -> list[_Connective]:
    """Return the connectives, longest first.

    Thus a short one never hides a longer one that begins with it.
    """
    table_lines = _TABLE_PATH.read_text(encoding="utf-8").splitlines()
    words = [
        _Connective(kind, sense, language, text)
        for kind, sense, *columns in (line.split("\t") for line in table_lines if not line.startswith("#"))
        for language, column in zip(("English", "Japanese", "Chinese"), columns, strict=True)
        for text in filter(None, column.split("|"))
    ]
    return sorted(words, key=lambda word: (-len(word.bare), word.bare))


@cache
def _connectives_by_word() -> Mapping[str, tuple[str, str]]:
    return {word.bare: (word.kind, word.sense) for word in _load_connectives() if word.kind != "ending"}


def _connective_of(word: str) -> tuple[str, str]:
    """Return kind and sense of a word of the table."""
    return _connectives_by_word()[" ".join(word.casefold().split())]


@lru_cache(maxsize=1024)
def _leading_pattern(letter: str) -> re.Pattern[str]:
    """Return the pattern of leading connectives and look-alikes with a first letter."""
    words = [word for word in _load_connectives() if word.kind != "ending" and word.text.startswith(letter)]
    return re.compile("|".join(map(_word_pattern, words)) or "(?!)", re.I)


def _word_pattern(word: _Connective) -> str:
    word_end = r"(?![\w'’-])" if word.language == "English" else ""
    comma = rf"(?=\s*{_COMMA})" if word.bare != word.text else ""
    return r"\s+".join(map(re.escape, word.bare.split())) + word_end + comma


@cache
def _inside_pattern() -> re.Pattern[str]:
    """Return the pattern of connectives between commas.

    Chinese is left out: its commas separate clauses, and the connective would link these, not the passages.
    """
    adverbs = (word for word in _load_connectives() if word.kind == "adverb" and word.language != "Chinese")
    words = "|".join(re.escape(word.bare) for word in adverbs if word.sense in _INSIDE_SENSES)
    return re.compile(rf"[,、]\s*({words})\s*[,、]", re.I)


@cache
def _ending_pattern() -> tuple[re.Pattern[str], Mapping[str, str]]:
    """Return the pattern of clause endings, and their senses."""
    senses = {word.text: word.sense for word in _load_connectives() if word.kind == "ending"}
    return re.compile(f"({'|'.join(map(re.escape, senses))})\\Z"), senses
