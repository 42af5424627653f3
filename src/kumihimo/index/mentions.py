"""a chunk -> mentions, ties, assertions: what it says of entities, of pairs of them, and claims as facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import Assertion, Chunk, Mention, Record, RelationMention
from kumihimo.llm.protocols import LLM
from kumihimo.text import name_keys

if TYPE_CHECKING:
    from kumihimo.index.extraction_parser import ExtractedRecord

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
    """What a chunk says of each entity that it names (GraphRAG, arXiv:2404.16130, section 3.1.2, appendix A.2).

    But: an end of a relation that no record describes is a mention too, without type and text.
    """
    if llm is None:
        from kumihimo.index.rules import ner  # here: reading a graph needs none of the rules

        return ner.find_mentions(chunk, _parse_aliases(aliases))
    from kumihimo.index import extraction_llm  # here: reading a graph asks nothing

    said, failure = extraction_llm.extract_records(
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
    return _unique_rows(_build_mentions(said, _parse_aliases(aliases)), failure)


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
    """What a chunk says of each pair of entities, in the same conversation.

    But: a relation has keywords too (LightRAG, arXiv:2410.05779, section 3.1); one of an entity with itself is none.
    """
    if llm is None:
        from kumihimo.index.rules import ner

        return ner.find_relation_mentions(chunk, _parse_aliases(aliases))
    from kumihimo.index import extraction_llm  # here: reading a graph asks nothing

    said, failure = extraction_llm.extract_records(
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
    return _unique_rows(_build_relation_mentions(said, _parse_aliases(aliases)), failure)


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
    """What a chunk claims of its entities as a fact, in a later turn of the same conversation, if `claims` is on.

    (GraphRAG, arXiv:2404.16130, section 3.1.2.) But: with a status, as in its released code: TRUE, FALSE, or SUSPECTED,
    which is also what any other word is taken for.
    """
    if llm is None or not claims:
        return []
    from kumihimo.index import extraction_llm  # here: reading a graph asks nothing

    said, failure = extraction_llm.extract_records(
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
    return _unique_rows(_build_assertions(said, _parse_aliases(aliases)), failure)


def _unique_rows(rows: Iterable[R], failure: ItemFailed | None) -> list[R]:
    """Each of the rows once. Raises the failure, if there was one, with the rows to be stored in place of all."""
    once = list(dict.fromkeys(rows))
    if failure:
        failure.fallback = tuple(once)
        raise failure
    return once


@lru_cache(maxsize=16)
def _parse_aliases(lines: tuple[str, ...]) -> Mapping[str, str]:
    return name_keys.parse_aliases(lines)


def _entity_id(name: str, aliases: Mapping[str, str]) -> str:
    key = name_keys.name_key(name)
    return name_keys.entity_id(aliases.get(key, key))


def _build_mentions(records: Sequence[ExtractedRecord], aliases: Mapping[str, str]) -> Iterator[Mention]:
    """Entities, and ends of relations that nobody has described: they are named, after all."""
    from kumihimo.index.extraction_parser import ExtractedEntity, ExtractedRelation

    described = {_entity_id(one.name, aliases) for one in records if isinstance(one, ExtractedEntity)}
    for one in records:
        if isinstance(one, ExtractedEntity):
            yield Mention(entity=_entity_id(one.name, aliases), name=one.name, type=one.type.lower(), text=one.text)
        elif isinstance(one, ExtractedRelation):
            for name in (one.source, one.target):
                if (entity := _entity_id(name, aliases)) not in described:
                    yield Mention(entity=entity, name=name, type="")


def _build_relation_mentions(
    records: Sequence[ExtractedRecord], aliases: Mapping[str, str]
) -> Iterator[RelationMention]:
    from kumihimo.index.extraction_parser import ExtractedRelation

    for one in records:
        if not isinstance(one, ExtractedRelation):
            continue
        ends = sorted((_entity_id(name, aliases), name) for name in (one.source, one.target))
        (source, first), (target, second) = ends
        if source != target:
            yield RelationMention(
                relation=name_keys.relation_id(source, target),
                source=source,
                target=target,
                names=(first, second),
                keywords=one.keywords,
                strength=one.strength,
                text=one.text,
            )


def _build_assertions(records: Sequence[ExtractedRecord], aliases: Mapping[str, str]) -> Iterator[Assertion]:
    from kumihimo.index.extraction_parser import ExtractedClaim

    for one in records:
        if not isinstance(one, ExtractedClaim):
            continue
        subject = _entity_id(one.subject, aliases)
        other = _entity_id(one.object, aliases) if one.object else ""
        yield Assertion(
            claim=hash_parts(subject, other, name_keys.name_key(one.type)),
            subject=subject,
            object=other,
            names=(one.subject, one.object) if other else (one.subject,),
            type=one.type.lower(),
            status=one.status,
            start=one.start,
            end=one.end,
            quote=one.quote,
            text=one.text,
        )
