"""command line -> options: `--data`, `--quick` and those of one benchmark."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from atexit import register
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import meter
from benchmarks.tiny_data import write_tiny_data
from kumihimo.core.errors import SourceError

UNMET = "Unmet: "  # begins the line of a bound
DATA = Path(os.environ.get("DATA", "../shared/data"))


def bench_parser(doc: str | None) -> ArgumentParser:
    """Return a parser with `--data` and `--quick`."""
    parser = ArgumentParser(description=doc, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help=f"the folder of the data sets (default: {DATA})")
    parser.add_argument("--quick", action="store_true", help="run on tiny generated data without limits")
    return parser


def read_options(parser: ArgumentParser, argv: Sequence[str] | None, **quick: Any) -> Namespace:
    """Parse the command line and set the default data folder.

    quick: smaller values of options for `--quick`.
    """
    if "--quick" in (sys.argv[1:] if argv is None else argv):
        meter.enforce_limits(enabled=False)
        parser.set_defaults(**quick)
    options = parser.parse_args(argv)
    options.data = options.data or (_temporary_data() if options.quick else DATA)
    return options


def run_benchmark(main: Callable[[], None]) -> None:
    """Run a benchmark to its end; name its unmet bounds and exit with 1."""
    try:
        main()
    except Exception as error:
        meter.unmet.append(f"stopped by {type(error).__name__}: {error}".splitlines()[0])
        if not (isinstance(error, SourceError) or str(getattr(error, "filename", "")).endswith(".jsonl")):
            raise
        meter.unmet[-1] += "; `python -m benchmarks.data` says how to get the data sets"
    finally:
        for bound in meter.unmet:
            print(f"{UNMET}{bound}", file=sys.stderr)
    sys.exit(1 if meter.unmet else 0)


def _temporary_data() -> Path:
    folder = TemporaryDirectory()
    register(folder.cleanup)
    return write_tiny_data(Path(folder.name))
