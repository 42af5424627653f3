"""all benchmarks -> their figures in the terminal: what `make bench` runs.

Each benchmark runs in its own process. A failure does not stop the others; failures are listed at the end.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.options import bench_parser
from benchmarks.tiny_data import write_tiny_data

# Name and extra options; the shortest run comes first.
BENCHMARKS = (
    ("start", ""),
    ("long_inputs", ""),
    ("passages", ""),
    ("meanings", ""),
    ("files", ""),
    ("hostile", ""),
    ("replies", ""),
    ("growth", ""),
    ("shapes", ""),
    ("shapes", "--chunks 10000 --model"),
    ("served", ""),
    ("filters", ""),
    ("sizes", ""),
    ("hubs", ""),
    ("keys", "--sizes 10000"),
    ("insertions", ""),
    ("stability", ""),
    ("graph", ""),
    ("mixed", ""),
    ("questions", ""),
    ("described", "--sets"),
    ("recall", ""),
    ("retrieving", ""),
    ("themes", ""),
    ("weights", "--extracted"),
    ("hops", ""),
    ("doubling", ""),
    ("scenes", ""),
    ("triples", ""),
    ("biases", ""),
    ("judging", ""),
    ("gleanings", ""),
)


def main() -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--only", default="", help="names of benchmarks, separated by commas")
    options = parser.parse_args()
    names = {name for name, _ in BENCHMARKS}
    selected = options.only.split(",") if options.only else sorted(names)
    if unknown := set(selected) - names:
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; choose among {', '.join(sorted(names))}")
    failures = []
    with TemporaryDirectory() as folder:
        data = options.data or (write_tiny_data(Path(folder)) if options.quick else None)
        shared = [*(["--data", str(data)] if data else []), *(["--quick"] if options.quick else [])]
        for name, extra in BENCHMARKS:
            if name in selected:
                arguments = [*shared, *([] if options.quick else extra.split())]
                print(f"\n== {name} {' '.join(arguments)}", flush=True)
                if subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *arguments], check=False).returncode:
                    failures.append(name)
    if failures:
        sys.exit(f"\nFailed: {', '.join(dict.fromkeys(failures))}")
    print("\nAll passed.")


if __name__ == "__main__":
    main()
