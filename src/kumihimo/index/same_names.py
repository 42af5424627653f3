"""chunks -> name_uses -> name_clusters -> same_names: names of several documents that a model takes for one thing.

`mentions`, `ties` and `assertions` read the result. These steps run only with `mentions.resolve = "model"`.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import ClassVar

from kumihimo.core.digests import hash_parts
from kumihimo.core.records import Chunk, Entity, Mention, Record, RelationMention
from kumihimo.core.signature import declare
from kumihimo.core.table import Table
from kumihimo.index import entity_clusters
from kumihimo.index.batched_calls import rows_or_failure
from kumihimo.index.chunk_background import Description, document_date, read_background
from kumihimo.index.entity_resolution import find_similar_entities
from kumihimo.index.graph import sort_by_frequency
from kumihimo.index.homonyms import Homonym, Meaning, collect_neighbourhoods, find_homonyms
from kumihimo.index.mentions import (
    ExtractionSettings,
    build_mentions,
    build_relation_mentions,
    entity_ids,
    extract_records,
)
from kumihimo.index.name_records import ChunkNames, NameMerges, NameResolver, SameName
from kumihimo.llm.local_embedder import LocalEmbedder
from kumihimo.llm.protocols import LLM
from kumihimo.text.name_keys import name_key, parse_distinct_names

_DEFAULTS = ExtractionSettings()
_WITH_MODEL = ("mentions", "resolve", "model")
_HOMONYM_SCORE = 0.5  # of a name and a longer one that it may stand for

Entry = tuple[str, tuple[str, ...], str]  # entity, its documents, and what the model reads of it


@dataclass(frozen=True, slots=True)
class NameUse(Record):
    """A name in a chunk, with its entity before names of several documents are resolved.

    neighbours: the entities that it is tied to in the chunk. text: what the chunk says of it.
    """

    SHARED_TEXT: ClassVar[bool] = True
    SEARCHED_BY: ClassVar[tuple[str, ...]] = ()

    entity: str
    name: str
    type: str
    neighbours: tuple[str, ...]

    @property
    def document(self) -> str:
        """Return the id of its document."""
        return self.id.partition(".")[0]


@dataclass(frozen=True, slots=True)
class NameCluster(Record):
    """Entries that may be one thing; the id is the digest of the rest.

    entries: one without documents is about all that no other entry has. apart: pairs of positions that the user keeps
    apart.
    """

    BIG: ClassVar[bool] = True
    SEARCHED_BY: ClassVar[tuple[str, ...]] = ()

    entries: tuple[Entry, ...]
    apart: tuple[tuple[int, int], ...]


@declare(scope="mentions", when=_WITH_MODEL)
def name_uses(
    chunk: Chunk,
    chunks: Table[Chunk],
    names: Table[ChunkNames],
    merges: Table[NameMerges],
    descriptions: Table[Description],
    llm: LLM | None,
    *,
    extraction: ExtractionSettings = _DEFAULTS,
    aliases: tuple[str, ...] = (),
) -> Iterable[NameUse]:
    """Read the names of a chunk, from the conversation that `mentions` reads."""
    resolver = NameResolver.for_document(chunk.document, merges, aliases)
    failure = None
    if llm is None:
        from kumihimo.index.rules import ner  # imported here: only a build needs the rules

        row = names.get(chunk.id)
        mentions, ties = ner.find_mentions(chunk, row, resolver), ner.find_relation_mentions(chunk, row, resolver)
    else:
        background = read_background(chunk, chunks, merges, descriptions)
        records, failure = extract_records(chunk, background, llm, extraction)
        entity_of = entity_ids(records, resolver)
        mentions, ties = build_mentions(records, entity_of), build_relation_mentions(records, entity_of)
    return rows_or_failure(_join_uses(mentions, ties), failure)


def _join_uses(mentions: Iterable[Mention], ties: Iterable[RelationMention]) -> Iterator[NameUse]:
    """Yield each use once, with the neighbours of its entity."""
    neighbours: defaultdict[str, set[str]] = defaultdict(set)
    for tie in ties:
        neighbours[tie.source].add(tie.target)
        neighbours[tie.target].add(tie.source)
    for row in dict.fromkeys(mentions):
        yield NameUse(row.entity, row.name, row.type, tuple(sorted(neighbours[row.entity])), text=row.text)


@declare(scope="mentions", when=_WITH_MODEL)
def name_clusters(
    name_uses: Table[NameUse], descriptions: Table[Description], *, aliases: tuple[str, ...] = ()
) -> Iterable[NameCluster]:
    """Propose clusters of names that may be one thing, or several.

    aliases: a line `A != B` keeps two names apart.
    """
    uses: defaultdict[str, list[NameUse]] = defaultdict(list)
    for use in name_uses:
        uses[use.entity].append(use)
    distinct = parse_distinct_names(aliases)
    meanings = {homonym.entity: homonym.meanings for homonym in _find_homonyms(uses)}
    pairs = [
        *_find_pairs(uses, distinct),
        *(
            (_HOMONYM_SCORE, entity, owner)
            for entity, parts in meanings.items()
            for part in parts
            for owner in part.owners
        ),
    ]
    dates = {row.id: document_date(row) for row in descriptions}
    for cluster in entity_clusters.cluster_pairs(pairs):
        entries = [entry for entity in cluster for entry in _entries_of(entity, meanings.get(entity, ()), uses, dates)]
        keys = {entity: {name_key(use.name) for use in uses[entity]} for entity in cluster}
        apart = [
            (i, j)
            for j, i in combinations(range(len(entries)), 2)
            if any(frozenset(pair) in distinct for pair in product(keys[entries[i][0]], keys[entries[j][0]]))
        ]
        yield NameCluster(tuple(entries), tuple(apart), id=hash_parts(repr(entries), repr(apart)))


@declare(when=_WITH_MODEL)
def same_names(cluster: NameCluster, llm: LLM | None) -> Iterable[SameName]:
    """Ask which entries of a cluster are one thing.

    They get the entity of the best name. An entry of some documents is another thing than its name elsewhere only if
    the model puts it with a longer name.
    """
    if llm is None:
        return
    groups = entity_clusters.judge_cluster([text for *_, text in cluster.entries], llm)
    targets: dict[int, str] = {}
    for group in entity_clusters.split_groups(groups, cluster.apart):
        best = next((position for position in group if not cluster.entries[position][1]), group[0])
        targets |= dict.fromkeys(group, cluster.entries[best][0])
    for position, (entity, documents, _) in enumerate(cluster.entries):
        target = targets.get(position, entity)
        if documents:
            yield from (SameName(entity, document, target) for document in documents)
        elif target != entity:
            yield SameName(entity, "", target)


Uses = Mapping[str, Sequence[NameUse]]  # by entity


def _find_homonyms(uses: Uses) -> list[Homonym]:
    """Return the names with several meanings."""
    ties = ((use.document, entity, other) for entity, rows in uses.items() for use in rows for other in use.neighbours)
    return find_homonyms(
        {entity: sort_by_frequency(use.name for use in rows)[0] for entity, rows in uses.items()},
        collect_neighbourhoods(ties),
    )


def _find_pairs(uses: Uses, distinct: Collection[frozenset[str]]) -> Iterator[entity_clusters.ScoredPair]:
    """Yield the pairs of entities that may be one thing."""
    neighbours: defaultdict[str, set[str]] = defaultdict(set)
    entities: list[Entity] = []
    for id, rows in uses.items():
        forms, types = (
            sort_by_frequency(use.name for use in rows),
            sort_by_frequency(use.type for use in rows if use.type),
        )
        text = "\n".join(sorted({use.text for use in rows} - {""}))
        kind = types[0] if types else ""
        entities.append(Entity(forms[0], kind, forms, types, mentions=len(rows), tokens=0, id=id, text=text))
        for other in {other for use in rows for other in use.neighbours}:
            neighbours[id].add(other)
            neighbours[other].add(id)
    for pair in find_similar_entities(entities, neighbours, LocalEmbedder(), limit=None, distinct=distinct):
        yield pair.score, pair.one.id, pair.other.id


def _entries_of(entity: str, meanings: Sequence[Meaning], uses: Uses, dates: Mapping[str, str]) -> Iterator[Entry]:
    """Yield an entry for each meaning of a name, then the rest."""
    rows = uses[entity]
    for meaning in meanings:
        own = [use for use in rows if use.document in meaning.documents]
        yield entity, meaning.documents, _describe(own, uses, dates)
    meaning_documents = {document for meaning in meanings for document in meaning.documents}
    if others := [use for use in rows if use.document not in meaning_documents]:
        yield entity, (), _describe(others, uses, dates)


def _describe(rows: Sequence[NameUse], uses: Uses, dates: Mapping[str, str]) -> str:
    """Return what the model reads of some uses of a name."""
    near = sort_by_frequency(other for use in rows for other in use.neighbours if other in uses)
    return entity_clusters.describe_entry(
        sort_by_frequency(use.name for use in rows),
        sort_by_frequency(use.type for use in rows if use.type),
        [sort_by_frequency(use.name for use in uses[other])[0] for other in near[: entity_clusters.MAX_NEIGHBOURS]],
        [(dates.get(use.document, ""), use.text) for use in rows if use.text],
    )
