"""Word and PowerPoint files of 1997 to 2003, as LibreOffice writes them, become their text."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.readers.doc import read_doc
from kumihimo.readers.ole import open_ole
from kumihimo.readers.page import Page
from kumihimo.readers.ppt import read_ppt
from tests import factories_office
from tests.counters import stop_endless_work
from tests.factories_ole import compound

FOLDER = Path(__file__).parent / "old_office"
WORD, SLIDES = (FOLDER / "tides.doc").read_bytes(), (FOLDER / "tides.ppt").read_bytes()
Read = Callable[[bytes, str], Iterable[Page]]


@pytest.fixture(autouse=True)
def nothing_is_endless() -> Iterator[None]:
    with stop_endless_work():
        yield


def changed(data: bytes, **values: tuple[int, str, int]) -> bytes:
    """Return the file with other numbers in its streams: their offset, kind and value."""
    file = open_ole(data, "x")
    streams = {"/".join(path): bytearray(file.read_stream(*path)) for path in file.streams}
    for name, (offset, kind, number) in values.items():
        struct.pack_into(f"<{kind}", streams[name.replace("_", " ")], offset, number)
    return compound({name: bytes(stream) for name, stream in streams.items()})


def refusal(read: Read, data: bytes) -> str:
    with pytest.raises(SourceError) as error:
        list(read(data, "a"))
    return str(error.value)


def test_headings_lists_tables_notes_and_fields() -> None:
    (page,) = read_doc(WORD, "a.doc")
    assert page.text == (
        "# Tides\n\nThe sea rises, and the ferry leaves\nat nine.\n\n"
        "## 潮が満ちる\n\n組紐の町で、𠮷野さんが見ていた。\n\n"
        "- one\n  - inner\n- two\n\nday | m | note\n1 | 2.4 |\n2 | | low\n\nThe end.\n\nTwice a day."
    )
    assert page.places == ((0, "§ Tides"), (55, "§ 潮が満ちる"))
    assert (page.title, page.metadata) == ("Tide book", {"author": "Sabine Orrell"})


def test_slides_are_places() -> None:
    (page,) = read_ppt(SLIDES, "a.ppt")
    assert page.text == (
        "## Tides\n\nThe sea rises.\nThe ferry waits.\n\nA box on Tides\n\nSpeak slowly.\n\n"
        "## 潮が満ちる\n\n夜に満ちる。\n\nA box on 潮が満ちる"
    )
    assert page.places == ((0, "slide 1"), (page.text.index("## 潮"), "slide 2"))
    assert page.title == "Tides"


def test_the_type_without_a_suffix(tmp_path: Path) -> None:
    assert factories_office.one(tmp_path, "letter", WORD).text.startswith("# Tides")
    assert factories_office.one(tmp_path, "talk", SLIDES).places[0] == (0, "slide 1")


def test_locked_and_older_files_are_named() -> None:
    flags = struct.unpack_from("<H", open_ole(WORD, "x").read_stream("WordDocument"), 10)[0]
    locked = "a: locked with a password; save it without one"
    assert refusal(read_doc, changed(WORD, WordDocument=(10, "H", flags | 0x100))) == locked
    assert refusal(read_ppt, changed(SLIDES, Current_User=(12, "I", 0xF3D1C4DF))) == locked
    assert refusal(read_doc, changed(WORD, WordDocument=(2, "H", 0x68))).startswith("a: not a Word file of 1997")
    assert refusal(read_doc, compound({"Workbook": b"x"})).startswith("a: not a Word file of 1997")
    assert refusal(read_ppt, compound({"Workbook": b"x"})).startswith("a: not a PowerPoint file of 1997")


@pytest.mark.parametrize(("read", "data"), [(read_doc, WORD), (read_ppt, SLIDES)], ids=["doc", "ppt"])
def test_what_is_no_such_file_is_refused(read: Read, data: bytes) -> None:
    for other in (b"", b"PK\3\4", data[:8], data[:700], b"\xd0\xcf\x11\xe0" + bytes(3000)):
        assert refusal(read, other).startswith("a: ")


def test_a_text_that_is_used_again_and_again_is_refused() -> None:
    main, table = (bytearray(open_ole(WORD, "x").read_stream(name)) for name in ("WordDocument", "1Table"))
    pieces = [piece for n in range(2000) for piece in (n * 4000,)] + [2000 * 4000]
    plc = struct.pack(f"<{len(pieces)}I", *pieces) + struct.pack("<HIH", 0, 0x40000000, 0) * (len(pieces) - 1)
    struct.pack_into("<II", main, 0x1A2, len(table), len(plc) + 5)
    table += struct.pack("<BI", 2, len(plc)) + plc
    assert "unpacks to far more than its size" in refusal(read_doc, compound({"WordDocument": main, "1Table": table}))


def test_slides_that_lead_to_each_other_end() -> None:
    stream = open_ole(SLIDES, "x").read_stream("PowerPoint Document")
    user = open_ole(SLIDES, "x").read_stream("Current User")
    edit = struct.unpack_from("<I", user, 16)[0]
    looped = bytearray(stream)
    struct.pack_into("<I", looped, edit + 16, edit)  # the edit before an edit is itself
    (page,) = read_ppt(compound({"PowerPoint Document": bytes(looped), "Current User": user}), "a")
    assert page.places


@pytest.mark.parametrize(
    ("read", "data", "names"),
    [
        (read_doc, WORD, ("WordDocument", "1Table")),
        (read_ppt, SLIDES, ("PowerPoint Document", "Current User")),
    ],
    ids=["doc", "ppt"],
)
def test_bytes_gone_wrong_end_in_a_text_or_a_refusal(read: Read, data: bytes, names: tuple[str, ...]) -> None:
    rng, file = random.Random(7), open_ole(data, "x")
    streams = {name: file.read_stream(name) for name in names}
    refused = 0
    for _ in range(150):
        broken = {name: bytearray(stream) for name, stream in streams.items()}
        for _ in range(rng.choice((1, 5, 50))):
            stream = broken[rng.choice(names)]
            stream[rng.randrange(len(stream))] = rng.choice((0, 255, rng.randrange(256)))
        try:
            texts = [page.text for page in read(compound(broken), "a")]
        except SourceError:
            refused += 1
        else:
            assert len(texts[0]) < 100_000
    assert 0 < refused < 150
