"""A file that attacks its reader is read within limits or refused by name, and the next file is read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.core.records import Document
from kumihimo.readers import READERS
from kumihimo.readers.documents import read_documents
from kumihimo.readers.file_reader import FileReader
from kumihimo.readers.limits import ReadingLimits
from tests.readers.bombs import BOMBS

SIZES = {  # enough to be over a limit, or for a reader without bounds; 1,000 is the full size
    "wide_header": 100,
    "long_keys": 100,
    "repeated_chapter": 100,
    "merged_cells": 20,
    "shared_string": 80,
    "many_operators": 80,
    "nested_blocks": 200,
}
SIZE = 2  # of the others
SIMPLE = [name for name, (suffix, _) in BOMBS.items() if READERS[suffix].is_simple]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems may not limit memory and time")


@pytest.fixture(scope="module")
def reader() -> Iterator[FileReader]:
    with closing(FileReader(READERS, ReadingLimits(memory=400, seconds=1, text=20))) as opened:
        yield opened


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_does_not_stop_the_file_after_it(name: str, reader: FileReader, tmp_path: Path) -> None:
    suffix, make = BOMBS[name]
    bomb, good = tmp_path / f"bomb{suffix}", tmp_path / "good.html"
    bomb.write_bytes(make(SIZES.get(name, SIZE)))
    good.write_text("<p>The ferry leaves at nine.", encoding="utf-8")
    documents, error = list[Document](), "n/bomb"
    try:
        documents = reader.read(bomb, "n/bomb")
    except SourceError as refusal:
        error = str(refusal)
    assert error.startswith("n/bomb")
    assert len({document.id for document in documents}) == len(documents)
    assert [document.text for document in reader.read(good, "n/good")] == ["The ferry leaves at nine."]


@pytest.mark.parametrize("name", SIMPLE)
def test_text_read_without_a_child_process_grows_with_the_file(name: str, tmp_path: Path) -> None:
    suffix, make = BOMBS[name]
    path = tmp_path / f"bomb{suffix}"
    path.write_bytes(make(SIZES.get(name, SIZE)))
    with suppress(SourceError):  # refused is fine too
        text = sum(len(document.text) for document in read_documents(path, "n", READERS))
        assert text <= 10 * path.stat().st_size
