"""A span is the text at its offsets, and its place leads to it in the file."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest

from kumihimo import Kumihimo, Span
from kumihimo.core.records import Document
from kumihimo.readers import READERS
from kumihimo.readers.documents import has_reader
from tests import factories_office
from tests.factories_office import lines

MESSY = Path(__file__).parents[3] / "shared" / "data" / "messy"
messy = pytest.mark.skipif(not MESSY.is_dir(), reason="the shared data is not here")
CHUNKS, SAMPLE = {"chunks": {"size": 40, "overlap": 10}}, 25
NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def sentences_of(number: int) -> list[str]:
    """Return three sentences of one page, slide, sheet or chapter only."""
    word = NUMBERS[number - 1]
    return [
        f"The {word} boat of harbour {word} is {what} by hand number {word}." for what in ("tarred", "mended", "sold")
    ]


def build_files() -> dict[str, bytes]:
    def show(document: Any) -> None:
        for number in range(1, 9):
            slide = document.slides.add_slide(document.slide_layouts[1])
            slide.shapes.title.text = f"Harbour {NUMBERS[number - 1]}"
            slide.placeholders[1].text_frame.text = "\n".join(sentences_of(number))

    def book(document: Any) -> None:
        for number in range(1, 9):
            factories_office.sheet(
                document, f"S {number}", ("boat", "remark"), *((n, text) for n, text in enumerate(sentences_of(number)))
            )

    def word(document: Any) -> None:
        for number in range(1, 9):
            document.add_heading(f"Harbour {NUMBERS[number - 1]}", 1)
            for text in sentences_of(number):
                document.add_paragraph(text)

    chapters = {
        f"{n}.xhtml": factories_office.chapter(
            f"<h1>Harbour {NUMBERS[n - 1]}</h1><p>{'</p><p>'.join(sentences_of(n))}</p>"
        )
        for n in range(1, 9)
    }
    html = "".join(f"<h2>Harbour {NUMBERS[n - 1]}</h2><p>{'</p><p>'.join(sentences_of(n))}</p>" for n in range(1, 9))
    attached = factories_office.pdf(*(lines(*sentences_of(n)) for n in range(1, 9)))
    return {
        "a.pdf": factories_office.pdf(*(lines(*sentences_of(n)) for n in range(1, 9))),
        "a.pptx": factories_office.pptx(show),
        "a.xlsx": factories_office.xlsx(book),
        "a.docx": factories_office.word(word),
        "a.epub": factories_office.epub(chapters),
        "a.html": html.encode(),
        "a.md": ("---\ntitle: Boats\n---\n" + "\n\n".join(" ".join(sentences_of(n)) for n in range(1, 9))).encode(),
        "a.eml": factories_office.letter(" ".join(sentences_of(1)), deed_pdf=attached),
    }


# The text at each place of a file, read independently of the reader.


def pages(data: bytes) -> Callable[[str], str]:
    import pypdfium2

    with pypdfium2.PdfDocument(data) as document:
        by_place = {f"p. {n}": page.get_textpage().get_text_range() for n, page in enumerate(document, 1)}
    return by_place.__getitem__


def slides(data: bytes) -> Callable[[str], str]:
    from pptx import Presentation

    presentation = Presentation(io.BytesIO(data))
    by_place = {
        f"slide {n}": " ".join(e.text or "" for e in slide._element.iter() if str(e.tag).endswith("}t"))
        + " ".join(e.text or "" for r in slide.part.rels.values() if "notes" in r.reltype
                   for e in r.target_part._element.iter() if str(e.tag).endswith("}t"))
        for n, slide in enumerate(presentation.slides, 1)
    }  # fmt: skip
    return by_place.__getitem__


def sheets(data: bytes) -> Callable[[str], str]:
    from openpyxl import load_workbook

    workbook = load_workbook(io.BytesIO(data), data_only=True)
    by_place = {
        f"sheet {s.title}": " ".join(str(v) for row in s.values for v in row if v is not None) for s in workbook
    }
    return by_place.__getitem__


LOOKS: dict[str, Callable[[bytes], Callable[[str], str]]] = {".pdf": pages, ".pptx": slides, ".xlsx": sheets}


def letters(text: str) -> str:
    return "".join(filter(str.isalnum, normalize("NFKC", text))).casefold()


def places(label: str) -> list[str]:
    """Expand a label such as `p. 2–4` to its three places."""
    if many := re.fullmatch(r"(\D+)(\d+)–(\d+)", label):
        return [f"{many[1]}{n}" for n in range(int(many[2]), int(many[3]) + 1)]
    return label.split(" – ")


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kumihimo]:
    home = tmp_path_factory.mktemp("spans")
    (home / "files").mkdir()
    for name, data in build_files().items():
        (home / "files" / name).write_bytes(data)
    with Kumihimo.open(home / ".kumi", settings=CHUNKS) as kumi:
        kumi.index(home / "files")
        yield kumi


@pytest.fixture(scope="module")
def indexed_messy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kumihimo]:
    with Kumihimo.open(tmp_path_factory.mktemp("mess") / ".kumi", settings=CHUNKS) as kumi:
        kumi.index(MESSY)
        yield kumi


def spans(kumi: Kumihimo, file: str) -> Iterator[tuple[Document, Span]]:
    """Yield spans of a few chunks of each document of the file."""
    with kumi.snapshot() as snapshot:
        documents = {d.id: d for d in snapshot.table("documents") if d.file.endswith(file)}
        chunks = [c for c in snapshot.table("chunks") if c.document in documents]
        assert chunks, file
        for chunk in random.Random(file).sample(chunks, min(SAMPLE, len(chunks))):
            document = documents[chunk.document]
            assert document.text[chunk.start : chunk.end] == chunk.text
            yield document, snapshot.tracer.locate(Span(chunk.id, document.uri, chunk.start, chunk.end, chunk.text))


def check(document: Document, span: Span, look: Callable[[str], str] | None) -> None:
    """Check that a span's words stand at its place.

    Its text is the document's text there, and its first and last words are on the named pages.
    """
    assert document.text[span.start : span.end] == span.text
    begins = [at for at, _ in document.places]
    assert begins == sorted(begins)
    assert all(0 <= at <= len(document.text) for at in begins)
    assert bool(span.place) or not document.places or not document.places[0][1] or "." in document.uri
    if look is not None:
        labels = places(span.place)
        place_texts = [letters(look(place)) for place in labels]
        words = [letters(word) for word in re.findall(r"\w[\w.]*", span.text)]
        assert all(word in place_texts[0] for word in words[:5] if word), (span.place, span.text[:80])
        assert all(word in place_texts[-1] for word in words[-3:] if word), (span.place, span.text[-80:])


@pytest.mark.parametrize("name", ["a.pdf", "a.pptx", "a.xlsx"])
def test_pages_slides_and_sheets(indexed: Kumihimo, name: str) -> None:
    look = LOOKS[Path(name).suffix](build_files()[name])
    visited = set()
    for document, span in spans(indexed, name):
        check(document, span, look)
        visited.add(span.place)
    assert len(visited) >= 8


@pytest.mark.parametrize("name", ["a.docx", "a.epub", "a.html"])
def test_sections(indexed: Kumihimo, name: str) -> None:
    for document, span in spans(indexed, name):
        check(document, span, None)
        for word in set(re.findall(r"The (\w+) boat", span.text)):
            assert f"§ Harbour {word}" in places(span.place)


def test_lines_of_markdown(indexed: Kumihimo) -> None:
    for document, span in spans(indexed, "a.md"):
        check(document, span, None)
        assert span.start >= document.body
        line = document.text.splitlines()[int(span.place.removeprefix("line ")) - 1]
        assert span.text[:20] in line


def test_pages_of_an_attachment(indexed: Kumihimo) -> None:
    look = LOOKS[".pdf"](build_files()["a.pdf"])
    pairs = list(spans(indexed, "a.eml"))
    assert {document.uri.partition("/")[2] for document, _ in pairs} == {"a.eml", "a.eml#deed.pdf"}
    for document, span in pairs:
        check(document, span, look if document.uri.endswith(".pdf") else None)


@pytest.mark.parametrize("number", [2, 5, 8])
def test_citations_name_the_place(indexed: Kumihimo, number: int) -> None:
    word = NUMBERS[number - 1]
    answer = indexed.ask(f"Which hand mended the {word} boat of harbour {word}?", k=40)
    expected = {".pdf": f"p. {number}", ".pptx": f"slide {number}", ".xlsx": f"sheet S {number}"}
    expected |= dict.fromkeys((".docx", ".epub", ".html"), f"§ Harbour {word}")
    assert answer.citations
    with indexed.snapshot() as snapshot:
        for citation in answer.citations:
            document = next(d for d in snapshot.table("documents") if d.uri == citation.span.uri)
            check(document, citation.span, None)
            suffix = Path(citation.span.uri).suffix
            if f"{word} boat" in citation.span.text and suffix in expected:
                assert expected[suffix] in places(citation.span.place), citation
    assert any(f"{word} boat" in citation.span.text for citation in answer.citations)


FILES = (
    sorted(p.relative_to(MESSY).as_posix() for p in MESSY.rglob("*") if p.is_file() and has_reader(p, READERS))
    if MESSY.is_dir()
    else []
)


@messy
@pytest.mark.parametrize("name", FILES)
def test_shared_files(indexed_messy: Kumihimo, name: str) -> None:
    suffix = Path(name).suffix
    look = LOOKS[suffix]((MESSY / name).read_bytes()) if suffix in LOOKS else None
    for document, span in spans(indexed_messy, name):
        check(document, span, None if "right_to_left" in name else look)
