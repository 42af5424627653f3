"""question -> the entities it is about, and what is said of them: relations, claims, reports, chunks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import combinations
from unicodedata import normalize

from kumihimo.core.context import Context, Evidence, Ruler
from kumihimo.core.records import Chunk, Claim, Community, Entity, Member, Mention, Relation, Report, Tie
from kumihimo.core.table import Table
from kumihimo.index.naming import entity_id, key, relation_id
from kumihimo.ports.models import Match, Near
from kumihimo.views.words import subjects

_WORDS = 6  # in a name of the question, at most
_LETTERS = 12  # of a script without spaces
_WIDE = "々〆ー\u3040-\u30ff\u3400-\u9fff"
_PIECES = rf"[{_WIDE}]|[^\s{_WIDE}]+"
_EDGES = " \t\n.,;:!?\"'()[]{}“”‘’«»。、・？！「」『』（）"
_BOTH = 0.5  # what it counts for a relation, beside its cosine, that both of its ends were found
_CLAIMS = 10
_REPORTS = 5  # that are looked at: a report may have to be written first
_SUPPORT = 300  # chunks behind what was found that are looked at, those behind most of it first


def local(
    question: str,
    chunks: Table[Chunk],
    mentions: Table[Mention],
    ties: Table[Tie],
    entities: Table[Entity],
    relations: Table[Relation],
    claims: Table[Claim],
    communities: Table[Community],
    members: Table[Member],
    reports: Table[Report],
    match: Match,
    near: Near,
    ruler: Ruler,
    *,
    k: int = 10,
    edges: int = 10,
    pool: int = 20,
    budget: int = 12000,
    text: float = 0.5,
    whole: float = 0.15,
) -> Context:
    """Entities near the question and what is said of them, in one budget (GraphRAG, local search).

    Shares of the budget: `text` for chunks, `whole` for reports, the rest for entities, relations and claims; what one
    does not use the others may. edges: relations that each of the `k` entities may bring, however many it has. Scores:
    each table's best has 1; chunks stand before what is made of them where scores are equal.
    But: entities are sought by name and words too; relations are ranked by their nearness to the question, not by
    degree; chunks that plain search finds are among the others; a piece that does not fit gives way to the next.
    """
    found = _entities(question, entities, match, near, k)
    ids = [item.record.id for item in found]
    tied = _relations(question, relations, near, ids, edges)
    claimed = _claims(question, claims, near, ids)
    told = _reports(members, communities, reports, ids)
    behind = _behind(mentions, ties, ids, [item.record.id for item in tied])
    read = _chunks(question, chunks, match, near, behind, pool)
    graph = _distinct(sorted([*found, *tied, *claimed], key=lambda item: -item.score))
    parts = shared([(told, whole), (graph, 1 - text - whole), (read, text)], budget, ruler)
    return Context(tuple(sorted([*parts[2], *parts[1], *parts[0]], key=lambda item: -item.score)))


def shared(parts: Sequence[tuple[Context, float]], budget: int, ruler: Ruler) -> list[Context]:
    """What of each part fits into its share of the budget; what the others leave is given to one after the other."""
    kept = [part.fit(int(budget * share), ruler) for part, share in parts]
    for i, (part, _) in enumerate(parts):
        others = sum(item.tokens(ruler) for j, other in enumerate(kept) if j != i for item in other)
        kept[i] = part.fit(budget - others, ruler)
    return kept


def _scaled(found: Iterable[Evidence]) -> Context:
    """Best first, the best with a score of 1."""
    items = sorted(found, key=lambda item: -item.score)
    best = items[0].score if items and items[0].score > 0 else 1.0
    return Context(tuple(Evidence(item.table, item.record, max(item.score, 0.0) / best) for item in items))


def _distinct(items: Iterable[Evidence]) -> Context:
    """Of those that say the same the first: by rule, one sentence ties many."""
    first: dict[str, Evidence] = {}
    for item in items:
        first.setdefault(item.text, item)
    return Context(tuple(first.values()))


def _entities(question: str, entities: Table[Entity], match: Match, near: Near, k: int) -> Context:
    """Those that the question names, then those that it is near to by meaning and words."""
    named = Context(tuple(Evidence("entities", entity, 1.0) for entity in _named(question, entities)))
    found = [named, match(entities, question, k=2 * k), near(entities, question, k=2 * k)]
    return _scaled(Context.fuse(found, weights=[1.0, 0.5, 0.5]).top(k))


def _named(question: str, entities: Table[Entity]) -> Iterator[Entity]:
    """The entities whose names stand in the question; of names within each other the longest."""
    spoken = normalize("NFKC", question)
    pieces = list(re.finditer(_PIECES, spoken))
    may = [_wide(piece) or piece[0][0].isupper() or bool(subjects(piece[0])) for piece in pieces]  # begin or end a name
    spans = [(at, end) for at in range(len(pieces)) if may[at] for end in range(_reach(pieces, at), at, -1)]
    names = {(at, end): spoken[pieces[at].start() : pieces[end - 1].end()] for at, end in spans if may[end - 1]}
    ids = {span: entity_id(key(name.strip(_EDGES))) for span, name in names.items()}
    known = entities.some(ids.values())
    done = 0
    for at, end in ids:
        entity = known.get(ids[at, end])
        if at >= done and entity and (_wide(pieces[at]) or subjects(names[at, end])):  # a name, not "What" or "Will"
            yield entity
            done = end


def _reach(pieces: Sequence[re.Match[str]], at: int) -> int:
    """How far a name may go that begins there: some words; or letters of one run, where there are no spaces."""
    end, most = at + 1, _LETTERS if _wide(pieces[at]) else _WORDS
    while end < min(len(pieces), at + most) and _goes_on(pieces[end - 1], pieces[end]):
        end += 1
    return end


def _goes_on(one: re.Match[str], other: re.Match[str]) -> bool:
    return one.end() == other.start() or not (_wide(one) or _wide(other))


def _wide(piece: re.Match[str]) -> bool:
    return re.match(f"[{_WIDE}]", piece[0]) is not None


def _relations(question: str, relations: Table[Relation], near: Near, ids: Sequence[str], edges: int) -> Context:
    """Those between two of the entities, and of each entity those nearest to the question."""
    touching = [[*relations.ids(source=id), *relations.ids(target=id)] for id in ids]
    pairs = dict.fromkeys(relation_id(one, other) for one, other in combinations(ids, 2))
    few = dict.fromkeys([*pairs, *(id for some in touching if len(some) <= edges for id in some)])
    nearest = [near(relations, question, k=len(few), among=list(few))] if few else []
    nearest += [near(relations, question, k=edges, among=some) for some in touching if len(some) > edges]
    found = {item.record.id: item for some in nearest for item in some}
    unjudged = relations.some(id for id in pairs if id not in found).values()  # by rule: found by their ends alone
    found |= {relation.id: Evidence("relations", relation, 0.0) for relation in unjudged}
    rated = (Evidence(e.table, e.record, e.score + _BOTH * (id in pairs)) for id, e in found.items())
    return _scaled(sorted(rated, key=_weightiest_first))


def _weightiest_first(item: Evidence) -> tuple[float, int, str]:
    """The order of relations that are equally near."""
    return -item.score, -getattr(item.record, "weight", 0), item.record.id


def _claims(question: str, claims: Table[Claim], near: Near, ids: Sequence[str]) -> Context:
    """What is claimed of the entities, nearest to the question first."""
    about = dict.fromkeys(claim for id in ids for claim in [*claims.ids(subject=id), *claims.ids(object=id)])
    return _scaled(near(claims, question, k=_CLAIMS, among=list(about))) if about else Context()


def _reports(
    members: Table[Member], communities: Table[Community], reports: Table[Report], ids: Sequence[str]
) -> Context:
    """Reports of the communities that hold most of the entities: of those with as many the smallest, then the best."""
    held: Counter[str] = Counter()
    known = cache(communities.get)
    for id in ids:
        for member in members.ids(entity=id):
            community = known(member.rpartition(".")[0])
            while community:
                held[community.id] += 1
                community = known(community.parent) if community.parent else None
    levels = {id: community.level for id in held if (community := known(id))}
    ranked = sorted(held, key=lambda id: (-held[id], -levels[id], id))[:_REPORTS]
    found = [report for id in ranked if (report := reports.get(id))]
    found.sort(key=lambda report: (-held[report.id], -levels[report.id], -report.rating, report.id))
    return _scaled(Evidence("reports", report, held[report.id]) for report in found)


def _behind(mentions: Table[Mention], ties: Table[Tie], ids: Sequence[str], tied: Sequence[str]) -> Counter[str]:
    """The chunks that the entities and relations come from, and of how many of them each speaks."""
    made = [mentions.ids(entity=id) for id in ids] + [ties.ids(relation=id) for id in tied]
    return Counter(chunk for group in made for chunk in {id.rpartition(".")[0] for id in group})


def _chunks(question: str, chunks: Table[Chunk], match: Match, near: Near, behind: Counter[str], pool: int) -> Context:
    """What plain search finds, and what the entities and relations come from: by words, meaning, and how many."""
    most = sorted(behind, key=lambda id: (-behind[id], id))[:_SUPPORT]
    by_words, by_meaning = match(chunks, question, k=pool), near(chunks, question, k=pool)
    if most:
        by_meaning = Context(tuple(sorted([*by_meaning, *near(chunks, question, k=pool, among=most)], key=_best_first)))
    found = {item.record.id: item for item in (*by_words, *by_meaning)}
    support = Context(tuple(Evidence("chunks", found[id].record, behind[id]) for id in found if behind[id]))
    return _scaled(Context.fuse([by_words, by_meaning, support], weights=[1.0, 0.5, 0.5]))


def _best_first(item: Evidence) -> tuple[float, str]:
    return -item.score, item.record.id
