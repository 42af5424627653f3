"""A zip file becomes its files; a file without a suffix is read by its content."""

from __future__ import annotations

import io
import json
from pathlib import Path
from warnings import catch_warnings
from zipfile import ZipFile

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.core.records import Document
from kumihimo.readers import READERS
from kumihimo.readers.documents import read_documents
from tests import factories_office


def packed(**files: bytes | str) -> bytes:
    data = io.BytesIO()
    with ZipFile(data, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def read(folder: Path, name: str, data: bytes) -> list[Document]:
    (folder / name).write_bytes(data)
    return read_documents(folder / name, name, READERS)


def texts(documents: list[Document]) -> dict[str, str]:
    return {document.uri: document.text for document in documents}


def test_each_file_of_an_archive_is_a_document(tmp_path: Path) -> None:
    inner = packed(**{"b.csv": "name,size\nherring,3\n"})
    hidden = {".git/x": "hidden", "__MACOSX/a.md": "hidden"}
    shown: dict[str, bytes | str] = {"notes/a.md": "# Tide", "in.zip": inner, "c.xyz": "?"}
    data = packed(**shown, **hidden)
    documents = read(tmp_path, "a.zip", data)
    assert texts(documents) == {
        "a.zip": "notes/a.md\nin.zip\nc.xyz",
        "a.zip#notes/a.md": "# Tide",
        "a.zip#in.zip": "b.csv",
        "a.zip#in.zip/b.csv": "name: herring; size: 3",
    }
    assert documents[0].metadata["not_read"] == ["a.zip#c.xyz: unsupported file type"]


def test_names_in_the_encoding_of_windows(tmp_path: Path) -> None:
    name = "潮見表の写し.txt".encode("cp932")
    named = packed(**{"x" * len(name): "tide"}).replace(b"x" * len(name), name)
    assert list(texts(read(tmp_path, "a.zip", named))) == ["a.zip", "a.zip#潮見表の写し.txt"]


def test_an_archive_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"^a\.zip: damaged, or not what its name says"):
        read(tmp_path, "a.zip", b"PK nothing")
    assert read(tmp_path, "a.zip", b"") == []


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"The ferry leaves at nine.", "The ferry leaves at nine."),
        ("潮が満ちる。船は九時に出る。".encode("cp932"), "潮が満ちる。船は九時に出る。"),
        (b"#!/bin/sh\necho tide\n", "#!/bin/sh\necho tide\n"),
        (b"<!doctype html><p>tide", "tide"),
        (b'<?xml version="1.0"?><a><b>tide</b></a>', "b: tide"),
        (json.dumps({"text": "tide"}).encode(), "tide"),
        (b"WEBVTT\n\n00:01.000 --> 00:02.000\ntide\n", "tide"),
        (b"{\\rtf1 tide}", "tide"),
        (b"From: a@b.example\nSubject: tide\n\nhigh", "From: a@b.example\nSubject: tide\n\nhigh"),
        (b"{curly} text that is no JSON }", "{curly} text that is no JSON }"),
    ],
)
def test_a_file_without_a_suffix_is_read_by_its_content(tmp_path: Path, data: bytes, expected: str) -> None:
    (document,) = read(tmp_path, "thing", data)
    assert document.text.strip() == expected.strip()


def test_office_files_without_a_suffix(tmp_path: Path) -> None:
    (document,) = read(tmp_path, "letter", factories_office.docx(factories_office.p("The tide.")))
    assert document.text == "The tide."
    assert list(texts(read(tmp_path, "pack", packed(**{"a.txt": "tide"})))) == ["pack", "pack#a.txt"]


BINARY = [b"\x7fELF\x02\x01\x01\0\0", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"\xd0\xcf\x11\xe0" + bytes(99), b""]


@pytest.mark.parametrize("data", BINARY)
def test_what_is_no_text_has_no_document(tmp_path: Path, data: bytes) -> None:
    assert read(tmp_path, "thing", data) == []


def test_parts_of_one_name_keep_their_suffix_and_content(tmp_path: Path) -> None:
    data = io.BytesIO()
    with ZipFile(data, "w") as archive, catch_warnings(action="ignore"):
        for number in range(40):
            archive.writestr("log/day.txt", f"watch {number}")
        archive.writestr("log/day~2.txt", "a name like that of a second one")
    documents = read(tmp_path, "a.zip", data.getvalue())
    names = ["log/day.txt", *(f"log/day~{number}.txt" for number in range(2, 41)), "log/day~2~2.txt"]
    assert documents[0].text.split("\n") == names
    contents = [*(f"watch {number}" for number in range(40)), "a name like that of a second one"]
    assert texts(documents[1:]) == dict(zip((f"a.zip#{name}" for name in names), contents, strict=True))
    assert "not_read" not in documents[0].metadata
