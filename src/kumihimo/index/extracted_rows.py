"""records of an extraction, or rows that rules find -> the rows of a chunk, as the lines of a person change them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from kumihimo.core.digests import hash_parts
from kumihimo.core.records import Assertion, Mention, RelationMention
from kumihimo.index.extraction_parser import ExtractedClaim, ExtractedEntity, ExtractedRecord, ExtractedRelation
from kumihimo.index.name_records import NameResolver
from kumihimo.text.name_keys import name_key, relation_id

Records = Sequence[ExtractedRecord]
_STRENGTH = 10.0  # of a relation that a person states: the greatest


@dataclass(frozen=True, slots=True)
class EntityNames:
    """The entities of names in a chunk. types: of records, by the key of their name."""

    resolver: NameResolver
    types: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Records, resolver: NameResolver) -> Self:
        """Return the entities of names in these records."""
        return cls(resolver, {name_key(r.name): r.type for r in records if isinstance(r, ExtractedEntity)})

    def __call__(self, name: str) -> str:
        """Return the id of the entity with a name."""
        key = name_key(name)
        return self.resolver.entity_of_key(key, self.types.get(key, ""))


def build_mentions(records: Records, entity_of: EntityNames) -> list[Mention]:
    """Return mentions of entities, and of relation ends without an entity record."""
    return edit_mentions(_extracted_mentions(records, entity_of), entity_of.resolver)


def _extracted_mentions(records: Records, entity_of: EntityNames) -> Iterator[Mention]:
    described_ids = {entity_of(r.name) for r in records if isinstance(r, ExtractedEntity)}
    for record in records:
        if isinstance(record, ExtractedEntity):
            yield Mention(entity_of(record.name), record.name, record.type.lower(), text=record.text)
        elif isinstance(record, ExtractedRelation):
            for name in (record.source, record.target):
                if (entity := entity_of(name)) not in described_ids:
                    yield Mention(entity, name, type="")


def build_ties(records: Records, entity_of: EntityNames) -> Iterator[RelationMention]:
    """Return the relation mentions of the records."""
    mentions = _extracted_mentions(records, entity_of)
    return edit_ties(_extracted_ties(records, entity_of), mentions, entity_of.resolver)


def _extracted_ties(records: Records, entity_of: EntityNames) -> Iterator[RelationMention]:
    for record in records:
        if not isinstance(record, ExtractedRelation):
            continue
        ends = sorted((entity_of(name), name) for name in (record.source, record.target))
        (source, first), (target, second) = ends
        if source != target:
            id, names = relation_id(source, target), (first, second)
            yield RelationMention(id, source, target, names, record.keywords, record.strength, text=record.text)


def build_assertions(records: Records, entity_of: EntityNames) -> Iterator[Assertion]:
    """Yield the assertions of the records, about entities that are not deleted."""
    for record in records:
        if not isinstance(record, ExtractedClaim):
            continue
        subject = entity_of(record.subject)
        object_id = entity_of(record.object) if record.object else ""
        ends = (subject, object_id) if object_id else (subject,)
        if entity_of.resolver.edits.deleted.isdisjoint(ends):
            claim = hash_parts(subject, object_id, name_key(record.type))
            details = record.type.lower(), record.status, record.start, record.end, record.quote
            names = _shown_names((record.subject, record.object)[: len(ends)], ends, entity_of.resolver)
            yield Assertion(claim, subject, object_id, names, *details, text=record.text)


def edit_mentions(rows: Iterable[Mention], resolver: NameResolver) -> list[Mention]:
    """Return the mentions without those of deleted entities.

    A relation of this document alone brings both of its ends where there is one.
    """
    edits = resolver.edits
    kept = [row for row in rows if row.entity not in edits.deleted]
    known = {row.entity for row in kept}
    for (_, document), edit in edits.relations.items():
        if edit.text and document == resolver.document and known.intersection(edit.ends):
            missing = [pair for pair in zip(edit.ends, edit.names, strict=True) if pair[0] not in known | edits.deleted]
            kept += [Mention(entity, name, type="") for entity, name in missing]
            known.update(edit.ends)
    return kept


def edit_ties(
    rows: Iterable[RelationMention], mentions: Iterable[Mention], resolver: NameResolver
) -> Iterator[RelationMention]:
    """Yield the relation mentions, changed and added to by edits.

    mentions: of the chunk, read only if relations are edited.
    """
    edits, known = resolver.edits, set[str]()
    for row in rows:
        edit = edits.relation(row.relation, resolver.document)
        if edits.deleted.isdisjoint((row.source, row.target)) and (edit is None or edit.text):
            known.add(row.relation)
            names = _shown_names(row.names, (row.source, row.target), resolver)
            shown = row if names == row.names else replace(row, names=names)
            yield replace(shown, strength=_STRENGTH, text=edit.text) if edit else shown
    if edits.relations:
        entities = {mention.entity for mention in edit_mentions(mentions, resolver)}
        for relation in dict.fromkeys(relation for relation, _ in edits.relations):
            edit = edits.relation(relation, resolver.document)
            if edit and edit.text and relation not in known and entities.issuperset(edit.ends):
                names = _shown_names(edit.names, edit.ends, resolver)
                yield RelationMention(relation, *edit.ends, names, strength=_STRENGTH, text=edit.text)


def _shown_names(names: Sequence[str], entities: Sequence[str], resolver: NameResolver) -> tuple[str, ...]:
    """Return the names of entities, as a person shows them."""
    return tuple(resolver.edits.names.get(entity, name) for entity, name in zip(entities, names, strict=True))
