"""Replies that real models gave to other systems' prompts: what is read from them, beside what there is to read.

DATA/replies/christmas_carol: 187 replies to prompts of extraction, gleaning, summaries and reports, 84 of which hold
records; and an index of the same book, which was made of other replies, and these are not recorded. So what is to be
had from the replies is what a strict reading of their own form gives; the index is a second opinion on the book, which
names and pairs other things. DATA/replies/openie_*: entities and triples, malformed ones included.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from benchmarks.meter import least
from benchmarks.options import bench_parser, read_options
from kumihimo.index.extraction_parser import ExtractedEntity, ExtractedRelation, ParsedExtraction, parse_extraction
from kumihimo.text import name_keys

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Figures:
    """What was read, against what was wanted."""

    name: str
    read: int
    wanted: int
    both: int

    @property
    def precision(self) -> float:
        return self.both / max(self.read, 1)

    @property
    def recall(self) -> float:
        return self.both / max(self.wanted, 1)


def replies(data: Path) -> list[str]:
    held = json.loads((data / "christmas_carol" / "mock_cache.json").read_text(encoding="utf-8"))
    return [held[name]["return"] for name in sorted(held)]


def strictly(reply: str) -> Iterator[list[str]]:
    """The fields of records, as whoever asked for them reads them: whole tuples between `##`, nothing mended."""
    for record in re.split(r"##|<\|COMPLETE\|>", reply):
        if inside := re.search(r"\((.*)\)", record):
            yield [field.strip().strip('"') for field in inside[1].split("<|>")]


def pair(one: str, other: str) -> Pair:
    first, second = sorted((name_keys.name_key(one), name_keys.name_key(other)))
    return first, second


def ours(said: Iterable[ParsedExtraction]) -> tuple[set[str], set[Pair]]:
    """Keys of the entities, and of the ends of the relations."""
    records = [record for one in said for record in one.records]
    entities = {name_keys.name_key(one.name) for one in records if isinstance(one, ExtractedEntity)}
    return entities, {pair(one.source, one.target) for one in records if isinstance(one, ExtractedRelation)}


def theirs(said: Iterable[str]) -> tuple[set[str], set[Pair]]:
    """The same by the strict reading."""
    rows = [row for reply in said for row in strictly(reply)]
    entities = {name_keys.name_key(row[1]) for row in rows if row[0] == "entity" and len(row) >= 4}
    return entities, {pair(row[1], row[2]) for row in rows if row[0] == "relationship" and len(row) >= 5}


def finished(data: Path) -> tuple[set[str], set[Pair]]:
    """The same of the finished index."""

    def rows(name: str) -> Iterator[dict[str, str]]:
        with (data / "christmas_carol" / f"{name}.jsonl").open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)

    entities = {name_keys.name_key(row["title"]) for row in rows("entities")}
    return entities, {pair(row["source"], row["target"]) for row in rows("relationships")}


def tuples(reply: str) -> set[tuple[object, ...]]:
    """The records of a reply as the strict reading gives them."""
    found: set[tuple[object, ...]] = set()
    for row in strictly(reply):
        fields = [" ".join(field.split()) for field in row]
        if fields[0] == "entity" and len(fields) >= 4:
            found.add(tuple(fields[1:4]))
        elif fields[0] == "relationship" and len(fields) >= 5:
            found.add((*fields[1:4], float(fields[4])))
    return found


def compared(data: Path) -> list[Figures]:
    said = replies(data)
    read, strict, index = ours(map(parse_extraction, said)), theirs(said), finished(data)
    records = [{(i, one) for i, reply in enumerate(said) for one in reading(reply)} for reading in (_ours, tuples)]
    known = read[0] & index[0]
    among = [{ends for ends in relations if known.issuperset(ends)} for relations in (read[1], index[1])]
    return [
        _figures("records, strict reading", *records),
        _figures("entities, strict reading", read[0], strict[0]),
        _figures("relations, strict reading", read[1], strict[1]),
        _figures("entities, finished index", read[0], index[0]),
        _figures("relations, finished index", read[1], index[1]),
        _figures("relations of entities in both", *among),
    ]


def _ours(reply: str) -> set[tuple[object, ...]]:
    return {
        (one.name, one.type, one.text)
        if isinstance(one, ExtractedEntity)
        else (one.source, one.target, one.text, one.strength)
        for one in parse_extraction(reply).records
        if isinstance(one, ExtractedEntity | ExtractedRelation)
    }


def _figures(name: str, read: Set[object], wanted: Set[object]) -> Figures:
    return Figures(name, len(read), len(wanted), len(read & wanted))


def openie(data: Path) -> dict[str, str]:
    """Of each passage the reply that says the same: a triple is a relation, its middle both text and keyword."""
    found: dict[str, str] = {}
    with (data / "openie_gpt35_musique_train100.jsonl").open(encoding="utf-8") as rows:
        for row in map(json.loads, rows):
            lines = [f"entity<|>{name}<|><|>" for name in row["entities"]]
            found[row["text"]] = "\n".join([*lines, *map(_line, row["triples"]), "END"])
    return found


def _line(triple: list[str]) -> str:
    """With fewer than three parts it stays broken; with more, those between the first and the last are one."""
    if len(triple) < 3:
        return "<|>".join(["relation", *triple])
    middle = " ".join(triple[1:-1])
    return "<|>".join(["relation", triple[0], triple[-1], " ".join(triple), middle, ""])


def graph(said: Iterable[ParsedExtraction]) -> tuple[int, int]:
    """How many nodes and edges they give together."""
    entities, relations = ours(said)
    edges = {ends for ends in relations if ends[0] != ends[1]}
    return len(entities | {end for ends in relations for end in ends}), len(edges)


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    data = read_options(parser, argv).data / "replies"
    began = time.process_time()
    said = [parse_extraction(reply) for reply in replies(data)]
    spent = time.process_time() - began
    counts = [
        sum(isinstance(r, kind) for one in said for r in one.records) for kind in (ExtractedEntity, ExtractedRelation)
    ]
    broken = sum(len(one.broken_lines) for one in said)
    print(f"{len(said)} replies: {counts[0]} entities, {counts[1]} relations, {broken} broken lines; {spent:.2f} CPU s")
    figures = compared(data)
    for row in figures:
        told = f"  {row.name:29} read {row.read:4}  wanted {row.wanted:4}  both {row.both:4}"
        print(f"{told}   precision {row.precision:.3f}   recall {row.recall:.3f}")
    for row in figures[:3]:
        least(f"recall of {row.name}", row.recall, 1)
    triples = [parse_extraction(reply) for reply in openie(data).values()]
    whole = sum(isinstance(r, ExtractedRelation) for one in triples for r in one.records)
    lost = sum(len(one.broken_lines) for one in triples)
    nodes, edges = graph(triples)
    print(f"{len(triples):,} passages: {whole:,} triples whole, {lost} broken: {nodes:,} nodes, {edges:,} edges")


if __name__ == "__main__":
    main()
