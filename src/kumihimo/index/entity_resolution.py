"""entities, relations -> pairs that are likely the same entity, with lines for aliases.txt.

Names of a pair are written alike, or share no letters while their meaning and neighbours are alike.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from kumihimo.core.records import Entity, Relation
from kumihimo.core.table import Table
from kumihimo.index.name_records import PERSON_TYPES
from kumihimo.llm.protocols import Embedder
from kumihimo.text.name_keys import name_key
from kumihimo.text.similarity import fold_key, is_abbreviation, is_cjk, name_numbers, similar_pairs

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


_MAX_UNSURE = 0.89  # of names that differ in more than how their words are joined
_SEPARATORS = re.compile(r"[\W_]+")
_WORD_START = re.compile(r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])")
_COMPARED_PER_PAIR = 10  # candidates whose descriptions are compared, for each pair of the result
_REASON_TEXTS = {
    "letters": "written alike",
    "title": "alike but for a title or article",
    "same words": "same words",
    "short form": "initial or short form",
    "acronym": "acronym",
    "part": "one name in the other",
    "plural": "plural",
    "spelling": "spelling",
    "words": "words in common",
}


@dataclass(frozen=True, slots=True)
class EntityPair:
    """Pair of entities that may be the same.

    one: the entity with more mentions, whose name both would get. score: 0 to 1. reasons: from names first. is_spelled:
    whether the letters of the names are a reason; without one, the pair is only listed.
    """

    one: Entity
    other: Entity
    score: float
    reasons: tuple[str, ...]
    is_spelled: bool = True

    @property
    def alias_line(self) -> str:
        """Return the aliases.txt line that merges both; empty if impossible."""
        names = [_alias_name(entity.name) for entity in (self.one, self.other)]
        return " = ".join(names) if all(names) else ""


def _alias_name(name: str) -> str:
    """Return the name or its key as aliases.txt may contain it.

    >>> [_alias_name(name) for name in ("Bob Cratchit", "#1 = best", "=")]
    ['Bob Cratchit', '1 best', '']
    """
    one_line = " ".join(name.split())
    if "=" not in one_line and not one_line.startswith("#"):
        return one_line
    key = name_key(one_line)
    return key if name_key(key) == key and "=" not in key else ""


def find_similar_entities(
    entities: Iterable[Entity],
    neighbours: Mapping[str, set[str]],
    embed: Embedder,
    *,
    least: float = 0.5,
    limit: int | None = 50,
    aliases: Mapping[str, str] | None = None,
    distinct: Collection[frozenset[str]] = (),
) -> list[EntityPair]:
    """Return the pairs that are most likely the same entity.

    The name similarity, from 0 to 1, moves up or down by evidence, as far as it leaves room: three quarters of the
    evidence are the cosine of both descriptions, one quarter is neighbours in common. A relation between the two counts
    against, and so do disjoint types. Names with different numbers or dates are never a pair. Other pairs are alike in
    meaning only. neighbours: as `neighbour_ids` returns them. embed: the built-in embedder, whose cosines fit the
    weights. limit: of pairs; None: all. aliases: keys that are merged already, as `parse_aliases` returns them.
    distinct: pairs of keys that the user keeps apart.
    """
    ranked = sorted(entities, key=lambda entity: (-entity.mentions, entity.name, entity.id))
    keys = [name_key(entity.name) for entity in ranked]
    are_persons = [not PERSON_TYPES.isdisjoint(entity.types) for entity in ranked]
    merged = aliases or {}

    def may_merge(i: int, j: int) -> bool:
        is_merged = merged.get(keys[i], keys[i]) == merged.get(keys[j], keys[j])
        return not is_merged and frozenset((keys[i], keys[j])) not in distinct

    spelled = similar_pairs([fold_key(key) for key in keys], are_persons)
    candidates = [
        _name_pair(ranked[i], ranked[j], score, reason, neighbours)
        for (i, j), (score, reason) in spelled.items()
        if may_merge(i, j)
    ]
    candidates.sort(key=lambda pair: (-pair.score(cosine=1.0), pair.one.name, pair.other.name))
    compared = candidates if limit is None else candidates[: _COMPARED_PER_PAIR * limit]
    scored = [
        *_score_pairs(compared, embed),
        *(
            _pair_by_meaning(ranked, pair)
            for pair in find_meaning_pairs(ranked, neighbours, embed, spelled)
            if may_merge(pair.first, pair.second)
        ),
    ]
    pairs = [pair for pair in scored if pair.score >= least and pair.alias_line]
    return sorted(pairs, key=lambda pair: (-pair.score, pair.one.name, pair.other.name, pair.other.id))[:limit]


def neighbour_ids(relations: Table[Relation]) -> Mapping[str, set[str]]:
    """Return the entities that each entity has a relation with."""
    neighbours: defaultdict[str, set[str]] = defaultdict(set)
    for source, target in relations.columns("source", "target"):
        neighbours[source].add(target)
        neighbours[target].add(source)
    return neighbours


def _type_agreement(one: Entity, other: Entity, why: str) -> float:
    """Return a factor below 1 if the types are disjoint."""
    if not (one.types and other.types) or set(one.types).intersection(other.types):
        return 1.0
    return 0.95 if why in ("letters", "title", "same words") else 0.7


@dataclass(frozen=True, slots=True)
class _NamePair:
    """A pair with its name similarity and the graph around it.

    common: neighbours of both. fewer: the size of the smaller neighbourhood.
    """

    one: Entity
    other: Entity
    name_score: float
    name_reason: str
    related: bool
    common: int
    fewer: int

    def score(self, cosine: float) -> float:
        """Return the score if their descriptions have this cosine.

        Only names that differ in how their words are joined reach what is merged without a question.
        """
        score = _pair_score(self.name_score, cosine, self.common, self.fewer, self.related)
        return score if _are_joined_alike(self.one.name, self.other.name) else min(score, _MAX_UNSURE)


def _are_joined_alike(one: str, other: str) -> bool:
    """Return whether two names differ only in how words are joined.

    A capital or a number still begins each word.

    >>> _are_joined_alike("RedHat", "Red Hat"), _are_joined_alike("ISO 8601", "ISO8601")
    (True, True)
    >>> _are_joined_alike("Charlestown", "Charles Town"), _are_joined_alike("Michael", "Michaël")
    (False, False)
    """
    keys = (_SEPARATORS.sub(" ", _WORD_START.sub(" ", name)).strip().casefold() for name in (one, other))
    return len(set(keys)) == 1


def _name_pair(one: Entity, other: Entity, score: float, reason: str, neighbours: Mapping[str, set[str]]) -> _NamePair:
    """Return a pair with its evidence from the graph."""
    near_one, near_other = (neighbours.get(e.id, set()) - {one.id, other.id} for e in (one, other))
    related = other.id in neighbours.get(one.id, ())
    fewer = min(len(near_one), len(near_other))
    score *= _type_agreement(one, other, reason)
    return _NamePair(one, other, score, reason, related, len(near_one & near_other), fewer)


def _pair_score(names: float, cosine: float, common: int, fewer: int, related: bool) -> float:
    """Return the score of a pair from names and evidence.

    >>> _pair_score(0.8, 0.85, 6, 6, False), _pair_score(0.8, 0.6, 0, 4, False), _pair_score(0.8, 0.3, 0, 4, True)
    (0.94, 0.76, 0.64)
    """
    meaning = min(max((cosine - 0.35) / 0.5, 0.0), 1.0)
    evidence = max(0.75 * meaning + 0.25 * common / (fewer + _NEIGHBOUR_PRIOR) - 0.4 * related, 0.0)
    return round(names + 0.8 * min(names, 1 - names) * (2 * evidence - 1), 4)


def _score_pairs(candidates: Sequence[_NamePair], embed: Embedder) -> Iterator[EntityPair]:
    """Yield the pairs, scored with the meaning of their descriptions."""
    entities = {e.id: e for pair in candidates for e in (pair.one, pair.other)}
    vectors = embed([f"{e.name}\n{e.text[:_MAX_EMBED_CHARS]}" for e in entities.values()])
    vector_of = dict(zip(entities, vectors, strict=True))
    for pair in candidates:
        cosine = float(vector_of[pair.one.id] @ vector_of[pair.other.id])
        reasons = [_REASON_TEXTS[pair.name_reason], f"meaning {cosine:.2f}"]
        reasons += [f"{pair.common} of {pair.fewer} neighbours"] if pair.common else []
        reasons += ["but related"] if pair.related else []
        yield EntityPair(pair.one, pair.other, pair.score(cosine), tuple(reasons))


def _pair_by_meaning(ranked: Sequence[Entity], pair: MeaningPair) -> EntityPair:
    near = f"{pair.common} of {pair.fewer} neighbours"
    reasons = (f"names mean {pair.names:.2f}", f"meaning {pair.texts:.2f}", near)
    return EntityPair(ranked[pair.first], ranked[pair.second], pair.score, reasons, is_spelled=False)
