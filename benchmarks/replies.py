"""recorded replies of real models -> how much of their records our parser reads.

Data: DATA/replies/christmas_carol: 187 replies to another system's prompts for extraction, gleaning, summaries and
reports; 84 of them hold records. A strict reading of the form in those prompts is the reference. The finished index of
the same book is a second one: it was built from other replies, which are not recorded, and has other names and pairs.
Columns: records read, wanted and in both, precision, recall. The replies with reports, and the reports of the finished
index, have to be readable, without references in their texts. DATA/replies/openie_*: entities and triples, malformed
ones included.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from benchmarks.meter import check_at_least
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo.core.errors import MalformedReply
from kumihimo.index.data_refs import strip_references
from kumihimo.index.extraction_parser import ExtractedEntity, ExtractedRelation, ParsedExtraction, parse_extraction
from kumihimo.index.reports import ReportReply
from kumihimo.llm.prompts import reply_form
from kumihimo.llm.protocols import Reply
from kumihimo.text import name_keys

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts of records read, wanted and in both."""

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
    cache = json.loads((data / "christmas_carol" / "mock_cache.json").read_text(encoding="utf-8"))
    return [cache[name]["return"] for name in sorted(cache)]


def parse_strictly(reply: str) -> Iterator[list[str]]:
    """Yield the fields of whole tuples between `##`, without any repair."""
    for record in re.split(r"##|<\|COMPLETE\|>", reply):
        if inside := re.search(r"\((.*)\)", record):
            yield [field.strip().strip('"') for field in inside[1].split("<|>")]


def make_pair(one: str, other: str) -> Pair:
    first, second = sorted((name_keys.name_key(one), name_keys.name_key(other)))
    return first, second


def collect_keys(extractions: Iterable[ParsedExtraction]) -> tuple[set[str], set[Pair]]:
    """Return entity keys and relation ends as our parser reads them."""
    records = [record for one in extractions for record in one.records]
    entities = {name_keys.name_key(one.name) for one in records if isinstance(one, ExtractedEntity)}
    return entities, {make_pair(one.source, one.target) for one in records if isinstance(one, ExtractedRelation)}


def collect_strict_keys(texts: Iterable[str]) -> tuple[set[str], set[Pair]]:
    """Return entity keys and relation ends of the strict reading."""
    rows = [row for reply in texts for row in parse_strictly(reply)]
    entities = {name_keys.name_key(row[1]) for row in rows if row[0] == "entity" and len(row) >= 4}
    return entities, {make_pair(row[1], row[2]) for row in rows if row[0] == "relationship" and len(row) >= 5}


def collect_index_keys(data: Path) -> tuple[set[str], set[Pair]]:
    """Return entity keys and relation ends of the finished index."""

    def rows(name: str) -> Iterator[dict[str, str]]:
        with (data / "christmas_carol" / f"{name}.jsonl").open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)

    entities = {name_keys.name_key(row["title"]) for row in rows("entities")}
    return entities, {make_pair(row["source"], row["target"]) for row in rows("relationships")}


def collect_strict_records(reply: str) -> set[tuple[object, ...]]:
    """Return the records of a reply by the strict reading."""
    records: set[tuple[object, ...]] = set()
    for row in parse_strictly(reply):
        fields = [" ".join(field.split()) for field in row]
        if fields[0] == "entity" and len(fields) >= 4:
            records.add(tuple(fields[1:4]))
        elif fields[0] == "relationship" and len(fields) >= 5:
            records.add((*fields[1:4], float(fields[4])))
    return records


def compared(data: Path) -> list[Figures]:
    """Compare our reading with both references."""
    texts = replies(data)
    read, strict, index = (
        collect_keys(map(parse_extraction, texts)),
        collect_strict_keys(texts),
        collect_index_keys(data),
    )
    records = [
        {(i, one) for i, reply in enumerate(texts) for one in collect(reply)}
        for collect in (_collect_records, collect_strict_records)
    ]
    shared = read[0] & index[0]
    shared_relations = [{ends for ends in relations if shared.issuperset(ends)} for relations in (read[1], index[1])]
    return [
        _make_figures("records, strict reading", *records),
        _make_figures("entities, strict reading", read[0], strict[0]),
        _make_figures("relations, strict reading", read[1], strict[1]),
        _make_figures("entities, finished index", read[0], index[0]),
        _make_figures("relations, finished index", read[1], index[1]),
        _make_figures("relations of entities in both", *shared_relations),
    ]


