"""name of a public data set, its files -> the set in the form that the benchmarks read, below DATA.

Without a name, the sets are listed; without files, where to get them and under which licence.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.data.catalogue import DataSet, read_catalogue
from benchmarks.data.sources import Row, Sample, SourceError, Tables
from benchmarks.options import DATA


def main(argv: Sequence[str] | None = None) -> None:
    parser = ArgumentParser(
        prog="python -m benchmarks.data", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="?", help="of the set")
    parser.add_argument(
        "--from", dest="files", nargs="+", type=Path, default=[], help="its files, or folders with them"
    )
    parser.add_argument("--to", type=Path, default=DATA, help=f"the folder of all data sets (default: {DATA})")
    parser.add_argument("--sample", default="", help="the part of it that a published figure is about")
    parser.add_argument("--unverified", action="store_true", help="convert files whose checksums differ")
    parser.add_argument("--table", action="store_true", help="list the sets as a table in Markdown")
    options = parser.parse_args(argv)
    if not options.name:
        print("\n".join(_markdown_table() if options.table else _list_sets()))
        return
    try:
        data_set = _find_set(options.name)
        sample = data_set.sample(options.sample)
        tables = data_set.convert(sample, options.files, verify=not options.unverified)
        for path in write_tables(options.to, sample, tables):
            print(path)
    except (OSError, SourceError) as error:
        sys.exit(f"{options.name}: {error}")


def write_tables(folder: Path, sample: Sample, tables: Tables) -> Iterator[str]:
    """Write the files of a sample; yield the path of each, and whether published figures are about it."""
    for ending, rows in tables.items():
        path = folder / f"{sample.stem}{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        content = rows if isinstance(rows, bytes) else b"".join(map(_encode, rows))
        path.write_bytes(content)
        state = "" if isinstance(rows, bytes) else f", rows: {len(rows):,}"
        if ending in sample.written:
            is_same = hashlib.sha256(content).hexdigest() == sample.written[ending]
            state += f", {'equal to' if is_same else 'NOT'} the file of the published figures"
        yield f"{path}{state}"


def _encode(row: Row) -> bytes:
    """Return a line of JSON; half of a surrogate pair stays escaped."""
    return f"{json.dumps(row, ensure_ascii=False)}\n".encode("utf-8", "backslashreplace")


def _find_set(name: str) -> DataSet:
    if (data_set := read_catalogue().get(name)) is None:
        raise SourceError(f"no such set; there are {', '.join(read_catalogue())}")
    return data_set


def _list_sets() -> Iterator[str]:
    for name, data_set in read_catalogue().items():
        yield f"{name}: {data_set.title}; {data_set.licence}"
        for each, sample in data_set.samples.items():
            yield f"    {each}: {sample.size} -> {sample.stem}*"


def _markdown_table() -> Iterator[str]:
    """Yield a row for each sample; of a checksum the beginning."""
    yield "| set | licence | sample | files: checksum | written below `DATA` |"
    yield "|---|---|---|---|---|"
    for name, data_set in read_catalogue().items():
        about, before = f"`{name}`: {data_set.title} | {data_set.licence}", ""
        for each, sample in data_set.samples.items():
            files = ", ".join(f"`{Path(source.name).name}`: {source.state(8)}" for source in sample.sources)
            files += f"; [address]({sample.sources[0].address})"
            same = "the same" if files == before else files
            yield f"| {about} | `{each}`: {sample.size} | {same} | `{sample.stem}*` |"
            about, before = " | ", files


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:  # of `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the exit writes nothing more
