"""Reports that are written again after a few documents more or fewer: communities that stay against cold Leiden.

DATA/multihop/musique_train100, no chat model. A report is written again if its community is new or has other members
or children, if more or less is said of an entity or a relation within it, or if a report below it is written again:
at most so many, since a prompt shows only what fits.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from tests.factories_tables import table

from benchmarks.meter import bound, least, measured
from benchmarks.options import bench_parser, read_options
from kumihimo.core.records import Chunk, Community, Entity, Relation
from kumihimo.core.table import Table
from kumihimo.index.communities import communities, community_modularity
from kumihimo.index.community_levels import deepest_level
from kumihimo.index.rules import ner
from kumihimo.text import name_keys

NONE = table(Community, [])
Said = tuple[list[str], list[tuple[str, str]]]  # of one document: entities it mentions, pairs it ties, with repeats


def read(document: Mapping[str, str]) -> Said:
    """What the rules read in it, as one chunk."""
    text, title = document["text"], document["title"]
    chunk = Chunk(id="d.00000", text=text, title=title, start=0, end=len(text), tokens=0)
    ties = [(tie.source, tie.target) for tie in ner.find_relation_mentions(chunk, {})]
    return [mention.entity for mention in ner.find_mentions(chunk, {})], ties


@dataclass(frozen=True, slots=True)
class Index:
    """Entities and relations of some documents, and the communities they are in."""

    entities: Table[Entity]
    relations: Table[Relation]
    communities: Table[Community]

    @classmethod
    def of(cls, documents: Iterable[Said], previous: Table[Community] = NONE) -> Index:
        entities, relations = graph(documents)
        return cls(entities, relations, table(Community, communities(entities, relations, previous)))

    def modularity(self) -> tuple[float, float]:
        return community_modularity(self.entities, self.relations, self.communities)


def graph(documents: Iterable[Said]) -> tuple[Table[Entity], Table[Relation]]:
    said: Counter[str] = Counter()
    tied: Counter[tuple[str, str]] = Counter()
    for mentions, ties in documents:
        said.update(mentions)
        tied.update(ties)
    entities = [Entity(id=id, name=id, type="", forms=(), types=(), mentions=n, tokens=0) for id, n in said.items()]
    return table(Entity, entities), table(Relation, (relation(*pair, n) for pair, n in tied.items()))


def relation(source: str, target: str, weight: int) -> Relation:
    id = name_keys.relation_id(source, target)
    ends = (source, target)
    return Relation(
        id=id, source=source, target=target, names=ends, keywords=(), weight=weight, strength=None, tokens=0
    )


def rewritten(before: Index, after: Index) -> int:
    """How many reports of the communities after differ from what they were before, or were none."""
    rows = {row.id: row for row in after.communities}
    was, now = evidence(before), evidence(after)
    changed = {id for id in rows if was.get(id) != now[id]}
    for id in sorted(changed):
        changed.update(path(id, rows))
    return len(changed)


def evidence(index: Index) -> dict[str, object]:
    """What each community is, how much is said of its members, and of relations in it that are in none of its parts."""
    rows = {row.id: row for row in index.communities}
    home = {entity: path(row.id, rows) for row in rows.values() for entity in row.members}
    inner: defaultdict[str, set[object]] = defaultdict(set)
    for source, target, weight in index.relations.columns("source", "target", "weight"):
        both = [one for one, other in zip(home[source], home[target], strict=False) if one == other]
        inner[both[-1] if both else ""].add((source, target, weight))
    said = {entity: mentions for entity, mentions in index.entities.columns("id", "mentions")}
    return {id: (row.children, [(e, said[e]) for e in row.members], inner[id]) for id, row in rows.items()}


def path(id: str, rows: Mapping[str, Community]) -> list[str]:
    """The communities it stands in, from level 0 down to itself."""
    parent = rows[id].parent
    return [*(path(parent, rows) if parent else ()), id]


def step(before: Index, documents: Sequence[Said]) -> tuple[int, int, int, float, float]:
    """From one set of documents to another: reports rewritten cold and stable, of how many, modularity of both."""
    cold, stable = Index.of(documents), Index.of(documents, before.communities)
    return rewritten(before, cold), rewritten(before, stable), len(stable.communities), *stable.modularity()


def line(said: str, steps: Sequence[tuple[int, int, int, float, float]]) -> float:
    """Print the means of several steps; the share of reports that the stable ones rewrote."""
    cold, stable, all_, now, fresh = (mean(column) for column in zip(*steps, strict=True))
    print(f"  {said:8} {cold:9.1f} {stable:9.1f} {all_:9.0f} {stable / all_:9.2%} {now:9.4f} {fresh:9.4f}", flush=True)
    return float(stable / all_)


def changes(documents: Sequence[Said], rng: random.Random) -> None:
    full = Index.of(documents)
    print(f"  {'change':8} {'cold':>9} {'stable':>9} {'reports':>9} {'share':>9} {'Q stable':>9} {'Q cold':>9}")
    for said, count, times in (("1", 1, 5), ("1 %", len(documents) // 100, 2), ("5 %", len(documents) // 20, 1)):
        drawn = [rng.sample(documents, len(documents)) for _ in range(times)]
        more = line(f"+ {said}", [step(Index.of(order[count:]), order) for order in drawn])
        fewer = line(f"- {said}", [step(full, order[count:]) for order in drawn])
        if count == 1:
            bound("reports rewritten after one document more", 100 * more, 1, " %")
            bound("reports rewritten after one document fewer", 100 * fewer, 1, " %")


def grown(documents: Sequence[Said]) -> None:
    """Two thirds of the documents, then a twentieth at a time: modularity, of that of a fresh start."""
    index = Index.of(documents[: 2 * len(documents) // 3])
    for share in range(70, 101, 5):
        index = Index.of(documents[: share * len(documents) // 100], index.communities)
    now, cold = index.modularity()
    print(f"  grown by half in steps: modularity {now:.4f}, from a fresh start {cold:.4f}")
    least("of a fresh start", now / cold, 0.95)


def seconds(documents: Sequence[Said]) -> None:
    before = Index.of(documents[1:]).communities
    entities, relations = graph(documents)
    with measured() as one:
        list(communities(entities, relations, before))
    with measured() as cold:
        rows = list(communities(entities, relations, NONE))
    with measured() as both:
        community_modularity(entities, relations, before)
    print(f"  {len(entities):,} entities, {len(relations):,} relations: {len(rows):,} communities")
    print(f"  levels: {deepest_level(rows) + 1}; of level 0: {sum(not row.parent for row in rows):,}")
    print(f"  one document more {one}\n  a fresh start     {cold}\n  modularity        {both}")
    bound("one document more", one.cpu, 0.6, " CPU s")


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    corpus = read_options(parser, argv).data / "multihop/musique_train100_corpus.jsonl"
    rng = random.Random(0)
    with corpus.open(encoding="utf-8") as lines:
        documents = [read(json.loads(line)) for line in lines]
    print(f"musique: {len(documents):,} documents; reports rewritten")
    seconds(documents)
    changes(documents, rng)
    grown(rng.sample(documents, len(documents)))


if __name__ == "__main__":
    main()
