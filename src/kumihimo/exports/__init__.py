"""one read transaction -> files of its graph and reports, or of all of it: one function for each format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kumihimo.app.snapshot import Snapshot
from kumihimo.exports import csv_, graphml, obsidian, parquet, rdf

# Each writes what its reading holds to a path (a file, or a folder), whole or not at all, and says how many rows of
# each table are in it.
FORMATS: dict[str, Callable[[Snapshot, Path], dict[str, int]]] = {
    "graphml": graphml.write_graphml,
    "csv": csv_.write_csv,
    "obsidian": obsidian.write_obsidian,
    "parquet": parquet.write_parquet,
    "rdf": rdf.write_rdf,
}
DEFAULT_PATHS = {
    "graphml": "graph.graphml",
    "csv": "graph-csv",
    "obsidian": "graph-obsidian",
    "parquet": "graph-parquet",
    "rdf": "graph.ttl",
}
