"""files that attack their readers -> what became of each: read or refused, within the limits.

Bombs: every kind of tests/readers/bombs.py at full size, each in a process of its own: how it was read, CPU seconds and
peak memory of the child process. Fuzzed files: COUNT files of all formats, made from the files of examples/ and
DATA/messy by flipping, cutting and joining their bytes, or those of a part of an archive.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from tests.factories_office import unzipped, zipped
from tests.readers.bombs import BOMBS

from benchmarks.meter import check_at_most
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo.core.errors import LimitExceeded, SourceError
from kumihimo.readers import READERS
from kumihimo.readers.file_reader import FileReader
from kumihimo.readers.folder import walk
from kumihimo.readers.limits import ReadingLimits

HOME = Path(__file__).parents[1]
MAX_SEED_BYTES = 300_000
LIMITS = ReadingLimits()


def read_bomb(name: str, size: int) -> None:
    """Print what became of one bomb, and of the good file after it."""
    suffix, make = BOMBS[name]
    with TemporaryDirectory() as folder, closing(FileReader(READERS, LIMITS)) as reader:
        bomb, good = Path(folder, f"bomb{suffix}"), Path(folder, "good.html")
        bomb.write_bytes(make(size))
        good.write_text("<p>The ferry leaves at nine.", encoding="utf-8")
        outcome, packed = _read(reader, bomb), bomb.stat().st_size
        assert _read(reader, good) == "1 documents, 25 characters"
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu, peak = used[1].ru_utime + used[1].ru_stime, max(each.ru_maxrss for each in used) / 1024
    print(f"{cpu:7.1f} CPU s {peak:6.0f} MB  {packed / 1e6:7.2f} MB file  {name}{suffix}: {outcome}")
    check_at_most("peak memory", peak, LIMITS.memory * 1.1, " MB")


def _read(reader: FileReader, path: Path) -> str:
    try:
        documents = reader.read(path, path.name)
    except SourceError as error:
        return f"refused: {error}"[:130]
    return f"{len(documents):,} documents, {sum(len(document.text) for document in documents):,} characters"


def write_small_seeds(folder: Path) -> None:
    """Write a small file of each format that the other seeds lack."""
    cells = '<table:table-cell office:value-type="string"><text:p>tide</text:p></table:table-cell>' * 2
    rows = f"<table:table-row>{cells}</table:table-row>" * 2
    table = f'<table:table table:name="S">{rows}</table:table>'
    body = f"<text:h>Tides</text:h><text:p>It turns.</text:p>{table}"
    spaces = " ".join(f'xmlns:{n}="urn:oasis:names:tc:opendocument:xmlns:{n}:1.0"' for n in ("office", "text", "table"))
    spaces += ' xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"'
    cell = {"cell_type": "code", "source": ["x = 1"], "outputs": [{"output_type": "stream", "text": ["1"]}]}
    letter = "From: Ada <a@b.example>\nSubject: Tides\nDate: Fri, 1 May 2026 00:30:00 +0000\n\nIt turns.\n"
    texts = {
        "rtf": r"{\rtf1\ansi{\b Tides}\par It turns.{\field{\*\fldinst HYPERLINK \"a\"}{\fldrslt b}}\trowd\cell\row}",
        "rst": "Tides\n=====\n\nIt `turns <a>`_ [1]_ at *nine*.\n\n.. note:: Wait.\n\n+---+\n| a |\n+---+\n",
        "org": "#+TITLE: Tides\n* Water :a:\n- it :: turns\n| a | b |\n#+BEGIN_SRC x\ny\n#+END_SRC\n",
        "tex": "\\section{Tides} It \\emph{turns} $x$ \\begin{tabular}{l} a & b \\\\ \\end{tabular}",
        "bib": "@book{a, title = {Tides}, year = 1922}",
        "srt": "1\n00:00:01,000 --> 00:00:02,000\n<i>It turns.</i>\n",
        "vtt": "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Ada>It turns.\n",
        "xml": "<?xml version='1.0'?><book><title a='b'>Tides</title><p>It turns.</p></book>",
        "ipynb": json.dumps({"cells": [cell, {"cell_type": "markdown", "source": "# Tides"}], "nbformat": 4}),
        "json": json.dumps([{"title": "Tides", "text": "It turns."}] * 2),
        "jsonl": '{"title": "Tides", "text": "It turns."}\n' * 2,
        "tsv": "boat\tbuilt\nTides\t1922\n",
        "csv": 'boat,built\n"Tides",1922\n',
        "yaml": "title: Tides\nparts: [it, turns]\n",
        "log": "2026-05-01 It turns.\n",
        "eml": letter,
        "mbox": f"From a@b Fri May  1 00:30:00 2026\n{letter}\n",
        "xhtml": "<html><body><h1>Tides</h1><p>It turns.</body></html>",
        "py": 'def tide():\n    """It turns."""\n',
        "": "It turns.",
    }
    for suffix, text in texts.items():
        (folder / f"seed{'.' if suffix else ''}{suffix}").write_text(text, "utf-8")
    slide = "<draw:page><draw:frame><draw:text-box><text:p>It turns.</text:p></draw:text-box></draw:frame></draw:page>"
    for suffix, kind, inside in (("odt", "text", body), ("ods", "spreadsheet", table), ("odp", "presentation", slide)):
        inner = f"<office:{kind}>{inside}</office:{kind}>"
        content = f"<office:document-content {spaces}><office:body>{inner}</office:body></office:document-content>"
        mimetype = f"application/vnd.oasis.opendocument.{kind}"
        parts = {"mimetype": mimetype, "content.xml": content, "META-INF/manifest.xml": "<manifest/>"}
        (folder / f"seed.{suffix}").write_bytes(zipped({name: part.encode() for name, part in parts.items()}))
    (folder / "seed.zip").write_bytes(zipped({"a.txt": b"It turns.", "b.csv": b"a,b"}))


def fuzzed(seeds: Sequence[Path], count: int, seed: int = 7) -> Iterator[tuple[str, bytes]]:
    """Yield (suffix, content) of damaged files; the same in every run."""
    chance = random.Random(seed)
    contents = {path: path.read_bytes() for path in seeds}
    for _ in range(count):
        path, other = chance.choice(seeds), chance.choice(seeds)
        data = contents[path]
        if data.startswith(b"PK") and chance.random() < 0.7:
            parts = unzipped(data)
            name = chance.choice(sorted(parts))
            yield path.suffix, zipped({**parts, name: damaged(parts[name], contents[other], chance)})
        else:
            yield path.suffix, damaged(data, contents[other], chance)


def damaged(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Return the bytes with some flipped, cut, repeated or joined."""
    result = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 3, 30))):
        start = chance.randrange(len(result) + 1)
        end = min(len(result), start + chance.choice((1, 1, 2, 10, 100, 5000)))
        match chance.randrange(6):
            case 0:
                result[start:end] = bytes(byte ^ 1 << chance.randrange(8) for byte in result[start:end])
            case 1:
                del result[start:end]
            case 2:
                result[start:end] = bytes(end - start)
            case 3:
                result[start:start] = result[start:end] * chance.choice((1, 50))
            case 4:
                cut = chance.randrange(len(other) + 1)
                result[start:end] = other[cut : cut + 5000]
            case _:
                result[start:end] = chance.randbytes(end - start)
    return bytes(result)


