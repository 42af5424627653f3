"""a chunk -> mentions, ties, assertions: what it says of entities, of pairs of them, and claims as facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from kumihimo.core.digests import digest
from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import Assertion, Chunk, Mention, Record, Tie
from kumihimo.llm.protocols import Ask
from kumihimo.text import name_keys

if TYPE_CHECKING:
    from kumihimo.index.extraction_parser import Said

R = TypeVar("R", bound=Record)

TYPES = ("person", "organization", "place", "event", "work", "concept")


def mentions(
    chunk: Chunk,
    ask: Ask | None,
    *,
    types: tuple[str, ...] = TYPES,
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
    if ask is None:
        from kumihimo.index.rules import ner  # here: reading a graph needs none of the rules

        return ner.mentions(chunk, _aliases(aliases))
    from kumihimo.index import extraction_llm  # here: reading a graph asks nothing

    said, failure = extraction_llm.read(
        chunk,
        ask,
        types=types,
        examples=examples,
        domain=domain,
        language=language,
        gleanings=gleanings,
        yes=yes,
        no=no,
    )
    return _rows(_mentions(said, _aliases(aliases)), failure)


def ties(
    chunk: Chunk,
    ask: Ask | None,
    *,
    types: tuple[str, ...] = TYPES,
    examples: str = "",
    domain: str = "",
    language: str = "",
    gleanings: int = 1,
    yes: int | None = None,
    no: int | None = None,
    aliases: tuple[str, ...] = (),
) -> Iterable[Tie]:
    """What a chunk says of each pair of entities, in the same conversation.

    But: a relation has keywords too (LightRAG, arXiv:2410.05779, section 3.1); one of an entity with itself is none.
    """
    if ask is None:
        from kumihimo.index.rules import ner

        return ner.ties(chunk, _aliases(aliases))
    from kumihimo.index import extraction_llm  # here: reading a graph asks nothing

    said, failure = extraction_llm.read(
        chunk,
        ask,
        types=types,
        examples=examples,
        domain=domain,
        language=language,
        gleanings=gleanings,
        yes=yes,
        no=no,
    )
    return _rows(_ties(said, _aliases(aliases)), failure)


def assertions(
    chunk: Chunk,
    ask: Ask | None,
    *,
    types: tuple[str, ...] = TYPES,
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
    if ask is None or not claims:
        return []
    from kumihimo.index import extraction_llm  # here: reading a graph asks nothing

    said, failure = extraction_llm.read(
        chunk,
        ask,
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
    return _rows(_assertions(said, _aliases(aliases)), failure)


def _rows(rows: Iterable[R], failure: ItemFailed | None) -> list[R]:
    """Each of the rows once. Raises the failure, if there was one, with the rows to be stored in place of all."""
    once = list(dict.fromkeys(rows))
    if failure:
        failure.instead = tuple(once)
        raise failure
    return once


@lru_cache(maxsize=16)
def _aliases(lines: tuple[str, ...]) -> Mapping[str, str]:
    return name_keys.aliases(lines)


def _entity(name: str, aliases: Mapping[str, str]) -> str:
    key = name_keys.key(name)
    return name_keys.entity_id(aliases.get(key, key))


def _mentions(said: Sequence[Said], aliases: Mapping[str, str]) -> Iterator[Mention]:
    """Entities, and ends of relations that nobody has described: they are named, after all."""
    from kumihimo.index.extraction_parser import Named, Related

    described = {_entity(one.name, aliases) for one in said if isinstance(one, Named)}
    for one in said:
        if isinstance(one, Named):
            yield Mention(entity=_entity(one.name, aliases), name=one.name, type=one.type.lower(), text=one.text)
        elif isinstance(one, Related):
            for name in (one.source, one.target):
                if (entity := _entity(name, aliases)) not in described:
                    yield Mention(entity=entity, name=name, type="")


def _ties(said: Sequence[Said], aliases: Mapping[str, str]) -> Iterator[Tie]:
    from kumihimo.index.extraction_parser import Related

    for one in said:
        if not isinstance(one, Related):
            continue
        ends = sorted((_entity(name, aliases), name) for name in (one.source, one.target))
        (source, first), (target, second) = ends
        if source != target:
            yield Tie(
                relation=name_keys.relation_id(source, target),
                source=source,
                target=target,
                names=(first, second),
                keywords=one.keywords,
                strength=one.strength,
                text=one.text,
            )


def _assertions(said: Sequence[Said], aliases: Mapping[str, str]) -> Iterator[Assertion]:
    from kumihimo.index.extraction_parser import Claimed

    for one in said:
        if not isinstance(one, Claimed):
            continue
        subject = _entity(one.subject, aliases)
        other = _entity(one.object, aliases) if one.object else ""
        yield Assertion(
            claim=digest(subject, other, name_keys.key(one.type)),
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
