"""a text in pieces -> the same on a terminal, its lines broken between words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kumihimo.cli.sanitize import harmless

_UNSPACED = r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uff60]"
_OPENS = "「『（【〈《〔"  # at the end of no line
_STAYS = "、。，．！？」』）】〉》〕ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ"  # at the beginning of no line
_WORD = rf"[{_OPENS}]*(?:{_UNSPACED}|(?:(?!{_UNSPACED})\S)+)[{_STAYS}]*"
_PARTS = re.compile(rf"\n|[^\S\n]+|{_WORD}|\S")


@dataclass(slots=True)
class Wrapped:
    """Prints what it hears; the last word only once it is whole. width: in columns, 0 where nothing is wrapped."""

    width: int
    column: int = 0
    space: str = ""  # before the next word
    held: str = ""
    begun: bool = False

    def __call__(self, piece: str) -> None:
        self.begun = self.begun or bool(piece)
        if not self.width:
            print(harmless(piece), end="", flush=True)
            return
        *parts, self.held = _PARTS.findall(self.held + harmless(piece)) or [""]
        for part in parts:
            self._put(part)

    def end(self) -> None:
        """Nothing comes any more."""
        self._put(self.held)
        if self.begun:
            print(flush=True)

    def _put(self, part: str) -> None:
        from rich.cells import cell_len

        if part == "\n":
            print()
            self.column, self.space = 0, ""
        elif part.isspace():
            self.space += part
        elif part:
            if self.column and self.column + cell_len(self.space + part) > self.width:
                print()
                self.column, self.space = 0, ""
            print(self.space + part, end="", flush=True)
            self.column += cell_len(self.space + part)
            self.space = ""
