"""a sentence -> names in scripts with capitals: capitalised runs, quoted titles, acronyms, quantities."""

import re
from collections.abc import Iterator, Set
from functools import cache, lru_cache
from typing import NamedTuple

from kumihimo.index.rules.ner_words import QUANTITY, WORDS, NameSpan, alternatives
from kumihimo.text import common_words, tokens

MAX_NUMBER = 40  # characters of a number or date before the first word of a sentence
MAX_NAME_WORDS = 7  # a longer run is a heading, or a list without commas

_CASED = (*range(0x41, 0x590), *range(0x10A0, 0x1100), *range(0x13A0, 0x1400), *range(0x1E00, 0x2000))
_U = "".join(char for char in map(chr, _CASED) if char.isupper() or char.istitle())
_L = r"[^\W_々〆ー\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"  # a letter or digit of a script with spaces
_ABBREVIATED = "St|Dr|Mr|Mrs|Ms|Prof|Mt|Ft|Jr|Sr|Gov|Sen|Rep|Gen|Col|Capt|Lt|Sgt|Rev|Hon|Bros"
_WORD = (
    rf"(?:(?:[{_U}]\.){{2,6}}[{_U}]?(?!{_L})|[{_U}]\.(?= ?[{_U}])|(?:{_ABBREVIATED})\.(?= )"
    rf"|[{_U}]{_L}*(?:[-‑][{_U}0-9]{_L}*|['’&]{_L}+)*[+#]{{0,2}})"
)
_PARTICLES = WORDS["particles"]
_SMALL = "|".join(sorted({form for word in _PARTICLES for form in (word, word.capitalize())}))
_UNITS, _TIME_UNITS = alternatives("units"), alternatives("time_units")
_TAIL = rf"(?:,? (?:Inc|Ltd|LLC|Corp|PLC|GmbH)\b\.?| \d{{1,4}}(?![\d.,%°]*[\d%°]|{_L}| (?:{_TIME_UNITS}|{_UNITS})\b))?"
_RUN = re.compile(rf"{_WORD}(?: (?:& |(?:(?:{_SMALL}) ){{1,3}})?{_WORD})*{_TAIL}")
_CAPITAL = re.compile(f"[{_U}]")
_PREFIX = re.compile(
    r"(?:\b(?:[Tt]he|[Ii]ts|[Hh]is|[Hh]er|[Tt]heir|an?) ((?:1\d|20)\d\d )|(?:^|[^\w.@/\\])([a-z]|(?:al|el)-|[dl]['’]))$"
)
_WORD_BEFORE = re.compile(rf"(?:{_L}\.?|[_@/\\])$")
_LETTERS = re.compile(r"[^\W\d_]+")
_SENTENCE_START = re.compile(r"(?:[.!?:;…—–•|*][\"”’)\]]*|[\"“‘]) ?[\"“‘(\[*•-]?(?: ?- )?$|^\W*$")
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_NUMBER_BEFORE = re.compile(rf"[\W\d]{{1,12}}(?:(?:{_MONTHS})[a-z]*[\W\d]{{1,16}})?")
# What follows a verb or a noun rather than a name: `Wound and oiled`, `Swept the`.
_NO_SUBJECT = re.compile(
    r" (?:(?:the|an?|by|of|up|out|off|down|to|from|are|were|have|it|them|my|your|our)\b|and [a-z])"
)
_QUOTED_TITLE = re.compile(
    r"“([^“”]{3,80})”|(?<![^\s(\[—–])\"(?=\S)([^\"]{3,80})(?<=\S)\"|(?<![^\s(\[“—–])‘([^‘’]{3,80})’(?![^\W_])"
)
_QUOTE, _DIGIT = re.compile('[“"‘]'), re.compile(r"\d")
_NUMBER = r"(?:\d{1,3}(?:,\d{3}){1,6}|\d{1,15})(?:\.\d{1,9})?"
_SCALE = r"(?: (?:hundred|thousand|million|billion|trillion))?"
_QUANTITY = re.compile(
    rf"(?:US\$|[$€£¥₹]) ?{_NUMBER}(?:{_SCALE}|[kKmMbB]\b)(?!{_L})"
    rf"|(?<![\d.,]){_NUMBER}(?:{_SCALE}[ -]?(?:square |cubic )?(?:{_UNITS})(?!{_L})| ?[%％])"
)
_PARENTHESIS = re.compile(r" ?\(([^()]{2,90})\)")
_ACRONYM = re.compile(rf"(?:[{_U}]\.?){{2,8}}")
_FIRST_WORDS = WORDS["courtesy_titles"] | {"the"}
_OPENER_SUFFIXES = tuple(WORDS["opener_suffixes"])
_EXEMPT_ACRONYMS = frozenset(["US", "WHO", "IT"])  # acronyms that are stop words in small letters


