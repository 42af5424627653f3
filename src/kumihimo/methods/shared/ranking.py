"""question + tables -> Context: the searches of several methods, over rows and over the entity graph."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from unicodedata import normalize

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.records import Chunk, Entity, Mention, Relation, RelationMention
from kumihimo.core.table import Table
from kumihimo.search.protocols import KeywordSearch, VectorSearch
from kumihimo.text import name_keys, tokens

T = TypeVar("T")
_MAX_NAME_WORDS = 6
_MAX_NAME_CHARS = 12  # in scripts without spaces
_CJK = "々〆ー\u3040-\u30ff\u3400-\u9fff"
_PIECE_PATTERN = rf"[{_CJK}]|[^\s{_CJK}]+"  # compiled on first use
_PUNCTUATION = " \t\n.,;:!?\"'()[]{}“”‘’«»。、・？！「」『』（）"
_MAX_SUPPORT_CHUNKS = 300  # searched source chunks, the best supported first


def hybrid_search(
    questions: Sequence[str],
    rows: Table[Any],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    *,
    pool: int,
    meaning: float,
) -> list[Context]:
    """Return a fused keyword and vector ranking for each query.

    Each search gives its best `pool`; vector scores count times `meaning`. All queries are embedded together.
    """
    vector_hits = vector_search.search_many(rows, questions, k=pool)
    keyword_hits = [keyword_search(rows, question, k=pool) for question in questions]
    return [Context.fuse(hits, weights=[1.0, meaning]) for hits in zip(keyword_hits, vector_hits, strict=True)]


def question_signature(question: str) -> str:
    """Return a key that ignores word order and case.

    >>> question_signature("Who mended the breakwater?") == question_signature("The breakwater: who has mended it?")
    True
    """
    return " ".join(sorted(tokens.content_tokens(question)))


def new_questions(questions: Iterable[str], earlier: Iterable[str]) -> list[str]:
    """Return the queries that repeat no earlier one.

    >>> queries = ["The ferry: when?", "  ", "Is the pier deep?", "Deep the pier is."]
    >>> new_questions(queries, earlier=["When is the ferry?"])
    ['Is the pier deep?']
    """
    signatures = {"", *map(question_signature, earlier)}
    distinct: list[str] = []
    for question in questions:
        if question_signature(question) not in signatures:
            signatures.add(question_signature(question))
            distinct.append(question.strip())
    return distinct


def merge_best(rankings: Iterable[Context]) -> Context:
    """Merge rankings; each row keeps its best score.

    Scores are not added: each part of a question has a passage of its own, which the other parts do not match
    (measured).
    """
    hits = [item for ranking in rankings for item in ranking]
    return Context(tuple(sorted(hits, key=lambda item: (-item.score, item.reference))))


# -- rows of the graph


def scale_scores(evidence: Iterable[Evidence]) -> Context:
    """Return the evidence by descending score, with a maximum of 1."""
    items = sorted(evidence, key=lambda item: -item.score)
    max_score = items[0].score if items and items[0].score > 0 else 1.0
    return Context(tuple(Evidence(item.table, item.record, max(item.score, 0.0) / max_score) for item in items))


def order_by_score(items: Iterable[Evidence]) -> Context:
    """Return the items by descending score; duplicates keep the best score."""
    return Context(tuple(sorted(items, key=lambda item: -item.score)))


def drop_same_text(items: Iterable[Evidence]) -> Context:
    """Drop items whose text repeats an earlier one.

    Rule-based extraction relates many entities by the same sentence.
    """
    first: dict[str, Evidence] = {}
    for item in items:
        first.setdefault(item.text, item)
    return Context(tuple(first.values()))


def relation_sort_key(item: Evidence) -> tuple[float, int, str]:
    """Return the sort key of relations: score, then weight, then id."""
    return -item.score, -getattr(item.record, "weight", 0), item.record.id


def share_budget(parts: Sequence[tuple[Context, float]], budget: int, tokenizer: Tokenizer) -> list[Context]:
    """Fit each part to its share of the budget.

    Unused tokens go to the other parts, in order.
    """
    fitted = [part.fit(int(budget * share), tokenizer) for part, share in parts]
    for i, (part, _) in enumerate(parts):
        used = sum(item.tokens(tokenizer) for j, other in enumerate(fitted) if j != i for item in other)
        fitted[i] = part.fit(budget - used, tokenizer)
    return fitted


def fuse_entities(exact: Iterable[Entity], searches: Sequence[Context], k: int) -> Context:
    """Return the best `k` entities from exact names and searches.

    Each search counts half as much as an exact name.
    """
    exact_hits = Context(tuple(Evidence("entities", entity, 1.0) for entity in exact))
    return scale_scores(Context.fuse([exact_hits, *searches], weights=[1.0, *(0.5 for _ in searches)]).top(k))


def relations_by_entity(relations: Table[Relation], ids: Sequence[str]) -> dict[str, list[str]]:
    """Return the relations of each entity, as source or target."""
    sources, targets = (relations.ids_grouped(end, ids) for end in ("source", "target"))
    return {id: [*sources[id], *targets[id]] for id in ids}


def source_chunk_scores(
    mentions: Table[Mention], ties: Table[RelationMention], entities: Context, relations: Context
) -> Mapping[str, float]:
    """Return the source chunks of entities and relations, with support scores.

    A chunk scores the sum of the rows that it is a source of.
    """
    sources = mentions.ids_grouped("entity", (item.record.id for item in entities))
    sources |= ties.ids_grouped("relation", (item.record.id for item in relations))
    support: dict[str, float] = defaultdict(float)
    for item in (*entities, *relations):
        for chunk in {id.rpartition(".")[0] for id in sources[item.record.id]}:
            support[chunk] += item.score
    return support


def rank_source_chunks(
    question: str,
    chunks: Table[Chunk],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    support: Mapping[str, float],
    pool: int,
    *,
    include_plain_hits: bool = True,
) -> Context:
    """Rank the source chunks together with the hits of plain search.

    Ranks by keywords, by meaning and by support are fused. include_plain_hits: whether to keep hits outside `support`.
    They are kept anyway if no chunk in `support` shares a word with the question.
    """
    keyword_hits, vector_hits = keyword_search(chunks, question, k=pool), Context()
    supported = Context(tuple(item for item in keyword_hits if item.record.id in support))
    if include_plain_hits or not supported:
        vector_hits = vector_search(chunks, question, k=pool)
    else:
        keyword_hits = supported
    if best_supported := sorted(support, key=lambda id: (-support[id], id))[:_MAX_SUPPORT_CHUNKS]:
        supported_hits = vector_search(chunks, question, k=pool, candidate_ids=best_supported)
        vector_hits = order_by_score([*vector_hits, *supported_hits])
    hits = [item for item in (*keyword_hits, *vector_hits) if item.record.id in support]
    supporting = Context(tuple(Evidence("chunks", item.record, support[item.record.id]) for item in hits))
    return scale_scores(Context.fuse([keyword_hits, vector_hits, supporting], weights=[1.0, 0.5, 0.5]))


# -- entities in a question


def link_entities(question: str, entities: Table[Entity]) -> tuple[list[Entity], str]:
    """Return the entities named in a question, and the remaining content words.

    Of overlapping names the longest counts.

    >>> from kumihimo.core.table import NO_ROWS, codec
    >>> link_entities("Who mended the breakwater, and who paid?", Table("entities", codec(Entity), NO_ROWS))
    ([], 'mended breakwater paid')
    """
    normalized = normalize("NFKC", question)
    spans = list(_find_spans(normalized, entities.get_many))
    starts, ends = [start for start, _, _ in spans], [end for _, end, _ in spans]
    rest = " ".join(normalized[end:start] for end, start in zip([0, *ends], [*starts, None], strict=True))
    words = [word.strip(_PUNCTUATION) for word in rest.split() if tokens.subject_terms(word)]
    return [entity for _, _, entity in spans], " ".join(words)


def link_entity_ids(question: str, mentions: Table[Mention]) -> list[str]:
    """Return the ids of the entities named in a question, each once."""

    def existing(ids: Iterable[str]) -> Mapping[str, str]:
        return {id: id for id, mention_ids in mentions.ids_grouped("entity", ids, limit=1).items() if mention_ids}

    return list(dict.fromkeys(id for _, _, id in _find_spans(normalize("NFKC", question), existing)))


def _find_spans(text: str, lookup: Callable[[Iterable[str]], Mapping[str, T]]) -> Iterator[tuple[int, int, T]]:
    """Yield the span [start, end) and entity of each name.

    lookup: returns the existing entities among these ids.
    """
    pieces = list(re.finditer(_PIECE_PATTERN, text))
    is_boundary = [_is_cjk(piece) or piece[0][0].isupper() or bool(tokens.subject_terms(piece[0])) for piece in pieces]
    names: dict[tuple[int, int], str] = {}
    for start in (start for start in range(len(pieces)) if is_boundary[start]):
        for end in range(_max_name_end(pieces, start), start, -1):
            if is_boundary[end - 1]:
                names[start, end] = text[pieces[start].start() : pieces[end - 1].end()]
    ids = {span: name_keys.entity_id(name_keys.name_key(name.strip(_PUNCTUATION))) for span, name in names.items()}
    existing = lookup(ids.values())
    last_end = 0
    for start, end in ids:
        entity = existing.get(ids[start, end])
        # A name has a subject term; "What" and "Will" have none
        if start >= last_end and entity and (_is_cjk(pieces[start]) or tokens.subject_terms(names[start, end])):
            yield pieces[start].start(), pieces[end - 1].end(), entity
            last_end = end


def _max_name_end(pieces: Sequence[re.Match[str]], start: int) -> int:
    """Return the longest possible end of a name that starts here.

    The limit is a number of words; in scripts without spaces, letters of one run.
    """
    end, max_pieces = start + 1, _MAX_NAME_CHARS if _is_cjk(pieces[start]) else _MAX_NAME_WORDS
    while end < min(len(pieces), start + max_pieces) and _is_contiguous(pieces[end - 1], pieces[end]):
        end += 1
    return end


def _is_contiguous(left: re.Match[str], right: re.Match[str]) -> bool:
    return left.end() == right.start() or not (_is_cjk(left) or _is_cjk(right))


def _is_cjk(piece: re.Match[str]) -> bool:
    return re.match(f"[{_CJK}]", piece[0]) is not None
