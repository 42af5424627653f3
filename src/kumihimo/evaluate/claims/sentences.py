"""an answer as models write it, in Markdown -> its sentences in order, headings told apart, citations set aside."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from kumihimo.text.sentences import LIST_ITEM, Block, collapse_spaces, split_blocks, split_sentences

PieceKind = Literal["sentence", "heading"]

_NUMBER = r"\s*\^?\d{1,3}(?:\s*[,、，;；–\-]\s*\d{1,3})*\s*"
_CITATION = re.compile(  # [2], [1, 7], 【3】, [^1]; as GraphRAG's prompts want them: [Data: Reports (2, 7, +more)]
    rf"[ \t\u3000]*(?:[\[［【]{_NUMBER}[\]］】](?!\()|\[(?:Data|データ|数据)\s*[:：][^\[\]\n]{{0,300}}\])"
)
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,}).*$", re.M)
_QUOTE_MARK = re.compile(r"^[ \t]*(?:>[ \t]?)+", re.M)
_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\n]*\)")
_BOLD = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1", re.S)
_ITALIC = re.compile(r"(?<![\w*])([*_])(?=[^\s*_])([^*_\n]*?[^\s*_])\1(?![\w*])")
_CODE = re.compile(r"(`+)([^`\n]+)\1")
_HEADING_MARK = re.compile(r"#{1,6}\s+|\s+#+\s*$|\n\s*[=-]+\s*$")
_BOLD_LINE = re.compile(r"(\*\*|__)(?=\S)((?:(?!\1).)+)(?<=\S)\1\s*[:：]?\s*")
_TABLE_RULE = re.compile(r"\|?(?:\s*:?-+:?\s*\|)*\s*:?-+:?\s*\|?")
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_WORD = re.compile(r"[^\W_]")


@dataclass(frozen=True, slots=True)
class Piece:
    """A sentence, as a reader sees it, or a heading, which says what the sentences below it are about."""

    text: str
    kind: PieceKind = "sentence"

    @property
    def markdown(self) -> str:
        return f"# {self.text}" if self.kind == "heading" else self.text


def split_answer(answer: str) -> list[Piece]:
    """The pieces of an answer. A row of a table is a sentence that names its columns; their heads are a heading.

    >>> [piece.shown for piece in pieces("## Boats\\n**Two** left [1]. One [2, 3] stayed.\\n\\n- at *nine*\\n- at ten")]
    ['# Boats', 'Two left.', 'One stayed.', 'at nine', 'at ten']
    >>> [piece.shown for piece in pieces("| boat | built |\\n|---|---|\\n| Tern | 1922 |")]
    ['# boat; built', 'boat: Tern; built: 1922']
    """
    text = _CITATION.sub("", _FENCE.sub("", _QUOTE_MARK.sub("", answer)))
    found: list[Piece] = []
    for table, group in groupby(
        split_blocks(text), key=lambda block: block.kind == "row" and "|" in _block_text(text, block)
    ):
        for each in (
            [_split_table([_block_text(text, b) for b in group])] if table else (_split_block(text, b) for b in group)
        ):
            found += each
    return [piece for piece in found if _WORD.search(piece.text)]


def _block_text(text: str, block: Block) -> str:
    return text[block.start : block.end]


def _split_block(text: str, block: Block) -> Iterator[Piece]:
    said = _block_text(text, block)
    if block.kind == "item":
        said = said[mark.end() :] if (mark := LIST_ITEM.match(said)) else said
    if block.kind == "heading" or _BOLD_LINE.fullmatch(said.strip()):
        yield Piece(_strip_markdown(_HEADING_MARK.sub("", said)), "heading")
        return
    told = _strip_markdown(said)
    for start, end in split_sentences(told):
        yield Piece(told[start:end])


def _split_table(lines: Sequence[str]) -> Iterator[Piece]:
    rows = [
        [_strip_markdown(cell.replace("\\|", "|")) for cell in _CELL_BORDER.split(line.strip().strip("|"))]
        for line in lines
    ]
    heads: list[str] = []
    if len(lines) > 1 and _TABLE_RULE.fullmatch(lines[1].strip()):
        heads, rows, lines = rows[0], rows[2:], lines[2:]
        yield Piece("; ".join(filter(None, heads)), "heading")
    for line, row in zip(lines, rows, strict=True):
        if not _TABLE_RULE.fullmatch(line.strip()):
            named = [heads[i] if i < len(heads) else "" for i in range(len(row))]
            yield Piece("; ".join(f"{n}: {cell}" if n else cell for n, cell in zip(named, row, strict=True) if cell))


def _strip_markdown(text: str) -> str:
    """Without the marks of Markdown, in one line."""
    for mark in (_LINK, _BOLD, _ITALIC, _CODE):
        text = mark.sub(lambda found: found[found.lastindex or 0], text)
    return collapse_spaces(text)


def render_excerpt(found: Sequence[Piece], at: int, before: int, after: int) -> str:
    """What stands around a piece, and the piece; [...] where the answer goes on."""
    start, end = max(at - before, 0), at + 1 + after
    shown = [piece.markdown for piece in found[start:end]]
    return "\n".join([*(["[...]"] if start else []), *shown, *(["[...]"] if end < len(found) else [])])