def _collect_records(reply: str) -> set[tuple[object, ...]]:
    return {
        (one.name, one.type, one.text)
        if isinstance(one, ExtractedEntity)
        else (one.source, one.target, one.text, one.strength)
        for one in parse_extraction(reply).records
        if isinstance(one, ExtractedEntity | ExtractedRelation)
    }


def _make_figures(name: str, read: Set[object], wanted: Set[object]) -> Figures:
    return Figures(name, len(read), len(wanted), len(read & wanted))


def read_reports(data: Path) -> tuple[int, int]:
    """Return the number of recorded reports, and of those that are read."""
    with (data / "christmas_carol" / "community_reports.jsonl").open(encoding="utf-8") as lines:
        texts = [json.loads(line)["full_content_json"] for line in lines]
    texts += [reply for reply in replies(data) if '"findings"' in reply]
    return len(texts), sum(map(_is_readable_report, texts))


def _is_readable_report(text: str) -> bool:
    """Return whether a report is read with all its findings."""
    try:
        report = reply_form(ReportReply).parse(Reply(text))
    except MalformedReply:
        return False
    prose = [report.summary, *(finding.explanation for finding in report.findings)]
    return len(report.findings) == len(json.loads(text)["findings"]) and "[Data:" not in "".join(
        map(strip_references, prose)
    )


def openie(data: Path) -> dict[str, str]:
    """Return the triples of each passage as an extraction reply.

    A triple becomes a relation; its middle is both text and keyword.
    """
    reply_by_text: dict[str, str] = {}
    with (data / "openie_gpt35_musique_train100.jsonl").open(encoding="utf-8") as rows:
        for row in map(json.loads, rows):
            lines = [f"entity<|>{name}<|><|>" for name in row["entities"]]
            reply_by_text[row["text"]] = "\n".join([*lines, *map(_format_triple, row["triples"]), "END"])
    return reply_by_text


def _format_triple(triple: list[str]) -> str:
    """Return a triple as a relation line.

    Fewer than three parts stay broken; of more, all between the first and the last are joined.
    """
    if len(triple) < 3:
        return "<|>".join(["relation", *triple])
    middle = " ".join(triple[1:-1])
    return "<|>".join(["relation", triple[0], triple[-1], " ".join(triple), middle, ""])


def graph(extractions: Iterable[ParsedExtraction]) -> tuple[int, int]:
    """Return the number of nodes and edges of all extractions."""
    entities, relations = collect_keys(extractions)
    edges = {ends for ends in relations if ends[0] != ends[1]}
    return len(entities | {end for ends in relations for end in ends}), len(edges)


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    data = read_options(parser, argv).data / "replies"
    start = time.process_time()
    extractions = [parse_extraction(reply) for reply in replies(data)]
    seconds = time.process_time() - start
    counts = [
        sum(isinstance(r, kind) for one in extractions for r in one.records)
        for kind in (ExtractedEntity, ExtractedRelation)
    ]
    broken = sum(len(one.broken_lines) for one in extractions)
    read = f"{counts[0]} entities, {counts[1]} relations, {broken} broken lines"
    print(f"{len(extractions)} replies: {read}; {seconds:.2f} CPU s")
    figures = compared(data)
    for row in figures:
        counts_line = f"  {row.name:29} read {row.read:4}  wanted {row.wanted:4}  both {row.both:4}"
        print(f"{counts_line}   precision {row.precision:.3f}   recall {row.recall:.3f}")
    for row in figures[:3]:
        check_at_least(f"recall of {row.name}", row.recall, 1)
    recorded, readable = read_reports(data)
    print(f"  {readable} of {recorded} recorded reports are read")
    check_at_least("share of recorded reports that are read", readable / recorded, 1)
    triples = [parse_extraction(reply) for reply in openie(data).values()]
    whole = sum(isinstance(r, ExtractedRelation) for one in triples for r in one.records)
    broken_triples = sum(len(one.broken_lines) for one in triples)
    nodes, edges = graph(triples)
    summary = f"{whole:,} whole triples, {broken_triples} broken: {nodes:,} nodes, {edges:,} edges"
    print(f"{len(triples):,} passages: {summary}")


if __name__ == "__main__":
    run_benchmark(main)
