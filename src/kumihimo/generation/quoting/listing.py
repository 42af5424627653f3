"""a name -> the outline of the document that it means: each heading with its first sentence."""

from collections.abc import Iterator, Sequence
from typing import Any

from kumihimo.core.spans import Span
from kumihimo.core.table import Table
from kumihimo.generation.quoting.drafts import MAX_LONG_CHARS, Draft, cut_span, say
from kumihimo.generation.quoting.passages import find_documents, rank_documents
from kumihimo.generation.quoting.ranking import IndexReader
from kumihimo.generation.quoting.requests import names_document, without_document_words
from kumihimo.generation.quoting.windows import Headings, Region
from kumihimo.text.sentences import LIST_ITEM, split_sentences

_SENTENCE_CHARS = 160
_MAX_SECTIONS = 8
_MAX_TITLES = 5  # that may be meant


def shorten_span(chunk: Span, start: int, end: int) -> Span:
    """Return a sentence of at most 160 characters, cut between words."""
    if end - start > _SENTENCE_CHARS:
        cut = chunk.text.rfind(" ", start, start + _SENTENCE_CHARS)
        end = cut if cut > start + _SENTENCE_CHARS // 2 else start + _SENTENCE_CHARS
    return cut_span(chunk, start, end)


def write_outline(name: str, reader: IndexReader, language: str, ids: Sequence[str] = ()) -> Draft | None:
    """Return the outline of a document, or titles near its name.

    Returns None if the name is none of a document. ids: of the document, if it is known.
    """
    documents = reader.find_table("documents")
    if documents is None:
        return None
    ids = ids or find_documents(name, reader)
    if not ids:
        return _offer_titles(name, documents, reader, language)
    rows = documents.get_many(ids)
    title = next(iter(rows.values())).title
    draft = Draft(MAX_LONG_CHARS)
    draft.add(title)
    sections = [section for row in rows.values() for section in _read_sections(row)]
    headed = [section for section in sections if section[0] and section[0] != title] or sections
    count = min(len(headed), _MAX_SECTIONS)
    for i in range(count):
        heading, span = headed[i * len(headed) // count]
        draft.quote(span, f"- {heading}: " if heading else "- ")
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
        first = next(_read_sections(row), None)
        if first and row.title not in titles:
            titles.add(row.title)
            draft.quote(first[1], f"- {row.title or row.uri}: ")
    return draft if draft.citations else None


def _read_sections(row: Any) -> Iterator[tuple[str, Span]]:
    """Yield each heading with the first sentence or item below it; without headings, each paragraph."""
    headings = Headings(row.text, row.body)
    whole = Span("", row.uri, 0, len(row.text), row.text)
    known: set[int | None] = set()
    for start, end, kind in Region(row.text, row.body, len(row.text), headings).pieces:
        section = headings.section(start)
        if kind in ("prose", "item") and (section is None or section not in known):
            known.add(section)
            mark = LIST_ITEM.match(row.text, start, end)
            first, last = next(iter(split_sentences(row.text, mark.end() if mark else start, end)), (start, end))
            above = headings.above(start)
            yield above[-1] if above else "", shorten_span(whole, first, last)
