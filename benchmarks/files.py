"""folder of mixed files -> CPU, peak memory and opened files of indexing it, again when nothing has changed.

Data: the files of examples/ and of DATA/messy, each copied under many names. One line a run, the last with --reread:
cost, files opened, rows by table, failures.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.meter import check_at_least, check_at_most, measured
from benchmarks.options import bench_parser, read_options
from kumihimo import Kumihimo
from kumihimo.readers import READERS
from kumihimo.readers.documents import walk

HOME = Path(__file__).parents[1]
MOST = 400.0  # MB of peak memory


def fill(folder: Path, count: int, data: Path) -> Path:
    """Copy `count` files of all kinds, a hundred to each subfolder."""
    kinds = [path for root in (HOME / "examples", data / "messy") if root.is_dir() for path, _ in walk(root)]
    for number, path in enumerate(islice(cycle(path for path in kinds if path.suffix.lower() in READERS), count)):
        subfolder = folder / f"{number // 100:02}"
        subfolder.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, subfolder / f"{number:04}-{path.name}")
    return folder


@contextmanager
def opened(folder: Path) -> Iterator[set[str]]:
    """Collect the files below the folder opened by this process."""
    paths: set[str] = set()
    watching = [True]

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if watching and event == "open" and str(arguments[0]).startswith(str(folder)):
            paths.add(str(arguments[0]))

    sys.addaudithook(watch)
    yield paths
    watching.clear()


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--count", type=int, default=1000)
    options = read_options(parser, argv, count=8)
    with TemporaryDirectory() as temporary, Kumihimo.open(Path(temporary, ".kumi")) as kumi:
        folder = fill(Path(temporary, "files"), options.count, options.data)
        for label, reread in (("first run", False), ("no change", False), ("no change, --reread", True)):
            with measured() as cost, opened(folder) as files:
                built = kumi.index(folder, methods=["bm25", "naive"], reread=reread)
            rows = ", ".join(f"{count:,} {table}" for table, count in built.rows.items())
            print(f"  {label:20} {cost}  {len(files):,} files opened; {rows}; {len(built.failed)} failed")
            if label == "no change":
                check_at_most("files opened without a change", len(files), 0)
            else:
                check_at_least("share of files opened", len(files) / options.count, 1)
        check_at_most("peak memory", cost.peak, MOST, " MB")


if __name__ == "__main__":
    main()