class CapitalRun(NamedTuple):
    """A capitalised run of words.

    opens_sentence: whether its place alone may explain the capital. needs_evidence: whether it is a name only if it
    stands capitalised elsewhere.
    """

    span: NameSpan
    opens_sentence: bool
    needs_evidence: bool = False


def find_capital_runs(text: str, is_heading: bool = False) -> Iterator[CapitalRun]:
    """Yield the capitalised runs of a sentence.

    is_heading: in a heading with capitals throughout, they tell nothing.
    """
    if text.count(" ") > 3 and text.upper() == text != text.lower():
        return
    in_title_case = is_heading and _is_title_case(text)
    for start, end in _run_spans(text):
        if text[end : end + 1] in ("_", "@") or (text[start - 1 : start] == "[" and text[end : end + 1] == "]"):
            continue
        opens_sentence = in_title_case or _opens_sentence(text, start) or _is_label(text, start, end)
        for offset, words in _split_run(text[start:end], opens_sentence):
            is_opener = opens_sentence and not offset
            for span in _build_run(text, start + offset, words, is_opener):
                is_no_subject = is_opener and len(words) == 1 and bool(_NO_SUBJECT.match(text, span.end))
                yield CapitalRun(span, is_opener or in_title_case, is_no_subject or in_title_case)


def _opens_sentence(text: str, start: int) -> bool:
    """Return whether a sentence, quotation, cell or item begins here."""
    inner = text[max(start - 2, 0) : start]  # `n ` in most cases
    if not (inner[1:] == " " and inner[0].isalnum()) and _SENTENCE_START.search(text[max(start - 5, 0) : start]):
        return True
    return start < MAX_NUMBER and not text[0].isalpha() and bool(_NUMBER_BEFORE.fullmatch(text, 0, start))


def _is_label(text: str, start: int, end: int) -> bool:
    """Return whether a single word labels what follows: `Subject: the pier`."""
    return text[end : end + 2] == ": " and " " not in text[start:end] and not text[start:end].isupper()


def _is_title_case(text: str) -> bool:
    """Return whether all words but particles have a capital.

    That is `The Old Pier`, not `The pier of Otaru`.
    """
    return all(word in WORDS["lowercase_words"] or not word[:1].islower() for word in text.split())


def _run_spans(text: str) -> Iterator[tuple[int, int]]:
    position = 0
    while capital := _CAPITAL.search(text, position):
        start = position = capital.start()
        prefix, may_begin = None, True
        if start and (text[start - 1] != " " or text[start - 2 : start - 1].isdecimal()):
            preceding = text[max(start - 12, 0) : start]
            prefix = _PREFIX.search(preceding)
            may_begin = bool(prefix) or not _WORD_BEFORE.search(preceding)
        run = _RUN.match(text, start) if may_begin else None
        if not run:
            position += 1
            continue
        position = run.end()
        yield start - (len(prefix[1] or prefix[2]) if prefix else 0), position


PlacedWords = list[tuple[int, str]]


@lru_cache(maxsize=16_384)
def _split_run(run: str, opens_sentence: bool) -> list[tuple[int, list[str]]]:
    """Split a run at stop words and after possessives.

    Return the offset of each piece that may be a name, and its words.
    """
    pieces = ((piece[0][0], [word for _, word in piece]) for piece in _cut_run(run.split(" "), opens_sentence))
    return [(offset, words) for offset, words in pieces if len(words) <= MAX_NAME_WORDS and not _is_empty(words)]


def _is_empty(words: list[str]) -> bool:
    """Return whether no word can be a name alone."""
    return all(word.isdigit() or word.rstrip(".").lower() in WORDS["no_name_alone"] for word in words)


def _cut_run(words: list[str], opens_sentence: bool) -> Iterator[PlacedWords]:
    """Yield the pieces of a run, as words with their offsets."""
    piece: PlacedWords = []
    offset = 0
    for word in words:
        start, offset = offset, offset + len(word) + 1
        if piece and _begins_anew(piece[0][1], word):
            piece = []
        is_opener = opens_sentence and not start and len(words) > 1 and word.lower() in WORDS["sentence_openers"]
        is_stop_word = is_opener or _is_stop_word(word)
        if not is_stop_word:
            piece.append((start, word))
        if is_stop_word or (word.endswith(("'s", "’s", "'", "’")) and not _is_name_possessor(word, piece[0][1])):
            yield from _trim_run(piece)
            piece = []
    yield from _trim_run(piece)


