"""a document -> its outline: headings in order, each with its first sentence, or its most central sentences."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from kumihimo.core.spans import Span
from kumihimo.core.table import Table
from kumihimo.generation.quoting.drafts import Draft, say
from kumihimo.generation.quoting.excerpts import IndexReader
from kumihimo.generation.quoting.listing import shorten_span
from kumihimo.generation.quoting.passages import find_documents, rank_documents
from kumihimo.generation.quoting.readable import Region, Unit, read_region, says_something
from kumihimo.generation.quoting.requests import names_document, without_document_words
from kumihimo.llm.protocols import Embedder
from kumihimo.text.sentences import LIST_ITEM

_MIN_SECTIONS, _MAX_SECTIONS, _MAX_SENTENCES = 2, 8, 6
_MAX_TITLES = 5  # that may be meant
_MAX_COMPARED = 200  # sentences
_DUPLICATE = 0.85  # cosine of two sentences that say the same
_POSITION = 0.1  # what the first sentence gains


def write_outline(name: str, reader: IndexReader, embed: Embedder, language: str) -> Draft | None:
    """Return the outline of a document, or titles near its name.

    Returns None if the name is none of a document.
    """
    documents = reader.find_table("documents")
    if documents is None:
        return None
    ids = find_documents(name, reader)
    if not ids:
        return _offer_titles(name, documents, reader, language)
    rows = documents.get_many(ids)
    regions = [(row.uri, read_region(row.text, row.body, len(row.text), row.body)) for row in rows.values()]
    title = next(iter(rows.values())).title
    draft = Draft()
    draft.add(title)
    sections = [section for uri, region in regions for section in _read_sections(uri, region)]
    if len(sections) >= _MIN_SECTIONS:
        _add_sections(draft, title, sections)
    else:
        units = [(uri, region, unit) for uri, region in regions for unit in _sentences(region)]
        _add_central(draft, units[:_MAX_COMPARED], embed)
    return draft if draft.citations else None


def _offer_titles(name: str, documents: Table[Any], reader: IndexReader, language: str) -> Draft | None:
    """Return the documents that fit a name equally, or the nearest titles."""
    fit, near = rank_documents(without_document_words(name) or name, reader)
    if not fit and not names_document(name):
        return None
    draft = Draft(status="closest")
    draft.add(say("several documents" if fit else "no document", language, subject=name))
    titles: set[str] = set()
    for row in documents.get_many((fit or near)[:_MAX_TITLES]).values():
        region = read_region(row.text, row.body, len(row.text), row.body)
        first = next(_sentences(region), None)
        if first and row.title not in titles:
            titles.add(row.title)
            draft.quote(_unit_span(row.uri, region, first), f"- {row.title or row.uri}: ")
    return draft if draft.citations else None


def _sentences(region: Region) -> Iterator[Unit]:
    for unit in region.units:
        if unit.kind != "row" and says_something(region, unit):
            yield unit


def _read_sections(uri: str, region: Region) -> Iterator[tuple[str, Span]]:
    """Yield each heading with its first sentence or row."""
    bounds = [*region.headings, (len(region.text), "")]
    for (start, heading), (stop, _) in pairwise(bounds):
        below = [u for u in region.units if start < u.start < stop and says_something(region, u)]
        first = next((u for u in below if u.kind == "prose"), below[0] if below else None)
        if first:
            yield heading, _unit_span(uri, region, first)


def _unit_span(uri: str, region: Region, unit: Unit) -> Span:
    whole = Span("", uri, 0, len(region.text), region.text)
    mark = LIST_ITEM.match(region.text, unit.text_start, unit.end)
    return shorten_span(whole, mark.end() if mark else unit.text_start, unit.end)


def _add_sections(draft: Draft, title: str, sections: Sequence[tuple[str, Span]]) -> None:
    """Add the sections in order; of many, some spread over the document."""
    headed = [section for section in sections if section[0] != title] or list(sections)
    count = min(len(headed), _MAX_SECTIONS)
    for i in range(count):
        heading, span = headed[i * len(headed) // count]
        draft.quote(span, f"- {heading}: ")


def _add_central(draft: Draft, units: Sequence[tuple[str, Region, Unit]], embed: Embedder) -> None:
    """Add the most central sentences in document order."""
    spans = [_unit_span(*unit) for unit in units]
    if not spans:
        return
    vectors = embed([span.text for span in spans])
    centre = vectors.mean(axis=0)
    scores = (vectors @ centre).round(4).tolist()
    similar = vectors @ vectors.T
    order = sorted(range(len(spans)), key=lambda i: (-scores[i] - _POSITION * (1 - i / len(spans)), i))
    selected: list[int] = []
    for i in order:
        if len(selected) < _MAX_SENTENCES and all(similar[i, j] < _DUPLICATE for j in selected):
            selected.append(i)
    for i in sorted(selected):
        draft.quote(spans[i], "- ")
