"""a community and the sentences that name its members -> a report made of the most telling of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import zip_longest
from math import exp, log
from typing import TYPE_CHECKING

from kumihimo.core.context import Tokenizer
from kumihimo.core.digests import hash_parts
from kumihimo.core.records import Community, Mention, Report
from kumihimo.core.table import Table
from kumihimo.index.data_refs import format_reference, split_cited_statements
from kumihimo.index.report_context import CommunitySubgraph, ReportTables, community_subgraph, line_tokens
from kumihimo.index.report_render import TOP_RATING_MENTIONS, rate_mentions, report_markdown
from kumihimo.text.sentences import is_table_row
from kumihimo.text.tokens import subject_terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_SENTENCES = 48  # sentences that are compared
MAX_MENTIONS = 300  # mentions that are read at once; of more, those in chunks that name most members
MAX_THEMES = 10
COVERED_VARIANCE = 0.95  # of the sentences' variance (SVD-RAG's value)
MAX_SIMILARITY = 0.7  # cosine from which one sentence makes another needless
MAX_TITLE_NAMES = 3  # names in a title

_SENTENCE_END = re.compile(r"[.!?。！？][\"'”’」』)）*_]*\s*$")
_CJK_LETTER = re.compile("[\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True, slots=True)
class MemberSentence:
    """A sentence that names members of a community. chunk: where it stands. about: heading."""

    text: str
    chunk: str
    heading: str
    weight: float = 1.0


def build_extractive_report(
    community: Community, graph: ReportTables, mentions: Table[Mention], tokenizer: Tokenizer
) -> Report:
    """The most central and least redundant sentences of a community, each with its source.

    Sentences by terms, weighted by tf-idf, taken apart by SVD; of each component the sentence that has most of it
    (Steinberger and Ježek, 2004; SVD-RAG). A community with parts chooses among what its parts have chosen.
    """
    if community.children:
        return _report_from_parts(community, graph, mentions, tokenizer)
    found = community_subgraph(graph, community.members)
    entities = found.entities
    sentences = _member_sentences(found, mentions) or [
        MemberSentence(e.text, "", e.name) for e in sorted(entities.values(), key=lambda e: (e.name, e.id)) if e.text
    ]
    rating, reason = rate_mentions(sum(entity.mentions for entity in entities.values()))
    elements = sum(map(line_tokens, entities.values())) + sum(map(line_tokens, found.edges))
    return _make_report(
        ", ".join(_leading_names(found)),
        select_sentences(sentences),
        rating,
        reason,
        community.level,
        elements,
        tokenizer,
    )


def select_sentences(sentences: Sequence[MemberSentence]) -> list[MemberSentence]:
    """For each of the main themes of the sentences, the one that says most of it; none is much like another.

    Of sentences that say as much, the first.
    """
    words = [_subject_terms(sentence.text) for sentence in sentences]
    sentences = [sentence for sentence, found in zip(sentences, words, strict=True) if found]
    if len(sentences) < 2:
        return list(sentences)
    similar, shares = _sentence_themes([found for found in words if found], [sentence.weight for sentence in sentences])
    taken: list[int] = []
    for share in shares:
        free = [
            i for i in range(len(sentences)) if i not in taken and all(similar[i, j] < MAX_SIMILARITY for j in taken)
        ]
        if not free:
            break
        taken.append(max(free, key=lambda i: (share[i], -i)))
    return [sentences[i] for i in taken]


def _sentence_themes(
    words: list[tuple[str, ...]], weights: list[float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cosines of sentences, shape (n, n); how much each has of each theme, shape (themes, n), the main theme first.

    Sentences in front weigh a hair more, so that no two themes weigh the same, whose sentences any machine could
    mix as it likes; and both are rounded, so that the last bits decide nothing.
    """
    import numpy as np

    terms = {term: i for i, term in enumerate(dict.fromkeys(term for found in words for term in found))}
    matrix = np.zeros((len(words), len(terms)))
    for row, found in zip(matrix, words, strict=True):
        row[[terms[term] for term in found]] = 1
    matrix *= np.log(1 + len(words) / matrix.sum(axis=0))
    matrix /= np.sqrt((matrix**2).sum(axis=1, keepdims=True))
    similar = np.round(matrix @ matrix.T, 6)
    scale = np.array(weights) * (1 + 1e-4 * np.arange(len(words), 0, -1) / len(words))
    values, vectors = np.linalg.eigh(similar * np.outer(scale, scale))  # of A Aᵀ: squares of A's singular values
    values, vectors = np.maximum(values[::-1], 0), vectors[:, ::-1]
    count = int(np.searchsorted(np.round(values.cumsum() / values.sum(), 6), COVERED_VARIANCE)) + 1
    return similar, np.round(np.abs(vectors[:, : min(count, MAX_THEMES)]).T, 6)


