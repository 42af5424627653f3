"""a community -> its report by rule: the sentences about its members, or the rows of a small one."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, zip_longest
from math import exp, log

from kumihimo.core.context import Tokenizer
from kumihimo.core.digests import hash_parts
from kumihimo.core.records import Community, Entity, Mention, Reference, Report
from kumihimo.core.table import Table
from kumihimo.index import data_refs, report_context
from kumihimo.index.report_context import ReportContext
from kumihimo.text.sentences import ends_sentence, is_table_row
from kumihimo.text.tokens import subject_terms

MAX_SENTENCES = 48  # sentences to compare
MAX_MENTIONS = 300  # of more, the ones in chunks that name most members
MAX_THEMES = 10
COVERED_VARIANCE = 0.95  # of the sentences' variance; the value of SVD-RAG
MAX_SIMILARITY = 0.7  # cosine; sentences at least so similar are duplicates
MAX_TITLE_NAMES = 3

_CJK_LETTER = re.compile("[\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True, slots=True)
class MemberSentence:
    """A sentence that names members of a community.

    chunk: the id of its chunk. heading: the title of its finding.
    """

    text: str
    chunk: str
    heading: str
    weight: float = 1.0


def build_extractive_report(community: Community, graph: report_context.ReportTables, tokenizer: Tokenizer) -> Report:
    """Build a report from the most central sentences of a community.

    Each sentence cites its source. SVD decomposes the matrix of sentences by terms, weighted by tf-idf. The report
    takes the sentence with the largest share of each component (Steinberger and Ježek, 2004; SVD-RAG). A community
    with parts selects from the sentences that its parts selected.
    """
    if community.children:
        report = _report_from_parts(community, graph, tokenizer)
    else:
        report = _report_from_members(community, graph)
    return report_context.add_report_text(report, tokenizer)


def select_sentences(sentences: Sequence[MemberSentence]) -> list[MemberSentence]:
    """Select the main sentence of each theme, without near-duplicates.

    Of equal sentences, the first wins.
    """
    worded = [(sentence, terms) for sentence in sentences if (terms := _subject_terms(sentence.text))]
    sentences = [sentence for sentence, _ in worded]
    if len(sentences) < 2:
        return sentences
    similar, shares = _sentence_themes([terms for _, terms in worded], [sentence.weight for sentence in sentences])
    selected: list[int] = []
    for share in shares:
        candidates = [
            i for i in range(len(sentences)) if all(i != j and similar[i][j] < MAX_SIMILARITY for j in selected)
        ]
        if not candidates:
            break
        selected.append(max(candidates, key=lambda i: (share[i], -i)))
    return [sentences[i] for i in selected]


def _sentence_themes(words: list[tuple[str, ...]], weights: list[float]) -> tuple[list[list[float]], list[list[float]]]:
    """Return the sentences' cosines, and their shares in each theme.

    Shapes are (n, n) and (themes, n), the main theme first. Earlier sentences weigh slightly more, so that no two
    themes weigh the same: machines could mix the sentences of such themes differently. Both results are rounded, so
    that the last bits decide nothing.
    """
    import numpy as np

    terms = {term: i for i, term in enumerate(dict.fromkeys(chain.from_iterable(words)))}
    matrix = np.zeros((len(words), len(terms)))
    for row, sentence_terms in zip(matrix, words, strict=True):
        row[[terms[term] for term in sentence_terms]] = 1
    matrix *= np.log(1 + len(words) / matrix.sum(axis=0))
    matrix /= np.sqrt((matrix**2).sum(axis=1, keepdims=True))
    similar = np.round(matrix @ matrix.T, 6)
    scale = np.array(weights) * (1 + 1e-4 * np.arange(len(words), 0, -1) / len(words))
    values, vectors = np.linalg.eigh(similar * np.outer(scale, scale))  # of A Aᵀ: the squares of A's singular values
    values, vectors = np.maximum(values[::-1], 0), vectors[:, ::-1]
    count = int(np.searchsorted(np.round(values.cumsum() / values.sum(), 6), COVERED_VARIANCE)) + 1
    return similar.tolist(), np.round(np.abs(vectors[:, : min(count, MAX_THEMES)]).T, 6).tolist()


@lru_cache(maxsize=4096)  # each level above a leaf reads the leaf's sentences again
def _subject_terms(text: str) -> tuple[str, ...]:
    return tuple(subject_terms(text))


def _report_from_members(community: Community, graph: report_context.ReportTables) -> Report:
    """Build the report of a leaf community."""
    subgraph = report_context.community_subgraph(graph, community.members)
    entities = subgraph.entities
    sentences = list(_member_sentences(subgraph, graph.mentions)) or [
        MemberSentence(e.text, "", e.name) for e in sorted(entities.values(), key=lambda e: (e.name, e.id)) if e.text
    ]
    rating, reason = report_context.rate_mentions(sum(entity.mentions for entity in entities.values()))
    line_tokens = report_context.line_tokens
    elements = sum(map(line_tokens, entities.values())) + sum(map(line_tokens, subgraph.edges))
    return _make_report(community, ", ".join(_leading_names(subgraph)), sentences, rating, reason, elements)


def _member_sentences(subgraph: report_context.CommunitySubgraph, mentions: Table[Mention]) -> Iterator[MemberSentence]:
    """Yield the distinct sentences that name members.

    Sentences with most members come first. A digest orders the rest, so the order is fixed but arbitrary.
    """
    members: dict[str, set[str]] = {}
    mention_by_key: dict[str, Mention] = {}
    for mention in sorted(_select_mentions(subgraph, mentions), key=lambda m: m.id):
        key = " ".join(mention.text.casefold().split())
        mention_by_key.setdefault(key, mention)
        members.setdefault(key, set()).add(mention.entity)
    usable = [key for key in mention_by_key if _has_sentence_length(key)] or list(mention_by_key)
    usable = [key for key in usable if _is_prose(mention_by_key[key].text)] or usable
    order = sorted(usable, key=lambda key: (-len(members[key]), hash_parts(key)))[:MAX_SENTENCES]
    for key in order:
        text, chunk = " ".join(mention_by_key[key].text.split()), _chunk_id(mention_by_key[key].id)
        names = sorted(subgraph.entities[id].name for id in members[key])
        yield MemberSentence(text, chunk, ", ".join(names[:MAX_TITLE_NAMES]), 1 + log(len(names)))


def _select_mentions(subgraph: report_context.CommunitySubgraph, mentions: Table[Mention]) -> list[Mention]:
    """Return all mentions, or MAX_MENTIONS if there are more.

    The latter are from the chunks that name most members.
    """
    if sum(entity.mentions for entity in subgraph.entities.values()) <= MAX_MENTIONS:
        return list(chain(*mentions.where_grouped("entity", subgraph.entities).values()))
    ids = list(chain(*mentions.ids_grouped("entity", subgraph.entities).values()))
    chunk_counts = Counter(_chunk_id(id) for id in ids)
    best_ids = sorted(ids, key=lambda id: (-chunk_counts[_chunk_id(id)], hash_parts(_chunk_id(id)), id))[:MAX_MENTIONS]
    return list(mentions.get_many(best_ids).values())


def _chunk_id(mention: str) -> str:
    return mention.rpartition(".")[0]


def _has_sentence_length(text: str) -> bool:
    """Return whether a text is as long as a sentence.

    That is 5 to 60 words, or 12 to 200 characters of Japanese or Chinese.

    >>> texts = ("Marley.", "Marley was dead, to begin with.", "組紐は十月に工房から届きます。")
    >>> [_has_sentence_length(text) for text in texts]
    [False, True, True]
    """
    if 3 * len(_CJK_LETTER.findall(text)) > len(text):
        return 12 <= len(text) <= 200
    return 5 <= text.count(" ") + 1 <= 60


def _is_prose(text: str) -> bool:
    """Return whether a text is a full sentence of prose.

    A row of a table is none, nor a list of names, nor a text without a stop.

    >>> texts = ("**Present:** Dessa Crake, Joss Kerrow.", "Kerrow lost the key.", "What it is for")
    >>> [_is_prose(text) for text in texts]
    [False, True, False]
    """
    words = text.split()
    capitalised = sum(word.lstrip("*_(\"'“‘")[:1].isupper() for word in words)
    return ends_sentence(text) and 5 * capitalised <= 2 * len(words) and not is_table_row(text)


def _leading_names(subgraph: report_context.CommunitySubgraph) -> list[str]:
    """Return the names of the most distinctive members.

    A member counts by the weight of its edges in the community, times their share of all its edges.
    """
    weights, inner_degrees = Counter[str](), Counter[str]()
    for edge in subgraph.edges:
        weights.update({edge.source: edge.weight, edge.target: edge.weight})
        inner_degrees.update((edge.source, edge.target))
    scores = {id: weights[id] * inner_degrees[id] / max(degree, 1) for id, degree in subgraph.degrees.items()}
    ranked = sorted(subgraph.entities.values(), key=lambda e: (-scores[e.id], -e.mentions, e.name, e.id))
    return [entity.name for entity in ranked[:MAX_TITLE_NAMES]]


def _report_from_parts(community: Community, graph: report_context.ReportTables, tokenizer: Tokenizer) -> Report:
    """Build the report of a community from the reports of its parts."""
    children = graph.communities.get_many(community.children)
    reports = graph.reports.get_many(children)
    parts = [(child, _extractive_report(child, reports.get(id), graph, tokenizer)) for id, child in children.items()]
    parts.sort(key=lambda part: (-part[1].rating, part[1].title, part[1].text))
    leaders = [_leading_name(child, graph) for child, _ in parts[:MAX_TITLE_NAMES]]
    scale = log(1 + report_context.TOP_RATING_MENTIONS)
    mention_count = round(sum(exp(part.rating / 10 * scale) - 1 for _, part in parts))
    rating, reason = report_context.rate_mentions(mention_count)[0], f"Its parts are named about {mention_count} times."
    sentences = _pool_sentences([_report_sentences(part) for _, part in parts])
    title = ", ".join(dict.fromkeys(filter(None, leaders)))
    return _make_report(community, title, sentences, rating, reason, sum(part.elements for _, part in parts))


def _extractive_report(
    community: Community, report: Report | None, graph: report_context.ReportTables, tokenizer: Tokenizer
) -> Report:
    """Return the report of a part: sentences, no text of a model."""
    return report if report and report.extractive else build_extractive_report(community, graph, tokenizer)


def _leading_name(community: Community, graph: report_context.ReportTables) -> str:
    """Return the leading name of the largest leaf of the largest part."""
    while community.children:
        sizes = {id: part.elements for id, part in graph.reports.get_many(community.children).items()}
        largest = min(community.children, key=lambda id: (-sizes.get(id, 0), id))
        child = graph.communities.get(largest)
        if not child:
            return ""
        community = child
    return next(iter(_leading_names(report_context.community_subgraph(graph, community.members))), "")


def _report_sentences(part: Report) -> list[MemberSentence]:
    """Return the sentences in the report of a part."""
    summary = zip_longest(part.summary.splitlines(), data_refs.sources_of(part, 0))
    sentences = [(part.title, line or "", source) for line, source in summary]
    for n, (heading, text) in enumerate(part.findings, 1):
        sentences.append((heading, text, next(iter(data_refs.sources_of(part, n)), None)))
    return [MemberSentence(text, source[1] if source else "", heading) for heading, text, source in sentences if text]


def _pool_sentences(parts: Sequence[Sequence[MemberSentence]]) -> list[MemberSentence]:
    """Return the first sentence of each part, then the second ones.

    A sentence appears once, weighted by the number of parts that selected it.
    """
    by_text: dict[str, MemberSentence] = {}
    counts: Counter[str] = Counter()
    for row in zip_longest(*parts):
        for sentence in filter(None, row):
            by_text.setdefault(sentence.text, sentence)
            counts[sentence.text] += 1
    return [replace(by_text[text], weight=1 + log(counts[text])) for text in list(by_text)[:MAX_SENTENCES]]


def _make_report(
    community: Community, title: str, sentences: Sequence[MemberSentence], rating: float, reason: str, elements: int
) -> Report:
    """Build a report; two sentences are the summary, the rest findings."""
    selected = select_sentences(sentences)
    sources = [(("chunks", s.chunk),) if s.chunk else () for s in selected]
    return Report(
        title=title,
        summary="\n".join(sentence.text for sentence in selected[:2]),
        rating=rating,
        reason=reason,
        findings=tuple((sentence.heading, sentence.text) for sentence in selected[2:]),
        sources=(tuple(chain.from_iterable(sources[:2])), *sources[2:]),
        dropped=0,
        level=community.level,
        elements=elements,
        tokens=0,
        extractive=True,
    )


MAX_FINDINGS = 10  # of a report of rows

Finding = tuple[str, str, tuple[Reference, ...]]  # heading, text, rows


def build_row_report(community: Community, context: ReportContext) -> Report:
    """Build a report of the rows of a community, without a model.

    The summary describes the entity with most mentions. Each finding is on one entity: its description, its relations
    to entities of earlier findings, and its claims. Parts that are too long for `context` are findings too.
    """
    entities = sorted(context.entities, key=lambda entity: (-entity.mentions, entity.name, entity.id))
    parts: list[Finding] = [(report.title, report.summary, (("reports", report.id),)) for report in context.reports]
    described = [*_describe_entities(entities, context), *(part for part in parts if part[1])]
    names = [entity.name for entity in entities] + [report.title for report in context.reports]
    first, *rest = described or [("", "", ())]
    findings = rest[:MAX_FINDINGS]
    rating, reason = report_context.rate_mentions(sum(entity.mentions for entity in entities))
    return Report(
        title=", ".join(names[:MAX_TITLE_NAMES]),
        summary=first[1],
        rating=rating,
        reason=reason,
        findings=tuple((heading, text) for heading, text, _ in findings),
        sources=(first[2], *(rows for _, _, rows in findings)),
        dropped=0,
        level=community.level,
        elements=context.elements,
        tokens=0,
        extractive=False,
    )


def _describe_entities(entities: list[Entity], context: ReportContext) -> Iterator[Finding]:
    """Yield what the rows say about each entity, each row once."""
    seen: set[str] = set()
    for entity in entities:
        seen.add(entity.id)
        relations = [r for r in context.relations if entity.id in (r.source, r.target) and {r.source, r.target} <= seen]
        claims = [claim for claim in context.claims if claim.subject == entity.id]
        texts = [entity.text, *(relation.text for relation in relations), *(claim.text for claim in claims)]
        sources = [("entities", entity.id)]
        sources += [("relations", relation.id) for relation in relations]
        sources += [("claims", claim.id) for claim in claims]
        if lines := list(dict.fromkeys(filter(None, texts))):
            yield entity.name, "\n".join(lines), tuple(sources)
