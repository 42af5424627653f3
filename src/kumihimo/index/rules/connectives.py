"""pairs of passages -> links, without a model: what connectives say, in English, Japanese and Chinese."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kumihimo.core.records import DiscourseRelation, Passage

# How sure one may be. Nobody has measured these: they only say which is surer than which.
START_CONFIDENCE = 0.8  # a sentence begins with a word that ties it to the one before: "However, ..."
SPLIT_CONFIDENCE = (
    0.7  # one sentence goes on in the next passage, and one of its clauses begins with its conjunction there
)
INSIDE_CONFIDENCE = 0.5  # the word stands within the sentence, between commas: "The ferry, however, ..."
ALONE_CONFIDENCE = (
    0.4  # a conjunction begins a sentence too short to have another clause: "Because the tide had turned."
)

_TABLE_PATH = Path(__file__).with_suffix(".tsv")
_COMMAS = ",，、"
_COMMA = f"[{_COMMAS}]"
_INSIDE_SENSES = (
    "result",
    "contra-expectation",
    "juxtaposition",
    "opposition",
    "instantiation",
    "synchronous",
)  # inside, too
_LINE_START = re.compile(r"[\s>#*•・\-–—「『“\"'‘(（【\[]*(?:\d{1,3}[.)．、）]\s*)?")
_SENTENCE = re.compile(r"(?:[^.?!。？！\n]|[.?!](?!\s))*")  # up to its stop
_TRAILING_COMMA = re.compile(rf"{_COMMA}\Z")
_LAST_SENTENCE = re.compile(r"(?:.*(?:[.?!]\s|[。？！\n]))?(.*)\Z", re.S)
_MAX_SENTENCE_CHARS = 400  # characters of a sentence that are looked at
_MAX_ALONE_BYTES = 45  # bytes of one that has no other clause, and no comma
_WORD_JOINING_SENSES = ("conjunction", "disjunctive")  # what says so joins words as well as clauses, within a sentence


def link_passages(pairs: Iterable[tuple[Passage, Passage]]) -> Iterator[DiscourseRelation]:
    """What connectives say of passages that follow each other; of those further apart they say nothing.

    Arg2 is the text that the connective stands in, as the PDTB has it.
    """
    before = ""
    for one, other in pairs:
        if one.id != before and (found := find_explicit_relation(one.text, other.text)):
            sense, forward, confidence = found
            first, second = (one, other) if forward else (other, one)
            yield DiscourseRelation(first.id, second.id, confidence, text=sense)
        before = one.id


def find_explicit_relation(one: str, other: str) -> tuple[str, bool, float] | None:
    """The sense in which two texts stand that follow each other, whether the first is Arg1, and how sure that is.

    >>> relation("The tide had turned.", "Therefore the ferry waited.")
    ('result', True, 0.8)
    >>> relation("船は遅れた。", "なぜなら、潮が引いていたからだ。")
    ('reason', True, 0.8)
    >>> relation("Because the tide had turned,", "the ferry waited.")
    ('reason', False, 0.7)
    >>> relation("The ferry waited.", "Because the tide had turned, nobody minded.")
    """
    if _continues_sentence(one, other):
        return _split_relation(one, other)
    if found := _leading_connective(other, "adverb", "backward"):
        kind, sense = found
        return sense, kind == "adverb", START_CONFIDENCE
    sentence = _first_sentence(other)
    if found := _leading_connective(other, "conjunction"):
        whole = len(sentence.encode()) > _MAX_ALONE_BYTES or re.search(_COMMA, sentence)
        return None if whole else (found[1], True, ALONE_CONFIDENCE)
    inside = _inside_pattern().search(sentence)
    return (_look_up_word(inside[1])[1], True, INSIDE_CONFIDENCE) if inside else None


def _first_sentence(text: str) -> str:
    start = _LINE_START.match(text)
    found = _SENTENCE.match(text[start.end() if start else 0 :][:_MAX_SENTENCE_CHARS])
    return found[0] if found else ""


def _continues_sentence(one: str, other: str) -> bool:
    """Whether the second text goes on with a sentence of the first: what is cut off has a comma, or a small letter."""
    start = other.lstrip()[:1]
    return bool(_TRAILING_COMMA.search(one.rstrip())) or (start.islower() and one.rstrip()[-1:].isalnum())


def _split_relation(one: str, other: str) -> tuple[str, bool, float] | None:
    """The relation of two halves of a sentence."""
    if found := _leading_connective(other, "conjunction"):
        return found[1], True, SPLIT_CONFIDENCE
    last = _LAST_SENTENCE.match(one.rstrip()[-_MAX_SENTENCE_CHARS:])
    if last and (found := _leading_connective(last[1], "conjunction")):
        return found[1], False, SPLIT_CONFIDENCE
    pattern, senses = _ending_pattern()
    if ending := pattern.search(one.rstrip()):
        return senses[ending[1]], False, SPLIT_CONFIDENCE
    found = _leading_connective(other, "adverb")
    return (found[1], True, SPLIT_CONFIDENCE) if found and found[1] not in _WORD_JOINING_SENSES else None


def _leading_connective(text: str, *kinds: str) -> tuple[str, str] | None:
    """Kind and sense of the connective of these kinds that a text begins with."""
    start = _LINE_START.match(text)
    found = _leading_pattern().match(text, start.end() if start else 0)
    said = _look_up_word(found[0]) if found else None
    return said if said and said[0] in kinds else None


def _look_up_word(word: str) -> tuple[str, str]:
    return _sense_by_word()[" ".join(word.casefold().split())]


@dataclass(frozen=True, slots=True)
class _Connective:
    """One word of the table. text: with its comma, where it has to have one."""

    kind: str
    sense: str
    language: str
    text: str

    @property
    def bare(self) -> str:
        return self.text.rstrip(_COMMAS)


@cache  # these are read and compiled when they are first needed
def _load_connectives() -> list[_Connective]:
    """Longest first, so that no word hides one that begins with it."""
    lines = [
        line.split("\t") for line in _TABLE_PATH.read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    ]
    words = [
        _Connective(kind, sense, language, text)
        for kind, sense, *columns in lines
        for language, column in zip(("English", "Japanese", "Chinese"), columns, strict=True)
        for text in filter(None, column.split("|"))
    ]
    return sorted(words, key=lambda word: (-len(word.bare), word.bare))


@cache
def _sense_by_word() -> Mapping[str, tuple[str, str]]:
    return {word.bare: (word.kind, word.sense) for word in _load_connectives() if word.kind != "ending"}


@cache
def _leading_pattern() -> re.Pattern[str]:
    """What begins with one of them, or with what only looks like one."""
    return re.compile("|".join(_word_pattern(word) for word in _load_connectives() if word.kind != "ending"), re.I)


def _word_pattern(word: _Connective) -> str:
    end = r"(?![\w'’-])" if word.language == "English" else ""
    return (
        r"\s+".join(map(re.escape, word.bare.split())) + end + (rf"(?=\s*{_COMMA})" if word.bare != word.text else "")
    )


@cache
def _inside_pattern() -> re.Pattern[str]:
    """One of them between commas. Not in Chinese, where commas part clauses: it would tie these."""
    words = (
        w for w in _load_connectives() if w.kind == "adverb" and w.sense in _INSIDE_SENSES and w.language != "Chinese"
    )
    return re.compile(rf"[,、]\s*({'|'.join(re.escape(word.bare) for word in words)})\s*[,、]", re.I)


@cache
def _ending_pattern() -> tuple[re.Pattern[str], Mapping[str, str]]:
    """How a clause ends, and the senses of that."""
    senses = {word.text: word.sense for word in _load_connectives() if word.kind == "ending"}
    return re.compile(f"({'|'.join(map(re.escape, senses))})\\Z"), senses
