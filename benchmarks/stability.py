"""a few documents more or fewer -> reports that are rewritten, with stable communities and with cold Leiden.

Data: DATA/multihop/musique_train100. No chat model. A report is rewritten if its community is new or has other members
or children, if the evidence about an entity or relation in it grows or shrinks, or if a report below it is rewritten.
The counts are upper limits, since a prompt holds only what fits. Columns: change in documents; reports rewritten after
a cold start, and with stable communities; reports in all; the share of the stable ones; modularity (Q) of both.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean

from tests.factories_tables import table

from benchmarks.meter import check_at_least, check_at_most, measured
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo.core.records import Chunk, Community, Entity, Relation
from kumihimo.core.table import Group, Table
from kumihimo.index.communities import communities, community_modularity, deepest_level
from kumihimo.index.imports import ImportedCommunity
from kumihimo.index.name_records import NameMerges, NameResolver
from kumihimo.index.name_resolution import merges
from kumihimo.index.rules import ner
from kumihimo.text import name_keys

NONE = table(Community, [])
NO_IMPORTS = table(ImportedCommunity, [])
# of one document, with repeats: entities, pairs of related entities
Extraction = tuple[list[str], list[tuple[str, str]]]


def extract(document: Mapping[str, str]) -> Extraction:
    """Extract a document as one chunk, by rule."""
    text, title = document["text"], document["title"]
    chunk = Chunk(id="d.00000", text=text, title=title, start=0, end=len(text), tokens=0)
    names = ner.find_names(chunk)
    merged = merges(Group([names]), table(Chunk, [chunk]))
    resolver = NameResolver.for_document(chunk.document, table(NameMerges, [replace(merged, id="d")] if merged else []))
    ties = [(tie.source, tie.target) for tie in ner.find_relation_mentions(chunk, names, resolver)]
    return [mention.entity for mention in ner.find_mentions(chunk, names, resolver)], ties


@dataclass(frozen=True, slots=True)
class Index:
    """Entities, relations and communities of some documents."""

    entities: Table[Entity]
    relations: Table[Relation]
    communities: Table[Community]

    @classmethod
    def of(cls, documents: Iterable[Extraction], previous: Table[Community] = NONE) -> Index:
        entities, relations = build_graph(documents)
        return cls(entities, relations, table(Community, communities(entities, relations, previous, NO_IMPORTS)))

    def modularity(self) -> tuple[float, float]:
        return community_modularity(self.entities, self.relations, self.communities)


def build_graph(documents: Iterable[Extraction]) -> tuple[Table[Entity], Table[Relation]]:
    mention_counts: Counter[str] = Counter()
    tie_counts: Counter[tuple[str, str]] = Counter()
    for mentions, ties in documents:
        mention_counts.update(mentions)
        tie_counts.update(ties)
    entities = [
        Entity(id=id, name=id, type="", forms=(), types=(), mentions=n, tokens=0) for id, n in mention_counts.items()
    ]
    return table(Entity, entities), table(Relation, (make_relation(*pair, n) for pair, n in tie_counts.items()))


def make_relation(source: str, target: str, weight: int) -> Relation:
    id = name_keys.relation_id(source, target)
    ends = (source, target)
    return Relation(
        id=id, source=source, target=target, names=ends, keywords=(), weight=weight, strength=None, tokens=0
    )


def count_rewritten(before: Index, after: Index) -> int:
    """Return the number of new or changed reports."""
    rows = {row.id: row for row in after.communities}
    inputs_before, inputs_after = report_inputs(before), report_inputs(after)
    changed = {id for id in rows if inputs_before.get(id) != inputs_after[id]}
    for id in sorted(changed):
        changed.update(list_ancestors(id, rows))
    return len(changed)


def report_inputs(index: Index) -> dict[str, object]:
    """Return the input of each community's report.

    It is the children, the members with their mentions, and the relations inside that no child contains.
    """
    rows = {row.id: row for row in index.communities}
    paths = {entity: list_ancestors(row.id, rows) for row in rows.values() for entity in row.members}
    inner: defaultdict[str, set[object]] = defaultdict(set)
    for source, target, weight in index.relations.columns("source", "target", "weight"):
        common = [one for one, other in zip(paths[source], paths[target], strict=False) if one == other]
        inner[common[-1] if common else ""].add((source, target, weight))
    mention_counts = {entity: mentions for entity, mentions in index.entities.columns("id", "mentions")}
    return {id: (row.children, [(e, mention_counts[e]) for e in row.members], inner[id]) for id, row in rows.items()}


def list_ancestors(id: str, rows: Mapping[str, Community]) -> list[str]:
    """Return the ids from its level 0 ancestor down to itself."""
    parent = rows[id].parent
    return [*(list_ancestors(parent, rows) if parent else ()), id]


def compare_step(before: Index, documents: Sequence[Extraction]) -> tuple[int, int, int, float, float]:
    """Compare a cold start with stable communities after a change.

    Return reports rewritten cold and stable, reports in all, modularity stable and cold.
    """
    cold, stable = Index.of(documents), Index.of(documents, before.communities)
    return count_rewritten(before, cold), count_rewritten(before, stable), len(stable.communities), *stable.modularity()


def print_means(label: str, steps: Sequence[tuple[int, int, int, float, float]]) -> float:
    """Print the means of several steps; return the stable share."""
    cold, stable, total, q_stable, q_cold = (mean(column) for column in zip(*steps, strict=True))
    print(
        f"  {label:8} {cold:9.1f} {stable:9.1f} {total:9.0f} {stable / total:9.2%} {q_stable:9.4f} {q_cold:9.4f}",
        flush=True,
    )
    return float(stable / total)


def measure_changes(documents: Sequence[Extraction], rng: random.Random) -> None:
    full = Index.of(documents)
    print(f"  {'change':8} {'cold':>9} {'stable':>9} {'reports':>9} {'share':>9} {'Q stable':>9} {'Q cold':>9}")
    for label, count, times in (("1", 1, 5), ("1 %", len(documents) // 100, 2), ("5 %", len(documents) // 20, 1)):
        orders = [rng.sample(documents, len(documents)) for _ in range(times)]
        more = print_means(f"+ {label}", [compare_step(Index.of(order[count:]), order) for order in orders])
        fewer = print_means(f"- {label}", [compare_step(full, order[count:]) for order in orders])
        if count == 1:
            check_at_most("reports rewritten after one document more", 100 * more, 1, " %")
            check_at_most("reports rewritten after one document fewer", 100 * fewer, 1, " %")


def check_growth(documents: Sequence[Extraction]) -> None:
    """Check modularity after growth from two thirds in twentieths."""
    index = Index.of(documents[: 2 * len(documents) // 3])
    for share in range(70, 101, 5):
        index = Index.of(documents[: share * len(documents) // 100], index.communities)
    stable, cold = index.modularity()
    print(f"  after growth by half in steps: modularity {stable:.4f}, after a cold start {cold:.4f}")
    check_at_least("modularity by that of a cold start", stable / cold, 0.95)


def measure_time(documents: Sequence[Extraction]) -> None:
    before = Index.of(documents[1:]).communities
    entities, relations = build_graph(documents)
    with measured() as update:
        list(communities(entities, relations, before, NO_IMPORTS))
    with measured() as cold:
        rows = list(communities(entities, relations, NONE, NO_IMPORTS))
    with measured() as quality:
        community_modularity(entities, relations, before)
    print(f"  {len(entities):,} entities, {len(relations):,} relations: {len(rows):,} communities")
    print(f"  levels: {deepest_level(rows) + 1}; of level 0: {sum(not row.parent for row in rows):,}")
    print(f"  one document more {update}\n  a cold start      {cold}\n  modularity        {quality}")
    check_at_most("one document more", update.cpu, 0.6, " CPU s")


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    corpus = read_options(parser, argv).data / "multihop/musique_train100_corpus.jsonl"
    rng = random.Random(0)
    with corpus.open(encoding="utf-8") as lines:
        documents = [extract(json.loads(line)) for line in lines]
    print(f"musique: {len(documents):,} documents; reports rewritten")
    measure_time(documents)
    measure_changes(documents, rng)
    check_growth(rng.sample(documents, len(documents)))


if __name__ == "__main__":
    run_benchmark(main)
