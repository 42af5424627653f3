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

from kumihimo.core.context import Ruler
from kumihimo.core.digests import digest
from kumihimo.core.records import Community, Mention, Report
from kumihimo.core.table import Table
from kumihimo.index.data_refs import mark, statements
from kumihimo.index.report_context import Graph, Near, cost, near
from kumihimo.index.report_render import OFTEN, markdown, rated
from kumihimo.text.sentences import is_row
from kumihimo.text.tokens import subjects

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

POOL = 48  # sentences that are compared
READ = 300  # mentions that are read at once; of more, those in chunks that name most members
FINDINGS = 10
COVERED = 0.95  # of the sentences' variance (SVD-RAG's value)
ALIKE = 0.7  # cosine from which one sentence makes another needless
LEADING = 3  # names in a title

_ENDED = re.compile(r"[.!?。！？][\"'”’」』)）*_]*\s*$")
_WIDE = re.compile("[\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence that names members of a community. chunk: where it stands. about: heading."""

    text: str
    chunk: str
    about: str
    weight: float = 1.0


def report(community: Community, graph: Graph, mentions: Table[Mention], ruler: Ruler) -> Report:
    """The most central and least redundant sentences of a community, each with its source.

    Sentences by terms, weighted by tf-idf, taken apart by SVD; of each component the sentence that has most of it
    (Steinberger and Ježek, 2004; SVD-RAG). A community with parts chooses among what its parts have chosen.
    """
    if community.children:
        return _inner(community, graph, mentions, ruler)
    found = near(graph, community.members)
    entities = found.entities
    sentences = _named(found, mentions) or [
        Sentence(e.text, "", e.name) for e in sorted(entities.values(), key=lambda e: (e.name, e.id)) if e.text
    ]
    rating, reason = rated(sum(entity.mentions for entity in entities.values()))
    elements = sum(map(cost, entities.values())) + sum(map(cost, found.edges))
    return _made(", ".join(_leading(found)), chosen(sentences), rating, reason, community.level, elements, ruler)


def chosen(sentences: Sequence[Sentence]) -> list[Sentence]:
    """For each of the main themes of the sentences, the one that says most of it; none is much like another.

    Of sentences that say as much, the first.
    """
    words = [_subjects(sentence.text) for sentence in sentences]
    sentences = [sentence for sentence, found in zip(sentences, words, strict=True) if found]
    if len(sentences) < 2:
        return list(sentences)
    similar, shares = _themes([found for found in words if found], [sentence.weight for sentence in sentences])
    taken: list[int] = []
    for share in shares:
        free = [i for i in range(len(sentences)) if i not in taken and all(similar[i, j] < ALIKE for j in taken)]
        if not free:
            break
        taken.append(max(free, key=lambda i: (share[i], -i)))
    return [sentences[i] for i in taken]


def _themes(words: list[tuple[str, ...]], weights: list[float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
    count = int(np.searchsorted(np.round(values.cumsum() / values.sum(), 6), COVERED)) + 1
    return similar, np.round(np.abs(vectors[:, : min(count, FINDINGS)]).T, 6)


@lru_cache(maxsize=4096)  # what a leaf has chosen is looked at again on each level above it
def _subjects(text: str) -> tuple[str, ...]:
    return tuple(subjects(text))


# -- of a leaf


def _named(found: Near, mentions: Table[Mention]) -> list[Sentence]:
    """The sentences that name members, each once; those that name most come first, the rest in no order but a fixed."""
    members: dict[str, set[str]] = {}
    first: dict[str, Mention] = {}
    for mention in sorted(_mentions(found, mentions), key=lambda m: m.id):
        key = " ".join(mention.text.casefold().split())
        first.setdefault(key, mention)
        members.setdefault(key, set()).add(mention.entity)
    fit = [key for key in first if _fits(key)] or list(first)
    fit = [key for key in fit if _tells(first[key].text)] or fit
    order = sorted(fit, key=lambda key: (-len(members[key]), digest(key)))[:POOL]
    return [
        Sentence(
            " ".join(first[key].text.split()),
            first[key].id.rpartition(".")[0],
            ", ".join(sorted(found.entities[id].name for id in members[key])[:LEADING]),
            1 + log(len(members[key])),
        )
        for key in order
    ]


def _mentions(found: Near, mentions: Table[Mention]) -> list[Mention]:
    """All of them where they are few; else so many, from the chunks that name most members."""
    if sum(entity.mentions for entity in found.entities.values()) <= READ:
        return [mention for id in found.entities for mention in mentions.where(entity=id)]
    ids = [id for entity in found.entities for id in mentions.ids(entity=entity)]
    named = Counter(_chunk(id) for id in ids)
    best = sorted(ids, key=lambda id: (-named[_chunk(id)], digest(_chunk(id)), id))[:READ]
    return [mention for id in best if (mention := mentions.get(id))]


def _chunk(mention: str) -> str:
    return mention.rpartition(".")[0]


def _fits(text: str) -> bool:
    """Whether it is as long as a sentence: 5 to 60 words, or 12 to 200 characters of Japanese or Chinese.

    >>> [_fits(text) for text in ("Marley.", "Marley was dead, to begin with.", "組紐は十月に工房から届きます。")]
    [False, True, True]
    """
    if 3 * len(_WIDE.findall(text)) > len(text):
        return 12 <= len(text) <= 200
    return 5 <= text.count(" ") + 1 <= 60


def _tells(text: str) -> bool:
    """Whether it is a sentence that ends as one does, not a row of a table or little but names.

    >>> [_tells(text) for text in ("**Present:** Dessa Crake, Joss Kerrow.", "Kerrow lost the key.", "What it is for")]
    [False, True, False]
    """
    words = text.split()
    capital = sum(word.lstrip("*_(\"'“‘")[:1].isupper() for word in words)
    return bool(_ENDED.search(text)) and 5 * capital <= 2 * len(words) and not is_row(text)


def _leading(found: Near) -> list[str]:
    """The names of the members whose edges to others weigh most."""
    weights: Counter[str] = Counter()
    for edge in found.edges:
        weights.update({edge.source: edge.weight, edge.target: edge.weight})
    ranked = sorted(found.entities.values(), key=lambda e: (-weights[e.id], -e.mentions, e.name, e.id))
    return [entity.name for entity in ranked[:LEADING]]


# -- of a community with parts


def _inner(community: Community, graph: Graph, mentions: Table[Mention], ruler: Ruler) -> Report:
    children = [child for id in community.children if (child := graph.communities.get(id))]
    parts = [(child, graph.reports.get(child.id) or report(child, graph, mentions, ruler)) for child in children]
    parts.sort(key=lambda part: (-part[1].rating, part[1].title, part[1].text))
    leaders = [_leader(child, graph) for child, _ in parts[:LEADING]]
    named = round(sum(exp(part.rating / 10 * log(1 + OFTEN)) - 1 for _, part in parts))
    return _made(
        ", ".join(dict.fromkeys(filter(None, leaders))),
        chosen(_pooled([_said(part) for _, part in parts])),
        rated(named)[0],
        f"Its parts are named about {named} times.",
        community.level,
        sum(part.elements for _, part in parts),
        ruler,
    )


def _leader(community: Community, graph: Graph) -> str:
    """The name that leads the largest leaf of the largest part."""
    while community.children:
        sizes = {id: part.elements for id in community.children if (part := graph.reports.get(id))}
        largest = min(community.children, key=lambda id: (-sizes.get(id, 0), id))
        child = graph.communities.get(largest)
        if not child:
            return ""
        community = child
    return next(iter(_leading(near(graph, community.members))), "")


def _said(part: Report) -> list[Sentence]:
    """The sentences that a part's report is made of."""
    chunks = {number: id for table, number, id in part.data if table == "chunks"}
    said = [(part.title, part.summary), *part.findings]
    return [
        Sentence(text, chunks.get(named.get("chunks", [0])[0], ""), about)
        for about, explanation in said
        for text, named in statements(explanation)
    ]


def _pooled(parts: Sequence[Sequence[Sentence]]) -> list[Sentence]:
    """The first sentence of each part, then the second; each once, weighted by how many parts have chosen it."""
    first: dict[str, Sentence] = {}
    times: Counter[str] = Counter()
    for row in zip_longest(*parts):
        for sentence in filter(None, row):
            first.setdefault(sentence.text, sentence)
            times[sentence.text] += 1
    return [replace(first[text], weight=1 + log(times[text])) for text in list(first)[:POOL]]


def _made(
    title: str, picked: Sequence[Sentence], rating: float, reason: str, level: int, elements: int, ruler: Ruler
) -> Report:
    """The report of these sentences: the first two sum it up, the others are its findings."""
    numbers = {chunk: n for n, chunk in enumerate(dict.fromkeys(s.chunk for s in picked if s.chunk), 1)}
    said = [" ".join(filter(None, [s.text, mark({"chunks": [numbers[s.chunk]] if s.chunk else []})])) for s in picked]
    summary = " ".join(said[:2])
    findings = tuple(zip((s.about for s in picked[2:]), said[2:], strict=True))
    text = markdown(title, summary, findings)
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
        tokens=len(ruler(text)),
        extractive=True,
        text=text,
    )
