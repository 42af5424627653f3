"""a text in pieces + how many sources there are -> the same text, without the citations that point nowhere."""

from __future__ import annotations

import re

from kumihimo.llm.protocols import Hear

_OPEN, _CLOSE, _BETWEEN = r"\[［【", r"\]］】", r",、，;；–\-"
_NUMBERS = rf"\s*\d{{1,3}}(?:\s*[{_BETWEEN}]\s*\d{{1,3}})*\s*"
_MARK = re.compile(rf"([ \t\u3000]{{0,4}})[{_OPEN}]({_NUMBERS})[{_CLOSE}](?!\()")
_MAYBE = re.compile(
    rf"[ \t\u3000]{{0,4}}(?:[{_OPEN}](?:[\d\s{_BETWEEN}]{{0,200}}[{_CLOSE}]?)?)?\Z"
)  # what may become one
_FENCE = re.compile(r"(`{3,}|~{3,})")
_MAYBE_FENCE = re.compile(r"(?:`+|~+)\Z")
_CODE = re.compile(r"`+")
_LONGEST = 2000  # characters of code between backticks
_NEXT = re.compile(rf"`|~~~|(?=[ \t\u3000\n]|[{_OPEN}])")


class Cited:
    """Passes a text on as it comes. Code is left alone, and so is every word.

    marks: each citation that stays: where it stands in `said`, and the sources it names.

    >>> text = Cited(sources=2)
    >>> text("At nine [1, 7]. See `a[7]` ")
    >>> text("and [2][7].")
    >>> text.end()
    >>> text.said, text.dangling, text.marks
    ('At nine [1]. See `a[7]` and [2].', 2, [(7, 11, [1]), (27, 31, [2])])
    """

    def __init__(self, sources: int, hear: Hear | None = None) -> None:
        self.sources, self.hear = sources, hear
        self.dangling = 0
        self.marks: list[tuple[int, int, list[int]]] = []
        self._pieces: list[str] = []
        self._length, self._at_line_start = 0, True
        self._held, self._at = "", 0  # what is held begins there
        self._fence, self._ended = "", False
        self._space = ""  # before citations that were taken out: for one that stands right after them

    def __call__(self, piece: str) -> None:
        self._held, self._at = self._held[self._at :] + piece, 0
        while self._at < len(self._held) and self._step():
            pass

    def end(self) -> None:
        """Nothing comes any more."""
        self._ended = True
        self("")

    @property
    def said(self) -> str:
        """The text so far."""
        return "".join(self._pieces)

    def add(self, text: str) -> None:
        """Pass this on as it is."""
        if text:
            self._pieces.append(text)
            self._length += len(text)
            self._at_line_start = text.endswith("\n")
            if self.hear:
                self.hear(text)

    def _step(self) -> bool:
        """Pass on what can be told from what is held; false where more has to come first."""
        held, at = self._held, self._at
        if self._fence:
            return self._line()
        if (mark := _MARK.match(held, at)) and (self._ended or mark.end() < len(held)):
            return self._cite(mark)
        if not self._ended and (_MAYBE.match(held, at) or (self._at_line_start and _MAYBE_FENCE.match(held, at))):
            return False
        if self._at_line_start and (fence := _FENCE.match(held, at)):
            self._fence = fence[1]
            return self._take(fence.end())
        if run := _CODE.match(held, at):
            return self._span(run)
        return self._take(end.start() if (end := _NEXT.search(held, at + 1)) else len(held))

    def _take(self, upto: int) -> bool:
        self.add(self._held[self._at : upto])
        self._at, self._space = upto, ""
        return True

    def _line(self) -> bool:
        """A line of fenced code, which may be the last."""
        newline = self._held.find("\n", self._at)
        if newline < 0 and not self._ended:
            return False
        if self._at_line_start and self._held.startswith(self._fence, self._at):
            self._fence = ""
        return self._take(newline + 1 or len(self._held))

    def _span(self, run: re.Match[str]) -> bool:
        """Code between backticks, where as many close it in the same paragraph; else they are what they are."""
        paragraph = self._held.find("\n\n", run.end(), run.end() + _LONGEST)
        reach = paragraph if paragraph >= 0 else run.end() + _LONGEST
        close = re.compile(rf"(?<!`){run[0]}(?!`)").search(self._held, run.end(), reach)
        sure = self._ended or paragraph >= 0 or len(self._held) > reach
        if close and (sure or close.end() < len(self._held)):
            return self._take(close.end())
        return self._take(run.end()) if sure else False

    def _cite(self, mark: re.Match[str]) -> bool:
        """The citation, or what is left of it."""
        good: list[int] = []
        whole = True
        for part in re.split(r"[,、，;；]", mark[2]):
            ends = [int(n) for n in re.findall(r"\d+", part)]
            good += [n for n in range(ends[0], max(ends) + 1) if 1 <= n <= self.sources]
            if beyond := sum(not 1 <= n <= self.sources for n in ends):
                self.dangling, whole = self.dangling + beyond, False
        self._space = self._space or mark[1]
        self._at = mark.end()
        if good:
            written = mark[0][len(mark[1]) :] if whole else f"[{', '.join(map(str, good))}]"
            start = self._length
            self.add(self._space + written)
            self.marks.append((start, self._length, good))
            self._space = ""
        return True
