"""A file that attacks its reader is read within limits or refused by name, and the next file is read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.readers import READERS
from kumihimo.readers.documents import ReadingLimits, read_documents
from kumihimo.readers.file_reader import FileReader
from tests.readers.bombs import BOMBS

SIZE = 2  # 1,000 is the full size
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
    bomb.write_bytes(make(SIZE))
    good.write_text("<p>The ferry leaves at nine.", encoding="utf-8")
    try:
        documents = reader.read(bomb, "n/bomb")
    except SourceError as error:
        assert str(error).startswith("n/bomb")
    else:
        assert len({document.id for document in documents}) == len(documents)
    assert [document.text for document in reader.read(good, "n/good")] == ["The ferry leaves at nine."]


@pytest.mark.parametrize("name", SIMPLE)
def test_text_read_without_a_child_process_grows_with_the_file(name: str, tmp_path: Path) -> None:
    suffix, make = BOMBS[name]
    path = tmp_path / f"bomb{suffix}"
    path.write_bytes(make(SIZE))
    with suppress(SourceError):  # refused is fine too
        text = sum(len(document.text) for document in read_documents(path, "n", READERS))
        assert text <= 10 * path.stat().st_size
