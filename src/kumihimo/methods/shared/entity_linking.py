"""question -> the entities it names, and its other content words."""

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

_MAX_NAME_WORDS = 6
_MAX_NAME_CHARS = 12  # in scripts without spaces
_CJK = "々〆ー\u3040-\u30ff\u3400-\u9fff"
_PIECE_PATTERN = rf"[{_CJK}]|[^\s{_CJK}]+"  # compiled on first use
_PUNCTUATION = " \t\n.,;:!?\"'()[]{}“”‘’«»。、・？！「」『』（）"


def link_entities(question: str, entities: Table[Entity]) -> tuple[list[Entity], str]:
    """Return the entities named in a question, and the remaining content words.

    Of overlapping names the longest counts.

    >>> from kumihimo.core.table import NO_ROWS, codec
    >>> link_entities("Who mended the breakwater, and who paid?", Table("entities", codec(Entity), NO_ROWS))
    ([], 'mended breakwater paid')
    """
    normalized = normalize("NFKC", question)
    spans = list(_find_spans(normalized, entities.get_many))
    remaining, position = "", 0
    for start, end, _ in spans:
        remaining, position = f"{remaining}{normalized[position:start]} ", end
    words = [word.strip(_PUNCTUATION) for word in f"{remaining}{normalized[position:]}".split() if subject_terms(word)]
    return [entity for _, _, entity in spans], " ".join(words)


def link_entity_ids(question: str, mentions: Table[Mention]) -> list[str]:
    """Return the ids of the entities named in a question, each once."""

    def existing(ids: Iterable[str]) -> Mapping[str, str]:
        return {id: id for id, mention_ids in mentions.ids_grouped("entity", ids, limit=1).items() if mention_ids}

    return list(dict.fromkeys(id for _, _, id in _find_spans(normalize("NFKC", question), existing)))


def _find_spans(text: str, lookup: Callable[[Iterable[str]], Mapping[str, T]]) -> Iterator[tuple[int, int, T]]:
    """Yield the span [start, end) and entity of each name.

    lookup: returns the existing entities among these ids.
    """
    pieces = list(re.finditer(_PIECE_PATTERN, text))
    is_boundary = [_is_cjk(piece) or piece[0][0].isupper() or bool(subject_terms(piece[0])) for piece in pieces]
    spans = [
        (start, end)
        for start in range(len(pieces))
        if is_boundary[start]
        for end in range(_max_name_end(pieces, start), start, -1)
    ]
    names = {
        (start, end): text[pieces[start].start() : pieces[end - 1].end()]
        for start, end in spans
        if is_boundary[end - 1]
    }
    ids = {span: entity_id(name_key(name.strip(_PUNCTUATION))) for span, name in names.items()}
    existing = lookup(ids.values())
    last_end = 0
    for start, end in ids:
        entity = existing.get(ids[start, end])
        # A name has a subject term; "What" and "Will" have none
        if start >= last_end and entity and (_is_cjk(pieces[start]) or subject_terms(names[start, end])):
            yield pieces[start].start(), pieces[end - 1].end(), entity
            last_end = end


def _max_name_end(pieces: Sequence[re.Match[str]], start: int) -> int:
    """Return the longest possible end of a name that starts here.

    The limit is a number of words; in scripts without spaces, letters of one run.
    """
    end, max_pieces = start + 1, _MAX_NAME_CHARS if _is_cjk(pieces[start]) else _MAX_NAME_WORDS
    while end < min(len(pieces), start + max_pieces) and _is_contiguous(pieces[end - 1], pieces[end]):
        end += 1
    return end


def _is_contiguous(left: re.Match[str], right: re.Match[str]) -> bool:
    return left.end() == right.start() or not (_is_cjk(left) or _is_cjk(right))


def _is_cjk(piece: re.Match[str]) -> bool:
    return re.match(f"[{_CJK}]", piece[0]) is not None
