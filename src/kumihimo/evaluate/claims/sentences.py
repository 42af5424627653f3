"""an answer as models write it, in Markdown -> its sentences in order, headings told apart, citations set aside."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from kumihimo.text.sentences import ITEM, Block, blocks, folded, sentences

Kind = Literal["sentence", "heading"]

_NUMBER = r"\s*\^?\d{1,3}(?:\s*[,、，;；–\-]\s*\d{1,3})*\s*"
_CITED = re.compile(  # [2], [1, 7], 【3】, [^1]; as GraphRAG's prompts want them: [Data: Reports (2, 7, +more)]
    rf"[ \t\u3000]*(?:[\[［【]{_NUMBER}[\]］】](?!\()|\[(?:Data|データ|数据)\s*[:：][^\[\]\n]{{0,300}}\])"
)
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,}).*$", re.M)
_QUOTED = re.compile(r"^[ \t]*(?:>[ \t]?)+", re.M)
_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\n]*\)")
_STRONG = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1", re.S)
_WEAK = re.compile(r"(?<![\w*])([*_])(?=[^\s*_])([^*_\n]*?[^\s*_])\1(?![\w*])")
_CODE = re.compile(r"(`+)([^`\n]+)\1")
_HASHES = re.compile(r"#{1,6}\s+|\s+#+\s*$|\n\s*[=-]+\s*$")
_ALL_STRONG = re.compile(r"(\*\*|__)(?=\S)((?:(?!\1).)+)(?<=\S)\1\s*[:：]?\s*")
_RULE = re.compile(r"\|?(?:\s*:?-+:?\s*\|)*\s*:?-+:?\s*\|?")
_CELLS = re.compile(r"(?<!\\)\|")
_WORD = re.compile(r"[^\W_]")


@dataclass(frozen=True, slots=True)
class Piece:
    """A sentence, as a reader sees it, or a heading, which says what the sentences below it are about."""

    text: str
    kind: Kind = "sentence"

    @property
    def shown(self) -> str:
        return f"# {self.text}" if self.kind == "heading" else self.text


def pieces(answer: str) -> list[Piece]:
    """The pieces of an answer. A row of a table is a sentence that names its columns; their heads are a heading.

    >>> [piece.shown for piece in pieces("## Boats\\n**Two** left [1]. One [2, 3] stayed.\\n\\n- at *nine*\\n- at ten")]
    ['# Boats', 'Two left.', 'One stayed.', 'at nine', 'at ten']
    >>> [piece.shown for piece in pieces("| boat | built |\\n|---|---|\\n| Tern | 1922 |")]
    ['# boat; built', 'boat: Tern; built: 1922']
    """
    text = _CITED.sub("", _FENCE.sub("", _QUOTED.sub("", answer)))
    found: list[Piece] = []
    for table, group in groupby(blocks(text), key=lambda block: block.kind == "row" and "|" in _of(text, block)):
        for each in [_rows([_of(text, b) for b in group])] if table else (_parts(text, b) for b in group):
            found += each
    return [piece for piece in found if _WORD.search(piece.text)]


def _of(text: str, block: Block) -> str:
    return text[block.start : block.end]


def _parts(text: str, block: Block) -> Iterator[Piece]:
    said = _of(text, block)
    if block.kind == "item":
        said = said[mark.end() :] if (mark := ITEM.match(said)) else said
    if block.kind == "heading" or _ALL_STRONG.fullmatch(said.strip()):
        yield Piece(_plain(_HASHES.sub("", said)), "heading")
        return
    told = _plain(said)
    for start, end in sentences(told):
        yield Piece(told[start:end])


def _rows(lines: Sequence[str]) -> Iterator[Piece]:
    rows = [[_plain(cell.replace("\\|", "|")) for cell in _CELLS.split(line.strip().strip("|"))] for line in lines]
    heads: list[str] = []
    if len(lines) > 1 and _RULE.fullmatch(lines[1].strip()):
        heads, rows, lines = rows[0], rows[2:], lines[2:]
        yield Piece("; ".join(filter(None, heads)), "heading")
    for line, row in zip(lines, rows, strict=True):
        if not _RULE.fullmatch(line.strip()):
            named = [heads[i] if i < len(heads) else "" for i in range(len(row))]
            yield Piece("; ".join(f"{n}: {cell}" if n else cell for n, cell in zip(named, row, strict=True) if cell))


def _plain(text: str) -> str:
    """Without the marks of Markdown, in one line."""
    for mark in (_LINK, _STRONG, _WEAK, _CODE):
        text = mark.sub(lambda found: found[found.lastindex or 0], text)
    return folded(text)


def excerpt(found: Sequence[Piece], at: int, before: int, after: int) -> str:
    """What stands around a piece, and the piece; [...] where the answer goes on."""
    start, end = max(at - before, 0), at + 1 + after
    shown = [piece.shown for piece in found[start:end]]
    return "\n".join([*(["[...]"] if start else []), *shown, *(["[...]"] if end < len(found) else [])])
