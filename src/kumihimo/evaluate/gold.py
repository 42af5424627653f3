"""gold of questions + an index -> Wanted: where in its documents that stands, or what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple

from kumihimo.app.snapshot import Snapshot
from kumihimo.core.errors import KumiError, SettingsError
from kumihimo.core.wiring import ROOT
from kumihimo.evaluate.records import EvalQuestion, Gold

_MAX_SUGGESTIONS = 3  # names that may have been meant
_PREFIX_LENGTH = 16  # characters of a text by which it is looked for: many texts are found in one pass
_DOCUMENT_END = 2**62  # of a document, wherever that is


class DocumentSpan(NamedTuple):
    """`[start, end)` of a document, by its id, in characters."""

    document: str
    start: int
    end: int

    def overlaps(self, other: DocumentSpan) -> bool:
        return self.document == other.document and self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class GoldPassage:
    """A passage that a question needs: any of these places will do. whole: it is a document, of which any part will."""

    name: str  # `uri`, or `uri[start,end)`
    places: tuple[DocumentSpan, ...]
    is_document: bool


@dataclass(frozen=True, slots=True)
class IndexLayout:
    """What an index holds: uris of documents, where chunks stand, their tokens, the chunks of each document."""

    uris: Mapping[str, str]
    ids_by_name: Mapping[str, Sequence[str]]  # whatever a document may be called -> ids
    chunks: Mapping[str, DocumentSpan]
    tokens: Mapping[str, int]
    chunk_ids: Mapping[str, Sequence[str]]

    def span_name(self, place: DocumentSpan) -> str:
        return f"{self.uris[place.document]}[{place.start},{place.end})"


def read_index_layout(snapshot: Snapshot) -> IndexLayout:
    """Of the whole index, read once."""
    uris: dict[str, str] = {}
    names: dict[str, list[str]] = {}
    for id, uri, file in snapshot.table(ROOT).columns("id", "uri", "file"):
        uris[id] = uri
        for name in dict.fromkeys((uri, uri.partition("#")[2], file, PurePosixPath(file).name)):
            names.setdefault(name, []).append(id)
    names |= {uri: [id] for id, uri in uris.items()}
    chunks: dict[str, DocumentSpan] = {}
    tokens: dict[str, int] = {}
    held: dict[str, list[str]] = {id: [] for id in uris}
    for id, start, end, size in snapshot.table("chunks").columns("id", "start", "end", "tokens"):
        document = id.partition(".")[0]
        chunks[id], tokens[id] = DocumentSpan(document, start, end), size
        held[document].append(id)
    return IndexLayout(uris, names, chunks, tokens, held)


def resolve_gold(
    snapshot: Snapshot, layout: IndexLayout, questions: Iterable[EvalQuestion]
) -> dict[str, tuple[GoldPassage, ...]]:
    """The passages that each question needs, by its id; questions without gold are left out.

    Raises SettingsError for gold that the index does not hold, or that may be any of several documents. Passages that
    the index cuts no finer, since they stand in the same chunks, are one.
    """
    asked = [question for question in questions if question.gold]
    scanned = _find_texts(
        snapshot, {_remove_whitespace(g.text) for q in asked for g in q.gold if g.text.strip() and not g.id}
    )
    found: dict[str, tuple[GoldPassage, ...]] = {}
    wrong: list[str] = []
    for question in asked:
        try:
            each = [_resolve(snapshot, layout, gold, scanned) for gold in question.gold]
            found[question.id] = tuple(_merge_passages(layout, each))
        except KumiError as error:
            wrong.append(f"question {question.id!r}: {error}")
    if wrong:
        more = f" ({len(wrong) - 1:,} more questions have such gold)" if len(wrong) > 1 else ""
        raise SettingsError(f"{wrong[0]}{more}")
    return found


def parse_span_name(layout: IndexLayout, name: str) -> DocumentSpan | None:
    """What a name stands for that `Wanted` or `Layout.name` gave, or Gold.id may be; None: nothing, or several."""
    named, bracket, span = name.rpartition("[")
    start, comma, end = span.removesuffix(")").partition(",")
    if (
        bracket
        and comma
        and span.endswith(")")
        and start.isdecimal()
        and end.isdecimal()
        and named in layout.ids_by_name
    ):
        ids = layout.ids_by_name[named]
        return DocumentSpan(ids[0], int(start), int(end)) if len(ids) == 1 else None
    if len(ids := layout.ids_by_name.get(name, ())) == 1:
        return DocumentSpan(ids[0], 0, _DOCUMENT_END)
    return _chunk_span(layout, name)


def _chunk_span(there: IndexLayout, name: str) -> DocumentSpan | None:
    return there.chunks.get(name.removeprefix("chunks:"))


def _resolve(
    snapshot: Snapshot, there: IndexLayout, gold: Gold, scanned: Mapping[str, list[DocumentSpan]]
) -> GoldPassage:
    if not gold.id:
        if not gold.text.strip():
            raise SettingsError("its gold names neither a document nor a text: write `id`, or `text`")
        return _gold_passage(there, _require_spans(gold, scanned[_remove_whitespace(gold.text)]))
    known = _chunk_span(there, gold.id)
    ids = there.ids_by_name.get(gold.id, () if known is None else (known.document,))
    if len(ids) != 1:
        raise SettingsError(_ambiguous_message(there, gold.id, ids) if ids else _missing_message(there, gold.id))
    place = DocumentSpan(ids[0], 0, _DOCUMENT_END) if gold.id in there.ids_by_name or known is None else known
    if gold.start is None and gold.end is None and not gold.text.strip():
        return _gold_passage(there, [place])
    return _gold_passage(there, _spans_in_document(snapshot, gold, place))


def _spans_in_document(snapshot: Snapshot, gold: Gold, place: DocumentSpan) -> list[DocumentSpan]:
    """Where in the document, or chunk, the gold stands: as it says, or where its text does."""
    said = snapshot.table(ROOT)[place.document].text
    if gold.start is not None or gold.end is not None:
        part = DocumentSpan(place.document, gold.start or 0, len(said) if gold.end is None else gold.end)
        if not 0 <= part.start < part.end <= len(said) or not part.overlaps(place):
            shown = f"[{part.start}, {part.end})"
            raise SettingsError(f"its gold is {shown} of {gold.id!r}, which has {len(said):,} characters")
        return [part]
    places = [DocumentSpan(place.document, *span) for span in _text_spans(said, _remove_whitespace(gold.text))]
    return _require_spans(gold, [one for one in places if one.overlaps(place)])


def _require_spans(gold: Gold, places: list[DocumentSpan]) -> list[DocumentSpan]:
    if not places:
        what = f"{gold.text.strip()[:60]!r}"
        of = repr(gold.id) if gold.id else "any document"
        raise SettingsError(f"its gold {what} does not stand in {of}: copy it word for word, or name the document")
    return places


def _gold_passage(there: IndexLayout, places: list[DocumentSpan]) -> GoldPassage:
    if places[0].end == _DOCUMENT_END:
        return GoldPassage(there.uris[places[0].document], tuple(places), is_document=True)
    return GoldPassage(there.span_name(places[0]), tuple(places), is_document=False)


def _merge_passages(there: IndexLayout, each: Iterable[GoldPassage]) -> Iterator[GoldPassage]:
    """Each passage once. Raises SettingsError where one stands in no chunk."""
    found: dict[object, GoldPassage] = {}
    for one in each:
        in_chunks = frozenset(_overlapping_chunks(there, one))
        if not in_chunks:
            raise SettingsError(f"its gold {one.name} stands in no chunk of the index: it is blank, or front matter")
        same = found.get(in_chunks)
        found[in_chunks] = _merge_pair(same, one) if same else one
    yield from found.values()


def _merge_pair(one: GoldPassage, other: GoldPassage) -> GoldPassage:
    if one.is_document or other.is_document:
        return one if one.is_document else other
    return GoldPassage(one.name, tuple(dict.fromkeys(one.places + other.places)), is_document=False)


def _overlapping_chunks(there: IndexLayout, one: GoldPassage) -> Iterator[str]:
    for place in one.places:
        for id in there.chunk_ids.get(place.document, ()):
            if there.chunks[id].overlaps(place):
                yield id


# -- texts


def _find_texts(snapshot: Snapshot, texts: set[str]) -> dict[str, list[DocumentSpan]]:
    """Where texts stand, of all documents, each of which is read once."""
    found: dict[str, list[DocumentSpan]] = {text: [] for text in sorted(texts)}
    heads: dict[str, list[str]] = {}
    for text in found:
        heads.setdefault(text[:_PREFIX_LENGTH], []).append(text)
    short = {head for head in heads if len(head) < _PREFIX_LENGTH}
    for id, said in snapshot.table(ROOT).columns("id", "text") if found else ():
        bare = _remove_whitespace(said)
        begun = heads.keys() & {bare[i : i + _PREFIX_LENGTH] for i in range(len(bare) - _PREFIX_LENGTH + 1)}
        for text in (text for head in begun | short for text in heads[head]):
            found[text] += [DocumentSpan(id, *span) for span in _text_spans(said, text)]
    return found


def _remove_whitespace(text: str) -> str:
    """Without white space, of which a copy may have more or less."""
    return "".join(text.split())


def _text_spans(said: str, bare: str) -> Iterator[tuple[int, int]]:
    """Where such a text stands.

    >>> list(_spans("the\\n pier, the pier", "thepier"))
    [(0, 9), (11, 19)]
    """
    whole = _remove_whitespace(said)
    start = whole.find(bare)
    at = [i for i, letter in enumerate(said) if not letter.isspace()] if start >= 0 else []
    while start >= 0:
        yield at[start], at[start + len(bare) - 1] + 1
        start = whole.find(bare, start + len(bare))


# -- what is wrong


def _ambiguous_message(there: IndexLayout, id: str, ids: Sequence[str]) -> str:
    such = ", ".join(there.uris[one] for one in ids[:_MAX_SUGGESTIONS])
    return f"its gold {id!r} may be any of {len(ids):,} documents: write the whole uri, such as {such}"


def _missing_message(there: IndexLayout, id: str) -> str:
    from rapidfuzz import fuzz, process

    near = process.extract(id, list(there.ids_by_name), scorer=fuzz.ratio, limit=_MAX_SUGGESTIONS)
    meant = " or ".join(repr(name) for name, score, _ in near if score > 50)
    hint = f"; did you mean {meant}?" if meant else ": is it in the index, `kumi status`?"
    return f"its gold {id!r} is no document or chunk of the index{hint}"
