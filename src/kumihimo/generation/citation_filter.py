"""streamed text + number of sources -> the same text without citations of missing sources."""

import re

from kumihimo.core.answer import Marker
from kumihimo.llm.protocols import TokenCallback

_OPEN, _CLOSE, _BETWEEN = r"\[［【", r"\]］】", r",、，;；–\-"
_NUMBERS = rf"\s*\d{{1,3}}(?:\s*[{_BETWEEN}]\s*\d{{1,3}})*\s*"
_CITATION = re.compile(rf"([ \t\u3000]{{0,4}})[{_OPEN}]({_NUMBERS})[{_CLOSE}](?!\()")
_PARTIAL_CITATION = re.compile(rf"[ \t\u3000]{{0,4}}(?:[{_OPEN}](?:[\d\s{_BETWEEN}]{{0,200}}[{_CLOSE}]?)?)?\Z")
_FENCE = re.compile(r"(`{3,}|~{3,})")
_PARTIAL_FENCE = re.compile(r"(?:(?<!`)`+|(?<!~)~+)\Z")
_BACKTICKS = re.compile(r"`+")
_MAX_CODE_CHARS = 2000  # between backticks
_NEXT_SPECIAL = re.compile(rf"`|~~~|(?=[ \t\u3000\n]|[{_OPEN}])")


class CitationFilter:
    """Filters citations in a streamed text; all other text stays unchanged.

    Code is passed on as it is. citations: start, end and source numbers of each citation kept in `text`, without the
    space before it.

    >>> stream = CitationFilter(sources=2)
    >>> stream("At nine [1, 7]. See `a[7]` ")
    >>> stream("and [2][7].")
    >>> stream.end()
    >>> stream.text, stream.dangling, stream.citations
    ('At nine [1]. See `a[7]` and [2].', 2, [(8, 11, (1,)), (28, 31, (2,))])
    """

    def __init__(self, sources: int, on_token: TokenCallback | None = None) -> None:
        self.sources, self.on_token = sources, on_token
        self.dangling = 0
        self.citations: list[Marker] = []
        self._pieces: list[str] = []
        self._length, self._at_line_start = 0, True
        self._buffer, self._position = "", 0  # the rest from this position is unfiltered
        self._fence, self._finished = "", False
        self._space = ""  # before removed citations, for a kept one right after them

    def __call__(self, piece: str) -> None:
        self._buffer, self._position = self._buffer[self._position :] + piece, 0
        first = len(self._pieces)
        while self._position < len(self._buffer) and self._step():
            pass
        if self.on_token and first < len(self._pieces):
            self.on_token("".join(self._pieces[first:]))

    def end(self) -> None:
        """Flush the buffer: the text is complete."""
        self._finished = True
        self("")

    @property
    def text(self) -> str:
        """Return the text so far."""
        return "".join(self._pieces)

    def _add(self, text: str) -> None:
        """Append a text without filtering."""
        if text:
            self._pieces.append(text)
            self._length += len(text)
            self._at_line_start = text.endswith("\n")

    def _step(self) -> bool:
        """Pass on a part of the buffer; return False if incomplete."""
        buffer, position = self._buffer, self._position
        if self._fence:
            return self._pass_fenced_line()
        if (citation := _CITATION.match(buffer, position)) and (self._finished or citation.end() < len(buffer)):
            return self._filter_citation(citation)
        if not self._finished and (
            _PARTIAL_CITATION.match(buffer, position)
            or (self._at_line_start and _PARTIAL_FENCE.match(buffer, position))
        ):
            return False
        if self._at_line_start and (fence := _FENCE.match(buffer, position)):
            self._fence = fence[1]
            return self._pass_on(fence.end())
        if run := _BACKTICKS.match(buffer, position):
            return self._pass_code_span(run)
        return self._pass_on(end.start() if (end := _NEXT_SPECIAL.search(buffer, position + 1)) else len(buffer))

    def _pass_on(self, end: int) -> bool:
        self._add(self._buffer[self._position : end])
        self._position, self._space = end, ""
        return True

    def _pass_fenced_line(self) -> bool:
        """Pass on a line of fenced code, perhaps the last one."""
        newline = self._buffer.find("\n", self._position)
        if newline < 0 and not self._finished:
            return False
        if self._at_line_start and self._buffer.startswith(self._fence, self._position):
            self._fence = ""
        return self._pass_on(newline + 1 or len(self._buffer))

    def _pass_code_span(self, run: re.Match[str]) -> bool:
        """Pass on inline code, or unmatched backticks as they are.

        Inline code ends at as many backticks within the same paragraph.
        """
        paragraph = self._buffer.find("\n\n", run.end(), run.end() + _MAX_CODE_CHARS)
        limit = paragraph if paragraph >= 0 else run.end() + _MAX_CODE_CHARS
        close = re.compile(rf"(?<!`){run[0]}(?!`)").search(self._buffer, run.end(), limit)
        decided = self._finished or paragraph >= 0 or len(self._buffer) > limit
        if close and (decided or close.end() < len(self._buffer)):
            return self._pass_on(close.end())
        return self._pass_on(run.end()) if decided else False

    def _filter_citation(self, citation: re.Match[str]) -> bool:
        """Pass on a citation without the missing sources."""
        valid: list[int] = []
        unchanged = "\n" not in citation[2]
        for item in re.split(r"[,、，;；]", citation[2]):
            ends = [int(n) for n in re.findall(r"\d+", item)]
            valid += [n for n in range(ends[0], max(ends) + 1) if 1 <= n <= self.sources]
            if invalid := sum(not 1 <= n <= self.sources for n in ends):
                self.dangling, unchanged = self.dangling + invalid, False
        self._space = self._space or citation[1]
        self._position = citation.end()
        if valid:
            kept_text = citation[0][len(citation[1]) :] if unchanged else f"[{', '.join(map(str, valid))}]"
            start = self._length + len(self._space)
            self._add(self._space + kept_text)
            self.citations.append((start, self._length, tuple(valid)))
            self._space = ""
        return True
