"""A file over a limit is refused by name; every other file is read."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from kumihimo import Kumihimo
from kumihimo.core.errors import LimitExceeded, SourceError
from kumihimo.core.records import Document
from kumihimo.core.wiring import FileType, collect_file_types
from kumihimo.readers import READERS, documents
from kumihimo.readers.documents import read_documents
from kumihimo.readers.file_reader import FileReader
from kumihimo.readers.limits import ReadingLimits
from kumihimo.readers.page import Page
from kumihimo.workers import WorkerStopped
from tests import factories_office
from tests.readers.hungry_readers import read_hungry, read_leaking

HUNGRY = {**READERS, **collect_file_types(read_hungry)}
linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems may not limit memory and time")


@pytest.fixture
def open_reader() -> Iterator[Callable[..., FileReader]]:
    readers: list[FileReader] = []

    def open_it(types: dict[str, FileType] = HUNGRY, **limits: int) -> FileReader:
        readers.append(FileReader(types, ReadingLimits(**limits)))
        return readers[-1]

    yield open_it
    for reader in readers:
        reader.close()


def write(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


# -- limits on what a file holds


@pytest.mark.parametrize(
    ("limits", "data", "message"),
    [
        (
            {"size": 1},
            b"x" * ((1 << 20) + 1),
            "it holds more than 1 MB (reading.size): split the file, or raise this setting",
        ),
        ({"text": 1}, b"a b " * 250_001, "it holds more than 1 million characters of text (reading.text)"),
    ],
)
def test_size_and_text_are_limited(limits: dict[str, int], data: bytes, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", data)
    with pytest.raises(LimitExceeded) as error:
        read_documents(path, "n/a.txt", READERS, ReadingLimits(**limits))
    assert str(error.value).startswith(f"n/a.txt: {message}")
    assert read_documents(path, "n/a.txt", READERS)


def test_rows_are_limited_and_metadata_counts_as_text(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"text": "x", "note": ["y" * 600_000]}) + "\n" for _ in range(2))
    path = write(tmp_path / "a.jsonl", rows)
    assert len(read_documents(path, "a", READERS, ReadingLimits(rows=2, text=2))) == 2
    with pytest.raises(LimitExceeded, match=r"holds more than 1 rows \(reading\.rows\)"):
        read_documents(path, "a", READERS, ReadingLimits(rows=1))
    with pytest.raises(LimitExceeded, match=r"\(reading\.text\)"):
        read_documents(path, "a", READERS, ReadingLimits(text=1))


# -- long texts


def test_a_long_text_becomes_documents_that_make_the_same_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_DOCUMENT_CHARS", 100)
    text = "---\ntitle: Tides\n---\n" + "\n\n".join(f"# {n}\n" + "The sea. " * (n % 7) for n in range(40)) + "x" * 250
    parts = read_documents(write(tmp_path / "a.md", text), "n/a.md", READERS)
    assert "".join(part.text for part in parts) == text
    assert all(0 < len(part.text) <= 100 for part in parts)
    assert [part.uri for part in parts][:3] == ["n/a.md", "n/a.md#part-2", "n/a.md#part-3"]
    assert {part.file for part in parts} == {"n/a.md"}
    assert {part.title for part in parts} == {"Tides"}
    assert len({part.id for part in parts}) == len(parts)
    assert parts[0].text[parts[0].body :].startswith("# 0")
    assert {part.body for part in parts[1:]} == {0}


def test_parts_keep_the_places_of_their_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_slides(data: bytes, name: str) -> Iterator[Page]:
        yield Page(fragment="deck", text="a" * 30 + "b" * 30 + "c" * 30, places=((0, "1"), (30, "2"), (60, "3")))

    monkeypatch.setattr(documents, "MAX_DOCUMENT_CHARS", 40)
    parts = read_documents(write(tmp_path / "a.odd", ""), "a.odd", {".odd": FileType("x/odd", read_slides)})
    assert [part.uri for part in parts] == ["a.odd#deck", "a.odd#deck/part-2", "a.odd#deck/part-3"]
    assert [part.places for part in parts] == [((0, "1"), (30, "2")), ((0, "2"), (20, "3")), ((0, "3"),)]


def test_a_text_of_more_chunks_than_one_document_may_have_is_searchable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kumihimo.core.task.MAX_ROWS", 50)
    monkeypatch.setattr(documents, "MAX_DOCUMENT_CHARS", 1000)
    notes = [f"Note {n} is about the {word}." for n, word in enumerate(["rope", "mast", "keel", "tide"] * 100)]
    write(tmp_path / "long.txt", " ".join([*notes, "The heron sleeps at noon."]))
    with Kumihimo.open(tmp_path / ".kumi", settings={"chunks": {"size": 20, "overlap": 0}}) as kumi:
        built = kumi.index(tmp_path / "long.txt", methods=["bm25"])
        assert built.failed == ()
        assert built.rows["chunks"] > 50
        assert kumi.retrieve("heron", "bm25").evidence[0].text.endswith("The heron sleeps at noon.")
        assert kumi.remove("long.txt").rows["documents"] == 0


# -- the child process


def test_small_simple_files_are_read_here_and_others_in_one_child(
    open_reader: Callable[..., FileReader], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = open_reader()
    assert len(reader.read(write(tmp_path / "a.md", "# Tides"), "a.md")) == 1
    assert reader.worker.requests == 0
    children = {reader.read(write(tmp_path / f"{n}.hungry", "eat"), "a")[0].text for n in range(3)}
    assert len(children) == 1
    assert children != {f"eat {os.getpid()}"}
    monkeypatch.setattr("kumihimo.readers.file_reader._SMALL_BYTES", 3)
    assert reader.read(tmp_path / "a.md", "a.md") == read_documents(tmp_path / "a.md", "a.md", READERS)
    assert reader.worker.requests == 4


def test_only_the_formats_that_security_md_names_are_read_without_a_child() -> None:
    suffixes = {suffix for suffix, file_type in READERS.items() if file_type.is_simple}
    plain, markdown = {".txt", ".text", ".log"}, {".md", ".markdown"}
    others = {".rst", ".org", ".tex", ".bib", ".yaml", ".yml", ".csv", ".tsv", ".json", ".jsonl", ".ndjson"}
    assert suffixes == plain | markdown | others


def read_here(path: Path, uri: str) -> list[Document]:
    return read_documents(path, uri, HUNGRY)


def outcome(read: Callable[[Path, str], list[Document]], path: Path, uri: str) -> object:
    """Return the documents, or the class and text of the error."""
    try:
        return read(path, uri)
    except SourceError as error:
        return type(error), str(error)


def test_the_child_gives_what_this_process_would_read(open_reader: Callable[..., FileReader], tmp_path: Path) -> None:
    reader = open_reader()
    files = {
        "a.docx": factories_office.docx(factories_office.p("組紐 𠮷 \u2028 x")),
        "a.eml": factories_office.letter(a_pdf=b"%PDF", b_txt=b"note"),
        "b.eml": b"not a letter",
        "a.html": b"<title>T</title><h1>One</h1><p>Two",
        "a.pdf": b"broken",
    }
    for name, data in files.items():
        path = write(tmp_path / name, data)
        assert outcome(reader.read, path, f"n/{name}") == outcome(read_here, path, f"n/{name}")
    assert reader.worker.requests == len(files), "an unreadable file does not end the process"


def test_a_reader_that_only_this_process_has_runs_here(open_reader: Callable[..., FileReader], tmp_path: Path) -> None:
    def read_odd(data: bytes, name: str) -> Iterator[Page]:
        yield Page(text=f"{os.getpid()}")

    reader = open_reader({**READERS, ".odd": FileType("x/odd", read_odd)})
    assert reader.read(write(tmp_path / "a.odd", "x"), "a.odd")[0].text == str(os.getpid())
    letter = write(tmp_path / "a.eml", factories_office.letter(a_odd=b"x"))
    assert [d.text for d in reader.read(letter, "a.eml")][1:] == [str(os.getpid())]
    assert reader.worker.requests == 0


@linux
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memory 600", r"it needs more than 311 MB of memory \(reading\.memory\)"),
        ("spin 1", r"it needs more than 1 seconds of processor time \(reading\.seconds\)"),
    ],
)
def test_a_bomb_is_refused_by_name_and_the_next_file_is_read(
    text: str, message: str, open_reader: Callable[..., FileReader], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kumihimo.readers.reading_worker._CLOCK_FACTOR", 100)  # on a busy machine too
    reader = open_reader(memory=500, seconds=1)
    with pytest.raises(LimitExceeded, match=f"^n/a.hungry: {message}"):
        reader.read(write(tmp_path / "a.hungry", text), "n/a.hungry")
    assert reader.read(write(tmp_path / "b.hungry", "eat"), "n/b.hungry")


def test_a_crash_is_named_and_may_have_other_causes(open_reader: Callable[..., FileReader], tmp_path: Path) -> None:
    reader = open_reader(memory=500)
    message = r"^n/a.hungry: its reader crashed \(Aborted\); the file is damaged, or needs more than 311 MB of memory"
    with pytest.raises(SourceError, match=message) as error:
        reader.read(write(tmp_path / "a.hungry", "crash"), "n/a.hungry")
    assert not isinstance(error.value, LimitExceeded), "the next build tries again"
    assert reader.read(write(tmp_path / "b.hungry", "eat"), "n/b.hungry")


def test_time_by_the_clock_is_limited(
    open_reader: Callable[..., FileReader], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> Iterator[Any]:
        raise WorkerStopped("clock")
        yield

    reader = open_reader(seconds=100)
    monkeypatch.setattr(reader.worker, "ask", stop)
    with pytest.raises(SourceError, match=r"^a: it was not read within 24 seconds") as error:
        reader.read(write(tmp_path / "a.html", "x"), "a")
    assert not isinstance(error.value, LimitExceeded)


@pytest.mark.parametrize("metadata", [{"date": date(2026, 1, 1)}, {1: "x", "y": 2}])
def test_metadata_that_json_cannot_hold_is_an_error_of_the_file(metadata: Any, tmp_path: Path) -> None:
    def read_odd(data: bytes, name: str) -> Iterator[Page]:
        yield Page(text="x", metadata=metadata)

    path = write(tmp_path / "a.odd", "x")
    with pytest.raises(SourceError, match=r"^n/a\.odd: cannot be read \(its metadata is not JSON: "):
        read_documents(path, "n/a.odd", {".odd": FileType("x/odd", read_odd)})


@pytest.mark.parametrize(("size", "seconds", "memory"), [(0, 15, 1240), (5_000, 23, 1260), (10**6, 300, 2000)])
def test_time_and_memory_follow_the_size_of_the_file(size: int, seconds: int, memory: int) -> None:
    limits = ReadingLimits().for_size(size)
    assert (limits.seconds, limits.memory, limits.text) == (seconds, memory, 250)
    raised = ReadingLimits(seconds=3000, memory=4000).for_size(size)
    assert (abs(raised.seconds - 10 * seconds) <= 10, raised.memory) == (True, 2 * memory)


@linux
def test_memory_that_earlier_files_use_does_not_count(open_reader: Callable[..., FileReader], tmp_path: Path) -> None:
    reader = open_reader({**READERS, ".leak": FileType("x/leak", read_leaking)}, memory=500)
    path = write(tmp_path / "a.leak", "x")
    counts = [reader.read(path, "a.leak")[0].text for _ in range(5)]
    assert counts[0] == "1"
    assert "1" in counts[1:], "a fresh process decides"


@linux
def test_a_file_over_a_limit_is_not_read_again_until_something_changes(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    bomb, _ = write(notes / "a.hungry", "memory 600"), write(notes / "b.txt", "The ferry leaves at nine.")

    def build(**limits: int) -> tuple[int, list[str]]:
        settings = {"reading": {"memory": 500, **limits}}
        with Kumihimo.open(tmp_path / ".kumi", settings=settings, readers=[read_hungry]) as kumi:
            built = kumi.index(notes, methods=["bm25"])
            assert kumi.retrieve("ferry", "bm25").evidence
        return built.read, [error for _, _, error in built.failed]

    read, errors = build()
    assert (read, len(errors)) == (1, 1)
    assert errors[0].startswith("notes/a.hungry: it needs more than 311 MB of memory")
    bomb.touch()
    os.utime(bomb, ns=(bomb.stat().st_atime_ns, bomb.stat().st_mtime_ns))
    original, reads = FileReader._read_in_worker, list[str]()

    def count(self: FileReader, path: Path, uri: str) -> Any:
        reads.append(uri)
        return original(self, path, uri)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileReader, "_read_in_worker", count)
        build()
        reads.clear()
        assert build() == (0, errors)
        assert reads == []
        assert build(memory=1100) == (1, [])
        assert reads == ["notes/a.hungry"]
        assert build() == (0, [])


def test_files_without_text_are_reported(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    write(notes / "empty.txt", "")
    write(notes / "blank.md", " \n")
    write(notes / "full.txt", "The ferry leaves at nine.")
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        assert kumi.index(notes, methods=["bm25"]).empty == ("notes/blank.md", "notes/empty.txt")


# -- files that change while they are read


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    os.mkfifo(path)
    with pytest.raises(SourceError, match=r"^a\.txt: not an ordinary file"):
        read_documents(path, "a.txt", READERS)


def test_a_time_after_the_last_year_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status = os.stat_result((0o100644, 0, 0, 1, 0, 0, 4, 0, 2**40, 0))
    monkeypatch.setattr("kumihimo.readers.documents.os.fstat", lambda _: status)
    (document,) = read_documents(write(tmp_path / "a.txt", "tide and more"), "a.txt", READERS)
    assert (document.text, document.modified) == ("tide", ""), "a file that grows is read as it was"


def test_the_names_of_rows_count_as_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"text": "a"}\n' * 2000)
    with pytest.raises(LimitExceeded, match=r"\(reading\.text\)"):
        read_documents(path, "n" * 500, READERS, ReadingLimits(text=1))