def read_fuzzed(data: Path, count: int, seed: int, only: str) -> None:
    """Print how many damaged files were read, refused, or ended a process."""
    roots = [HOME / "examples", HOME / "tests" / "readers", data / "messy"]
    outcomes: Counter[str] = Counter()
    slowest = 0.0
    with TemporaryDirectory() as folder, TemporaryDirectory() as small, closing(FileReader(READERS, LIMITS)) as reader:
        write_small_seeds(Path(small))
        found = [path for root in (*roots, Path(small)) if root.is_dir() for path, _ in walk(root)]
        seeds = [path for path in found if path.suffix.lower() in READERS and only in ("", path.suffix.lower())]
        seeds = [path for path in seeds if path.stat().st_size <= MAX_SEED_BYTES]
        for suffix, content in fuzzed(seeds, count, seed):
            path = Path(folder, f"file{suffix}")
            path.write_bytes(content)
            start = perf_counter()
            try:
                reader.read(path, path.name)
                outcomes["read"] += 1
            except LimitExceeded as error:
                outcomes["ended its process" if "ended early" in str(error) else "over a limit"] += 1
                print(f"  {error}")
            except SourceError:
                outcomes["refused"] += 1
            slowest = max(slowest, perf_counter() - start)
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
    formats = len({path.suffix.lower() for path in seeds})
    print(f"  {count:,} files from {len(seeds)} of {formats} formats: {dict(outcomes)}")
    print(f"  slowest {slowest:.1f} s, peak memory {peak:.0f} MB")
    check_at_most("peak memory", peak, LIMITS.memory, " MB")
    check_at_most("files that ended their process", outcomes["ended its process"], 0)


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--size", type=int, default=1000, help="1,000 is full size")
    parser.add_argument("--only", default="", help="one bomb, or `fuzzed`")
    parser.add_argument("--seed", type=int, default=7, help="of the damage")
    parser.add_argument("--suffix", default="", help="damage only these files, such as .xls")
    options = read_options(parser, argv, count=20, size=1)
    if options.only in BOMBS:
        read_bomb(options.only, options.size)
        return
    for name in () if options.only else list(BOMBS)[: 2 if options.quick else None]:
        if options.quick:
            read_bomb(name, options.size)
        else:
            program = [sys.executable, "-m", "benchmarks.hostile", "--only", name, "--size", str(options.size)]
            subprocess.run(program, check=True)
    read_fuzzed(options.data, options.count, options.seed, options.suffix)


if __name__ == "__main__":
    run_benchmark(main)
