"""mentions, ties, assertions -> entities, relations, claims: all that is said of one thing, one pair, one claim.

What is said is joined; where that grows long a model merges it. A merge that fails leaves it joined, and is listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from math import fsum
from typing import TypeVar

from kumihimo.core.context import Ruler
from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import Assertion, Claim, Entity, Mention, Relation, Tie
from kumihimo.core.table import Group
from kumihimo.index.merge_descriptions import merged
from kumihimo.llm.protocols import Ask

T = TypeVar("T", Entity, Relation, Claim)


def entities(mentions: Group[Mention], ruler: Ruler, ask: Ask | None, *, description_tokens: int = 600) -> Entity:
    """All that is said of one thing, whatever its type, described once (GraphRAG, arXiv:2404.16130, section 3.1.3).

    Its description is what its mentions say, until that has more than `description_tokens`: then a model merges it.
    But: the paper has each merged; here what is short stays word for word.
    """
    forms = _ranked(mention.name for mention in mentions)
    types = _ranked(mention.type for mention in mentions if mention.type)
    bare = Entity(name=forms[0], type=next(iter(types), ""), forms=forms, types=types, mentions=len(mentions), tokens=0)
    return _described(bare, forms[:1], [mention.text for mention in mentions], ruler, ask, description_tokens)


def relations(ties: Group[Tie], ruler: Ruler, ask: Ask | None, *, description_tokens: int = 600) -> Relation:
    """All that is said of one pair (GraphRAG, arXiv:2404.16130, section 3.1.3); its weight is the number of ties."""
    first = ties[0]
    names = tuple(_ranked(tie.names[end] for tie in ties)[0] for end in (0, 1))
    judged = [tie.strength for tie in ties if tie.strength is not None]
    bare = Relation(
        source=first.source,
        target=first.target,
        names=names,
        keywords=_ranked(keyword for tie in ties for keyword in tie.keywords),
        weight=len(ties),
        strength=fsum(judged) / len(judged) if judged else None,
        tokens=0,
    )
    return _described(bare, names, [tie.text for tie in ties], ruler, ask, description_tokens)


def claims(assertions: Group[Assertion], ruler: Ruler, ask: Ask | None, *, description_tokens: int = 600) -> Claim:
    """All that is claimed of one subject, object and type (GraphRAG, arXiv:2404.16130, section 3.1.2)."""
    first = assertions[0]
    names = tuple(_ranked(a.names[end] for a in assertions)[0] for end in range(len(first.names)))
    bare = Claim(
        subject=first.subject,
        object=first.object,
        names=names,
        type=_ranked(assertion.type for assertion in assertions)[0],
        statuses=_ranked(assertion.status for assertion in assertions),
        start=min((assertion.start for assertion in assertions if assertion.start), default=""),
        end=max((assertion.end for assertion in assertions if assertion.end), default=""),
        quotes=_ranked(assertion.quote for assertion in assertions if assertion.quote),
        tokens=0,
    )
    return _described(bare, names, [assertion.text for assertion in assertions], ruler, ask, description_tokens)


def _ranked(texts: Iterable[str]) -> tuple[str, ...]:
    """Each once, those used most first.

    >>> _ranked(["Bo", "Ada", "Ada", "Al"])
    ('Ada', 'Al', 'Bo')
    """
    return tuple(text for text, _ in sorted(Counter(texts).items(), key=lambda item: (-item[1], item[0])))


def _described(bare: T, names: Iterable[str], said: Iterable[str], ruler: Ruler, ask: Ask | None, limit: int) -> T:
    """The record with what is said of it. Sorted by content: the order of documents makes no difference."""
    texts = sorted({text.strip() for text in said} - {""})
    try:
        text = merged(names, texts, ruler, ask, limit)
    except ItemFailed as failure:
        text = "\n".join(texts)
        raise ItemFailed(str(failure), instead=[replace(bare, text=text, tokens=len(ruler(text)))]) from failure
    return replace(bare, text=text, tokens=len(ruler(text)))
