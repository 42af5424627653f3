"""gold of questions + an index -> Wanted: where in its documents that stands, or what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple

from kumihimo.app.snapshot import Reading
from kumihimo.core.errors import KumiError, SettingsError
from kumihimo.core.wiring import ROOT
from kumihimo.evaluate.records import Gold, Question

_SHOWN = 3  # names that may have been meant
_HEAD = 16  # characters of a text by which it is looked for: many texts are found in one pass
_END = 2**62  # of a document, wherever that is


class Stretch(NamedTuple):
    """`[start, end)` of a document, by its id, in characters."""

    document: str
    start: int
    end: int

    def touches(self, other: Stretch) -> bool:
        return self.document == other.document and self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class Wanted:
    """A passage that a question needs: any of these places will do. whole: it is a document, of which any part will."""

    name: str  # `uri`, or `uri[start,end)`
    places: tuple[Stretch, ...]
    whole: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """What an index holds: uris of documents, where chunks stand, their tokens, the chunks of each document."""

    uris: Mapping[str, str]
    names: Mapping[str, Sequence[str]]  # whatever a document may be called -> ids
    chunks: Mapping[str, Stretch]
    tokens: Mapping[str, int]
    held: Mapping[str, Sequence[str]]

    def name(self, place: Stretch) -> str:
        return f"{self.uris[place.document]}[{place.start},{place.end})"


def layout(reading: Reading) -> Layout:
    """Of the whole index, read once."""
    uris: dict[str, str] = {}
    names: dict[str, list[str]] = {}
    for id, uri, file in reading.table(ROOT).columns("id", "uri", "file"):
        uris[id] = uri
        for name in dict.fromkeys((uri, uri.partition("#")[2], file, PurePosixPath(file).name)):
            names.setdefault(name, []).append(id)
    names |= {uri: [id] for id, uri in uris.items()}
    chunks: dict[str, Stretch] = {}
    tokens: dict[str, int] = {}
    held: dict[str, list[str]] = {id: [] for id in uris}
    for id, start, end, size in reading.table("chunks").columns("id", "start", "end", "tokens"):
        document = id.partition(".")[0]
        chunks[id], tokens[id] = Stretch(document, start, end), size
        held[document].append(id)
    return Layout(uris, names, chunks, tokens, held)


def wanted(reading: Reading, there: Layout, questions: Iterable[Question]) -> dict[str, tuple[Wanted, ...]]:
    """The passages that each question needs, by its id; questions without gold are left out.

    Raises SettingsError for gold that the index does not hold, or that may be any of several documents. Passages that
    the index cuts no finer, since they stand in the same chunks, are one.
    """
    asked = [question for question in questions if question.gold]
    scanned = _standing(reading, {_bare(g.text) for q in asked for g in q.gold if g.text.strip() and not g.id})
    found: dict[str, tuple[Wanted, ...]] = {}
    wrong: list[str] = []
    for question in asked:
        try:
            each = [_resolved(reading, there, gold, scanned) for gold in question.gold]
            found[question.id] = tuple(_merged(there, each))
        except KumiError as error:
            wrong.append(f"question {question.id!r}: {error}")
    if wrong:
        more = f" ({len(wrong) - 1:,} more questions have such gold)" if len(wrong) > 1 else ""
        raise SettingsError(f"{wrong[0]}{more}")
    return found


def stretch(there: Layout, name: str) -> Stretch | None:
    """What a name stands for that `Wanted` or `Layout.name` gave, or Gold.id may be; None: nothing, or several."""
    named, bracket, span = name.rpartition("[")
    start, comma, end = span.removesuffix(")").partition(",")
    if bracket and comma and span.endswith(")") and start.isdecimal() and end.isdecimal() and named in there.names:
        ids = there.names[named]
        return Stretch(ids[0], int(start), int(end)) if len(ids) == 1 else None
    if len(ids := there.names.get(name, ())) == 1:
        return Stretch(ids[0], 0, _END)
    return _chunk(there, name)


def _chunk(there: Layout, name: str) -> Stretch | None:
    return there.chunks.get(name.removeprefix("chunks:"))


def _resolved(reading: Reading, there: Layout, gold: Gold, scanned: Mapping[str, list[Stretch]]) -> Wanted:
    if not gold.id:
        if not gold.text.strip():
            raise SettingsError("its gold names neither a document nor a text: write `id`, or `text`")
        return _of(there, _where(gold, scanned[_bare(gold.text)]))
    known = _chunk(there, gold.id)
    ids = there.names.get(gold.id, () if known is None else (known.document,))
    if len(ids) != 1:
        raise SettingsError(_ambiguous(there, gold.id, ids) if ids else _missing(there, gold.id))
    place = Stretch(ids[0], 0, _END) if gold.id in there.names or known is None else known
    if gold.start is None and gold.end is None and not gold.text.strip():
        return _of(there, [place])
    return _of(there, _within(reading, gold, place))


def _within(reading: Reading, gold: Gold, place: Stretch) -> list[Stretch]:
    """Where in the document, or chunk, the gold stands: as it says, or where its text does."""
    said = reading.table(ROOT)[place.document].text
    if gold.start is not None or gold.end is not None:
        part = Stretch(place.document, gold.start or 0, len(said) if gold.end is None else gold.end)
        if not 0 <= part.start < part.end <= len(said) or not part.touches(place):
            shown = f"[{part.start}, {part.end})"
            raise SettingsError(f"its gold is {shown} of {gold.id!r}, which has {len(said):,} characters")
        return [part]
    places = [Stretch(place.document, *span) for span in _spans(said, _bare(gold.text))]
    return _where(gold, [one for one in places if one.touches(place)])


def _where(gold: Gold, places: list[Stretch]) -> list[Stretch]:
    if not places:
        what = f"{gold.text.strip()[:60]!r}"
        of = repr(gold.id) if gold.id else "any document"
        raise SettingsError(f"its gold {what} does not stand in {of}: copy it word for word, or name the document")
    return places


def _of(there: Layout, places: list[Stretch]) -> Wanted:
    if places[0].end == _END:
        return Wanted(there.uris[places[0].document], tuple(places), whole=True)
    return Wanted(there.name(places[0]), tuple(places), whole=False)


def _merged(there: Layout, each: Iterable[Wanted]) -> Iterator[Wanted]:
    """Each passage once. Raises SettingsError where one stands in no chunk."""
    found: dict[object, Wanted] = {}
    for one in each:
        in_chunks = frozenset(_touched(there, one))
        if not in_chunks:
            raise SettingsError(f"its gold {one.name} stands in no chunk of the index: it is blank, or front matter")
        same = found.get(in_chunks)
        found[in_chunks] = _both(same, one) if same else one
    yield from found.values()


def _both(one: Wanted, other: Wanted) -> Wanted:
    if one.whole or other.whole:
        return one if one.whole else other
    return Wanted(one.name, tuple(dict.fromkeys(one.places + other.places)), whole=False)


def _touched(there: Layout, one: Wanted) -> Iterator[str]:
    for place in one.places:
        for id in there.held.get(place.document, ()):
            if there.chunks[id].touches(place):
                yield id


# -- texts


def _standing(reading: Reading, texts: set[str]) -> dict[str, list[Stretch]]:
    """Where texts stand, of all documents, each of which is read once."""
    found: dict[str, list[Stretch]] = {text: [] for text in sorted(texts)}
    heads: dict[str, list[str]] = {}
    for text in found:
        heads.setdefault(text[:_HEAD], []).append(text)
    short = {head for head in heads if len(head) < _HEAD}
    for id, said in reading.table(ROOT).columns("id", "text") if found else ():
        bare = _bare(said)
        begun = heads.keys() & {bare[i : i + _HEAD] for i in range(len(bare) - _HEAD + 1)}
        for text in (text for head in begun | short for text in heads[head]):
            found[text] += [Stretch(id, *span) for span in _spans(said, text)]
    return found


def _bare(text: str) -> str:
    """Without white space, of which a copy may have more or less."""
    return "".join(text.split())


def _spans(said: str, bare: str) -> Iterator[tuple[int, int]]:
    """Where such a text stands.

    >>> list(_spans("the\\n pier, the pier", "thepier"))
    [(0, 9), (11, 19)]
    """
    whole = _bare(said)
    start = whole.find(bare)
    at = [i for i, letter in enumerate(said) if not letter.isspace()] if start >= 0 else []
    while start >= 0:
        yield at[start], at[start + len(bare) - 1] + 1
        start = whole.find(bare, start + len(bare))


# -- what is wrong


def _ambiguous(there: Layout, id: str, ids: Sequence[str]) -> str:
    such = ", ".join(there.uris[one] for one in ids[:_SHOWN])
    return f"its gold {id!r} may be any of {len(ids):,} documents: write the whole uri, such as {such}"


def _missing(there: Layout, id: str) -> str:
    from rapidfuzz import fuzz, process

    near = process.extract(id, list(there.names), scorer=fuzz.ratio, limit=_SHOWN)
    meant = " or ".join(repr(name) for name, score, _ in near if score > 50)
    hint = f"; did you mean {meant}?" if meant else ": is it in the index, `kumi status`?"
    return f"its gold {id!r} is no document or chunk of the index{hint}"
