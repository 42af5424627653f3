"""entities, relations -> pairs that are likely the same entity, with lines for aliases.txt.

Names of a pair are written alike.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kumihimo.core.records import Entity, Relation
from kumihimo.core.table import Table
from kumihimo.index.name_records import PERSON_TYPES
from kumihimo.llm.protocols import Embedder
from kumihimo.text import name_keys, similarity

_MAX_EMBED_CHARS = 400  # of a description
_NEIGHBOUR_PRIOR = 2  # added to the number of neighbours: one in common of one is weak evidence


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

    one: the entity with more mentions, whose name both would get. score: 0 to 1. reasons: from names first.
    """

    one: Entity
    other: Entity
    score: float
    reasons: tuple[str, ...]

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
    key = name_keys.name_key(one_line)
    return key if name_keys.name_key(key) == key and "=" not in key else ""


def find_similar_entities(
    entities: Iterable[Entity],
    neighbours: Mapping[str, set[str]],
    embed: Embedder,
    *,
    least: float = 0.5,
    limit: int = 50,
    aliases: Mapping[str, str] | None = None,
    distinct: Collection[frozenset[str]] = (),
) -> list[EntityPair]:
    """Return the pairs that are most likely the same entity.

    The name similarity, from 0 to 1, moves up or down by evidence, as far as it leaves room: three quarters of the
    evidence are the cosine of both descriptions, one quarter is neighbours in common. A relation between the two
    counts against, and so do disjoint types. Names with different numbers or dates are never a pair. neighbours: as
    `neighbour_ids` returns them. embed: the built-in embedder, whose cosines fit the weights. limit: of pairs.
    aliases: keys that are merged already, as `parse_aliases` returns them. distinct: pairs of keys that the user
    keeps apart.
    """
    ranked = sorted(entities, key=lambda entity: (-entity.mentions, entity.name, entity.id))
    keys = [name_keys.name_key(entity.name) for entity in ranked]
    are_persons = [not PERSON_TYPES.isdisjoint(entity.types) for entity in ranked]
    merged = aliases or {}

    def may_merge(i: int, j: int) -> bool:
        is_merged = merged.get(keys[i], keys[i]) == merged.get(keys[j], keys[j])
        return not is_merged and frozenset((keys[i], keys[j])) not in distinct

    spelled = similarity.similar_pairs([similarity.fold_key(key) for key in keys], are_persons)
    candidates = [
        _name_pair(ranked[i], ranked[j], score, reason, neighbours)
        for (i, j), (score, reason) in spelled.items()
        if may_merge(i, j)
    ]
    candidates.sort(key=lambda pair: (-pair.score(cosine=1.0), pair.one.name, pair.other.name))
    compared = candidates[: _COMPARED_PER_PAIR * limit]
    pairs = [pair for pair in _score_pairs(compared, embed) if pair.score >= least and pair.alias_line]
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
