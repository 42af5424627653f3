"""question -> the entities whose names stand in it, and the words that name none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar
from unicodedata import normalize

from kumihimo.core.records import Entity, Mention
from kumihimo.core.table import Table
from kumihimo.text.name_keys import entity_id, name_key
from kumihimo.text.tokens import subject_terms

T = TypeVar("T")

_MAX_NAME_WORDS = 6  # in a name of the question, at most
_MAX_NAME_CHARS = 12  # of a script without spaces
_CJK = "々〆ー\u3040-\u30ff\u3400-\u9fff"
_PIECE_PATTERN = rf"[{_CJK}]|[^\s{_CJK}]+"  # compiled on first use
_PUNCTUATION = " \t\n.,;:!?\"'()[]{}“”‘’«»。、・？！「」『』（）"


def link_entities(question: str, entities: Table[Entity]) -> tuple[list[Entity], str]:
    """The entities whose names stand in a question, of names within each other the longest; and its other words.

    Of those the ones that say what it is about:

    >>> from kumihimo.core.table import NO_ROWS, codec
    >>> named("Who mended the breakwater, and who paid?", Table("entities", codec(Entity), NO_ROWS))
    ([], 'mended breakwater paid')
    """
    spoken = normalize("NFKC", question)
    found = list(_find_spans(spoken, entities.get_many))
    rest, done = "", 0
    for start, end, _ in found:
        rest, done = f"{rest}{spoken[done:start]} ", end
    words = [word.strip(_PUNCTUATION) for word in f"{rest}{spoken[done:]}".split() if subject_terms(word)]
    return [entity for _, _, entity in found], " ".join(words)


def link_entity_ids(question: str, mentions: Table[Mention]) -> list[str]:
    """The ids of the entities whose names stand in a question, each once."""

    def mentioned(ids: Iterable[str]) -> Mapping[str, str]:
        return {id: id for id, found in mentions.ids_grouped("entity", ids, limit=1).items() if found}

    return list(dict.fromkeys(id for _, _, id in _find_spans(normalize("NFKC", question), mentioned)))


def _find_spans(spoken: str, some: Callable[[Iterable[str]], Mapping[str, T]]) -> Iterator[tuple[int, int, T]]:
    """Where in a question, [start, end), the name of which entity stands. some: those of these ids that there are."""
    pieces = list(re.finditer(_PIECE_PATTERN, spoken))
    may = [
        _is_cjk(piece) or piece[0][0].isupper() or bool(subject_terms(piece[0])) for piece in pieces
    ]  # begin or end a name
    spans = [(at, end) for at in range(len(pieces)) if may[at] for end in range(_max_name_end(pieces, at), at, -1)]
    names = {(at, end): spoken[pieces[at].start() : pieces[end - 1].end()] for at, end in spans if may[end - 1]}
    ids = {span: entity_id(name_key(name.strip(_PUNCTUATION))) for span, name in names.items()}
    known = some(ids.values())
    done = 0
    for at, end in ids:
        entity = known.get(ids[at, end])
        if (
            at >= done and entity and (_is_cjk(pieces[at]) or subject_terms(names[at, end]))
        ):  # a name, not "What" or "Will"
            yield pieces[at].start(), pieces[end - 1].end(), entity
            done = end


def _max_name_end(pieces: Sequence[re.Match[str]], at: int) -> int:
    """How far a name may go that begins there: some words; or letters of one run, where there are no spaces."""
    end, most = at + 1, _MAX_NAME_CHARS if _is_cjk(pieces[at]) else _MAX_NAME_WORDS
    while end < min(len(pieces), at + most) and _is_contiguous(pieces[end - 1], pieces[end]):
        end += 1
    return end


def _is_contiguous(one: re.Match[str], other: re.Match[str]) -> bool:
    return one.end() == other.start() or not (_is_cjk(one) or _is_cjk(other))


def _is_cjk(piece: re.Match[str]) -> bool:
    return re.match(f"[{_CJK}]", piece[0]) is not None
