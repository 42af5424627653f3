"""a name + an index -> the outline of the document that it means, or the documents that it may mean."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Any

from kumihimo.core.spans import Span
from kumihimo.generation.quoting import passages, ranking
from kumihimo.generation.quoting.drafts import MAX_LONG_CHARS, Draft, cut_span, say, shorten_span
from kumihimo.generation.quoting.windows import Headings, Piece, Region, text_width, unlink
from kumihimo.text.sentences import LIST_ITEM, collapse_spaces, ends_sentence, split_blocks, split_sentences

_MAX_LINES = 12
_LINE_CHARS = 160
_MAX_LEADS = 4  # of a section; a figure or a link alone may stand first
_MIN_WIDTH = 18  # of what a paragraph says first; less is a greeting or a label
_MAX_TITLES = 5  # that may be meant
_MAX_PARTS = 30  # documents with one title that are read as one
_MARKUP = re.compile(r"(?<!\w)[*_]{1,2}(?=\S)|(?<=\S)[*_]{1,2}(?!\w)|\{.{0,1000}?\}+")
_ONLY_LINK = re.compile(r"^(?:(?:[^:：]{1,40}[:：]\s*)?<?https?://\S+)?$")
_IMAGE = re.compile(r"!\[[^\[\]\n]*\]\([^()\n]*\)")


def write_outline(name: str, reader: ranking.IndexReader, language: str, ids: Sequence[str] = ()) -> Draft | None:
    """Return the outline of a document, or the titles that fit.

    Returns None if none fits. ids: of the document, if it is known.
    """
    documents = reader.find_table("documents")
    if documents is None:
        return None
    rows = documents.get_many(ids or passages.rank_documents(name, reader))
    if not passages.is_one_document(rows.values()):
        return _offer_titles(name, list(rows.values())[:_MAX_TITLES], language)
    parts = sorted(rows.values(), key=lambda row: (len(row.uri), row.uri))[:_MAX_PARTS]
    draft = Draft(MAX_LONG_CHARS)
    draft.add(parts[0].title or parts[0].uri)
    for heading, text, span in _spread([section for row in parts for section in _read_sections(row)]):
        draft.cite(f"- {heading}: {text}" if heading else f"- {text}", span)
    return draft if draft.citations else None


def _offer_titles(name: str, rows: Iterable[Any], language: str) -> Draft | None:
    """Return the documents that may be meant."""
    draft = Draft(status="closest")
    draft.add(say("several documents", language, subject=name))
    return draft if cite_titles(draft, rows) else None


def cite_titles(draft: Draft, rows: Iterable[Any]) -> int:
    """Add documents with what they say first; return how many."""
    before = len(draft.citations)
    for row in rows:
        name = f"- {row.title or row.uri} ({row.uri.rpartition('/')[2]})"
        sections = list(_read_sections(row))
        if first := next((each for each in sections if _says_much(each[1:])), next(iter(sections), None)):
            draft.cite(f"{name}: {first[1]}", first[2])
        elif block := next(iter(split_blocks(row.text, row.body)), None):  # of a table
            draft.cite(name, Span("", row.uri, block.start, block.end, row.text[block.start : block.end]))
    return len(draft.citations) - before


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
    region = Region(headings.prose, row.body, len(row.text), headings)
    pieces = [piece for piece in region.pieces if piece.kind in ("prose", "item")]
    chosen = headings.top(row.title, _MAX_LINES)
    if not chosen:
        starts = (i for i, piece in enumerate(pieces) if i == 0 or piece.kind == "prose")
        leads = [lead for i in starts if (lead := _read_lead(whole, pieces[i:]))]
        yield from (("", *lead) for lead in [lead for lead in leads if _says_much(lead)] or leads)
        return
    sections = [(row.body, ""), *chosen]
    for (start, heading), (end, _) in pairwise([*sections, (len(row.text), "")]):
        below = [piece for piece in pieces if start <= piece.start < end]
        leads = list(filter(None, (_read_lead(whole, below[i:]) for i in range(min(len(below), _MAX_LEADS)))))
        if leads:
            yield _clean(heading), *max(leads, key=_says_much)


def _read_lead(whole: Span, pieces: Sequence[Piece]) -> tuple[str, Span] | None:
    """Return the first sentence, or a list with its introduction.

    Returns None for links alone.
    """
    first = pieces[0]
    start, end, kind = first
    ends = [end for _, end in split_sentences(whole.text, start, end)]
    end = next((end for end in ends if text_width(whole.text[start:end]) >= _MIN_WIDTH), end)
    text = _clean(whole.text[start:end])
    introduces = text.endswith((":", "："))
    if kind == "prose" and not introduces:
        span = shorten_span(whole, start, end)
        return (_clean(span.text) + ("" if span.end == end else " …"), span) if not _ONLY_LINK.search(text) else None
    lines: list[str] = []
    for item in takewhile(lambda piece: piece.kind == "item", pieces[introduces:]):
        last = next(iter(split_sentences(whole.text, item.start, item.end)), (0, item.end))[1]
        line = _clean(whole.text[item.start : last])
        if lines and sum(map(len, lines)) + len(line) > _LINE_CHARS:
            lines.append("…")
            break
        lines += [] if _ONLY_LINK.search(line) else [line.rstrip(".。;；")]
        end = item.end
    listed = "; ".join(lines).removesuffix("; …") + (" …" if lines[-1:] == ["…"] else ".")
    return (f"{text} {listed}" if introduces else listed, cut_span(whole, start, end)) if lines else None


def _says_much(lead: tuple[str, Span]) -> bool:
    """Return whether a lead is no greeting or label."""
    return text_width(lead[0]) >= _MIN_WIDTH and (ends_sentence(lead[0]) or lead[0].endswith("…"))


def _clean(text: str) -> str:
    """Return a text on one line, without marks of Markdown.

    >>> _clean("* see [the **rules**](a.md) {#rules}"), _clean("`a_b` is _new_")
    ('see the rules', '`a_b` is new')
    """
    mark = LIST_ITEM.match(text)
    return collapse_spaces(_MARKUP.sub("", unlink(_IMAGE.sub("", text[mark.end() if mark else 0 :])))).strip()
