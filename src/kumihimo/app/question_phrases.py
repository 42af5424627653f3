"""question + text -> the words of the question that the text has: names, and words in a row as phrases."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from unicodedata import normalize

from kumihimo.index.rules.ner_words import WORDS
from kumihimo.text.tokens import subject_terms

_KATAKANA, _HIRAGANA, _KANJI = "\u30a0-\u30ff", "\u3040-\u309f", "々〆\u3400-\u9fff"
_PIECE_PATTERN = rf"[{_KATAKANA}]+|[{_KANJI}]+|[^\W{_KATAKANA}{_HIRAGANA}{_KANJI}]+"  # compiled on first use
_MAX_PART = 8  # ideographs that are compared at once
NAME_ENDING = r"(?i)(?<=\w)(?:n['’]t|['’](?:s|d|m|ll|re|ve))\b"  # in gate's, don't, who've
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
    """Return the phrases of a question in a text or its title.

    They are in the order of the question, without common words at their ends.

    >>> [phrase.text for phrase in find_phrases("Who mended the old pier of Oban?", "They mended a pier of Oban")]
    ['mended', 'pier of Oban']
    """
    query, normalized = re.sub(NAME_ENDING, "", normalize("NFKC", question)), normalize("NFKC", text)
    in_text, in_title = _term_places(normalized), _term_places(normalize("NFKC", title))
    plain = " ".join(normalized.casefold().split())
    spans = [span for span in _find_pieces(query, plain) if _piece_terms(query[slice(*span)])]
    names = [_is_capital(query, span, normalized) for span in spans]
    phrases: list[Phrase] = []
    phrase_start = -1  # of the phrase that may continue
    for i, (start, end) in enumerate(spans):
        terms = _piece_terms(query[start:end])
        places = frozenset(set.intersection(*(in_text[term] for term in terms)))
        longer = query[phrase_start:end] if phrase_start >= 0 else ""
        if places and longer and " ".join(longer.casefold().split()) in plain:
            last = phrases.pop()
            names[i] = names[i - 1] and (names[i] or query[start:end].isdigit())
            phrases.append(Phrase(longer, last.terms | terms, names[i], last.places))
            continue
        phrase_start = start if places else -1
        if places or all(in_title[term] for term in terms):
            is_name = names[i] and not _is_part_of_name(query, spans, names, i)
            phrases.append(Phrase(query[start:end], terms, is_name, places))
    distinct = {phrase.terms: phrase for phrase in reversed(phrases)}
    return list(distinct.values())[::-1]


def _find_pieces(question: str, plain: str) -> Iterator[tuple[int, int]]:
    """Yield the words of a question.

    A run of ideographs gives the parts that the text has.
    """
    for piece in re.finditer(_PIECE_PATTERN, question):
        start, end = piece.span()
        if not re.match(f"[{_KANJI}]{{2}}", piece[0]):
            yield start, end
            continue
        while start < end:
            ends = range(min(end, start + _MAX_PART), start + 1, -1)
            part_end = next((stop for stop in ends if question[start:stop] in plain), start)
            if part_end > start:
                yield start, part_end
            start = max(part_end, start + 1)


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


def _is_capital(question: str, span: tuple[int, int], text: str) -> bool:
    """Return whether a capital letter marks a name.

    The first word has one anyway: it counts if the text has it with capitals only.
    """
    word = question[slice(*span)]
    is_first = not re.search(r"\w", question[: span[0]])
    is_common = word.lower() in WORDS["no_name_alone"] or (is_first and word.lower() in text)
    return word[0].isupper() and not question.isupper() and not is_common


def _is_part_of_name(question: str, spans: Sequence[tuple[int, int]], names: Sequence[bool], i: int) -> bool:
    """Return whether the name of a word has further words."""
    sides = [j for j in (i - 1, i + 1) if 0 <= j < len(spans) and names[j]]
    between = [question[spans[min(i, j)][1] : spans[max(i, j)][0]] for j in sides]
    return any(all(word.lower() in WORDS["particles"] for word in re.split("[ -]+", gap) if word) for gap in between)
