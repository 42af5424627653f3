"""entities, neighbours -> pairs whose names share no letters but whose meaning and neighbours are alike."""

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from kumihimo.core.records import Entity
from kumihimo.index.name_records import PERSON_TYPES
from kumihimo.llm.protocols import Embedder
from kumihimo.text.name_keys import name_key
from kumihimo.text.similarity import fold_key, is_abbreviation, is_cjk, name_numbers

_MAX_DEGREE = 30  # a neighbour of more entities says nothing about two of them
_MAX_EMBED_CHARS = 400  # of a description
_NEIGHBOUR_PRIOR = 2  # added to the number of neighbours: one in common of one is weak evidence
_MIN_SCORE, _MAX_SCORE = 0.6, 0.8  # meaning alone never decides
_STEM = 2  # letters that derived words share
_ACRONYM = re.compile(r"[A-Z]{2,6}s?")


@dataclass(frozen=True, slots=True)
class MeaningPair:
    """A pair of positions, with the cosines of names and descriptions and the neighbours in common."""

    first: int
    second: int
    names: float
    texts: float
    common: int
    fewer: int  # neighbours of the one with fewer
    same_initial: bool

    @property
    def score(self) -> float:
        """Return the likelihood that both are one thing, 0 to 1."""
        overlap = self.common / (self.fewer + _NEIGHBOUR_PRIOR)
        likelihood = 0.6 * self.names + 0.3 * self.texts + 0.3 * overlap + 0.15 * self.same_initial
        return round(min(max(likelihood, 0.0), _MAX_SCORE), 4)


def find_meaning_pairs(
    entities: Sequence[Entity], neighbours: Mapping[str, set[str]], embed: Embedder, known: Container[tuple[int, int]]
) -> list[MeaningPair]:
    """Return pairs of different words that may mean one thing.

    Both share a neighbour, have no relation and no line of their descriptions in common, and their names do not look
    derived from each other. known: pairs to leave out, the smaller position first.
    """
    pairs = _find_candidates(entities, neighbours, known)
    positions = sorted({position for pair in pairs for position in pair})
    if not positions:
        return []
    row_of = {position: row for row, position in enumerate(positions)}
    name_vectors = embed([entities[position].name for position in positions])
    text_vectors = embed([entities[position].text[:_MAX_EMBED_CHARS] for position in positions])
    first, second = ([row_of[pair[end]] for pair in pairs] for end in (0, 1))
    name_cosines = (name_vectors[first] * name_vectors[second]).sum(axis=1)
    text_cosines = (text_vectors[first] * text_vectors[second]).sum(axis=1)
    sizes = [len(neighbours.get(entity.id, ())) for entity in entities]
    initials = [fold_key(name_key(entity.name))[:1] for entity in entities]
    scored = (
        MeaningPair(i, j, float(by_name), float(by_text), common, min(sizes[i], sizes[j]), initials[i] == initials[j])
        for ((i, j), common), by_name, by_text in zip(pairs.items(), name_cosines, text_cosines, strict=True)
    )
    return [pair for pair in scored if pair.score >= _MIN_SCORE]


def _find_candidates(
    entities: Sequence[Entity], neighbours: Mapping[str, set[str]], known: Container[tuple[int, int]]
) -> dict[tuple[int, int], int]:
    """Return possible pairs, with their number of common neighbours."""
    position_of = {entity.id: position for position, entity in enumerate(entities)}
    common: Counter[tuple[int, int]] = Counter()
    for near in neighbours.values():
        if 1 < len(near) <= _MAX_DEGREE:
            common.update(combinations(sorted(position_of[id] for id in near if id in position_of), 2))
    facts = [_NameFacts.of(entity) for entity in entities]
    return {
        (i, j): count
        for (i, j), count in sorted(common.items())
        if (i, j) not in known
        and entities[j].id not in neighbours.get(entities[i].id, ())
        and facts[i].may_equal(facts[j])
    }


@dataclass(frozen=True, slots=True)
class _NameFacts:
    """Facts about an entity for comparison, apart from its meaning."""

    key: str
    types: frozenset[str]
    lines: frozenset[str]
    is_acronym: bool
    is_full_person: bool

    @classmethod
    def of(cls, entity: Entity) -> "_NameFacts":
        """Return the facts of an entity."""
        key = fold_key(name_key(entity.name))
        is_person = not PERSON_TYPES.isdisjoint(entity.types)
        types, lines = frozenset(entity.types), frozenset(entity.text.splitlines())
        return cls(key, types, lines, bool(_ACRONYM.fullmatch(entity.name)), is_person and " " in key)

    def may_equal(self, other: "_NameFacts") -> bool:
        """Return whether nothing keeps the two apart."""
        return (
            self._fits_in_spelling(other)
            and self.lines.isdisjoint(other.lines)
            and (not self.types or not other.types or not self.types.isdisjoint(other.types))
            and not (self.is_full_person and other.is_full_person)
        )

    def _fits_in_spelling(self, other: "_NameFacts") -> bool:
        """Return whether the letters allow another word for the same thing.

        The static vectors of two Chinese or Japanese names are alike if they share a character, so that only
        abbreviations count there. Two acronyms are two things.
        """
        shorter, longer = sorted((self, other), key=lambda facts: (len(facts.key), facts.key))
        if is_cjk(shorter.key) and is_cjk(longer.key):
            return is_abbreviation(shorter.key, longer.key)
        if name_numbers(shorter.key) != name_numbers(longer.key) or (shorter.is_acronym and longer.is_acronym):
            return False
        if shorter.is_acronym:
            return is_abbreviation(shorter.key, longer.key)
        return not any(map(_are_derived, *zip(*product(shorter.key.split(), longer.key.split()), strict=True)))


def _are_derived(one: str, other: str) -> bool:
    """Return whether one word may be derived from the other: `Egyptian`.

    A short word that a much longer one begins with is an abbreviation.

    >>> _are_derived("egypt", "egyptian"), _are_derived("france", "french"), _are_derived("fed", "federal")
    (True, True, False)
    """
    shorter, longer = sorted((one, other), key=len)
    is_clipped = longer.startswith(shorter) and len(longer) >= 2 * len(shorter)
    return shorter[:_STEM] == longer[:_STEM] and not is_clipped
