"""a name + an index -> the outline of the document that it means, or the documents that it may mean."""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

from kumihimo.core.spans import Span
from kumihimo.generation.quoting.drafts import MAX_LONG_CHARS, Draft, cut_span, say, shorten_span
from kumihimo.generation.quoting.passages import find_documents, rank_documents
from kumihimo.generation.quoting.ranking import IndexReader
from kumihimo.generation.quoting.requests import names_document
from kumihimo.generation.quoting.windows import Headings, Piece, Region
from kumihimo.text.sentences import LIST_ITEM, collapse_spaces, ends_sentence, split_sentences

_MAX_LINES = 12
_LINE_CHARS = 160
_MAX_LEADS = 4  # of a section; a figure or a link alone may stand first
_MIN_CHARS = 18  # of what a paragraph says first; less is a greeting or a label
_MAX_TITLES = 5  # that may be meant
_LINK = re.compile(r"!?\[([^\[\]\n]*)\](?:\([^()\s]*\)|\[[^\[\]\n]*\])?")
_MARKUP = re.compile(r"(?<!\w)[*_]{1,2}(?=\S)|(?<=\S)[*_]{1,2}(?!\w)|\{.*?\}+")
_ONLY_LINK = re.compile(r"^(?:[^:：]{1,40}[:：]\s*)?<?https?://\S+$")


def write_outline(name: str, reader: IndexReader, language: str, ids: Sequence[str] = ()) -> Draft | None:
    """Return the outline of a document, or the ones possibly meant.

    Returns None if the name is none of a document. ids: of the document, if it is known.
    """
    documents = reader.find_table("documents")
    if documents is None:
        return None
    ids = ids or find_documents(name, reader)
    if not ids:
        return _offer_titles(name, reader, language)
    rows = list(documents.get_many(ids).values())
    draft = Draft(MAX_LONG_CHARS)
    draft.add(rows[0].title or rows[0].uri)
    sections = [section for row in rows for section in _read_sections(row)]
    for heading, text, span in _spread(sections):
        draft.cite(f"- {heading}: {text}" if heading else f"- {text}", span)
    return draft if draft.citations else None


def _offer_titles(name: str, reader: IndexReader, language: str) -> Draft | None:
    """Return the documents that fit a name equally, or the nearest ones."""
    documents = reader.find_table("documents")
    fit, near = rank_documents(name, reader)
    if documents is None or not (fit or names_document(name)):
        return None
    draft = Draft(status="closest")
    draft.add(say("several documents" if fit else "no document", language, subject=name))
    for row in documents.get_many((fit or near)[:_MAX_TITLES]).values():
        if first := next(_read_sections(row), None):
            draft.cite(f"- {row.title or row.uri} ({row.uri.rpartition('/')[2]}): {first[1]}", first[2])
    return draft if draft.citations else None


def _spread(sections: Sequence[tuple[str, str, Span]]) -> Iterator[tuple[str, str, Span]]:
    """Yield a section of each stretch: the one that says most."""
    count = min(len(sections), _MAX_LINES)
    for i in range(count):
        stretch = sections[i * len(sections) // count : (i + 1) * len(sections) // count]
        yield max(stretch, key=lambda section: len(section[1]))


def _read_sections(row: Any) -> Iterator[tuple[str, str, Span]]:
    """Yield each heading with what it says first, or each paragraph."""
    headings = Headings(row.text, row.body)
    whole = Span("", row.uri, 0, len(row.text), row.text)
    pieces = [
        p for p in Region(headings.prose, row.body, len(row.text), headings).pieces if p.kind in ("prose", "item")
    ]
    chosen = headings.top(row.title, _MAX_LINES)
    if not chosen:
        starts = (i for i, piece in enumerate(pieces) if i == 0 or piece.kind == "prose")
        leads = [lead for i in starts if (lead := _read_lead(whole, pieces[i:]))]
        sentences = [lead for lead in leads if _is_whole(lead[0])]
        yield from (("", *lead) for lead in sentences or leads)
    chosen = [(row.body, ""), *chosen] if chosen else []
    ends = [*(start for start, _ in chosen[1:]), len(row.text)]
    for (start, heading), end in zip(chosen, ends, strict=bool(chosen)):
        below = [piece for piece in pieces if start <= piece.start < end]
        leads = list(filter(None, (_read_lead(whole, below[i:]) for i in range(min(len(below), _MAX_LEADS)))))
        if leads:
            yield _clean(heading), *max(leads, key=lambda lead: _is_whole(lead[0]))


def _read_lead(whole: Span, pieces: Sequence[Piece]) -> tuple[str, Span] | None:
    """Return the first sentence, or a list with its introduction.

    Returns None for links alone, and for a few letters.
    """
    first = pieces[0]
    spans = split_sentences(whole.text, first.start, first.end) or [(first.start, first.end)]
    start = spans[0][0]
    end = next((end for _, end in spans if end - start >= _MIN_CHARS), first.end)
    text = _clean(whole.text[start:end])
    introduces = text.endswith((":", "："))
    if not introduces and len(text) < _MIN_CHARS and first.kind == "prose":
        return None
    if first.kind == "prose" and not introduces:
        span = shorten_span(whole, start, end)
        return _clean(span.text) + ("" if span.end == end else " …"), span
    lines: list[str] = []
    items = list(takewhile(lambda piece: piece.kind == "item", pieces[introduces:]))
    outer = min((_indent(whole.text, item) for item in items), default=0)
    for item in (item for item in items if _indent(whole.text, item) == outer):
        last = next(iter(split_sentences(whole.text, item.start, item.end)), (0, item.end))[1]
        line = _clean(whole.text[item.start : last])
        if lines and sum(map(len, lines)) + len(line) > _LINE_CHARS:
            lines.append("…")
            break
        lines += [] if _ONLY_LINK.search(line) else [line.rstrip(".。;；")]
        end = item.end
    listed = "; ".join(lines).removesuffix("; …") + (" …" if lines[-1:] == ["…"] else ".")
    return (f"{text} {listed}" if introduces else listed, cut_span(whole, start, end)) if lines else None


def _is_whole(text: str) -> bool:
    """Return whether a text ends as a sentence or a shortened one."""
    return ends_sentence(text) or text.endswith("…")


def _indent(text: str, piece: Piece) -> int:
    """Return how far an item stands from the left."""
    line = text[text.rfind("\n", 0, piece.start) + 1 : piece.end]
    return len(line) - len(line.lstrip())


def _clean(text: str) -> str:
    """Return a text on one line, without marks of Markdown.

    >>> _clean("* see [the **rules**](a.md) {#rules}"), _clean("`a_b` is _new_")
    ('see the rules', '`a_b` is new')
    """
    mark = LIST_ITEM.match(text)
    text = _LINK.sub(r"\1", text[mark.end() if mark else 0 :])
    return collapse_spaces(_MARKUP.sub("", text)).strip()