def _begins_anew(first: str, word: str) -> bool:
    """Return whether a run's first word is no part of the name.

    Examples: `Walked the Long Arm`, `Old Mr Kerrow`.
    """
    if word.lower().rstrip(".") not in _FIRST_WORDS:
        return False
    small = first.lower()
    return not small.isalpha() or small in WORDS["no_name_alone"] or small in common_words.load_common_words()


def _is_name_possessor(word: str, first: str) -> bool:
    """Return whether the name goes on after this possessive: `King's Cross`."""
    return not WORDS["name_possessors"].isdisjoint((word[:-2].lower(), first.rstrip(".").lower()))


@lru_cache(maxsize=65536)
def _is_stop_word(word: str) -> bool:
    small = word.lower()
    if small in _PARTICLES:
        return False
    base = re.split("['’]", small, maxsplit=1)
    return (base[0] in WORDS["stop_words"] and word not in _EXEMPT_ACRONYMS) or (
        len(base) == 2 and base[1] in ("t", "ll", "ve", "re", "m")
    )


def _trim_run(words: PlacedWords) -> Iterator[PlacedWords]:
    """Strip particles at both ends, dates, and roles.

    Examples: `Last October`, `CEO of`.
    """
    if len(words) > 2 and words[0][1].lower() in WORDS["time_adjectives"]:
        words = words[2:] if words[1][1].lower() in WORDS["no_name_alone"] else words
    while words and (words[-1][1].lower() in _PARTICLES or words[-1][1] == "&"):
        words = words[:-1]
    while words and (words[0][1] in _PARTICLES or words[0][1].lower() in ("the", "of")):
        words = words[1:]
    of_index = next((i for i, word in enumerate(words) if word[1].lower() == "of"), 0)
    if of_index and words[of_index - 1][1].lower() in WORDS["role_nouns"]:
        yield from _trim_run(words[of_index:])
        return
    if words:
        yield words


def _build_run(text: str, start: int, words: list[str], opens_sentence: bool) -> Iterator[NameSpan]:
    name = " ".join(words)
    if name.endswith(("'s", "’s")):
        name = name[:-2]
    end = start + len(name)
    if len(words) == 1 and (len(name) < 2 or (opens_sentence and _is_note(text, start, end))):
        return
    kind, bare = _classify_name(text, start, end, words)
    yield NameSpan(start, end, name, kind, bare)


def _is_note(text: str, start: int, end: int) -> bool:
    """Return whether a word is a note of a transcript: `(Laughter.)`."""
    return text[start - 1 : start] == "(" and text[end : end + 2].strip(".")[:1] == ")"


def _classify_name(text: str, start: int, end: int, words: list[str]) -> tuple[str, str]:
    """Return the type of a name, and the text for its key.

    >>> _classify_name("", 0, 0, ["Mr", "Kerrow"]), _classify_name("", 0, 0, ["Otaru", "University"])
    (('person', 'Kerrow'), ('organization', ''))
    """
    first, last = words[0].rstrip(".").lower(), words[-1].rstrip(".").lower()
    if len(words) > 1:
        second, ends_organisation = words[1].lower(), last in WORDS["organisation_ends"]
        if first in WORDS["courtesy_titles"]:
            return "person", " ".join(words[1:])
        if first in WORDS["rank_titles"] and second not in _PARTICLES and not ends_organisation:
            return "person", ""
        if ends_organisation or (first in WORDS["organisation_starts"] and second == "of"):
            return "organization", ""
        if not start and text[end : end + 1] == ":" and len(words) < 4 and text[:end].isupper():
            return "person", ""  # the speaker in a transcript
    return "", ""


@lru_cache(maxsize=16)
def _collect_words(text: str) -> frozenset[str]:
    """Return the words of a text, as written."""
    return frozenset(_LETTERS.findall(text))


def select_name(run: CapitalRun, inner_capitals: Set[str], text: str) -> NameSpan | None:
    """Return the name in a run, if there is one.

    A single word that opens a sentence needs further evidence, and so does a heading. A common word is no part of a
    name after it that stands alone elsewhere: `Poor Nell`. A verb is no part of a name: `Nominating Roake`.
    inner_capitals: words that stand capitalised within a sentence. text: with all its sentences.
    """
    span = run.span
    if not run.opens_sentence or span.name in inner_capitals:
        return span
    if run.needs_evidence:
        return None
    first, _, rest = span.name.partition(" ")
    if rest and not all(word.isdigit() or len(word) < 3 for word in rest.split()):
        is_common = (
            first.lower() in common_words.load_common_words() and rest in inner_capitals
        ) or _is_verb_before_name(first, rest)
        return NameSpan(span.start + len(first) + 1, span.end, rest) if is_common else span
    return span if _may_be_name(first, text) else None


