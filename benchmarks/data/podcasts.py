"""archive of transcripts, table of questions (GraphRAG) -> one row a transcript, and the same table."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from zipfile import BadZipFile, ZipFile

from benchmarks.data.sources import Sample, SourceError, Tables, read_table


def convert_podcasts(files: Sequence[Path], _sample: Sample) -> Tables:
    """Convert the texts of an archive; the questions have no answers."""
    try:
        with ZipFile(files[0]) as archive:
            texts = {PurePosixPath(name).name: archive.read(name) for name in archive.namelist() if name[-4:] == ".txt"}
    except (BadZipFile, EOFError, RuntimeError, zlib.error) as error:
        raise SourceError(f"{files[0]} is no whole ZIP archive: {error}") from None
    if not all("question_text" in row for row in read_table(files[1])):
        raise SourceError(f"{files[1]} has no column question_text")
    rows = [{"id": name, "text": content.decode("utf-8")} for name, content in sorted(texts.items())]
    return {"_podcasts.jsonl": rows, "_questions.csv": files[1].read_bytes()}
