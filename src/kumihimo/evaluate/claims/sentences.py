"""an answer in Markdown -> its sentences in order, headings marked, citations removed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from kumihimo.text.sentences import LIST_ITEM, Block, collapse_spaces, split_blocks, split_sentences

PieceKind = Literal["sentence", "heading"]

_NUMBER = r"\s*\^?\d{1,3}(?:\s*[,、，;；–\-]\s*\d{1,3})*\s*"
_CITATION = re.compile(  # [2], [1, 7], 【3】, [^1]; GraphRAG's [Data: Reports (2, 7, +more)]
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
    """A sentence as a reader sees it, or a heading of the sentences below it."""

    text: str
    kind: PieceKind = "sentence"

    @property
    def markdown(self) -> str:
        """Return the text, with `# ` before a heading."""
        return f"# {self.text}" if self.kind == "heading" else self.text


def split_answer(answer: str) -> list[Piece]:
    r"""Split an answer into sentences and headings.

    A table row becomes one sentence that names its columns. The column names become a heading.

    >>> text = "## Boats\n**Two** left [1]. One [2, 3] stayed.\n\n- at *nine*\n- at ten"
    >>> [piece.markdown for piece in split_answer(text)]
    ['# Boats', 'Two left.', 'One stayed.', 'at nine', 'at ten']
    >>> [piece.markdown for piece in split_answer("| boat | built |\n|---|---|\n| Tern | 1922 |")]
    ['# boat; built', 'boat: Tern; built: 1922']
    """
    text = _CITATION.sub("", _FENCE.sub("", _QUOTE_MARK.sub("", answer)))
    pieces: list[Piece] = []
    for table, group in groupby(
        split_blocks(text), key=lambda block: block.kind == "row" and "|" in _block_text(text, block)
    ):
        for new_pieces in (
            [_split_table([_block_text(text, row) for row in group])]
            if table
            else (_split_block(text, row) for row in group)
        ):
            pieces += new_pieces
    return [piece for piece in pieces if _WORD.search(piece.text)]


def _block_text(text: str, block: Block) -> str:
    """Return the text of a block."""
    return text[block.start : block.end]


def _split_block(text: str, block: Block) -> Iterator[Piece]:
    """Yield the pieces of a block: one heading, or its sentences."""
    source = _block_text(text, block)
    if block.kind == "item":
        source = source[bullet.end() :] if (bullet := LIST_ITEM.match(source)) else source
    if block.kind == "heading" or _BOLD_LINE.fullmatch(source.strip()):
        yield Piece(_strip_markdown(_HEADING_MARK.sub("", source)), "heading")
        return
    plain = _strip_markdown(source)
    for start, end in split_sentences(plain):
        yield Piece(plain[start:end])


def _split_table(lines: Sequence[str]) -> Iterator[Piece]:
    """Yield the pieces of a table: its column names, then its rows."""
    rows = [
        [_strip_markdown(cell.replace("\\|", "|")) for cell in _CELL_BORDER.split(line.strip().strip("|"))]
        for line in lines
    ]
    column_names: list[str] = []
    if len(lines) > 1 and _TABLE_RULE.fullmatch(lines[1].strip()):
        column_names, rows, lines = rows[0], rows[2:], lines[2:]
        yield Piece("; ".join(filter(None, column_names)), "heading")
    for line, row in zip(lines, rows, strict=True):
        if not _TABLE_RULE.fullmatch(line.strip()):
            names = [column_names[i] if i < len(column_names) else "" for i in range(len(row))]
            yield Piece(
                "; ".join(f"{name}: {cell}" if name else cell for name, cell in zip(names, row, strict=True) if cell)
            )


def _strip_markdown(text: str) -> str:
    """Return the text without Markdown markup, on one line."""
    for markup in (_LINK, _BOLD, _ITALIC, _CODE):
        text = markup.sub(lambda match: match[match.lastindex or 0], text)
    return collapse_spaces(text)


def render_excerpt(pieces: Sequence[Piece], position: int, before: int, after: int) -> str:
    """Return a piece with its neighbours; [...] marks omitted text."""
    start, end = max(position - before, 0), position + 1 + after
    lines = [piece.markdown for piece in pieces[start:end]]
    return "\n".join([*(["[...]"] if start else []), *lines, *(["[...]"] if end < len(pieces) else [])])
