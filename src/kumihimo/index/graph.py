"""mentions, ties, assertions -> entities, relations, claims: one row per thing, pair and claim.

Descriptions are joined; a model merges them once they are long. If the merge fails, they stay joined and the failure is
listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from math import fsum
from typing import TypeVar

from kumihimo.core.context import Tokenizer
from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import Assertion, Claim, Entity, Mention, Relation, RelationMention
from kumihimo.core.table import Group
from kumihimo.index.merge_descriptions import merge_descriptions
from kumihimo.llm.protocols import LLM

T = TypeVar("T", Entity, Relation, Claim)


def entities(
    mentions: Group[Mention], tokenizer: Tokenizer, llm: LLM | None, *, description_tokens: int = 600
) -> Entity:
    """Merge the mentions of one entity, whatever their types, into one description.

    (GraphRAG, arXiv:2404.16130, section 3.1.3.) The description joins the mentions; above `description_tokens` a model
    merges them. But: the paper merges every description; here short ones stay word for word.
    """
    forms = _sort_by_frequency(mention.name for mention in mentions)
    types = _sort_by_frequency(mention.type for mention in mentions if mention.type)
    bare = Entity(name=forms[0], type=next(iter(types), ""), forms=forms, types=types, mentions=len(mentions), tokens=0)
    return _with_description(
        bare, forms[:1], [mention.text for mention in mentions], tokenizer, llm, description_tokens
    )


def relations(
    ties: Group[RelationMention], tokenizer: Tokenizer, llm: LLM | None, *, description_tokens: int = 600
) -> Relation:
    """Merge the mentions of one pair; their number is the weight.

    (GraphRAG, arXiv:2404.16130, section 3.1.3.)
    """
    first = ties[0]
    names = tuple(_sort_by_frequency(tie.names[end] for tie in ties)[0] for end in (0, 1))
    strengths = [tie.strength for tie in ties if tie.strength is not None]
    bare = Relation(
        source=first.source,
        target=first.target,
        names=names,
        keywords=_sort_by_frequency(keyword for tie in ties for keyword in tie.keywords),
        weight=len(ties),
        strength=fsum(strengths) / len(strengths) if strengths else None,
        tokens=0,
    )
    return _with_description(bare, names, [tie.text for tie in ties], tokenizer, llm, description_tokens)


def claims(
    assertions: Group[Assertion], tokenizer: Tokenizer, llm: LLM | None, *, description_tokens: int = 600
) -> Claim:
    """Merge the assertions with one subject, object and type.

    (GraphRAG, arXiv:2404.16130, section 3.1.2.)
    """
    first = assertions[0]
    names = tuple(_sort_by_frequency(item.names[end] for item in assertions)[0] for end in range(len(first.names)))
    bare = Claim(
        subject=first.subject,
        object=first.object,
        names=names,
        type=_sort_by_frequency(assertion.type for assertion in assertions)[0],
        statuses=_sort_by_frequency(assertion.status for assertion in assertions),
        start=min((assertion.start for assertion in assertions if assertion.start), default=""),
        end=max((assertion.end for assertion in assertions if assertion.end), default=""),
        quotes=_sort_by_frequency(assertion.quote for assertion in assertions if assertion.quote),
        tokens=0,
    )
    return _with_description(
        bare, names, [assertion.text for assertion in assertions], tokenizer, llm, description_tokens
    )


def _sort_by_frequency(texts: Iterable[str]) -> tuple[str, ...]:
    """Return each text once, the most frequent first.

    >>> _sort_by_frequency(["Bo", "Ada", "Ada", "Al"])
    ('Ada', 'Al', 'Bo')
    """
    return tuple(text for text, _ in sorted(Counter(texts).items(), key=lambda item: (-item[1], item[0])))


def _with_description(
    bare: T, names: Iterable[str], descriptions: Iterable[str], tokenizer: Tokenizer, llm: LLM | None, limit: int
) -> T:
    """Return the record with its merged description.

    Texts are sorted by content, so the order of documents makes no difference.
    """
    texts = sorted({text.strip() for text in descriptions} - {""})
    try:
        text = merge_descriptions(names, texts, tokenizer, llm, limit)
    except ItemFailed as failure:
        text = "\n".join(texts)
        raise ItemFailed(str(failure), fallback=[replace(bare, text=text, tokens=len(tokenizer(text)))]) from failure
    return replace(bare, text=text, tokens=len(tokenizer(text)))
