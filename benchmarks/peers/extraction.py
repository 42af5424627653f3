"""a text -> the entities and relations that a model might find in it, by rule or as recorded.

By rule: names in the order of the text, described by the words around them. The longer a text, the more names, so that
small and large chunks give a graph of about the same size. Recorded: what GPT-3.5 found in the passages of MuSiQue
(DATA/replies).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.passages import read_rows
from kumihimo.core.digests import hash_parts
from kumihimo.core.records import Chunk
from kumihimo.index.name_records import NameResolver
from kumihimo.index.rules import ner

CHARACTERS_PER_NAME = 400  # about 12 names in 1,200 tokens
MISSED = 4  # one name in so many is found only when the model is asked for what is missing
WORDS_AROUND = 24
TYPES = ("person", "organization", "geo", "event")
KEY_LENGTH = 120  # letters and digits at the start of a passage, which identify it


@dataclass(frozen=True, slots=True)
class Extraction:
    """What was found in a text."""

    entities: tuple[tuple[str, str, str], ...] = ()  # name, type, description
    relations: tuple[tuple[str, str, str], ...] = ()  # name, name, description


def text_letters(text: str) -> str:
    """Return the letters and digits of a text, in lower case.

    >>> text_letters('"A ""quoted""\\\\n word"')
    'aquotednword'
    """
    return "".join(filter(str.isalnum, text.casefold()))


def passage_key(text: str) -> str:
    """Return what identifies a passage in any prompt that quotes it."""
    return text_letters(text)[:KEY_LENGTH]


def find_names(text: str) -> list[str]:
    """Return the names in a text by the rules of Kumihimo, each once."""
    chunk = Chunk(title="", start=0, end=len(text), tokens=0, text=text)
    mentions = ner.find_mentions(chunk, ner.find_names(chunk), NameResolver())
    return list(dict.fromkeys(mention.name for mention in mentions))


@dataclass(slots=True)
class Extractor:
    """recorded: extractions by `passage_key`; other texts are read by rule."""

    recorded: Mapping[str, Extraction]

    def extract(self, text: str) -> Extraction:
        """Return what a model finds at once."""
        return self.recorded.get(passage_key(text)) or _extract_by_rule(text)[0]

    def extract_missing(self, text: str) -> Extraction:
        """Return what a model adds when it is asked for what is missing."""
        return Extraction() if passage_key(text) in self.recorded else _extract_by_rule(text)[1]


@lru_cache(maxsize=4096)  # the same chunks come again from other libraries
def _extract_by_rule(text: str) -> tuple[Extraction, Extraction]:
    words = text.split()
    names = [_plain(name) for name in find_names(text)][: max(2, len(text) // CHARACTERS_PER_NAME)]
    entities = [(name, name_type(name), f"{name}: {_words_around(words, name)}") for name in names]
    pairs = pairwise(entities)
    relations = [(a[0], b[0], f"{a[0]} and {b[0]} meet here. {b[2]}") for a, b in pairs]
    first = len(names) - len(names) // MISSED
    return (
        Extraction(tuple(entities[:first]), tuple(relations[: max(0, first - 1)])),
        Extraction(tuple(entities[first:]), tuple(relations[max(0, first - 1) :])),
    )


def name_type(name: str) -> str:
    """Return a type that is the same wherever the name occurs."""
    return TYPES[int(hash_parts(name), 16) % len(TYPES)]


def _words_around(words: list[str], name: str) -> str:
    first = name.split()[0]
    place = next((n for n, word in enumerate(words) if first in word), 0)
    return _plain(" ".join(words[max(0, place - WORDS_AROUND // 2) : place + WORDS_AROUND // 2]))


def _plain(text: str) -> str:
    """Remove what separates records in any of the formats."""
    return re.sub(r'[<>|#"{}()\s]+', " ", text).strip()


def read_recorded(path: Path) -> dict[str, Extraction]:
    """Return the recorded extractions by the key of title and text; malformed triples are left out."""
    return {passage_key(f"{row['title']}\n{row['text']}"): _read_row(row) for row in read_rows(path)}


def _read_row(row: Mapping[str, Any]) -> Extraction:
    triples = [tuple(map(_plain, map(str, triple))) for triple in row["triples"] if len(triple) == 3]
    triples = [triple for triple in triples if triple[0] and triple[2]]
    names = dict.fromkeys([*map(_plain, row["entities"]), *(name for t in triples for name in (t[0], t[2]))])
    return Extraction(
        tuple((name, name_type(name), _describe(name, triples)) for name in names if name),
        tuple((a, b, f"{a} {verb} {b}") for a, verb, b in triples),
    )


def _describe(name: str, triples: Iterable[tuple[str, ...]]) -> str:
    return ". ".join(" ".join(triple) for triple in triples if name in (triple[0], triple[2])) or name
