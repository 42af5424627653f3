"""A folder of mixed files: CPU and peak memory of indexing it; what is opened when nothing has changed.

The files are those of examples/ and of the data sets' messy/, each under many names.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.meter import bound, least, measured
from benchmarks.options import bench_parser, read_options
from kumihimo import Kumihimo
from kumihimo.readers import has_reader, walk

HOME = Path(__file__).parents[1]
MOST = 400.0  # MB


def fill(folder: Path, count: int, data: Path) -> Path:
    """So many files of all kinds, in folders of a hundred."""
    kinds = [path for root in (HOME / "examples", data / "messy") if root.is_dir() for path, _ in walk(root)]
    for number, path in enumerate(islice(cycle(filter(has_reader, kinds)), count)):
        home = folder / f"{number // 100:02}"
        home.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, home / f"{number:04}-{path.name}")
    return folder


@contextmanager
def opened(folder: Path) -> Iterator[set[str]]:
    """The files below the folder that this process opens meanwhile."""
    found: set[str] = set()
    watching = [True]

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if watching and event == "open" and str(arguments[0]).startswith(str(folder)):
            found.add(str(arguments[0]))

    sys.addaudithook(watch)
    yield found
    watching.clear()


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--count", type=int, default=1000)
    options = read_options(parser, argv, count=8)
    with TemporaryDirectory() as home, Kumihimo.open(Path(home, ".kumi")) as kumi:
        folder = fill(Path(home, "files"), options.count, options.data)
        for said, check in (("the first time", False), ("again", False), ("again, with --reread", True)):
            with measured() as cost, opened(folder) as files:
                built = kumi.index(folder, methods=["bm25", "naive"], reread=check)
            rows = ", ".join(f"{count:,} {table}" for table, count in built.rows.items())
            print(f"  {said:20} {cost}  {len(files):,} files opened; {rows}; {len(built.failed)} failed")
            if said == "again":
                bound("files opened though nothing has changed", len(files), 0)
            else:
                least("files opened, of all", len(files) / options.count, 1)
        bound("peak memory", cost.peak, MOST, " MB")


if __name__ == "__main__":
    main()
