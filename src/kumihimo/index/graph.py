"""mentions, ties, assertions -> entities, relations, claims: one row per thing, pair and claim.

Descriptions are joined, the oldest document first; one that another one contains is left out. A model merges them once
they are long. If the merge fails, they stay joined and the failure is listed.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import fsum
from pathlib import Path
from typing import TypeVar

from kumihimo.core import context, settings, signature, table
from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import Assertion, Claim, Entity, Mention, Record, Relation, RelationMention
from kumihimo.index.chunk_background import Description
from kumihimo.index.imports import ImportedDescription
from kumihimo.llm.prompts import render_prompt, require_complete_text
from kumihimo.llm.protocols import LLM
from kumihimo.text import graph_edits, repetition
from kumihimo.text.name_keys import entity_id, name_key
from kumihimo.text.packs import pack_texts

T = TypeVar("T", Entity, Relation, Claim)

DESCRIPTIONS_PROMPT = Path(__file__).with_name("merge_descriptions.md")
_PACK_END_ODDS = 6  # on average one description in six ends its pack
_PACK_TOKENS = 4000  # maximum of a pack
_PACK_SHARE = 0.6  # minimum of a pack, as a share of the longest description: by default 360 tokens, about 250 words


@signature.declare(shared={"aliases": "mentions"})
def entities(
    mentions: table.Group[Mention],
    descriptions: table.Table[Description],
    imported_descriptions: table.Table[ImportedDescription],
    tokenizer: context.Tokenizer,
    llm: LLM | None,
    *,
    description_tokens: settings.Tokens = 600,
    aliases: tuple[str, ...] = (),
) -> Entity:
    """Merge the mentions of one entity, whatever their types, into one description.

    (GraphRAG, arXiv:2404.16130, section 3.1.3.) The description joins the mentions; above `description_tokens` a model
    merges them. But: the paper merges every description; here short ones stay word for word. aliases: may give it a
    name and a type.
    """
    entity, edits = mentions[0].entity, graph_edits.parse_edits(aliases)
    forms = sort_by_frequency(mention.name for mention in mentions)
    given_type = edits.types.get(entity)
    types = (given_type,) if given_type else sort_by_frequency(m.type for m in mentions if m.type)
    name = edits.names.get(entity) or _most_readable(forms, entity)
    bare = Entity(name, next(iter(types), ""), forms, types, mentions=len(mentions), tokens=0)
    rows = _with_imported(mentions, entity, imported_descriptions)
    limit = _merge_limit(mentions, description_tokens)
    return _with_description(bare, [name], _dated_texts(rows, descriptions), tokenizer, llm, limit)


def relations(
    ties: table.Group[RelationMention],
    descriptions: table.Table[Description],
    imported_descriptions: table.Table[ImportedDescription],
    tokenizer: context.Tokenizer,
    llm: LLM | None,
    *,
    description_tokens: settings.Tokens = 600,
) -> Relation:
    """Merge the mentions of one pair; their number is the weight.

    (GraphRAG, arXiv:2404.16130, section 3.1.3.)
    """
    first = ties[0]
    names = tuple(sort_by_frequency(tie.names[end] for tie in ties)[0] for end in (0, 1))
    keywords = sort_by_frequency(keyword for tie in ties for keyword in tie.keywords)
    strengths = [tie.strength for tie in ties if tie.strength is not None]
    strength = fsum(strengths) / len(strengths) if strengths else None
    bare = Relation(first.source, first.target, names, keywords, weight=len(ties), strength=strength, tokens=0)
    rows, limit = _with_imported(ties, first.relation, imported_descriptions), _merge_limit(ties, description_tokens)
    return _with_description(bare, names, _dated_texts(rows, descriptions), tokenizer, llm, limit)


def claims(
    assertions: table.Group[Assertion],
    descriptions: table.Table[Description],
    tokenizer: context.Tokenizer,
    llm: LLM | None,
    *,
    description_tokens: settings.Tokens = 600,
) -> Claim:
    """Merge the assertions with one subject, object and type.

    (GraphRAG, arXiv:2404.16130, section 3.1.2.)
    """
    first = assertions[0]
    names = tuple(sort_by_frequency(item.names[end] for item in assertions)[0] for end in range(len(first.names)))
    claim_type = sort_by_frequency(assertion.type for assertion in assertions)[0]
    statuses = sort_by_frequency(assertion.status for assertion in assertions)
    start = min((assertion.start for assertion in assertions if assertion.start), default="")
    end = max((assertion.end for assertion in assertions if assertion.end), default="")
    quotes = sort_by_frequency(assertion.quote for assertion in assertions if assertion.quote)
    bare = Claim(first.subject, first.object, names, claim_type, statuses, start, end, quotes, tokens=0)
    return _with_description(bare, names, _dated_texts(assertions, descriptions), tokenizer, llm, description_tokens)


@lru_cache(maxsize=16_384)  # several entities and relations have the same sentences
def _count_tokens(tokenize: Callable[[str], Sequence[int]], text: str) -> int:
    return len(tokenize(text))


def _with_imported(
    rows: Sequence[Record], subject: str, imported_descriptions: table.Table[ImportedDescription]
) -> Sequence[Record]:
    """Return the rows of a group with imported descriptions.

    These describe mentions without a text of their own.
    """
    if all(row.text for row in rows):
        return rows
    return [*rows, *imported_descriptions.where(subject=subject)]


def _merge_limit(rows: Iterable[Record], description_tokens: int) -> int:
    """Return the tokens above which descriptions are merged.

    Descriptions of an import alone stay as they are: they are merged already, and were paid for.
    """
    return description_tokens if any(row.text for row in rows) else sys.maxsize


def sort_by_frequency(texts: Iterable[str]) -> tuple[str, ...]:
    """Return each text once, the most frequent first.

    >>> sort_by_frequency(["Bo", "Ada", "Ada", "Al"])
    ('Ada', 'Al', 'Bo')
    """
    return tuple(text for text, _ in sorted(Counter(texts).items(), key=lambda item: (-item[1], item[0])))


def _most_readable(forms: Sequence[str], entity: str) -> str:
    """Return the form to show: whole, in small letters, the most frequent.

    A form is whole if the entity has its key, so it is no title, surname or acronym of another form. forms: the most
    frequent first.
    """
    return min(forms, key=lambda form: (entity_id(name_key(form)) != entity, form.isupper() and " " in form))


def _dated_texts(rows: Iterable[Record], descriptions: table.Table[Description]) -> dict[str, str]:
    """Return the distinct texts with their dates, the oldest first.

    A date is that of the oldest document; without one, or with one document only, it is empty, and its texts come
    last. Those of one date are sorted by content, so the order of documents makes no difference.
    """
    documents_by_text: dict[str, set[str]] = {}
    for row in rows:
        if text := row.text.strip():
            documents_by_text.setdefault(text, set()).add(row.id.partition(".")[0])
    documents = sorted(set().union(*documents_by_text.values())) if len(documents_by_text) > 1 else []
    described = descriptions.get_many(documents).items() if len(documents) > 1 else ()
    dates = {id: date for id, description in described if (date := _first_date(description))}

    if not dates:
        return dict.fromkeys(sorted(documents_by_text), "")
    oldest = {t: min((dates[id] for id in ids if id in dates), default="") for t, ids in documents_by_text.items()}
    return dict(sorted(oldest.items(), key=lambda item: (not item[1], item[1], item[0])))


def _first_date(description: Description) -> str:
    """Return the first date with a year, or an empty text."""
    return next((date for date in description.dates if date[0].isdigit()), "")


def _with_description(
    bare: T, names: Iterable[str], texts: Mapping[str, str], tokenizer: context.Tokenizer, llm: LLM | None, limit: int
) -> T:
    """Return the record with its merged description.

    texts: with their dates.
    """
    if llm:
        texts = {text: texts[text] for text in repetition.drop_contained(list(texts))}
    try:
        text = _merge_descriptions(names, texts, tokenizer, llm, limit)
    except ItemFailed as failure:
        text = "\n".join(texts)
        raise ItemFailed(str(failure), fallback=[replace(bare, text=text, tokens=len(tokenizer(text)))]) from failure
    return replace(bare, text=text, tokens=_count_tokens(tokenizer.__call__, text))


def _merge_descriptions(
    names: Iterable[str], texts: Mapping[str, str], tokenizer: context.Tokenizer, llm: LLM | None, limit: int
) -> str:
    """Return one description of at most about `limit` tokens.

    texts: in order, with their dates. Without a model, keep the first texts that fit. With a model, merge packs of
    texts, then the results, until they fit; a short rest after the last pack stays as it is. Raise ItemFailed.
    """
    if len(texts) < 2:
        return "".join(texts)
    if llm is None:
        return "\n".join(repetition.drop_contained(list(_first_texts(texts, tokenizer, limit))))
    lengths = {text: len(tokenizer(text)) for text in texts}
    least = int(_PACK_SHARE * limit)
    while len(texts) > 1 and sum(lengths[text] for text in texts) > limit:
        *packs, rest = pack_texts(list(texts), lengths, _PACK_TOKENS, _PACK_END_ODDS, least)
        if not packs or (len(rest) > 1 and sum(lengths[text] for text in rest) >= least):
            packs, rest = [*packs, rest], []
        merged = [_merge_pack(names, {text: texts[text] for text in pack}, llm, limit) for pack in packs]
        texts = {**dict.fromkeys(merged, ""), **{text: texts[text] for text in rest}}
        lengths = {text: len(tokenizer(text)) for text in texts}
    return "\n".join(texts)


def _first_texts(texts: Iterable[str], tokenizer: context.Tokenizer, limit: int) -> Iterator[str]:
    """Yield texts while they fit the limit, at least one."""
    for i, text in enumerate(texts):
        limit -= _count_tokens(tokenizer.__call__, text)
        if limit < 0 and i:
            return
        yield text


def _merge_pack(names: Iterable[str], pack: Mapping[str, str], llm: LLM, limit: int) -> str:
    """Return a model's merged description of one pack."""
    bullets = "\n".join(f"- {f'{date}: ' if date else ''}{' '.join(text.split())}" for text, date in pack.items())
    values = {"names": " and ".join(names), "descriptions": bullets, "words": str(limit // 2)}
    return llm(render_prompt(DESCRIPTIONS_PROMPT, **values), parse=require_complete_text)