@lru_cache(maxsize=4096)  # what a leaf has chosen is looked at again on each level above it
def _subject_terms(text: str) -> tuple[str, ...]:
    return tuple(subject_terms(text))


# -- of a leaf


def _member_sentences(found: CommunitySubgraph, mentions: Table[Mention]) -> list[MemberSentence]:
    """The sentences that name members, each once; those that name most come first, the rest in no order but a fixed."""
    members: dict[str, set[str]] = {}
    first: dict[str, Mention] = {}
    for mention in sorted(_select_mentions(found, mentions), key=lambda m: m.id):
        key = " ".join(mention.text.casefold().split())
        first.setdefault(key, mention)
        members.setdefault(key, set()).add(mention.entity)
    fit = [key for key in first if _has_sentence_length(key)] or list(first)
    fit = [key for key in fit if _is_prose(first[key].text)] or fit
    order = sorted(fit, key=lambda key: (-len(members[key]), hash_parts(key)))[:MAX_SENTENCES]
    return [
        MemberSentence(
            " ".join(first[key].text.split()),
            first[key].id.rpartition(".")[0],
            ", ".join(sorted(found.entities[id].name for id in members[key])[:MAX_TITLE_NAMES]),
            1 + log(len(members[key])),
        )
        for key in order
    ]


def _select_mentions(found: CommunitySubgraph, mentions: Table[Mention]) -> list[Mention]:
    """All of them where they are few; else so many, from the chunks that name most members."""
    if sum(entity.mentions for entity in found.entities.values()) <= MAX_MENTIONS:
        return [mention for id in found.entities for mention in mentions.where(entity=id)]
    ids = [id for entity in found.entities for id in mentions.ids(entity=entity)]
    named = Counter(_chunk_id(id) for id in ids)
    best = sorted(ids, key=lambda id: (-named[_chunk_id(id)], hash_parts(_chunk_id(id)), id))[:MAX_MENTIONS]
    return [mention for id in best if (mention := mentions.get(id))]


def _chunk_id(mention: str) -> str:
    return mention.rpartition(".")[0]


def _has_sentence_length(text: str) -> bool:
    """Whether it is as long as a sentence: 5 to 60 words, or 12 to 200 characters of Japanese or Chinese.

    >>> [_fits(text) for text in ("Marley.", "Marley was dead, to begin with.", "組紐は十月に工房から届きます。")]
    [False, True, True]
    """
    if 3 * len(_CJK_LETTER.findall(text)) > len(text):
        return 12 <= len(text) <= 200
    return 5 <= text.count(" ") + 1 <= 60


def _is_prose(text: str) -> bool:
    """Whether it is a sentence that ends as one does, not a row of a table or little but names.

    >>> [_tells(text) for text in ("**Present:** Dessa Crake, Joss Kerrow.", "Kerrow lost the key.", "What it is for")]
    [False, True, False]
    """
    words = text.split()
    capital = sum(word.lstrip("*_(\"'“‘")[:1].isupper() for word in words)
    return bool(_SENTENCE_END.search(text)) and 5 * capital <= 2 * len(words) and not is_table_row(text)


