"""all figures -> the terminal: what `make bench` runs."""

from __future__ import annotations

import subprocess
import sys

for name, options in (
    ("start", sys.argv[1:]),
    ("passages", sys.argv[1:]),
    ("files", sys.argv[1:]),
    ("replies", sys.argv[1:]),
    ("growth", []),
    ("shapes", []),
    ("shapes", ["--chunks", "10000", "--model"]),
    ("served", sys.argv[1:]),
    ("filters", []),
    ("hubs", []),
    ("keys", ["--sizes", "10000"]),
    ("insertions", []),
    ("stability", sys.argv[1:]),
    ("questions", sys.argv[1:]),
    ("recall", sys.argv[1:]),
    ("retrieving", sys.argv[1:]),
    ("themes", sys.argv[1:]),
    ("weights", [*sys.argv[1:], "--extracted"]),
    ("hops", sys.argv[1:]),
    ("doubling", sys.argv[1:]),
    ("scenes", sys.argv[1:]),
    ("triples", []),
    ("biases", []),
    ("judging", []),
):
    print(f"\n== {name} {' '.join(options)}", flush=True)
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *options], check=True)
