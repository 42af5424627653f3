"""entities, relations -> pairs of entities that are likely one thing, and the lines that would make them one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from kumihimo.core.records import Entity, Relation
from kumihimo.core.table import Table
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, Embedder
from kumihimo.text.name_keys import name_key
from kumihimo.text.similarity import fold_key, similar_pairs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PairVerdict = Literal["same", "different", "unsure"]
PROMPT = Path(__file__).with_suffix(".md")
PERSON_TYPES = frozenset(["person", "people", "character", "人物", "人"])  # types of things that have first names
_COMPARED_PER_PAIR = 10  # pairs whose meaning is compared, for each that is wanted
_NEIGHBOUR_PRIOR = 2  # neighbours that are missing, as it were: one in common of one says little
_MAX_EMBED_CHARS = 400  # characters of a description that are compared
_MAX_PROMPT_CHARS = 2000  # and that a model is told
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
    """Two entities that may be one. score: 0 to 1; why: what speaks for it, the names first.

    one: that of which more is said, whose name both would have.
    """

    one: Entity
    other: Entity
    score: float
    reasons: tuple[str, ...]

    @property
    def alias_line(self) -> str:
        """The line of aliases.txt that makes them one; empty where no line can name them."""
        names = [_alias_name(entity.name) for entity in (self.one, self.other)]
        return " = ".join(names) if all(names) else ""


def _alias_name(name: str) -> str:
    """The name as a line of aliases.txt may hold it, or its key.

    >>> [_written(name) for name in ("Bob Cratchit", "#1 = best", "=")]
    ['Bob Cratchit', '1 best', '']
    """
    plain = " ".join(name.split())
    if "=" not in plain and not plain.startswith("#"):
        return plain
    return name_key(plain) if name_key(name_key(plain)) == name_key(plain) and "=" not in name_key(plain) else ""


def find_similar_entities(
    entities: Table[Entity],
    relations: Table[Relation],
    embed: Embedder,
    *,
    least: float = 0.5,
    limit: int = 50,
    aliases: Mapping[str, str] | None = None,
) -> list[EntityPair]:
    """The pairs of entities that are most likely one thing, the likeliest first.

    What the names say (`likeness`), from 0 to 1, is moved by evidence as far as the names leave room, one way or the
    other: three quarters of it are the cosine of what is said of both, a quarter neighbours in common. A relation
    between the two is evidence against, and so are types of which none is the same. Names with different numbers are
    never a pair. embed: the built-in embedder, to whose cosines this is fitted. aliases: keys that are one already,
    as `naming.aliases` gives them.
    """
    known = sorted(entities, key=lambda entity: (-entity.mentions, entity.name, entity.id))
    beside = _neighbour_ids(relations)
    same = aliases or {}
    found = [
        _NamePair(known[i], known[j], score * _type_agreement(known[i], known[j], why), why, beside)
        for (i, j), (score, why) in similar_pairs(
            [fold_key(name_key(e.name)) for e in known], [_is_person(e) for e in known]
        ).items()
        if len({same.get(name_key(e.name), name_key(e.name)) for e in (known[i], known[j])}) == 2
    ]
    found.sort(key=lambda seen: (-seen.max_score, seen.one.name, seen.other.name))
    weighed = list(_score_pairs(found[: _COMPARED_PER_PAIR * limit], embed))
    return sorted((pair for pair in weighed if pair.score >= least and pair.alias_line), key=_pair_sort_key)[:limit]


def _pair_sort_key(pair: EntityPair) -> tuple[float, str, str]:
    return -pair.score, pair.one.name, pair.other.name


def _is_person(entity: Entity) -> bool:
    return not PERSON_TYPES.isdisjoint(entity.types)


def _type_agreement(one: Entity, other: Entity, why: str) -> float:
    """What is left of a likeness of names, by whether some type of both is the same, or one has none."""
    if not (one.types and other.types) or set(one.types).intersection(other.types):
        return 1.0
    return 0.95 if why in ("letters", "title", "same words") else 0.7


def _neighbour_ids(relations: Table[Relation]) -> Mapping[str, set[str]]:
    beside: defaultdict[str, set[str]] = defaultdict(set)
    for source, target in relations.columns("source", "target"):
        beside[source].add(target)
        beside[target].add(source)
    return beside


@dataclass(frozen=True, slots=True)
class _NamePair:
    """A pair by its names alone, and the graph around it."""

    one: Entity
    other: Entity
    name_score: float
    name_reason: str
    neighbours: Mapping[str, set[str]]

    @property
    def related(self) -> bool:
        return self.other.id in self.neighbours.get(self.one.id, ())

    @property
    def shared_neighbours(self) -> tuple[int, int]:
        """How many neighbours they have in common, and how many has that which has fewer."""
        one, other = (self.neighbours.get(e.id, set()) - {self.one.id, self.other.id} for e in (self.one, self.other))
        return len(one & other), min(len(one), len(other))

    @property
    def max_score(self) -> float:
        """What the score will be if what is said of both is as like as it can be."""
        return _pair_score(self.name_score, 1.0, *self.shared_neighbours, self.related)


def _pair_score(names: float, cosine: float, common: int, fewer: int, related: bool) -> float:
    """
    >>> _score(0.8, 0.85, 6, 6, False), _score(0.8, 0.6, 0, 4, False), _score(0.8, 0.3, 0, 4, True)
    (0.94, 0.76, 0.64)
    """
    meaning = min(max((cosine - 0.35) / 0.5, 0.0), 1.0)
    evidence = max(0.75 * meaning + 0.25 * common / (fewer + _NEIGHBOUR_PRIOR) - 0.4 * related, 0.0)
    return round(names + 0.8 * min(names, 1 - names) * (2 * evidence - 1), 4)


def _score_pairs(found: Sequence[_NamePair], embed: Embedder) -> Iterator[EntityPair]:
    said = {e.id: f"{e.name}\n{e.text[:_MAX_EMBED_CHARS]}" for seen in found for e in (seen.one, seen.other)}
    at = {id: place for place, id in enumerate(said)}
    vectors: NDArray[np.float32] = embed(list(said.values()))
    for seen in found:
        cosine = float(vectors[at[seen.one.id]] @ vectors[at[seen.other.id]])
        common, fewer = seen.shared_neighbours
        why = [_REASON_TEXTS[seen.name_reason], f"meaning {cosine:.2f}"]
        why += [f"{common} of {fewer} neighbours"] if common else []
        why += ["but related"] if seen.related else []
        yield EntityPair(
            seen.one, seen.other, _pair_score(seen.name_score, cosine, common, fewer, seen.related), tuple(why)
        )


def judge_pair(pair: EntityPair, llm: LLM) -> PairVerdict:
    """What a model says of a pair. Raises ItemFailed."""
    one, other = sorted(map(_describe_entity, (pair.one, pair.other)))
    return cast(PairVerdict, llm(render_prompt(PROMPT, one=one, other=other), schema=PairVerdict))


def _describe_entity(entity: Entity) -> str:
    forms = "; ".join(sorted(entity.forms))
    kinds = ", ".join(sorted(entity.types))
    return f"{forms}{f' ({kinds})' if kinds else ''}\n{entity.text[:_MAX_PROMPT_CHARS]}"
