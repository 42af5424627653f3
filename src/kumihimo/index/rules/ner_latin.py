"""a sentence -> names in scripts that have capitals: capitalised runs, quoted titles, acronyms, quantities."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kumihimo.index.rules.lexicon import (
    COURTESY_TITLES,
    LOWERCASE_WORDS,
    NAME_POSSESSORS,
    NO_NAME_ALONE,
    NOMINAL_OPENERS,
    OPENER_SUFFIXES,
    ORGANISATION_ENDS,
    ORGANISATION_STARTS,
    PARTICLES,
    RANK_TITLES,
    ROLE_NOUNS,
    SENTENCE_OPENERS,
    STOP_WORDS,
    TIME_UNITS,
    UNITS,
)
from kumihimo.index.rules.ner_spans import QUANTITY, NameSpan

MAX_NAME_WORDS = 7  # words of a name: a longer run is a heading, or a list without commas

_CASED = (*range(0x41, 0x590), *range(0x10A0, 0x1100), *range(0x13A0, 0x1400), *range(0x1E00, 0x2000))
_U = "".join(char for char in map(chr, _CASED) if char.isupper() or char.istitle())
_L = r"[^\W_々〆ー\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"  # a letter or digit of a script with spaces
_ABBREVIATED = "St|Dr|Mr|Mrs|Ms|Prof|Mt|Ft|Jr|Sr|Gov|Sen|Rep|Gen|Col|Capt|Lt|Sgt|Rev|Hon|Bros"
_WORD = (
    rf"(?:(?:[{_U}]\.){{2,6}}[{_U}]?(?!{_L})|[{_U}]\.(?= ?[{_U}])|(?:{_ABBREVIATED})\.(?= )"
    rf"|[{_U}]{_L}*(?:[-‑][{_U}0-9]{_L}*|['’&]{_L}+)*[+#]{{0,2}})"
)
_SMALL = "|".join(sorted({form for word in PARTICLES for form in (word, word.capitalize())}))
_TAIL = rf"(?:,? (?:Inc|Ltd|LLC|Corp|PLC|GmbH)\b\.?| \d{{1,4}}(?![\d.,%°]*[\d%°]|{_L}| (?:{TIME_UNITS}|{UNITS})\b))?"
_RUN = re.compile(rf"{_WORD}(?: (?:& |(?:(?:{_SMALL}) ){{1,3}})?{_WORD})*{_TAIL}")
_CAPITAL = re.compile(f"[{_U}]")
_PREFIX = re.compile(
    r"(?:\b(?:[Tt]he|[Ii]ts|[Hh]is|[Hh]er|[Tt]heir|an?) ((?:1\d|20)\d\d )|(?:^|[^\w.@/\\])([a-z]|(?:al|el)-|[dl]['’]))$"
)
_WORD_BEFORE = re.compile(rf"(?:{_L}\.?|[_@/\\])$")
_LETTERS = re.compile(r"[^\W\d_]+")
_SENTENCE_START = re.compile(r"(?:[.!?:;…—–•|*][\"”’)\]]*|[\"“‘]) ?[\"“‘(\[*•-]?(?: ?- )?$|^\W*$")
_QUOTED_TITLE = re.compile(
    r"“([^“”]{3,80})”|(?<![^\s(\[—–])\"(?=\S)([^\"]{3,80})(?<=\S)\"|(?<![^\s(\[“—–])‘([^‘’]{3,80})’(?![^\W_])"
)
_QUOTE, _DIGIT = re.compile('[“"‘]'), re.compile(r"\d")
_NUMBER = r"(?:\d{1,3}(?:,\d{3}){1,6}|\d{1,15})(?:\.\d{1,9})?"
_SCALE = r"(?: (?:hundred|thousand|million|billion|trillion))?"
_QUANTITY = re.compile(
    rf"(?:US\$|[$€£¥₹]) ?{_NUMBER}(?:{_SCALE}|[kKmMbB]\b)(?!{_L})"
    rf"|(?<![\d.,]){_NUMBER}(?:{_SCALE}[ -]?(?:square |cubic )?(?:{UNITS})(?!{_L})| ?[%％])"
)
_PARENTHESIS = re.compile(r" ?\(([^()]{2,90})\)")
_ACRONYM = re.compile(rf"(?:[{_U}]\.?){{2,8}}")
_EXEMPT_ACRONYMS = frozenset(["US", "WHO", "IT"])  # acronyms that in small letters are stop words


class CapitalRun(NamedTuple):
    """A capitalised run and whether only its place may have capitalised it."""

    span: NameSpan
    opens_sentence: bool


def find_capital_runs(text: str, is_heading: bool = False) -> Iterator[CapitalRun]:
    """The capitalised runs of a sentence; `shown`: it is a heading, whose capitals tell little."""
    letters = text.upper() == text
    if letters and text.count(" ") > 3 and _has_case(text):
        return
    for start, end in _run_spans(text):
        if text[end : end + 1] in ("_", "@") or (text[start - 1 : start] == "[" and text[end : end + 1] == "]"):
            continue
        opens = is_heading or bool(_SENTENCE_START.search(text[max(start - 5, 0) : start]))
        for words in _split_run(text[start:end].split(" "), opens):
            yield from _build_run(text, start + words[0][0], [word for _, word in words], opens and words[0][0] == 0)


def _run_spans(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    while capital := _CAPITAL.search(text, at):
        start = at = capital.start()
        before = text[max(start - 12, 0) : start]
        prefix = _PREFIX.search(before)
        run = _RUN.match(text, start) if prefix or not _WORD_BEFORE.search(before) else None
        if not run:
            at += 1
            continue
        at = run.end()
        yield start - (len(prefix[1] or prefix[2]) if prefix else 0), at


def _has_case(text: str) -> bool:
    return text.lower() != text


PlacedWords = list[tuple[int, str]]


def _split_run(words: list[str], opens: bool) -> Iterator[PlacedWords]:
    """A run of words cut at stop words and after possessives, each word with its place."""
    piece: PlacedWords = []
    at = 0
    for word in words:
        place, at = at, at + len(word) + 1
        owner = word.endswith(("'s", "’s", "'", "’"))
        if _is_stop_word(word) or (opens and not place and word.lower() in SENTENCE_OPENERS and len(words) > 1):
            yield from _trim_run(piece)
            piece = []
            continue
        piece.append((place, word))
        if (
            owner
            and word[:-2].lower() not in NAME_POSSESSORS
            and piece[0][1].rstrip(".").lower() not in NAME_POSSESSORS
        ):
            yield from _trim_run(piece)
            piece = []
    yield from _trim_run(piece)


def _is_stop_word(word: str) -> bool:
    small = word.lower()
    if small in PARTICLES:
        return False
    base = re.split("['’]", small, maxsplit=1)
    return (base[0] in STOP_WORDS and word not in _EXEMPT_ACRONYMS) or (
        len(base) == 2 and base[1] in ("t", "ll", "ve", "re", "m")
    )


def _trim_run(words: PlacedWords) -> Iterator[PlacedWords]:
    """Without particles and years at the ends, and without `CEO of`."""
    while words and (words[-1][1].lower() in PARTICLES or words[-1][1] == "&"):
        words = words[:-1]
    while words and (words[0][1] in PARTICLES or words[0][1].lower() in ("the", "of")):
        words = words[1:]
    of = next((i for i, word in enumerate(words) if word[1].lower() == "of"), 0)
    if of and words[of - 1][1].lower() in ROLE_NOUNS:
        yield from _trim_run(words[of:])
        return
    if words:
        yield words


def _build_run(text: str, start: int, words: list[str], opens: bool) -> Iterator[CapitalRun]:
    name = " ".join(words)
    if name.endswith(("'s", "’s")):
        name = name[:-2]
    end = start + len(name)
    if len(words) > MAX_NAME_WORDS or all(
        word.isdigit() or word.rstrip(".").lower() in NO_NAME_ALONE for word in words
    ):
        return
    if len(words) == 1 and (len(name) < 2 or (opens and _is_word_part(text, start, end))):
        return
    kind, bare = _classify_name(text, start, end, words)
    yield CapitalRun(NameSpan(start, end, name, kind, bare), opens)


def _is_word_part(text: str, start: int, end: int) -> bool:
    """Whether a word is only a part of one, `Self-driving`, or what a transcript notes, `(Laughter.)`."""
    return text[end : end + 1] == "-" or (text[start - 1 : start] == "(" and text[end : end + 2].strip(".")[:1] == ")")


def _classify_name(text: str, start: int, end: int, words: list[str]) -> tuple[str, str]:
    """Of what type a name is, and what of it counts.

    >>> _kind("", 0, 0, ["Mr", "Kerrow"]), _kind("", 0, 0, ["Otaru", "University"])
    (('person', 'Kerrow'), ('organization', ''))
    """
    first, last = words[0].rstrip(".").lower(), words[-1].rstrip(".").lower()
    if len(words) > 1:
        if first in COURTESY_TITLES:
            return "person", " ".join(words[1:])
        if first in RANK_TITLES and words[1].lower() not in PARTICLES and last not in ORGANISATION_ENDS:
            return "person", ""
        if last in ORGANISATION_ENDS or (first in ORGANISATION_STARTS and words[1].lower() == "of"):
            return "organization", ""
        if not start and text[end : end + 1] == ":" and len(words) < 4 and text[:end].isupper():
            return "person", ""  # who speaks, in a transcript
    return "", ""


def collect_words(text: str) -> frozenset[str]:
    """The words of a text as they are written."""
    return frozenset(_LETTERS.findall(text))


def is_name_run(run: CapitalRun, steady: frozenset[str], words: frozenset[str]) -> bool:
    """Whether a run is a name: one word that opens a sentence must show elsewhere that it is.

    steady: words that stand capitalised within a sentence. words: all that are written around it.
    """
    name = run.span.name
    if not run.opens_sentence or " " in name:
        return True
    word = name.lower()
    if name in steady:
        return True
    if (
        word in SENTENCE_OPENERS
        or not NOMINAL_OPENERS.isdisjoint((word, word.removesuffix("s")))
        or not words.isdisjoint((word, word + "s", word.removesuffix("s")))
    ):
        return False
    return name.isupper() or not word.endswith(OPENER_SUFFIXES)


def find_quoted_titles(text: str) -> Iterator[NameSpan]:
    """Titles of works: two to six quoted words, mostly capitalised.

    >>> [one.name for one in quoted('He read “A Tale of Two Cities” and said “Come in now”.')]
    ['A Tale of Two Cities']
    """
    for match in _QUOTED_TITLE.finditer(text) if _QUOTE.search(text) else ():
        which = match.lastindex or 0
        phrase = match[which].rstrip(",. ")
        words = phrase.split()
        if 2 <= len(words) <= 6 and phrase[0].isupper() and not words[-1].islower() and all(map(_fits_title, words)):
            yield NameSpan(match.start(which), match.start(which) + len(phrase), phrase, "work")


def _fits_title(word: str) -> bool:
    return not word[0].islower() or word in LOWERCASE_WORDS


def find_quantities(text: str) -> Iterator[NameSpan]:
    """Numbers with their units.

    >>> [one.name for one in quantities("$20 million for 3.5 km, 41 centimetres, 15% and 120 m² in 25 years")]
    ['$20 million', '3.5 km', '41 centimetres', '15%', '120 m²']
    """
    for match in _QUANTITY.finditer(text) if _DIGIT.search(text) else ():
        yield NameSpan(match.start(), match.end(), match[0], QUANTITY)


def find_acronyms(text: str) -> Iterator[tuple[str, NameSpan]]:
    """Acronyms with what they stand for, where the initials match.

    >>> text = "NASA (National Aeronautics and Space Administration) uses deep learning (DL)"
    >>> [(short, one.name) for short, one in acronyms(text)]
    [('NASA', 'National Aeronautics and Space Administration'), ('DL', 'deep learning')]
    """
    for match in _PARENTHESIS.finditer(text):
        inner, start = match[1].removesuffix("s"), match.start()
        if _ACRONYM.fullmatch(inner):
            begin = max(start - 90, 0)
            long = _find_expansion(text[begin:start], inner.replace(".", ""))
            if long:
                yield inner, NameSpan(start - len(long), start, long, _expansion_type(long))
            continue
        short = text[max(start - 12, 0) : start].rpartition(" ")[2].lstrip('(“"‘')
        if _ACRONYM.fullmatch(short) and _find_expansion(match[1], short.replace(".", "")) == match[1]:
            yield short, NameSpan(match.start(1), match.end(1), match[1], _expansion_type(match[1]))


def _expansion_type(name: str) -> str:
    return _classify_name("", 1, 1, name.split(" "))[0]


def _find_expansion(text: str, short: str) -> str:
    """The end of a text whose words begin with the letters of `short`; small words count if it needs them to."""
    return _match_initials(text, short.lower(), LOWERCASE_WORDS) or _match_initials(text, short.lower(), frozenset())


def _match_initials(text: str, letters: str, skipped: frozenset[str]) -> str:
    at = len(text)
    while letters:
        if at < 0:
            return ""
        place = max(text.rfind(" ", 0, at), text.rfind("-", 0, at)) + 1
        word = text[place:at].strip('“"‘(').lower()
        if word not in skipped:
            if word[:1] != letters[-1]:
                return ""
            letters = letters[:-1]
        at = place - 1
    return text[at + 1 :]
