"""a community, its entities, relations, claims, and the reports of its parts -> its report."""

from __future__ import annotations

from typing import Literal

from kumihimo.core.context import Ruler
from kumihimo.core.records import Claim, Community, Entity, Mention, Relation, Report
from kumihimo.core.table import Table
from kumihimo.ports.models import Ask


def reports(
    community: Community,
    communities: Table[Community],
    entities: Table[Entity],
    relations: Table[Relation],
    claims: Table[Claim],
    mentions: Table[Mention],
    reports: Table[Report],
    ruler: Ruler,
    ask: Ask | None,
    *,
    window: int = 8000,
    order: Literal["content", "paper"] = "content",
    persona: str = "",
    language: str = "",
    when: Literal["built", "asked"] = "built",
) -> Report | None:
    """What there is to say of a community (GraphRAG, arXiv:2404.16130, section 3.1.5)."""
    raise NotImplementedError
