"""text in pieces -> lines wrapped between words on a terminal."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kumihimo.cli.sanitize import replace_controls

_CJK = r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uff60]"
_NO_LINE_END = "「『（【〈《〔"  # never at the end of a line
_NO_LINE_START = "、。，．！？」』）】〉》〕ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ"  # never at the start of a line
_WORD = rf"[{_NO_LINE_END}]*(?:{_CJK}|(?:(?!{_CJK})\S)+)[{_NO_LINE_START}]*"
_PARTS = re.compile(rf"\n|[^\S\n]+|{_WORD}|\S")


@dataclass(slots=True)
class LineWrapper:
    """A printer of streamed text that wraps lines and keeps words whole.

    width: in columns; 0: no wrapping.
    """

    width: int
    column: int = 0
    pending_space: str = ""  # before the next word
    pending_word: str = ""
    started: bool = False

    def __call__(self, piece: str) -> None:
        self.started = self.started or bool(piece)
        if not self.width:
            print(replace_controls(piece), end="", flush=True)
            return
        *parts, self.pending_word = _PARTS.findall(self.pending_word + replace_controls(piece)) or [""]
        for part in parts:
            self._print_part(part)

    def finish(self) -> None:
        """Print the pending word and end the line."""
        self._print_part(self.pending_word)
        if self.started:
            print(flush=True)

    def _print_part(self, part: str) -> None:
        from rich.cells import cell_len

        if part == "\n":
            print()
            self.column, self.pending_space = 0, ""
        elif part.isspace():
            self.pending_space += part
        elif part:
            if self.column and self.column + cell_len(self.pending_space + part) > self.width:
                print()
                self.column, self.pending_space = 0, ""
            print(self.pending_space + part, end="", flush=True)
            self.column += cell_len(self.pending_space + part)
            self.pending_space = ""
