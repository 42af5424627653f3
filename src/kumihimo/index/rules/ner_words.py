"""ner_words.toml -> word lists; spans of names in a sentence -> spans without overlap, in reading order."""

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

QUANTITY = "quantity"
_WORD_LISTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
WORDS = {name: frozenset(words.split()) for name, words in _WORD_LISTS.items()}


def alternatives(name: str) -> str:
    """Return a regex alternation of a word list, the longest first."""
    return "|".join(sorted(WORDS[name], key=lambda word: (-len(word), word)))


class NameSpan(NamedTuple):
    """A name in a sentence, at `[start, end)`.

    key_text: the text for its key, without a title such as `Mr`.
    """

    start: int
    end: int
    name: str
    type: str = ""
    key_text: str = ""


def drop_overlaps(spans: Iterable[NameSpan]) -> Iterator[NameSpan]:
    """Yield spans without overlap: earliest first, then longest, then first given.

    >>> spans = [NameSpan(3, 9, "Physics"), NameSpan(0, 9, "Mathematical Physics"), NameSpan(9, 11, "II")]
    >>> [span.name for span in drop_overlaps(spans)]
    ['Mathematical Physics', 'II']
    """
    end = 0
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if span.start >= end:
            yield span
            end = span.end
