"""lines and quotations -> the parts of an answer, with citations, in the language of the question."""

import tomllib
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from kumihimo.core.answer import Part, PartKind, Status
from kumihimo.core.spans import Citation, Span
from kumihimo.text.sentences import collapse_spaces

MAX_CHARS, MAX_LONG_CHARS = 1200, 2000  # of an answer, and of a list or of topics
_WORDING = Path(__file__).with_suffix(".toml")


@cache
def _read_wording() -> dict[str, dict[str, str]]:
    return tomllib.loads(_WORDING.read_text(encoding="utf-8"))


def say(name: str, language: str, **values: object) -> str:
    """Return one of the sentences that answers add.

    >>> say("passages", "ja", n=3)
    '3箇所'
    """
    return _read_wording()[name][language].format(**values)


def say_count(name: str, n: int, language: str) -> str:
    """Return a number of documents or passages.

    >>> say_count("document", 1, "en"), say_count("document", 1669, "en")
    ('1 document', '1,669 documents')
    """
    return say(name, language) if n == 1 else say(f"{name}s", language, n=f"{n:,}")


@dataclass
class Draft:
    """The parts of an answer, up to a number of characters."""

    limit: int = MAX_CHARS
    status: Status = "answered"
    parts: list[Part] = field(default_factory=list)
    citations: list[Citation] = field(default_factory=list)
    size: int = 0  # characters so far, with the numbers of sources

    def add(self, line: str, kind: PartKind = "note") -> bool:
        """Add a line, if there is room."""
        return self._add(kind, line, [])

    def quote(self, span: Span, before: str = "") -> bool:
        """Add a quotation to a list, if it fits.

        Dots show that its sentence goes on.
        """
        text = collapse_spaces(span.text)
        dots = "" if not text[-1:].isalnum() and text[-1:] not in ",、，" else " …"
        return self.cite(f"{before}{text}{dots}", span)

    def cite(self, line: str, span: Span, kind: PartKind = "list") -> bool:
        """Add a line with its source, if it fits."""
        return self._add(kind, line, [Citation(len(self.citations) + 1, span)])

    def _add(self, kind: PartKind, line: str, citations: list[Citation]) -> bool:
        new = Part.ending_with(kind, line, citations)
        size = len(new.marked().text)
        if self.size + size > self.limit:
            return False
        self.size += size + 1
        self.citations += citations
        if kind in ("list", "table") and self.parts and self.parts[-1].kind == kind:
            new = self.parts.pop().with_line(new)
        self.parts.append(new)
        return True


def cut_span(span: Span, start: int, end: int) -> Span:
    """Return a part of a span, by its characters."""
    return replace(span, start=span.start + start, end=span.start + end, text=span.text[start:end])
