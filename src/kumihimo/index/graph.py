"""mentions, ties, assertions -> entities, relations, claims: all that is said of one thing, one pair, one claim."""

from __future__ import annotations

from kumihimo.core.context import Ruler
from kumihimo.core.records import Assertion, Claim, Entity, Mention, Relation, Tie
from kumihimo.core.table import Group
from kumihimo.ports.models import Ask


def entities(mentions: Group[Mention], ruler: Ruler, ask: Ask | None, *, description_tokens: int = 600) -> Entity:
    raise NotImplementedError


def relations(ties: Group[Tie], ruler: Ruler, ask: Ask | None, *, description_tokens: int = 600) -> Relation:
    raise NotImplementedError


def claims(assertions: Group[Assertion], ruler: Ruler, ask: Ask | None, *, description_tokens: int = 600) -> Claim:
    raise NotImplementedError
