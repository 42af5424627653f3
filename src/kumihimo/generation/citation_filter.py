"""a text in pieces + how many sources there are -> the same text, without the citations that point nowhere."""

from __future__ import annotations

import re

from kumihimo.llm.protocols import TokenCallback

_OPEN, _CLOSE, _BETWEEN = r"\[［【", r"\]］】", r",、，;；–\-"
_NUMBERS = rf"\s*\d{{1,3}}(?:\s*[{_BETWEEN}]\s*\d{{1,3}})*\s*"
_CITATION = re.compile(rf"([ \t\u3000]{{0,4}})[{_OPEN}]({_NUMBERS})[{_CLOSE}](?!\()")
_PARTIAL_CITATION = re.compile(
    rf"[ \t\u3000]{{0,4}}(?:[{_OPEN}](?:[\d\s{_BETWEEN}]{{0,200}}[{_CLOSE}]?)?)?\Z"
)  # what may become one
_FENCE = re.compile(r"(`{3,}|~{3,})")
_PARTIAL_FENCE = re.compile(r"(?:`+|~+)\Z")
_BACKTICKS = re.compile(r"`+")
_MAX_CODE_CHARS = 2000  # characters of code between backticks
_NEXT_SPECIAL = re.compile(rf"`|~~~|(?=[ \t\u3000\n]|[{_OPEN}])")


class CitationFilter:
    """Passes a text on as it comes. Code is left alone, and so is every word.

    marks: each citation that stays: where it stands in `said`, and the sources it names.

    >>> text = Cited(sources=2)
    >>> text("At nine [1, 7]. See `a[7]` ")
    >>> text("and [2][7].")
    >>> text.end()
    >>> text.said, text.dangling, text.marks
    ('At nine [1]. See `a[7]` and [2].', 2, [(7, 11, [1]), (27, 31, [2])])
    """

    def __init__(self, sources: int, on_token: TokenCallback | None = None) -> None:
        self.sources, self.on_token = sources, on_token
        self.dangling = 0
        self.citations: list[tuple[int, int, list[int]]] = []
        self._pieces: list[str] = []
        self._length, self._at_line_start = 0, True
        self._buffer, self._position = "", 0  # what is held begins there
        self._fence, self._finished = "", False
        self._space = ""  # before citations that were taken out: for one that stands right after them

    def __call__(self, piece: str) -> None:
        self._buffer, self._position = self._buffer[self._position :] + piece, 0
        while self._position < len(self._buffer) and self._step():
            pass

    def end(self) -> None:
        """Nothing comes any more."""
        self._finished = True
        self("")

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._pieces)

    def add(self, text: str) -> None:
        """Pass this on as it is."""
        if text:
            self._pieces.append(text)
            self._length += len(text)
            self._at_line_start = text.endswith("\n")
            if self.on_token:
                self.on_token(text)

    def _step(self) -> bool:
        """Pass on what can be told from what is held; false where more has to come first."""
        held, at = self._buffer, self._position
        if self._fence:
            return self._pass_fenced_line()
        if (mark := _CITATION.match(held, at)) and (self._finished or mark.end() < len(held)):
            return self._filter_citation(mark)
        if not self._finished and (
            _PARTIAL_CITATION.match(held, at) or (self._at_line_start and _PARTIAL_FENCE.match(held, at))
        ):
            return False
        if self._at_line_start and (fence := _FENCE.match(held, at)):
            self._fence = fence[1]
            return self._pass_on(fence.end())
        if run := _BACKTICKS.match(held, at):
            return self._pass_code_span(run)
        return self._pass_on(end.start() if (end := _NEXT_SPECIAL.search(held, at + 1)) else len(held))

    def _pass_on(self, upto: int) -> bool:
        self.add(self._buffer[self._position : upto])
        self._position, self._space = upto, ""
        return True

    def _pass_fenced_line(self) -> bool:
        """A line of fenced code, which may be the last."""
        newline = self._buffer.find("\n", self._position)
        if newline < 0 and not self._finished:
            return False
        if self._at_line_start and self._buffer.startswith(self._fence, self._position):
            self._fence = ""
        return self._pass_on(newline + 1 or len(self._buffer))

    def _pass_code_span(self, run: re.Match[str]) -> bool:
        """Code between backticks, where as many close it in the same paragraph; else they are what they are."""
        paragraph = self._buffer.find("\n\n", run.end(), run.end() + _MAX_CODE_CHARS)
        reach = paragraph if paragraph >= 0 else run.end() + _MAX_CODE_CHARS
        close = re.compile(rf"(?<!`){run[0]}(?!`)").search(self._buffer, run.end(), reach)
        sure = self._finished or paragraph >= 0 or len(self._buffer) > reach
        if close and (sure or close.end() < len(self._buffer)):
            return self._pass_on(close.end())
        return self._pass_on(run.end()) if sure else False

    def _filter_citation(self, fingerprint: re.Match[str]) -> bool:
        """The citation, or what is left of it."""
        good: list[int] = []
        whole = True
        for part in re.split(r"[,、，;；]", fingerprint[2]):
            ends = [int(n) for n in re.findall(r"\d+", part)]
            good += [n for n in range(ends[0], max(ends) + 1) if 1 <= n <= self.sources]
            if beyond := sum(not 1 <= n <= self.sources for n in ends):
                self.dangling, whole = self.dangling + beyond, False
        self._space = self._space or fingerprint[1]
        self._position = fingerprint.end()
        if good:
            written = fingerprint[0][len(fingerprint[1]) :] if whole else f"[{', '.join(map(str, good))}]"
            start = self._length
            self.add(self._space + written)
            self.citations.append((start, self._length, good))
            self._space = ""
        return True
