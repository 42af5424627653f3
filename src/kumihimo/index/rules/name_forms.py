"""names with types -> NameForm: the words of a name, its titles apart, and what its types tell."""

import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from kumihimo.index.name_records import PERSON_TYPES
from kumihimo.index.rules.ner_words import WORDS
from kumihimo.text.name_keys import name_key

_WORD_LISTS = tomllib.loads(Path(__file__).with_name("name_words.toml").read_text(encoding="utf-8"))
NAME_WORDS = {name: frozenset(words.split()) for name, words in _WORD_LISTS.items()}
_COURTESY = NAME_WORDS["female_titles"] | NAME_WORDS["male_titles"] | NAME_WORDS["other_titles"]
_SMALL_WORDS = WORDS["lowercase_words"] | {"&"}


class NameForm(NamedTuple):
    """A name of a document.

    form: its most frequent spelling. position: of its first mention. bare: the form without titles. words: the keys of
    the words of `bare`.
    """

    form: str
    position: int
    mentions: int
    types: frozenset[str]
    titles: tuple[str, ...]
    bare: str
    words: tuple[str, ...]

    @property
    def bare_key(self) -> str:
        """Return the key of the name without titles."""
        return name_key(self.bare)

    @property
    def has_courtesy_title(self) -> bool:
        """Return whether a title belongs to no name for certain."""
        return not _COURTESY.isdisjoint(self.titles)

    @property
    def sexes(self) -> set[str]:
        """Return what its titles tell."""
        return {sex for sex in ("female_titles", "male_titles") if not NAME_WORDS[sex].isdisjoint(self.titles)}

    @property
    def is_person(self) -> bool:
        """Return whether a type or a title says so."""
        return bool(self.titles) or not PERSON_TYPES.isdisjoint(self.types)

    def has_other_type(self, types: frozenset[str]) -> bool:
        """Return whether it has a type that is none of these."""
        return bool(self.types - types - {""})

    @property
    def can_be_full_name(self) -> bool:
        """Return whether its words may be a full name."""
        return (
            not self.has_other_type(PERSON_TYPES)
            and all(word[0].isalpha() for word in self.words)
            and all(word in NAME_WORDS["name_particles"] or word not in _SMALL_WORDS for word in self.words)
            and self.words[-1] not in WORDS["organisation_ends"]
        )

    @property
    def initials(self) -> str:
        """Return the first letters of its words, without small words."""
        words = self.form.replace("-", " ").split()
        return "".join(word[0] for word in words if word.lower() not in _SMALL_WORDS).upper()


def collect_forms(names: Iterable[tuple[str, str]]) -> dict[str, NameForm]:
    """Return the names of a document by key, sorted."""
    spellings: defaultdict[str, Counter[str]] = defaultdict(Counter)
    types: defaultdict[str, set[str]] = defaultdict(set)
    positions: dict[str, int] = {}
    for i, (name, kind) in enumerate(names):
        key = name_key(name)
        positions.setdefault(key, i)
        spellings[key][name] += 1
        types[key].add(kind)
    forms = {}
    for key in sorted(spellings):
        form = min(spellings[key], key=lambda name: (-spellings[key][name], name))
        forms[key] = NameForm(form, positions[key], spellings[key].total(), frozenset(types[key]), *split_titles(form))
    return forms


@lru_cache(maxsize=4096)
def split_titles(name: str) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """Return the titles of a name, the rest, and its words.

    >>> split_titles("Prof. Dr. Oona Fellbeck"), split_titles("Prime Minister Kerrow")[1:]
    ((('prof', 'dr'), 'Oona Fellbeck', ('oona', 'fellbeck')), ('Kerrow', ('kerrow',)))
    """
    words, titles = name.split(), list[str]()
    while len(words) > 1:
        first, second = (word.rstrip(".").lower() for word in words[:2])
        is_prefix = first in NAME_WORDS["title_prefixes"] and second in NAME_WORDS["rank_titles"] and len(words) > 2
        if second == "of" or (not is_prefix and first not in _COURTESY | NAME_WORDS["rank_titles"]):
            break
        titles.append(first)
        words = words[1:]
    return tuple(titles), " ".join(words), tuple(key for word in words if (key := name_key(word)))


def is_fuller(longer: tuple[str, ...], shorter: tuple[str, ...]) -> bool:
    """Return whether one full name is another with more of its parts.

    >>> is_fuller(("kit", "l", "roake"), ("k", "roake")), is_fuller(("william", "roake"), ("bill", "roake"))
    (True, False)
    >>> is_fuller(("kit", "roake"), ("bo", "roake")), is_fuller(("k", "l", "roake"), ("kit", "roake"))
    (False, False)
    """
    if longer == shorter or longer[-1] != shorter[-1]:
        return False
    if longer[-len(shorter) :] == shorter:
        return True
    if len(longer) > len(shorter):
        return len(shorter) == 2 and len(longer[0]) >= len(shorter[0]) and _agree(longer[0], shorter[0])
    return sum(map(len, longer)) > sum(map(len, shorter)) and all(map(_agree, longer, shorter))


def _agree(one: str, other: str) -> bool:
    """Return whether two given names are equal, or one an initial."""
    short, full = sorted((one, other), key=len)
    return one == other or (len(short) == 1 and full.startswith(short))
