"""folder of mixed files -> CPU and peak memory of indexing it, again when nothing has changed.

Data: the files of examples/ and of DATA/messy, each copied under many names. One line a run, the last with --reread:
cost with that of the child process, files read, rows by table, failures.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.meter import check_at_least, check_at_most, measured
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo import Kumihimo
from kumihimo.readers import READERS
from kumihimo.readers.folder import walk

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


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--count", type=int, default=1000)
    options = read_options(parser, argv, count=8)
    with TemporaryDirectory() as temporary, Kumihimo.open(Path(temporary, ".kumi")) as kumi:
        folder = fill(Path(temporary, "files"), options.count, options.data)
        for label, reread in (("first run", False), ("no change", False), ("no change, --reread", True)):
            with measured() as cost:
                built = kumi.index(folder, methods=["bm25", "naive"], reread=reread)
            rows = ", ".join(f"{count:,} {table}" for table, count in built.rows.items())
            print(f"  {label:20} {cost}  {built.read:,} files read; {rows}; {len(built.failed)} failed")
            if label == "no change":
                check_at_most("files read without a change", built.read, 0)
            else:
                check_at_least("share of files read", built.read / options.count, 1)
        check_at_most("peak memory", cost.peak, MOST, " MB")


if __name__ == "__main__":
    run_benchmark(main)
