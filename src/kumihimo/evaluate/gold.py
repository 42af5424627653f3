"""Gold of questions and an index -> its places in the documents, or an error."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePosixPath
from statistics import fmean

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.core.errors import KumiError, SettingsError
from kumihimo.core.wiring import ROOT
from kumihimo.evaluate.records import DOCUMENT_END, EvalQuestion, Gold, SourceSpan

_MAX_SUGGESTIONS = 3  # names in an error message
_PREFIX_LENGTH = 16  # characters: texts are located by prefix, so that one pass finds many
_SPAN_NAME = re.compile(r"(.*)\[(\d{1,18}),(\d{1,18})\)", re.S)  # `uri[start,end)`


Places = tuple[SourceSpan, ...]  # alternatives: any of them suffices
GoldPassages = Mapping[str, Places]  # by name: `uri` or `uri[start,end)`; alternatives joined by ` or `


def is_whole(places: Iterable[SourceSpan]) -> bool:
    """Return whether each place is a whole document."""
    return all(place.is_document for place in places)


def is_found(places: Iterable[SourceSpan], read: Collection[SourceSpan]) -> bool:
    """Return whether the ranges read hold enough of a place."""
    return any(place.is_covered(read) for place in places)


def found_share(ranking: Sequence[SourceSpan], passages: GoldPassages, k: int = DOCUMENT_END) -> float:
    """Return the share of the passages among the first k chunks.

    If all passages are whole documents, the first k documents count.

    >>> chunks = [SourceSpan("a.md", 0, 9), SourceSpan("a.md", 9, 20), SourceSpan("b.md", 0, 9)]
    >>> gold = {"a.md[6,14)": (SourceSpan("a.md", 6, 14),), "b.md[0,9)": (chunks[2],)}
    >>> [found_share(chunks, gold, k) for k in (1, 2, 3)]
    [0.0, 0.5, 1.0]
    """
    read = ranking[:k]
    if all(map(is_whole, passages.values())):
        uris = dict.fromkeys(place.uri for place in ranking)
        read = [SourceSpan(uri, 0, DOCUMENT_END) for uri in list(uris)[:k]]
    return fmean(is_found(places, read) for places in passages.values())


@dataclass(frozen=True, slots=True)
class IndexLayout:
    """The documents and chunks of an index.

    ids: of the documents, by uri. chunks, tokens: the range and the tokens of each chunk. chunk_ids: the chunks of each
    document, by its id.
    """

    ids: Mapping[str, str]
    uris_by_name: Mapping[str, Sequence[str]]  # any name of a document -> uris
    chunks: Mapping[str, SourceSpan]
    tokens: Mapping[str, int]
    chunk_ids: Mapping[str, Sequence[str]]


def span_name(place: SourceSpan) -> str:
    """Return the name of a range: `uri[start,end)`, or `uri`."""
    return place.uri if place.is_document else f"{place.uri}[{place.start},{place.end})"


def read_index_layout(snapshot: Snapshot) -> IndexLayout:
    """Read the layout of the whole index once."""
    uris: dict[str, str] = {}
    names: dict[str, list[str]] = {}
    for id, uri, file in snapshot.table(ROOT).columns("id", "uri", "file"):
        uris[id] = uri
        for name in dict.fromkeys((uri, uri.partition("#")[2], file, PurePosixPath(file).name)):
            names.setdefault(name, []).append(uri)
    names |= {uri: [uri] for uri in uris.values()}
    chunks: dict[str, SourceSpan] = {}
    tokens: dict[str, int] = {}
    chunk_ids: dict[str, list[str]] = {id: [] for id in uris}
    for id, start, end, size in snapshot.table("chunks").columns("id", "start", "end", "tokens"):
        document = id.partition(".")[0]
        chunks[id], tokens[id] = SourceSpan(uris[document], start, end), size
        chunk_ids[document].append(id)
    return IndexLayout({uri: id for id, uri in uris.items()}, names, chunks, tokens, chunk_ids)


def resolve_gold(
    snapshot: Snapshot, layout: IndexLayout, questions: Iterable[EvalQuestion]
) -> dict[str, dict[str, Places]]:
    """Resolve the gold passages of each question, by question id.

    Questions without gold are left out. Passages with the same places, or the same name, are one. Raises SettingsError
    for gold that is missing from the index or ambiguous.
    """
    with_gold = [question for question in questions if question.gold]
    options = [option for question in with_gold for gold in question.gold for option in gold.options]
    spans_by_text = _find_texts(snapshot, {_remove_whitespace(g.text) for g in options if g.text.strip() and not g.id})
    resolved: dict[str, dict[str, Places]] = {}
    errors: list[str] = []
    for question in with_gold:
        try:
            passages = (
                _gold_passage(layout, [_resolve(snapshot, layout, option, spans_by_text) for option in gold.options])
                for gold in question.gold
            )
            resolved[question.id] = dict({frozenset(places): (name, places) for name, places in passages}.values())
        except KumiError as error:
            errors.append(f"question {question.id!r}: {error}")
    if errors:
        more = f" ({len(errors) - 1:,} more questions have such gold)" if len(errors) > 1 else ""
        raise SettingsError(f"{errors[0]}{more}")
    return resolved


def parse_span_name(layout: IndexLayout, name: str) -> SourceSpan | None:
    """Return the range of a name, None if unknown or ambiguous.

    The name comes from `span_name`, or is anything that `Gold.id` may be.
    """
    if (match := _SPAN_NAME.fullmatch(name)) and (uris := layout.uris_by_name.get(match[1])):
        return SourceSpan(uris[0], int(match[2]), int(match[3])) if len(uris) == 1 else None
    if len(uris := layout.uris_by_name.get(name, ())) == 1:
        return SourceSpan(uris[0], 0, DOCUMENT_END)
    return layout.chunks.get(name.removeprefix("chunks:"))


def _resolve(
    snapshot: Snapshot, layout: IndexLayout, gold: Gold, spans_by_text: Mapping[str, list[SourceSpan]]
) -> list[SourceSpan]:
    """Return the places of one option of the gold."""
    if not gold.id:
        if not gold.text.strip():
            raise SettingsError("its gold names neither a document nor a text: write `id`, or `text`")
        return _require_spans(gold, spans_by_text[_remove_whitespace(gold.text)])
    chunk = layout.chunks.get(gold.id.removeprefix("chunks:"))
    uris = layout.uris_by_name.get(gold.id, () if chunk is None else (chunk.uri,))
    if not uris:
        raise SettingsError(_missing_message(layout, gold.id))
    if len(uris) > 1:
        examples = ", ".join(uris[:_MAX_SUGGESTIONS])
        raise SettingsError(
            f"its gold {gold.id!r} may be any of {len(uris):,} documents: write the whole uri, such as {examples}"
        )
    place = SourceSpan(uris[0], 0, DOCUMENT_END) if gold.id in layout.uris_by_name or chunk is None else chunk
    if gold.start is None and gold.end is None and not gold.text.strip():
        return [place]
    return _spans_in_document(layout, snapshot, gold, place)


def _spans_in_document(layout: IndexLayout, snapshot: Snapshot, gold: Gold, place: SourceSpan) -> list[SourceSpan]:
    """Return the ranges of the gold in its document or chunk."""
    text = snapshot.table(ROOT)[layout.ids[place.uri]].text
    if gold.start is not None or gold.end is not None:
        part = SourceSpan(place.uri, gold.start or 0, len(text) if gold.end is None else gold.end)
        if not 0 <= part.start < part.end <= len(text) or not part.overlaps(place):
            bounds = f"[{part.start}, {part.end})"
            raise SettingsError(f"its gold is {bounds} of {gold.id!r}, which has {len(text):,} characters")
        return [part]
    places = [SourceSpan(place.uri, *span) for span in _text_spans(text, _remove_whitespace(gold.text))]
    return _require_spans(gold, [candidate for candidate in places if candidate.overlaps(place)])


def _require_spans(gold: Gold, places: list[SourceSpan]) -> list[SourceSpan]:
    if not places:
        quote, target = gold.text.strip()[:60], repr(gold.id) if gold.id else "any document"
        raise SettingsError(f"its gold {quote!r} is not in {target}: copy it word for word, or name the document")
    return places


def _gold_passage(layout: IndexLayout, options: Sequence[Sequence[SourceSpan]]) -> tuple[str, Places]:
    """Join the places of all options; return them with their name.

    Raises SettingsError if no chunks hold enough of them.
    """
    name = " or ".join(dict.fromkeys(span_name(places[0]) for places in options))
    passage = tuple(dict.fromkeys(chain.from_iterable(options)))
    documents = dict.fromkeys(layout.ids[place.uri] for place in passage)
    if not is_found(passage, [layout.chunks[id] for document in documents for id in layout.chunk_ids[document]]):
        raise SettingsError(f"its gold {name} is in no chunk of the index: it is blank, or front matter")
    return name, passage


# -- texts


def _find_texts(snapshot: Snapshot, texts: set[str]) -> dict[str, list[SourceSpan]]:
    """Find texts in all documents.

    Each document is read once.
    """
    spans_by_text: dict[str, list[SourceSpan]] = {text: [] for text in sorted(texts)}
    prefixes: dict[str, list[str]] = {}
    for text in spans_by_text:
        prefixes.setdefault(text[:_PREFIX_LENGTH], []).append(text)
    short = {prefix for prefix in prefixes if len(prefix) < _PREFIX_LENGTH}
    for uri, document_text in snapshot.table(ROOT).columns("uri", "text") if spans_by_text else ():
        squeezed = _remove_whitespace(document_text)
        starts = range(len(squeezed) - _PREFIX_LENGTH + 1)
        possible = prefixes.keys() & {squeezed[i : i + _PREFIX_LENGTH] for i in starts}
        for text in (text for prefix in possible | short for text in prefixes[prefix]):
            spans_by_text[text] += [SourceSpan(uri, *span) for span in _text_spans(document_text, text)]
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

    matches = process.extract(id, list(layout.uris_by_name), scorer=fuzz.ratio, limit=_MAX_SUGGESTIONS)
    suggestions = " or ".join(repr(name) for name, score, _ in matches if score > 50)
    hint = f"; did you mean {suggestions}?" if suggestions else ": is it in the index, `kumi status`?"
    return f"its gold {id!r} is no document or chunk of the index{hint}"
