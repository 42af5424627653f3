"""a chunk -> mentions, ties, assertions: what it says of entities, of pairs of them, and claims as facts."""

from __future__ import annotations

from collections.abc import Iterable

from kumihimo.core.records import Assertion, Chunk, Mention, Tie
from kumihimo.index import naming
from kumihimo.index.rules import names
from kumihimo.ports.models import Ask

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
    """What a chunk says of each entity that it names (GraphRAG, arXiv:2404.16130, section 3.1.2, appendix A.2)."""
    if ask is None:
        return names.mentions(chunk, naming.aliases(aliases))
    raise NotImplementedError


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
    """What a chunk says of each pair of entities, in the same conversation."""
    if ask is None:
        return names.ties(chunk, naming.aliases(aliases))
    raise NotImplementedError


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
    """What a chunk claims of its entities as a fact, in a later turn of the same conversation, if `claims` is on."""
    if ask is None or not claims:
        return []
    raise NotImplementedError
