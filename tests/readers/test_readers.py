"""A file becomes documents, or an error with a remedy."""

from __future__ import annotations

import os
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import SourceError
from kumihimo.core.records import Document
from kumihimo.readers import PICTURES, READERS, documents as reading, has_ocr
from kumihimo.readers.documents import MAX_TITLE_CHARS, has_reader
from kumihimo.readers.folder import walk
from tests import factories_office

OFFICE = {
    *(PICTURES if has_ocr() else ()),
    ".pdf",
    ".docx",
    ".pptx",
    ".xlsx",
    ".xlsm",
    ".xls",
    ".epub",
    ".eml",
    ".mbox",
    ".msg",
    ".doc",
    ".ppt",
    ".pps",
    ".zip",
    ".odt",
    ".odp",
    ".ods",
    "",
}
STRUCTURED = {".ipynb", ".rtf", ".srt", ".textunits", ".vtt", ".xml"}  # not every text is one of these
read_documents = partial(reading.read_documents, readers=READERS)
PLAIN = sorted(READERS.keys() - OFFICE)
SHARED = Path(__file__).parents[3] / "shared" / "data"


def write(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    os.utime(path, (1795228260, 1795228260))
    return path


def test_each_reader_is_where_the_table_of_file_types_says() -> None:
    for file_type in READERS.values():
        assert callable(getattr(import_module(file_type.read.__module__), file_type.read.__qualname__))


def test_a_whole_file(tmp_path: Path) -> None:
    path = write(tmp_path / "Harbour.MD", "# The  sea\n\nBlue.\n")
    assert read_documents(path, "notes/Harbour.MD") == [
        Document(
            id=hash_parts("notes/Harbour.MD"),
            uri="notes/Harbour.MD",
            file="notes/Harbour.MD",
            title="The sea",
            media_type="text/markdown",
            modified="2026-11-21T02:31:00Z",
            text="# The  sea\n\nBlue.\n",
            fields={"kind": "text"},
        )
    ]


def test_rows_of_a_file(tmp_path: Path) -> None:
    path = write(
        tmp_path / "r.jsonl", '{"id": "r-17", "text": "a"}\n{"text": " "}\n{"text": "b", "date": "2026-01-02"}\n'
    )
    first, second = read_documents(path, "r.jsonl")
    assert (first.id, first.uri, first.file) == (hash_parts("r.jsonl#r-17"), "r.jsonl#r-17", "r.jsonl")
    assert (first.title, first.modified) == ("r", "")
    assert (second.uri, second.modified) == ("r.jsonl#3", "2026-01-02")


@pytest.mark.parametrize("suffix", PLAIN)
@pytest.mark.parametrize("data", [b"", b" \n\t\r\n", b"\xef\xbb\xbf", b"\xff\xfe"])
def test_an_empty_file_holds_no_document(tmp_path: Path, suffix: str, data: bytes) -> None:
    assert read_documents(write(tmp_path / f"a{suffix}", data), f"a{suffix}") == []


@pytest.mark.parametrize("suffix", PLAIN)
def test_binary_data_is_refused_by_name(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"a{suffix}", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0")
    with pytest.raises(SourceError, match=rf"^x/a\{suffix}: this is not text; "):
        read_documents(path, f"x/a{suffix}")


@pytest.mark.parametrize("suffix", sorted({*PLAIN} - STRUCTURED))
def test_one_line_of_two_million_characters(tmp_path: Path, suffix: str) -> None:
    words = "word " * 400_000
    quoted = suffix in (".json", ".jsonl", ".ndjson")
    (document,) = read_documents(
        write(tmp_path / f"a{suffix}", f'{{"text": "{words}"}}' if quoted else words), f"a{suffix}"
    )
    assert len(document.text) >= len(words) - 1


def test_a_title_is_no_book(tmp_path: Path) -> None:
    (document,) = read_documents(write(tmp_path / "a.md", "# " + "long " * 100_000), "a.md")
    assert MAX_TITLE_CHARS - 12 < len(document.title) <= MAX_TITLE_CHARS


def test_unknown_suffixes(tmp_path: Path) -> None:
    assert not has_reader(Path("a.xyz"), READERS)
    assert has_reader(Path("README"), READERS)
    assert has_reader(Path("A.HTM"), READERS)
    with pytest.raises(
        SourceError, match=r"^a\.jsn: no reader for '\.jsn'; did you mean '\.json'\? There are \d+, such as \."
    ):
        read_documents(write(tmp_path / "a.jsn", "{}"), "a.jsn")
    without_ocr = {suffix: each for suffix, each in READERS.items() if suffix not in PICTURES}
    with pytest.raises(
        SourceError, match=r"^a\.png: to read the text of pictures, run `pip install 'kumihimo\[ocr\]'`"
    ):
        reading.read_documents(write(tmp_path / "a.png", b""), "a.png", without_ocr)


def test_what_is_not_there_or_no_file(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"^a\.txt: No such file or directory; check that it exists"):
        read_documents(tmp_path / "a.txt", "a.txt")
    (tmp_path / "folder.txt").mkdir()
    with pytest.raises(SourceError, match=r"^folder\.txt: not an ordinary file"):
        read_documents(tmp_path / "folder.txt", "folder.txt")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(SourceError, match="not an ordinary file"):
        read_documents(tmp_path / "pipe.txt", "pipe.txt")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "x")
    path.chmod(0)
    with pytest.raises(SourceError, match=r"^a\.txt: Permission denied; .* you may read it"):
        read_documents(path, "a.txt")


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data is not here")
def test_all_shared_files_are_read_and_no_two_documents_share_an_id() -> None:
    files = [(path, uri) for path, uri in walk(SHARED / "messy") if has_reader(path, READERS)]
    documents = [document for path, uri in files for document in read_documents(path, uri)]
    assert len(files) > 5
    assert len({document.id for document in documents}) == len(documents)
    assert len(read_documents(SHARED / "multihop" / "musique_train100_corpus.jsonl", "m.jsonl")) == 1890


def test_an_attachment_has_the_date_and_sender_of_its_letter(tmp_path: Path) -> None:
    data = factories_office.letter(boats_csv=b"boat,built\nMaru,1922\n")
    letter, table = factories_office.every(tmp_path, "mail.eml", data)
    assert table.metadata == {key: letter.metadata[key] for key in ("from", "date")}
    assert table.metadata["date"] == "2026-05-01T00:30:00Z"


def test_a_long_title_keeps_its_end(tmp_path: Path) -> None:
    title = f"Meeting of {'the very long ' * 20}committee, 2026-05-01"
    document = factories_office.one(tmp_path, "a.md", f"# {title}\n\nIt rained.\n".encode())
    assert len(document.title) <= 200
    assert document.title.startswith("Meeting of the very")
    assert document.title.endswith("committee, 2026-05-01")
