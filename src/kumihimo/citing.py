"""a text in pieces + how many sources there are -> the same text, without the citations that point nowhere."""

from __future__ import annotations

import re

from kumihimo.ports.models import Hear

_OPEN, _CLOSE, _BETWEEN = r"\[［【", r"\]］】", r",、，;；–\-"
_NUMBERS = rf"\s*\d{{1,3}}(?:\s*[{_BETWEEN}]\s*\d{{1,3}})*\s*"
_MARK = re.compile(rf"([ \t\u3000]*)[{_OPEN}]({_NUMBERS})[{_CLOSE}](?!\()")
_MAYBE = re.compile(rf"[ \t\u3000]*(?:[{_OPEN}](?:[\d\s{_BETWEEN}]{{0,200}}[{_CLOSE}]?)?)?\Z")  # what may become one
_FENCE = re.compile(r"(?m:^)(`{3,}|~{3,})")
_CODE = re.compile(r"`+")
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
        self.said = ""
        self.dangling = 0
        self.marks: list[tuple[int, int, list[int]]] = []
        self._held, self._fence, self._ended = "", "", False
        self._space = ""  # before citations that were taken out: for one that stands right after them

    def __call__(self, piece: str) -> None:
        self._held += piece
        while self._held and self._step():
            pass

    def end(self) -> None:
        """Nothing comes any more."""
        self._ended = True
        self("")

    def add(self, text: str) -> None:
        """Pass this on as it is."""
        if text:
            self.said += text
            if self.hear:
                self.hear(text)

    def _step(self) -> bool:
        """Pass on what can be told from what is held; false where more has to come first."""
        if self._fence:
            return self._line()
        if (mark := _MARK.match(self._held)) and (self._ended or mark.end() < len(self._held)):
            return self._cite(mark)
        if _MAYBE.match(self._held) and not self._ended:
            return False
        at_start = not self.said or self.said.endswith("\n")
        if at_start and not self._ended and re.fullmatch("`+|~+", self._held):
            return False
        if at_start and (fence := _FENCE.match(self._held)):
            self._fence = fence[1]
            return self._take(fence.end())
        if run := _CODE.match(self._held):
            return self._span(run)
        return self._take(end.start() if (end := _NEXT.search(self._held, 1)) else len(self._held))

    def _take(self, size: int) -> bool:
        self.add(self._held[:size])
        self._held, self._space = self._held[size:], ""
        return True

    def _line(self) -> bool:
        """A line of fenced code, which may be the last."""
        line, newline, _ = self._held.partition("\n")
        if not newline and not self._ended:
            return False
        if self.said.endswith("\n") and line.startswith(self._fence):
            self._fence = ""
        return self._take(len(line) + len(newline))

    def _span(self, run: re.Match[str]) -> bool:
        """Code between backticks, where as many close it in the same paragraph; else they are what they are."""
        close = re.compile(rf"(?<!`){run[0]}(?!`)").search(self._held, run.end())
        paragraph = self._held.find("\n\n", run.end())
        sure = self._ended or (close is not None and close.end() < len(self._held))
        if close and sure and not 0 <= paragraph < close.start():
            return self._take(close.end())
        return self._take(run.end()) if self._ended or paragraph >= 0 else False

    def _cite(self, mark: re.Match[str]) -> bool:
        """The citation, or what is left of it."""
        good: list[int] = []
        whole = True
        for part in re.split(r"[,、，;；]", mark[2]):
            ends = [int(n) for n in re.findall(r"\d+", part)]
            named = range(ends[0], max(ends) + 1)
            good += [n for n in named if 1 <= n <= self.sources]
            if beyond := sum(not 1 <= n <= self.sources for n in ends):
                self.dangling, whole = self.dangling + beyond, False
        self._space = self._space or mark[1]
        self._held = self._held[mark.end() :]
        if good:
            written = mark[0][len(mark[1]) :] if whole else f"[{', '.join(map(str, good))}]"
            start = len(self.said)
            self.add(self._space + written)
            self.marks.append((start, len(self.said), good))
            self._space = ""
        return True
