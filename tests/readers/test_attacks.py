"""Malicious and damaged files are refused by name, without hangs, floods or external access."""

from __future__ import annotations

import logging
import random
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.core.records import Document
from kumihimo.readers import archive
from tests import factories_office
from tests.counters import stop_endless_work
from tests.factories_office import changed, letter, lines, p, unzipped

SECRET = "file:///etc/passwd"
PARTS = {
    "a.docx": "word/document.xml",
    "a.pptx": "ppt/slides/slide1.xml",
    "a.xlsx": "xl/worksheets/sheet1.xml",
    "a.epub": "OEBPS/book.opf",
}
CORE = "docProps/core.xml"
LAUGHS = "".join(f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 10}">' for i in range(10))
DOCTYPES = {
    "laughs": (f'<!DOCTYPE x [<!ENTITY a "lol">{LAUGHS}]>', "&k;"),
    "quadratic": (f'<!DOCTYPE x [<!ENTITY k "{"k" * 200_000}">]>', "&k;" * 5000),
    "external": (f'<!DOCTYPE x [<!ENTITY k SYSTEM "{SECRET}">]>', "&k;"),
    "parameter": (f'<!DOCTYPE x [<!ENTITY % k SYSTEM "{SECRET}"> %k;]>', "Tides"),
}


@pytest.fixture(scope="module")
def samples() -> dict[str, bytes]:
    """Return a small file of each format."""

    def slide(show: Any) -> None:
        show.slides.add_slide(show.slide_layouts[0]).shapes.title.text = "Tides"
        show.core_properties.title = "Tides"

    def workbook(book: Any) -> None:
        factories_office.sheet(book, "S", ("boat", "built"), ("Tides", 1922))
        book.properties.title = "Tides"

    return {
        "a.docx": factories_office.docx(p("Tides")),
        "a.pptx": factories_office.pptx(slide),
        "a.xlsx": factories_office.xlsx(workbook),
        "a.epub": factories_office.epub(
            {"a.xhtml": factories_office.chapter("<p>Tides")}, "<dc:title>Tides</dc:title>"
        ),
        "a.pdf": factories_office.pdf(lines("Tides rise", "and fall."), lines("Twice a day.")),
        "a.eml": letter("Tides", a_csv=b"a,b\n1,2\n", b_txt=b"x"),
    }


@pytest.fixture(autouse=True)
def no_attack_is_endless() -> Iterator[None]:
    """Ignore warnings of libraries."""
    logging.disable()
    with stop_endless_work():
        yield
    logging.disable(logging.NOTSET)


def read_outcome(folder: Path, name: str, data: bytes) -> list[Document] | str:
    """Return the documents, or the error, which names the file."""
    try:
        return factories_office.every(folder, name, data)
    except SourceError as error:
        message = str(error)
    assert message.startswith(f"{name}: ")
    return message


def bomb(data: bytes, path: str, size: int) -> bytes:
    """Return the package with one part of `size` MB of spaces."""
    return changed(data, {path: b" " * (size << 20)})


def with_false_size(data: bytes, path: str) -> bytes:
    """Return the package with one part that declares a false, small size."""
    lie = bytearray(data)
    at = lie.rindex(path.encode()) - 46  # its entry in the central directory
    struct.pack_into("<I", lie, at + 24, 100)
    return bytes(lie)


@pytest.mark.parametrize("name", PARTS)
def test_a_zip_bomb(tmp_path: Path, samples: dict[str, bytes], name: str) -> None:
    message = read_outcome(tmp_path, name, bomb(samples[name], PARTS[name], 24))
    assert message == f"{name}: unpacks to far more than its size, like a zip bomb; it is not read"


