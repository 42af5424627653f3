"""names and who occurs with them -> names that may stand for several things, and for what in which documents."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isqrt

from kumihimo.text.name_keys import name_key
from kumihimo.text.similarity import FUNCTION_WORDS, is_cjk

Neighbourhoods = Mapping[str, Mapping[str, set[str]]]  # entity -> document -> entities that it is tied to there
Tie = tuple[str, str, str]  # a document and two entities

_MIN_COMMON = 2  # documents: a neighbour of fewer is never too common to tell one meaning from another


@dataclass(frozen=True, slots=True)
class Meaning:
    """A meaning of a name in some documents: a longer name from the same documents."""

    documents: tuple[str, ...]
    owners: tuple[str, ...]  # entities, the most frequent first


@dataclass(frozen=True, slots=True)
class Homonym:
    """A name that may stand for several things, each in documents of its own."""

    entity: str
    meanings: tuple[Meaning, ...]


def collect_neighbourhoods(ties: Iterable[Tie]) -> Neighbourhoods:
    """Return the neighbours of each entity, by document."""
    neighbourhoods: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for document, one, other in ties:
        neighbourhoods[one][document].add(other)
        neighbourhoods[other][document].add(one)
    return neighbourhoods


def find_homonyms(names: Mapping[str, str], neighbourhoods: Neighbourhoods) -> list[Homonym]:
    """Return the names that seem to stand for several things.

    Such a name is the head of longer ones (`Senate` of `Kentucky Senate` and `Wisconsin Senate`). Some documents name
    one of these, others another one, and they share no neighbour of it that tells something. names: by entity. The most
    meanings come first.
    """
    documents = {document for by_document in neighbourhoods.values() for document in by_document}
    too_common = max(_MIN_COMMON, isqrt(len(documents)))
    common = {entity for entity, by_document in neighbourhoods.items() if len(by_document) > too_common}
    homonyms = [
        Homonym(entity, tuple(_split_meanings(entity, owners, neighbourhoods, common)))
        for entity, owners in _find_owners(names).items()
    ]
    return sorted(
        (homonym for homonym in homonyms if len(homonym.meanings) > 1),
        key=lambda homonym: (-len(homonym.meanings), names[homonym.entity], homonym.entity),
    )


def _find_owners(names: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the longer names of each head of two or more.

    Each longer name comes with itself, or with a shorter one that it holds: `Senator Kit Roake` is `Kit Roake`.
    """
    entity_of = {name_key(name): entity for entity, name in sorted(names.items(), reverse=True)}
    longer: defaultdict[str, list[str]] = defaultdict(list)
    for key in entity_of:
        for head in dict.fromkeys(_heads(key)):
            if head in entity_of:
                longer[head].append(key)
    owners: dict[str, dict[str, str]] = {}
    for head, keys in longer.items():
        shortest = {key: min({*_heads(key), key}.intersection(keys), key=len) for key in keys}
        if len({*shortest.values()}) > 1:
            owners[entity_of[head]] = {entity_of[key]: entity_of[shorter] for key, shorter in shortest.items()}
    return owners


def _heads(key: str) -> Iterator[str]:
    """Yield the shorter names that a name may be one of.

    >>> list(_heads("bank of england")), list(_heads("kentucky state senate")), list(_heads("東京都議会"))
    (['bank', 'england'], ['state senate', 'senate'], ['京都議会', '都議会', '議会'])
    """
    words = key.split()
    for i in range(1, len(words)):
        if words[i] in FUNCTION_WORDS:
            yield " ".join(words[:i])
        else:
            yield " ".join(words[i:])
    if len(words) == 1 and is_cjk(key):
        yield from (key[i:] for i in range(1, len(key) - 1))


def _split_meanings(
    entity: str, owners: Mapping[str, str], neighbourhoods: Neighbourhoods, common: set[str]
) -> Iterator[Meaning]:
    """Yield the meanings of a name.

    Documents belong together if they share a neighbour of the name or name the same owner. common: neighbours that tell
    nothing. owners: as `_find_owners` returns them.
    """
    by_document = neighbourhoods.get(entity, {})
    named = {
        document: {shorter for owner, shorter in owners.items() if document in neighbourhoods.get(owner, ())}
        for document in by_document
    }
    groups: list[tuple[set[str], set[str]]] = []  # documents, and what connects them
    for document in sorted(by_document):
        links = (by_document[document] - common).union(named[document])
        joined = [group for group in groups if not links.isdisjoint(group[1])]
        groups = [group for group in groups if group not in joined]
        groups.append(({document}.union(*(g[0] for g in joined)), links.union(*(g[1] for g in joined))))
    for documents, _ in sorted(groups, key=lambda group: (-len(group[0]), min(group[0]))):
        counts = Counter(owner for document in documents for owner in named[document])
        if counts:
            yield Meaning(tuple(sorted(documents)), tuple(sorted(counts, key=lambda owner: (-counts[owner], owner))))