def _leading_names(found: CommunitySubgraph) -> list[str]:
    """The names of the members whose edges to others weigh most."""
    weights: Counter[str] = Counter()
    for edge in found.edges:
        weights.update({edge.source: edge.weight, edge.target: edge.weight})
    ranked = sorted(found.entities.values(), key=lambda e: (-weights[e.id], -e.mentions, e.name, e.id))
    return [entity.name for entity in ranked[:MAX_TITLE_NAMES]]


# -- of a community with parts


def _report_from_parts(
    community: Community, graph: ReportTables, mentions: Table[Mention], tokenizer: Tokenizer
) -> Report:
    children = [child for id in community.children if (child := graph.communities.get(id))]
    parts = [
        (child, graph.reports.get(child.id) or build_extractive_report(child, graph, mentions, tokenizer))
        for child in children
    ]
    parts.sort(key=lambda part: (-part[1].rating, part[1].title, part[1].text))
    leaders = [_leading_name(child, graph) for child, _ in parts[:MAX_TITLE_NAMES]]
    named = round(sum(exp(part.rating / 10 * log(1 + TOP_RATING_MENTIONS)) - 1 for _, part in parts))
    return _make_report(
        ", ".join(dict.fromkeys(filter(None, leaders))),
        select_sentences(_pool_sentences([_report_sentences(part) for _, part in parts])),
        rate_mentions(named)[0],
        f"Its parts are named about {named} times.",
        community.level,
        sum(part.elements for _, part in parts),
        tokenizer,
    )


def _leading_name(community: Community, graph: ReportTables) -> str:
    """The name that leads the largest leaf of the largest part."""
    while community.children:
        sizes = {id: part.elements for id in community.children if (part := graph.reports.get(id))}
        largest = min(community.children, key=lambda id: (-sizes.get(id, 0), id))
        child = graph.communities.get(largest)
        if not child:
            return ""
        community = child
    return next(iter(_leading_names(community_subgraph(graph, community.members))), "")


def _report_sentences(part: Report) -> list[MemberSentence]:
    """The sentences that a part's report is made of."""
    chunks = {number: id for table, number, id in part.data if table == "chunks"}
    said = [(part.title, part.summary), *part.findings]
    return [
        MemberSentence(text, chunks.get(named.get("chunks", [0])[0], ""), about)
        for about, explanation in said
        for text, named in split_cited_statements(explanation)
    ]


def _pool_sentences(parts: Sequence[Sequence[MemberSentence]]) -> list[MemberSentence]:
    """The first sentence of each part, then the second; each once, weighted by how many parts have chosen it."""
    first: dict[str, MemberSentence] = {}
    times: Counter[str] = Counter()
    for row in zip_longest(*parts):
        for sentence in filter(None, row):
            first.setdefault(sentence.text, sentence)
            times[sentence.text] += 1
    return [replace(first[text], weight=1 + log(times[text])) for text in list(first)[:MAX_SENTENCES]]


def _make_report(
    title: str,
    picked: Sequence[MemberSentence],
    rating: float,
    reason: str,
    level: int,
    elements: int,
    tokenizer: Tokenizer,
) -> Report:
    """The report of these sentences: the first two sum it up, the others are its findings."""
    numbers = {chunk: n for n, chunk in enumerate(dict.fromkeys(s.chunk for s in picked if s.chunk), 1)}
    said = [
        " ".join(filter(None, [s.text, format_reference({"chunks": [numbers[s.chunk]] if s.chunk else []})]))
        for s in picked
    ]
    summary = " ".join(said[:2])
    findings = tuple(zip((s.heading for s in picked[2:]), said[2:], strict=True))
    text = report_markdown(title, summary, findings)
    data = tuple(("chunks", n, chunk) for chunk, n in numbers.items())
    return Report(
        title,
        summary,
        rating,
        reason,
        findings,
        data,
        dropped=0,
        level=level,
        elements=elements,
        tokens=len(tokenizer(text)),
        extractive=True,
        text=text,
    )
