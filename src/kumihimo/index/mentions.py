"""a chunk -> mentions, ties, assertions: its entities, their relations and claims."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import Assertion, Chunk, Mention, Record, RelationMention
from kumihimo.index import extraction_llm
from kumihimo.index.extraction_parser import ExtractedClaim, ExtractedEntity, ExtractedRecord, ExtractedRelation
from kumihimo.llm.protocols import LLM
from kumihimo.text import name_keys

R = TypeVar("R", bound=Record)

ENTITY_TYPES = ("person", "organization", "place", "event", "work", "concept")


def mentions(
    chunk: Chunk,
    llm: LLM | None,
    *,
    types: tuple[str, ...] = ENTITY_TYPES,
    examples: str = "",
    domain: str = "",
    language: str = "",
    gleanings: int = 1,
    yes: int | None = None,
    no: int | None = None,
    aliases: tuple[str, ...] = (),
) -> Iterable[Mention]:
    """Extract the entity mentions of a chunk.

    (GraphRAG, arXiv:2404.16130, section 3.1.2, appendix A.2.) But: an end of a relation without an entity record is a
    mention too, without type and text.
    """
    if llm is None:
        from kumihimo.index.rules import ner  # imported here: only a build needs the rules

        return ner.find_mentions(chunk, _parse_aliases(aliases))

    records, failure = extraction_llm.extract_records(
        chunk,
        llm,
        types=types,
        examples=examples,
        domain=domain,
        language=language,
        gleanings=gleanings,
        yes=yes,
        no=no,
    )
    return _unique_rows(_build_mentions(records, _parse_aliases(aliases)), failure)


def ties(
    chunk: Chunk,
    llm: LLM | None,
    *,
    types: tuple[str, ...] = ENTITY_TYPES,
    examples: str = "",
    domain: str = "",
    language: str = "",
    gleanings: int = 1,
    yes: int | None = None,
    no: int | None = None,
    aliases: tuple[str, ...] = (),
) -> Iterable[RelationMention]:
    """Extract the relation mentions of a chunk, in the same conversation.

    But: a relation has keywords too (LightRAG, arXiv:2410.05779, section 3.1); a relation of an entity with itself is
    dropped.
    """
    if llm is None:
        from kumihimo.index.rules import ner

        return ner.find_relation_mentions(chunk, _parse_aliases(aliases))

    records, failure = extraction_llm.extract_records(
        chunk,
        llm,
        types=types,
        examples=examples,
        domain=domain,
        language=language,
        gleanings=gleanings,
        yes=yes,
        no=no,
    )
    return _unique_rows(_build_relation_mentions(records, _parse_aliases(aliases)), failure)


def assertions(
    chunk: Chunk,
    llm: LLM | None,
    *,
    types: tuple[str, ...] = ENTITY_TYPES,
    examples: str = "",
    domain: str = "",
    language: str = "",
    gleanings: int = 1,
    yes: int | None = None,
    no: int | None = None,
    aliases: tuple[str, ...] = (),
    claims: bool = False,
    about: str = "",
) -> Iterable[Assertion]:
    """Extract the claims of a chunk, if `claims` is on.

    They are a later turn of the same conversation (GraphRAG, arXiv:2404.16130, section 3.1.2). But: each has a status,
    as in the released code: TRUE, FALSE or SUSPECTED; any other word counts as SUSPECTED.
    """
    if llm is None or not claims:
        return []

    records, failure = extraction_llm.extract_records(
        chunk,
        llm,
        types=types,
        examples=examples,
        domain=domain,
        language=language,
        gleanings=gleanings,
        yes=yes,
        no=no,
        claims=True,
        about=about,
    )
    return _unique_rows(_build_assertions(records, _parse_aliases(aliases)), failure)


def _unique_rows(rows: Iterable[R], failure: ItemFailed | None) -> list[R]:
    """Return each row once. Raise the failure, if any, with these rows.

    The engine stores them in place of the complete set.
    """
    unique = list(dict.fromkeys(rows))
    if failure:
        failure.fallback = tuple(unique)
        raise failure
    return unique


@lru_cache(maxsize=16)
def _parse_aliases(lines: tuple[str, ...]) -> Mapping[str, str]:
    """Parse the alias lines once."""
    return name_keys.parse_aliases(lines)


def _entity_id(name: str, aliases: Mapping[str, str]) -> str:
    """Return the entity id of a name, aliases resolved."""
    key = name_keys.name_key(name)
    return name_keys.entity_id(aliases.get(key, key))


def _build_mentions(records: Sequence[ExtractedRecord], aliases: Mapping[str, str]) -> Iterator[Mention]:
    """Yield mentions of entities, and of relation ends without an entity record."""

    described_ids = {_entity_id(record.name, aliases) for record in records if isinstance(record, ExtractedEntity)}
    for record in records:
        if isinstance(record, ExtractedEntity):
            yield Mention(
                entity=_entity_id(record.name, aliases), name=record.name, type=record.type.lower(), text=record.text
            )
        elif isinstance(record, ExtractedRelation):
            for name in (record.source, record.target):
                if (entity := _entity_id(name, aliases)) not in described_ids:
                    yield Mention(entity=entity, name=name, type="")


def _build_relation_mentions(
    records: Sequence[ExtractedRecord], aliases: Mapping[str, str]
) -> Iterator[RelationMention]:
    """Yield the relation mentions of the records."""

    for record in records:
        if not isinstance(record, ExtractedRelation):
            continue
        ends = sorted((_entity_id(name, aliases), name) for name in (record.source, record.target))
        (source, first), (target, second) = ends
        if source != target:
            yield RelationMention(
                relation=name_keys.relation_id(source, target),
                source=source,
                target=target,
                names=(first, second),
                keywords=record.keywords,
                strength=record.strength,
                text=record.text,
            )


def _build_assertions(records: Sequence[ExtractedRecord], aliases: Mapping[str, str]) -> Iterator[Assertion]:
    """Yield the assertions of the records."""

    for record in records:
        if not isinstance(record, ExtractedClaim):
            continue
        subject = _entity_id(record.subject, aliases)
        object_id = _entity_id(record.object, aliases) if record.object else ""
        yield Assertion(
            claim=hash_parts(subject, object_id, name_keys.name_key(record.type)),
            subject=subject,
            object=object_id,
            names=(record.subject, record.object) if object_id else (record.subject,),
            type=record.type.lower(),
            status=record.status,
            start=record.start,
            end=record.end,
            quote=record.quote,
            text=record.text,
        )
