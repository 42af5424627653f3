"""generated tables of a million triples -> cost of the RDF store, and ms of SPARQL queries on it.

Data: none. First line: triples, size of the store, CPU, wall time, bytes written, peak memory. A line for each query:
its rows, and the median ms in a process with the store open. Last line: one query with the start of its process.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests import factories_tables

from benchmarks.meter import check_at_most, measured
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo.core.digests import hash_parts
from kumihimo.core.records import Chunk, DiscourseRelation, Document, Passage, SlotFiller
from kumihimo.index.pdtb_senses import leaf_sense_labels, senses_by_name
from kumihimo.rdf import store as rdf
from kumihimo.rdf.triples import prefix_map, table_triples

BASE = "http://example.org/"
SLOTS = ("who", "predicate", "what", "when")
TRIPLES_PER_PASSAGE = 32  # approximate, with its frames and its link
COUNT = "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"
PATH = 'SELECT ?r { ?s rdfs:subClassOf* ?c . ?c rdfs:label "%s" . ?r pdtb:hasSense ?s } LIMIT 1000'
LISTING_1 = """SELECT DISTINCT ?chunk ?text {
  { ?r pdtb:hasArg1 ex:%(id)s ; pdtb:hasArg2 ?chunk } UNION { ?r pdtb:hasArg2 ex:%(id)s ; pdtb:hasArg1 ?chunk }
  ?r pdtb:hasSense/rdfs:subClassOf*/rdfs:label ?label . ?chunk rdfs:label ?text
} ORDER BY ?chunk"""
LISTING_2 = """SELECT ?chunk ?text (COUNT(DISTINCT ?slot) AS ?hits) {
  VALUES (?slot ?value) { (ex:who value:name-17) (ex:when value:name-3017) (ex:what value:name-2017) }
  ?chunk rdf:type ex:Chunk ; rdfs:label ?text ; ?slot ?value
} GROUP BY ?chunk ?text ORDER BY DESC(?hits) ?chunk LIMIT 10"""


def make_tables(count: int) -> dict[str, Any]:
    """Return tables of `count` passages, each with four frames and a link.

    A document has a hundred passages in ten chunks; the link leads to the next passage.
    """
    rows: dict[str, list[Any]] = {"documents": [], "chunks": [], "passages": [], "frames": [], "links": []}
    senses, text = (
        leaf_sense_labels(),
        "Orrell lent oat seed to the school when the storm had broken the breakwater. " * 3,
    )
    for n in range(count):
        document, within = hash_parts(str(n // 100)), n % 100
        chunk = f"{document}.{within // 10:05}"
        id = f"{chunk}.{within % 10:05}"
        if not within:
            uri = f"notes/{n // 100}.md"
            rows["documents"].append(Document(id=document, uri=uri, file=uri, title=f"Note {n}", media_type="t"))
        if not within % 10:
            rows["chunks"].append(
                Chunk(id=chunk, text=f"{n} {text}", title="", start=within * 9, end=within * 9 + 90, tokens=600)
            )
        rows["passages"].append(Passage(id=id, text=f"{text} {n}", start=n, end=n + 50, tokens=50))
        for i, slot in enumerate(SLOTS):
            name = f"name {i * 1000 + n % 997}".replace(" ", "-")
            rows["frames"].append(SlotFiller(slot, name, within % 10, id=f"{chunk}.{within % 10 * 10 + i:05}"))
        if within < 99:
            following = f"{document}.{(within + 1) // 10:05}.{(within + 1) % 10:05}"
            rows["links"].append(
                DiscourseRelation(id=id, text=senses[n % 30], first=id, second=following, confidence=0.5)
            )
    return {name: factories_tables.table(type(records[0]), records, shuffled=True) for name, records in rows.items()}


def time_query(store: Path, query: str) -> tuple[float, int]:
    """Return the median milliseconds of nine queries, and the rows."""
    script = """
import json, sys, time
from statistics import median
import pyoxigraph as ox
store, query, prefixes = json.loads(sys.stdin.read())
reader, times = ox.Store.read_only(store), []
for _ in range(9):
    start = time.perf_counter()
    rows = list(reader.query(query, prefixes=prefixes))
    times.append(time.perf_counter() - start)
print(json.dumps([1000 * median(times), len(rows)]))
"""
    request = json.dumps([str(store), query, prefix_map(BASE)])
    process = subprocess.run([sys.executable, "-c", script], input=request, capture_output=True, text=True, check=True)
    ms, rows = json.loads(process.stdout)
    return ms, rows


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--triples", type=int, default=1_000_000)
    count_limit = read_options(parser, argv, triples=3000).triples
    tables = make_tables(count_limit // TRIPLES_PER_PASSAGE * 2)
    with TemporaryDirectory() as folder:
        with measured() as cost:
            triples = table_triples(tables, senses_by_name().values(), BASE)
            store = rdf.ensure_store(
                Path(folder), "1-a", lambda: (t for t, _ in zip(triples, range(count_limit), strict=False))
            )
        count = rdf.run_query(store, COUNT, prefix_map(BASE), BASE, limit=None, timeout=60)[1][0][0]["value"]
        size = sum(file.stat().st_size for file in store.iterdir()) / 1e6
        print(f"  {int(count):,} triples from tables into a store of {size:.0f} MB: {cost}")
        check_at_most("a million triples", cost.cpu / int(count) * 1e6, 10, " CPU s")
        first_id = next(iter(tables["passages"])).id.replace(".", "-")
        for name, query in {
            "path over senses": PATH % "contigency",
            "Listing 1": LISTING_1 % {"id": first_id},
            "Listing 2": LISTING_2,
        }.items():
            ms, rows = time_query(store, query)
            check_at_most(f"{name}, {rows:,} rows", ms, 100, " ms")
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        rdf.run_query(store, PATH % "contigency", prefix_map(BASE), BASE, limit=1000, timeout=60)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"  path over senses in its own process: {time.perf_counter() - start:.2f} s, {used:.2f} CPU s")


if __name__ == "__main__":
    run_benchmark(main)
