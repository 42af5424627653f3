"""A failing reader raises an error with the name of the file and the remedy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.core.wiring import FileType
from kumihimo.readers import READERS
from kumihimo.readers.documents import has_reader, read_documents
from kumihimo.readers.page import Page
from tests import factories_office


@pytest.mark.parametrize(
    ("name", "data", "needed"),
    [
        ("a.pdf", lambda: factories_office.pdf(factories_office.lines("x")), "pypdfium2"),
        ("a.docx", lambda: factories_office.docx(factories_office.p("x")), "docx"),
        ("a.pptx", lambda: factories_office.pptx(lambda show: None), "pptx"),
        (
            "a.xlsx",
            lambda: factories_office.xlsx(lambda book: factories_office.sheet(book, "S", ("x",))),
            "python_calamine",
        ),
    ],
)
def test_what_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: Callable[[], bytes], needed: str
) -> None:
    content = data()
    monkeypatch.setitem(sys.modules, needed, None)
    with pytest.raises(SourceError, match=rf"^x/{name}: reading it needs {needed}: `pip install 'kumihimo\[docs\]'`$"):
        read_documents(_write_file(tmp_path / name, content), f"x/{name}", READERS)


def test_a_library_that_cannot_be_loaded_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = factories_office.docx(factories_office.p("x"))
    monkeypatch.setitem(sys.modules, "docx", ModuleType("docx"))
    message = r"cannot be loaded \(cannot import name .*'docx'.*: `pip install --force-reinstall 'kumihimo\[docs\]'`$"
    with pytest.raises(SourceError, match=message):
        read_documents(_write_file(tmp_path / "a.docx", content), "x/a.docx", READERS)


def _write_file(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


class PanicException(BaseException):
    """What PyO3 raises where Rust panics."""


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (ValueError("odd " * 99), "odd odd .*"),
        (KeyError("rId7"), "it is damaged"),
        (AttributeError("'NoneType' object has no attribute 'text'"), "it is damaged"),
        (RecursionError("maximum recursion depth exceeded"), "it is nested too deep"),
        (OSError(), "it is damaged"),
        (SyntaxError("Opening and ending tag mismatch"), "Opening and ending tag mismatch"),
        (PanicException("index out of bounds: the len is 3 but the index is 7"), "it is damaged"),
        (SystemExit(2), "it is damaged"),
    ],
)
def test_whatever_a_reader_raises_is_an_error_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: BaseException, reason: str
) -> None:
    def reader(data: bytes, name: str) -> Iterator[Page]:
        yield Page(text="half of it")
        raise raised

    monkeypatch.setitem(READERS, ".odd", FileType("x/odd", reader))
    message = rf"^x/a\.odd: cannot be read \({reason}\); save it again, or in another format$"
    with pytest.raises(SourceError, match=message) as error:
        read_documents(_write_file(tmp_path / "a.odd", b""), "x/a.odd", READERS)
    assert len(str(error.value)) < 300


def test_an_attachment_that_needs_more_is_not_read_and_the_letter_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    (document,) = factories_office.every(tmp_path, "mail.eml", factories_office.letter(a_pdf=b"%PDF"))
    message = "mail.eml#a.pdf: reading it needs pypdfium2: `pip install 'kumihimo[docs]'`"
    assert document.metadata["not_read"] == [message]


@pytest.mark.parametrize("suffix", sorted(READERS))
def test_suffixes_are_read_in_capitals_too(tmp_path: Path, suffix: str) -> None:
    assert has_reader(tmp_path / f"A{suffix.upper()}", READERS)
