"""Gold of questions and an index -> GoldPassage: its places in the documents, or an error."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePosixPath
from statistics import fmean
from typing import NamedTuple, Self

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.core.errors import KumiError, SettingsError
from kumihimo.core.wiring import ROOT
from kumihimo.evaluate.records import EvalQuestion, Gold

_MAX_SUGGESTIONS = 3  # names in an error message
_PREFIX_LENGTH = 16  # characters: texts are located by prefix, so that one pass finds many
_SPAN_NAME = re.compile(r"(.*)\[(\d+),(\d+)\)", re.S)  # `uri[start,end)`
_DOCUMENT_END = 2**62  # stands for the end of any document
_ENOUGH = 0.5  # of the characters of a range: a shorter part does not hold the answer


class DocumentSpan(NamedTuple):
    """A character range `[start, end)` of a document by id."""

    document: str
    start: int
    end: int

    @property
    def is_document(self) -> bool:
        """Return whether the range is a whole document."""
        return self.end == _DOCUMENT_END

    def overlaps(self, other: Self) -> bool:
        """Return whether two ranges of one document overlap."""
        return self.document == other.document and self.start < other.end and other.start < self.end

    def is_covered(self, read: Iterable[Self]) -> bool:
        """Return whether the ranges read hold enough of this one.

        Any part of a whole document is enough; of another range, half of its characters.

        >>> part = DocumentSpan("a", 10, 20)
        >>> part.is_covered([DocumentSpan("a", 0, 13)]), part.is_covered([DocumentSpan("a", 0, 13), part])
        (False, True)
        """
        characters, last = 0, self.start
        for place in sorted(filter(self.overlaps, read)):
            if self.is_document:
                return True
            end = min(place.end, self.end)
            characters += max(0, end - max(place.start, last))
            last = max(last, end)
        return characters >= _ENOUGH * (self.end - self.start)


@dataclass(frozen=True, slots=True)
class GoldPassage:
    """A passage that a question needs; any of its places suffices."""

    name: str  # `uri` or `uri[start,end)`; alternatives joined by ` or `
    places: tuple[DocumentSpan, ...]

    @property
    def is_document(self) -> bool:
        """Return whether each place is a whole document."""
        return all(place.is_document for place in self.places)

    def is_found(self, read: Collection[DocumentSpan]) -> bool:
        """Return whether the ranges read hold enough of a place."""
        return any(place.is_covered(read) for place in self.places)


def found_share(ranking: Sequence[DocumentSpan], passages: Sequence[GoldPassage], k: int = _DOCUMENT_END) -> float:
    """Return the share of the passages among the first k chunks.

    If all passages are whole documents, the first k documents count.

    >>> chunks = [DocumentSpan("a", 0, 9), DocumentSpan("a", 9, 20), DocumentSpan("b", 0, 9)]
    >>> gold = [GoldPassage("a.md[6,14)", (DocumentSpan("a", 6, 14),)), GoldPassage("b.md[1,4)", (chunks[2],))]
    >>> [found_share(chunks, gold, k) for k in (1, 2, 3)]
    [0.0, 0.5, 1.0]
    """
    read = ranking[:k]
    if all(passage.is_document for passage in passages):
        documents = dict.fromkeys(place.document for place in ranking)
        read = [DocumentSpan(document, 0, _DOCUMENT_END) for document in list(documents)[:k]]
    return fmean(passage.is_found(read) for passage in passages)


@dataclass(frozen=True, slots=True)
class IndexLayout:
    """The documents and chunks of an index.

    uris: by document id. chunks, tokens: the range and the tokens of each chunk. chunk_ids: the chunks of each
    document.
    """

    uris: Mapping[str, str]
    ids_by_name: Mapping[str, Sequence[str]]  # any name of a document -> ids
    chunks: Mapping[str, DocumentSpan]
    tokens: Mapping[str, int]
    chunk_ids: Mapping[str, Sequence[str]]

    def span_name(self, place: DocumentSpan) -> str:
        """Return the name of a range: `uri[start,end)`."""
        return f"{self.uris[place.document]}[{place.start},{place.end})"


def read_index_layout(snapshot: Snapshot) -> IndexLayout:
    """Read the layout of the whole index once."""
    uris: dict[str, str] = {}
    names: dict[str, list[str]] = {}
    for id, uri, file in snapshot.table(ROOT).columns("id", "uri", "file"):
        uris[id] = uri
        for name in dict.fromkeys((uri, uri.partition("#")[2], file, PurePosixPath(file).name)):
            names.setdefault(name, []).append(id)
    names |= {uri: [id] for id, uri in uris.items()}
    chunks: dict[str, DocumentSpan] = {}
    tokens: dict[str, int] = {}
    chunk_ids: dict[str, list[str]] = {id: [] for id in uris}
    for id, start, end, size in snapshot.table("chunks").columns("id", "start", "end", "tokens"):
        document = id.partition(".")[0]
        chunks[id], tokens[id] = DocumentSpan(document, start, end), size
        chunk_ids[document].append(id)
    return IndexLayout(uris, names, chunks, tokens, chunk_ids)


def resolve_gold(
    snapshot: Snapshot, layout: IndexLayout, questions: Iterable[EvalQuestion]
) -> dict[str, tuple[GoldPassage, ...]]:
    """Resolve the gold passages of each question, by question id.

    Questions without gold are left out. Equal passages become one. Raises SettingsError for gold that is missing from
    the index or ambiguous.
    """
    with_gold = [question for question in questions if question.gold]
    options = [option for question in with_gold for gold in question.gold for option in gold.options]
    spans_by_text = _find_texts(snapshot, {_remove_whitespace(g.text) for g in options if g.text.strip() and not g.id})
    resolved: dict[str, tuple[GoldPassage, ...]] = {}
    errors: list[str] = []
    for question in with_gold:
        try:
            passages = (
                _gold_passage(layout, [_resolve(snapshot, layout, option, spans_by_text) for option in gold.options])
                for gold in question.gold
            )
            resolved[question.id] = tuple({frozenset(passage.places): passage for passage in passages}.values())
        except KumiError as error:
            errors.append(f"question {question.id!r}: {error}")
    if errors:
        more = f" ({len(errors) - 1:,} more questions have such gold)" if len(errors) > 1 else ""
        raise SettingsError(f"{errors[0]}{more}")
    return resolved


def parse_span_name(layout: IndexLayout, name: str) -> DocumentSpan | None:
    """Return the range of a name, None if unknown or ambiguous.

    The name comes from `GoldPassage.name` or `IndexLayout.span_name`, or is anything that `Gold.id` may be.
    """
    if (match := _SPAN_NAME.fullmatch(name)) and (ids := layout.ids_by_name.get(match[1])):
        return DocumentSpan(ids[0], int(match[2]), int(match[3])) if len(ids) == 1 else None
    if len(ids := layout.ids_by_name.get(name, ())) == 1:
        return DocumentSpan(ids[0], 0, _DOCUMENT_END)
    return layout.chunks.get(name.removeprefix("chunks:"))


def _resolve(
    snapshot: Snapshot, layout: IndexLayout, gold: Gold, spans_by_text: Mapping[str, list[DocumentSpan]]
) -> list[DocumentSpan]:
    """Return the places of one option of the gold."""
    if not gold.id:
        if not gold.text.strip():
            raise SettingsError("its gold names neither a document nor a text: write `id`, or `text`")
        return _require_spans(gold, spans_by_text[_remove_whitespace(gold.text)])
    chunk = layout.chunks.get(gold.id.removeprefix("chunks:"))
    ids = layout.ids_by_name.get(gold.id, () if chunk is None else (chunk.document,))
    if not ids:
        raise SettingsError(_missing_message(layout, gold.id))
    if len(ids) > 1:
        uris = ", ".join(layout.uris[id] for id in ids[:_MAX_SUGGESTIONS])
        raise SettingsError(
            f"its gold {gold.id!r} may be any of {len(ids):,} documents: write the whole uri, such as {uris}"
        )
    place = DocumentSpan(ids[0], 0, _DOCUMENT_END) if gold.id in layout.ids_by_name or chunk is None else chunk
    if gold.start is None and gold.end is None and not gold.text.strip():
        return [place]
    return _spans_in_document(snapshot, gold, place)


def _spans_in_document(snapshot: Snapshot, gold: Gold, place: DocumentSpan) -> list[DocumentSpan]:
    """Return the ranges of the gold in its document or chunk."""
    text = snapshot.table(ROOT)[place.document].text
    if gold.start is not None or gold.end is not None:
        part = DocumentSpan(place.document, gold.start or 0, len(text) if gold.end is None else gold.end)
        if not 0 <= part.start < part.end <= len(text) or not part.overlaps(place):
            bounds = f"[{part.start}, {part.end})"
            raise SettingsError(f"its gold is {bounds} of {gold.id!r}, which has {len(text):,} characters")
        return [part]
    places = [DocumentSpan(place.document, *span) for span in _text_spans(text, _remove_whitespace(gold.text))]
    return _require_spans(gold, [candidate for candidate in places if candidate.overlaps(place)])


def _require_spans(gold: Gold, places: list[DocumentSpan]) -> list[DocumentSpan]:
    if not places:
        quote, target = gold.text.strip()[:60], repr(gold.id) if gold.id else "any document"
        raise SettingsError(f"its gold {quote!r} is not in {target}: copy it word for word, or name the document")
    return places


def _gold_passage(layout: IndexLayout, options: Sequence[Sequence[DocumentSpan]]) -> GoldPassage:
    """Join the places of all options.

    Raises SettingsError if no chunks hold enough of them.
    """
    first = [places[0] for places in options]
    names = [layout.uris[place.document] if place.is_document else layout.span_name(place) for place in first]
    passage = GoldPassage(" or ".join(dict.fromkeys(names)), tuple(dict.fromkeys(chain.from_iterable(options))))
    documents = dict.fromkeys(place.document for place in passage.places)
    if not passage.is_found([layout.chunks[id] for document in documents for id in layout.chunk_ids[document]]):
        raise SettingsError(f"its gold {passage.name} is in no chunk of the index: it is blank, or front matter")
    return passage


# -- texts


def _find_texts(snapshot: Snapshot, texts: set[str]) -> dict[str, list[DocumentSpan]]:
    """Find texts in all documents.

    Each document is read once.
    """
    spans_by_text: dict[str, list[DocumentSpan]] = {text: [] for text in sorted(texts)}
    prefixes: dict[str, list[str]] = {}
    for text in spans_by_text:
        prefixes.setdefault(text[:_PREFIX_LENGTH], []).append(text)
    short = {prefix for prefix in prefixes if len(prefix) < _PREFIX_LENGTH}
    for id, document_text in snapshot.table(ROOT).columns("id", "text") if spans_by_text else ():
        squeezed = _remove_whitespace(document_text)
        starts = range(len(squeezed) - _PREFIX_LENGTH + 1)
        possible = prefixes.keys() & {squeezed[i : i + _PREFIX_LENGTH] for i in starts}
        for text in (text for prefix in possible | short for text in prefixes[prefix]):
            spans_by_text[text] += [DocumentSpan(id, *span) for span in _text_spans(document_text, text)]
    return spans_by_text


def _remove_whitespace(text: str) -> str:
    """Remove white space, because copies may differ in it."""
    return "".join(text.split())


def _text_spans(text: str, bare: str) -> Iterator[tuple[int, int]]:
    r"""Yield the character ranges of a text without white space.

    >>> list(_text_spans("the\n pier, the pier", "thepier"))
    [(0, 9), (11, 19)]
    """
    squeezed = _remove_whitespace(text)
    start = squeezed.find(bare)
    positions = [i for i, letter in enumerate(text) if not letter.isspace()] if start >= 0 else []
    while start >= 0:
        yield positions[start], positions[start + len(bare) - 1] + 1
        start = squeezed.find(bare, start + len(bare))


# -- error messages


def _missing_message(layout: IndexLayout, id: str) -> str:
    from rapidfuzz import fuzz, process

    matches = process.extract(id, list(layout.ids_by_name), scorer=fuzz.ratio, limit=_MAX_SUGGESTIONS)
    suggestions = " or ".join(repr(name) for name, score, _ in matches if score > 50)
    hint = f"; did you mean {suggestions}?" if suggestions else ": is it in the index, `kumi status`?"
    return f"its gold {id!r} is no document or chunk of the index{hint}"
