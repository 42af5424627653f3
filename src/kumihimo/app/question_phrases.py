"""question + text -> the words of the question that the text has: names, and words in a row as phrases."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from unicodedata import normalize

from kumihimo.index.rules.ner_words import WORDS
from kumihimo.text.tokens import subject_terms

_KATAKANA, _HIRAGANA, _KANJI = "\u30a0-\u30ff", "\u3040-\u309f", "々〆\u3400-\u9fff"
_PIECE_PATTERN = rf"[{_KATAKANA}]+|[{_KANJI}]+|[^\W{_KATAKANA}{_HIRAGANA}{_KANJI}]+"  # compiled on first use
_ENDING = r"(?i)(?<=\w)(?:n['’]t|['’](?:s|d|m|ll|re|ve))\b"  # in gate's, don't, who've
_ASKING_WORDS = frozenset(
    "called happen happened mention mentioned name named said say says talk think write".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words of the question that a text has, as the question writes them.

    text: one word, or several if the text has them in a row. terms: their subject terms. is_name: whether capital
    letters mark a name. places: where it is in the text, in words; empty if only the title has it.
    """

    text: str
    terms: frozenset[str]
    is_name: bool
    places: frozenset[int]


def find_phrases(question: str, text: str, title: str = "") -> list[Phrase]:
    """Return the phrases of the question that the text or its title has.

    They are in the order of the question, without common words at their ends.

    >>> [phrase.text for phrase in find_phrases("Who mended the old pier of Oban?", "They mended a pier of Oban")]
    ['mended', 'pier of Oban']
    """
    asked, normalized = re.sub(_ENDING, "", normalize("NFKC", question)), normalize("NFKC", text)
    in_text, in_title = _term_places(normalized), _term_places(normalize("NFKC", title))
    plain = " ".join(normalized.casefold().split())
    pieces = [piece for piece in re.finditer(_PIECE_PATTERN, asked) if _piece_terms(piece[0])]
    names = [_is_capital(piece, normalized) for piece in pieces]
    phrases: list[Phrase] = []
    start = -1  # of the phrase that may continue
    for i, piece in enumerate(pieces):
        terms = _piece_terms(piece[0])
        places = frozenset(set.intersection(*(in_text[term] for term in terms)))
        longer = asked[start : piece.end()] if start >= 0 else ""
        if places and longer and " ".join(longer.casefold().split()) in plain:
            last = phrases.pop()
            is_name = names[i - 1] and (names[i] or piece[0].isdigit())
            phrases.append(Phrase(longer, last.terms | terms, is_name, last.places))
            names[i] = is_name
            continue
        start = piece.start() if places else -1
        if places or all(in_title[term] for term in terms):
            phrases.append(Phrase(piece[0], terms, names[i] and not _is_part_of_name(pieces, names, i), places))
    distinct = {phrase.terms: phrase for phrase in reversed(phrases)}
    return list(distinct.values())[::-1]


def _term_places(text: str) -> dict[str, set[int]]:
    places = defaultdict[str, set[int]](set)
    for place, piece in enumerate(re.finditer(_PIECE_PATTERN, text)):
        for term in _piece_terms(piece[0]):
            places[term].add(place)
    return places


@lru_cache(maxsize=65536)
def _piece_terms(piece: str) -> frozenset[str]:
    """Return the subject terms of a piece; a common word has none."""
    word = piece if len(piece) > 1 and piece.isupper() else piece.lower()
    return frozenset() if word in WORDS["stop_words"] or word in _ASKING_WORDS else frozenset(subject_terms(piece))


def _is_capital(piece: re.Match[str], text: str) -> bool:
    """Return whether a capital letter marks a word of a question as a name.

    The first word has one anyway: it counts if the text has it with capitals only.
    """
    word = piece[0].lower()
    is_first = not re.search(r"\w", piece.string[: piece.start()])
    return piece[0][0].isupper() and word not in WORDS["no_name_alone"] and not (is_first and word in text)


def _is_part_of_name(pieces: Sequence[re.Match[str]], names: Sequence[bool], i: int) -> bool:
    """Return whether the name of a word has further words."""
    question, sides = pieces[i].string, [j for j in (i - 1, i + 1) if 0 <= j < len(pieces) and names[j]]
    between = [question[pieces[min(i, j)].end() : pieces[max(i, j)].start()] for j in sides]
    return any(all(word in WORDS["particles"] for word in re.split("[ -]+", gap) if word) for gap in between)