def _is_verb_before_name(first: str, rest: str) -> bool:
    """Return whether a word is a verb before a rare word.

    >>> [_is_verb_before_name(*name.split(" ", 1)) for name in ("Nominating Roake", "Rolling Stones", "Irving Berlin")]
    [True, False, False]
    """
    is_verb = first.endswith("ing") and tokens.word_root(first) in _common_roots()
    return is_verb and rest.rpartition(" ")[2].lower().removesuffix("s") not in common_words.load_common_words()


@cache
def _common_roots() -> frozenset[str]:
    """Return the roots of common words."""
    return frozenset(map(tokens.word_root, common_words.load_common_words()))


def _may_be_name(word: str, text: str) -> bool:
    """Return whether a word that opens a sentence may be a name."""
    small = word.lower()
    if small in WORDS["sentence_openers"]:
        return False
    if not word.isupper() and (small.endswith(_OPENER_SUFFIXES) or small in common_words.load_common_words()):
        return False
    forms = {small, small.removesuffix("s"), f"{small}s"}
    return not any(form in text and form in _collect_words(text) for form in forms)


def find_quoted_titles(text: str) -> Iterator[NameSpan]:
    """Yield titles of works: two to six quoted words, mostly capitalised.

    >>> [title.name for title in find_quoted_titles('He read “A Tale of Two Cities” and said “Come in now”.')]
    ['A Tale of Two Cities']
    """
    for match in _QUOTED_TITLE.finditer(text) if _QUOTE.search(text) else ():
        group = match.lastindex or 0
        phrase = match[group].rstrip(",. ")
        words = phrase.split()
        fits = all(not word[0].islower() or word in WORDS["lowercase_words"] for word in words)
        if fits and 2 <= len(words) <= 6 and phrase[0].isupper() and not words[-1].islower():
            kind = "" if WORDS["lowercase_words"].isdisjoint(words) else "work"  # `Change Settings` may be a label
            yield NameSpan(match.start(group), match.start(group) + len(phrase), phrase, kind)


def find_quantities(text: str) -> Iterator[NameSpan]:
    """Yield numbers with their units.

    >>> text = "$20 million for 3.5 km, 41 centimetres, 15% and 120 m² in 25 years"
    >>> [quantity.name for quantity in find_quantities(text)]
    ['$20 million', '3.5 km', '41 centimetres', '15%', '120 m²']
    """
    digit = _DIGIT.search(text)
    for match in _QUANTITY.finditer(text, max(digit.start() - len("US$ "), 0)) if digit else ():
        yield NameSpan(match.start(), match.end(), match[0], QUANTITY)


def find_acronyms(text: str) -> Iterator[tuple[str, NameSpan]]:
    """Yield acronyms with their expansions, if the initials match.

    >>> text = "NASA (National Aeronautics and Space Administration) uses deep learning (DL)"
    >>> [(short, expansion.name) for short, expansion in find_acronyms(text)]
    [('NASA', 'National Aeronautics and Space Administration'), ('DL', 'deep learning')]
    """
    for match in _PARENTHESIS.finditer(text) if "(" in text else ():
        inner, start = match[1].removesuffix("s"), match.start()
        if _ACRONYM.fullmatch(inner):
            window_start = max(start - 90, 0)
            expansion = _find_expansion(text[window_start:start], inner.replace(".", ""))
            if expansion:
                yield inner, NameSpan(start - len(expansion), start, expansion, _expansion_type(expansion))
            continue
        short = text[max(start - 12, 0) : start].rpartition(" ")[2].lstrip('(“"‘')
        if _ACRONYM.fullmatch(short) and _find_expansion(match[1], short.replace(".", "")) == match[1]:
            yield short, NameSpan(match.start(1), match.end(1), match[1], _expansion_type(match[1]))


def _expansion_type(name: str) -> str:
    return _classify_name("", 1, 1, name.split(" "))[0]


def _find_expansion(text: str, short: str) -> str:
    """Return the end of a text whose words begin with `short`'s letters.

    Small words count only if they are needed.
    """
    letters = short.lower()
    return _match_initials(text, letters, WORDS["lowercase_words"]) or _match_initials(text, letters, frozenset())


def _match_initials(text: str, letters: str, skipped: frozenset[str]) -> str:
    end = len(text)
    while letters:
        if end < 0:
            return ""
        start = max(text.rfind(" ", 0, end), text.rfind("-", 0, end)) + 1
        word = text[start:end].strip('“"‘(').lower()
        if word not in skipped:
            if word[:1] != letters[-1]:
                return ""
            letters = letters[:-1]
        end = start - 1
    return text[end + 1 :]
