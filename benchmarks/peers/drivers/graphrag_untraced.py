"""Microsoft graphrag as in `graphrag`, without the tracer of memory that it always runs."""

from __future__ import annotations

import tracemalloc

from benchmarks.peers.drivers.common import run
from benchmarks.peers.drivers.graphrag import Graph

if __name__ == "__main__":
    tracemalloc.start = lambda *_: None
    run(Graph)