def test_a_zip_of_many_parts(tmp_path: Path, samples: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_TOTAL_BYTES", 1 << 22)
    many = {f"x/{n}": bytes(1 << 20) for n in range(5)}  # each at the smallest size with a ratio check
    assert "unpacks to far more" in read_outcome(tmp_path, "a.epub", changed(samples["a.epub"], many))


@pytest.mark.parametrize("name", PARTS)
def test_a_part_that_lies_about_its_size(tmp_path: Path, samples: dict[str, bytes], name: str) -> None:
    message = read_outcome(tmp_path, name, with_false_size(bomb(samples[name], PARTS[name], 8), PARTS[name]))
    assert isinstance(message, str)


@pytest.mark.parametrize("doctype", DOCTYPES)
@pytest.mark.parametrize("name", [*PARTS, "core.pptx", "core.xlsx"])
def test_xml_that_grows_or_reaches_out(tmp_path: Path, samples: dict[str, bytes], name: str, doctype: str) -> None:
    name, path = (f"a.{name[5:]}", CORE) if name.startswith("core") else (name, PARTS[name])
    head, reference = DOCTYPES[doctype]
    source = re.sub(r"<\?xml[^>]*\?>", "", unzipped(samples[name])[path].decode())
    assert ">Tides<" in source
    attack = f'<?xml version="1.0"?>{head}{source.replace(">Tides<", f">{reference}<", 1)}'
    result = read_outcome(tmp_path, name, changed(samples[name], {path: attack}))
    rendered = result if isinstance(result, str) else "".join(f"{d.title} {d.text} {d.metadata}" for d in result)
    assert "root:" not in rendered
    assert len(rendered) < 1000


@pytest.mark.parametrize(
    ("name", "path", "old", "new"),
    [
        ("a.epub", "OEBPS/book.opf", 'href="a.xhtml"', 'href="../../../../../../etc/passwd"'),
        ("a.epub", "META-INF/container.xml", "OEBPS/book.opf", "/etc/passwd"),
        ("a.docx", "_rels/.rels", "word/document.xml", "../../../etc/passwd"),
        ("a.docx", "_rels/.rels", 'Target="word/document.xml"', f'Target="{SECRET}" TargetMode="External"'),
    ],
)
def test_paths_that_lead_out(
    tmp_path: Path, samples: dict[str, bytes], name: str, path: str, old: str, new: str
) -> None:
    source = unzipped(samples[name])[path].decode()
    assert old in source
    message = read_outcome(tmp_path, name, changed(samples[name], {path: source.replace(old, new)}))
    assert isinstance(message, str)
    assert "root:" not in message


def test_what_is_nested_deeper_than_the_stack(tmp_path: Path) -> None:
    control = "<w:sdt><w:sdtContent>"
    letters = b"".join(b"Content-Type: multipart/mixed; boundary=B%d\r\n\r\n--B%d\r\n" % (n, n) for n in range(3000))
    attacks = {
        "a.docx": factories_office.docx(control * 5000 + p("deep") + control.replace("<", "</") * 5000),
        "b.docx": factories_office.docx("<w:tbl><w:tr><w:tc>" * 60 + p("deep") + "</w:tc></w:tr></w:tbl>" * 60),
        "a.epub": factories_office.epub({"a.xhtml": "<div>" * 3000 + "deep"}),
        "b.epub": changed(factories_office.epub({}), {"OEBPS/book.opf": "<a>" * 100_000}),
        "a.eml": b"From: a@b\r\nSubject: x\r\n" + letters + b"\r\ndeep",
        "b.eml": b"From: a@b\r\n" + b"Content-Type: message/rfc822\r\n\r\n" * 5000 + b"From: x\r\n\r\nx",
    }
    outcomes = {name: read_outcome(tmp_path, name, data) for name, data in attacks.items()}
    assert [name for name, message in outcomes.items() if isinstance(message, str)] == [
        "a.docx",
        "b.epub",
        "a.eml",
    ]


@pytest.mark.parametrize("name", [*PARTS, "a.pdf", "a.eml", "a.xls", "a.xlsb", "a.xlsm"])
@pytest.mark.parametrize(
    "data",
    [b"", bytes(5000), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(3000), b"PK\3\4"],
)
def test_what_is_something_else(tmp_path: Path, name: str, data: bytes) -> None:
    assert isinstance(read_outcome(tmp_path, name, data), str)


@pytest.mark.parametrize("suffix", [".docx", ".pptx", ".epub", ".pdf", ".eml"])
def test_one_format_by_the_name_of_another(tmp_path: Path, samples: dict[str, bytes], suffix: str) -> None:
    for name, data in samples.items():
        if not name.endswith(suffix):
            assert isinstance(read_outcome(tmp_path, f"b{suffix}", data), str), name


@pytest.mark.parametrize("name", [*PARTS, "a.pdf", "a.eml"])
def test_files_cut_short(tmp_path: Path, samples: dict[str, bytes], name: str) -> None:
    data = samples[name]
    for share in range(0, 100, 10):
        read_outcome(tmp_path, name, data[: len(data) * share // 100])


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx", "a.epub", "a.pdf", "a.eml"])
def test_files_with_a_few_bytes_gone_wrong(tmp_path: Path, samples: dict[str, bytes], name: str) -> None:
    rng = random.Random(name)
    for _ in range(25):
        data = bytearray(samples[name])
        for _ in range(rng.choice((1, 3, 20))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        read_outcome(tmp_path, name, bytes(data))


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx", "a.epub"])
def test_parts_with_a_few_letters_gone_wrong(tmp_path: Path, samples: dict[str, bytes], name: str) -> None:
    rng = random.Random(name)
    parts = unzipped(samples[name])
    for _ in range(25):
        path = PARTS[name]
        part = bytearray(parts[path])
        for _ in range(rng.choice((1, 3))):
            part[rng.randrange(len(part))] = rng.choice(b"<>/&;=\"':-abc")
        read_outcome(tmp_path, name, factories_office.zipped({**parts, path: bytes(part)}))
