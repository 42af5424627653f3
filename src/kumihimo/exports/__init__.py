"""one read transaction -> files: one function for each format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kumihimo.app.snapshot import Snapshot
from kumihimo.exports import csv_, graphml, obsidian, parquet, rdf

# Each function writes a snapshot to a path (a file or a folder), completely or not at all, and returns the number of
# rows by table.
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
