"""parts with citations -> Answer: one text, its sources, its evidence and its cost."""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from itertools import chain
from typing import Any, Literal, Self

from kumihimo.core.context import Context, row_json
from kumihimo.core.control_characters import make_visible
from kumihimo.core.records import Reference
from kumihimo.core.spans import Citation, Span
from kumihimo.core.usage import Usage

PartKind = Literal["passage", "sentence", "list", "table", "note"]
Status = Literal["answered", "closest", "nothing"]
Marker = tuple[int, int, tuple[int, ...]]  # start and end in the text, source numbers
PART_SEPARATOR = "\n\n"  # between the parts of an answer
_LINE_START = re.compile(r"\s*(?:(?:[-*+•]|\d{1,3}[.)])\s+)?")  # with the sign of a list item
_DATE = 10  # characters of a date without its time
_MAX_AROUND = 150  # characters before and after a quote
_REMARKS: dict[Status, str] = {
    "answered": "",
    "closest": "The nearest passages:",
    "nothing": "No passage that answers this was found.",
}
TRUNCATION_NOTE = "(The model's reply ends here: it reached the maximum length.)"


def write_marker(text: str, numbers: Sequence[int]) -> str:
    """Return a marker as it is; a new one is `[1, 2]`."""
    return text or f"[{', '.join(map(str, numbers))}]"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an answer.

    kind: passage: words of one document; sentence: statements of a model, or one of a document; list, table: lines;
    note: what the others are about. markers: the places of the citations in the text. Where the text has no marker of
    its own, the place is empty: the number belongs there. headings: above a passage in its document, the outermost
    first. marks: the spans of its text that answer. The first citation of a passage is its place, the others are copies
    of it.
    """

    kind: PartKind
    text: str
    citations: tuple[Citation, ...] = ()
    markers: tuple[Marker, ...] = ()
    headings: tuple[str, ...] = ()
    marks: tuple[tuple[int, int], ...] = ()

    @classmethod
    def ending_with(cls, kind: PartKind, text: str, citations: Sequence[Citation]) -> Self:
        """Return a part whose citations belong to the end of its text.

        In a row of a table, that is the end of its last cell.
        """
        numbers = tuple(dict.fromkeys(citation.n for citation in citations))
        end = len(text.removesuffix(" |") if kind == "table" else text)
        return cls(kind, text, tuple(citations), ((end, end, numbers),) if numbers else ())

    def marked(self, write: Callable[[str, Sequence[int]], str] = write_marker) -> Self:
        """Return the part with a marker in its text for each citation.

        write: returns the marker for the one in the text, which may be empty, and its numbers.

        >>> Part("list", "- Ada\\n- Bo", markers=((5, 5, (1,)), (10, 10, (2, 3)))).marked().text
        '- Ada [1]\\n- Bo [2, 3]'
        """
        pieces, markers, length, end = list[str](), list[Marker](), 0, 0
        for start, stop, numbers in self.markers:
            before = self.text[end:start] + ("" if start < stop else " ")
            marker = write(self.text[start:stop], numbers)
            markers.append((length + len(before), length + len(before) + len(marker), numbers))
            pieces += [before, marker]
            length, end = markers[-1][1], stop
        return replace(self, text="".join([*pieces, self.text[end:]]), markers=tuple(markers))

    def emphasized(self) -> Self:
        """Return the part with its marks in bold, as Markdown writes it.

        Rows of tables and text with marks of its own stay as they are. The number stays at the end.

        >>> Part("passage", "At nine. It left.", marks=((9, 17),)).emphasized().text
        'At nine. **It left.**'
        """
        text = self.text
        for start, end in sorted(self.marks, reverse=True):
            lines = [_bold(line) for line in text[start:end].split("\n")]
            text = text[:start] + "\n".join(lines) + text[end:]
        added = len(text) - len(self.text)
        return replace(self, text=text, markers=tuple((a + added, b + added, n) for a, b, n in self.markers))

    @property
    def heading_path(self) -> str:
        """Return the title, the headings and the date, as far as known."""
        span = self.citations[0].span
        names = dict.fromkeys(filter(None, (span.title, *self.headings)))
        return " · ".join(filter(None, [" › ".join(names), str(span.metadata.get("date", ""))[:_DATE]]))

    def with_line(self, line: Self) -> Self:
        """Return the part with one more line."""
        start = len(self.text) + 1
        markers = tuple((start + first, start + last, numbers) for first, last, numbers in line.markers)
        both = self.citations + line.citations, self.markers + markers
        return type(self)(self.kind, f"{self.text}\n{line.text}", *both)

    def to_dict(self) -> dict[str, Any]:
        """Return the part as JSON has it; its citations by number."""
        return {
            "kind": self.kind,
            "text": self.text,
            "citations": list(dict.fromkeys(citation.n for citation in self.citations)),
            "markers": [{"start": start, "end": end, "n": list(numbers)} for start, end, numbers in self.markers],
            "headings": list(self.headings),
            "marks": [list(mark) for mark in self.marks],
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its citations and its cost.

    parts: of the text. model: the model that wrote it; empty: words of the documents. approach: how it was made:
    `model`, `passages` and `points` of the evidence, or the kind of a request, such as `list`. dangling: the number of
    removed citations without a source. followups: suggested next questions, if requested. saved: usage that the
    response cache saved. status: answered; closest: the passages shown may not answer; nothing: no passage was found.
    truncated: the model reached its maximum length. sources: of a model's prompt, each by the rows behind it; the first
    one is `[1]` in the text.
    """

    question: str
    method: str
    parts: tuple[Part, ...]
    context: Context
    usage: Usage
    model: str = ""
    dangling: int = 0
    followups: tuple[str, ...] = ()
    saved: Usage = field(default_factory=Usage)
    status: Status = "answered"
    sources: tuple[tuple[Reference, ...], ...] = ()
    approach: str = ""
    truncated: bool = False

    @classmethod
    def of_text(cls, question: str, text: str) -> Self:
        """Return an earlier answer of which only the text is known."""
        return cls(question, "", (Part("sentence", text),), Context(), Usage())

    @property
    def text(self) -> str:
        """Return the answer, and nothing else.

        A model has written its markers, `[1]`. Words of documents have none: see `marked`.
        """
        return PART_SEPARATOR.join(part.text for part in self.parts)

    @property
    def citations(self) -> tuple[Citation, ...]:
        """Return the sources cited, each once, by number."""
        cited = dict.fromkeys(chain.from_iterable(part.citations for part in self.parts))
        return tuple(sorted(cited, key=lambda citation: citation.n))

    @property
    def markers(self) -> tuple[Marker, ...]:
        """Return the places of the citations in the text."""
        markers, start = list[Marker](), 0
        for part in self.parts:
            markers += [(start + first, start + last, numbers) for first, last, numbers in part.markers]
            start += len(part.text) + len(PART_SEPARATOR)
        return tuple(markers)

    @property
    def remark(self) -> str:
        """Return what the status says, in English; often empty.

        A list of titles, which is `closest` too, says itself how certain it is.
        """
        is_list = self.parts and not any(part.kind == "passage" for part in self.parts)
        return "" if is_list and self.status == "closest" else _REMARKS[self.status]

    @property
    def source_numbers(self) -> dict[Reference, int]:
        """Return the number in the text of each row the model read."""
        return {row: n for n, rows in enumerate(self.sources, 1) for row in rows}

    def marked(self) -> Self:
        """Return the answer with a marker in its text for each citation."""
        return replace(self, parts=tuple(part.marked() for part in self.parts))

    def located(self, locate: Callable[[Span], Span]) -> Self:
        """Return the answer with each citation located."""
        parts = (
            replace(part, citations=tuple(Citation(each.n, locate(each.span)) for each in part.citations))
            for part in self.parts
        )
        return replace(self, parts=tuple(parts))

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as JSON has it, everywhere."""
        return {
            "question": self.question,
            "method": self.method,
            "model": self.model,
            "approach": self.approach,
            "status": self.status,
            "truncated": self.truncated,
            "text": self.text,
            "parts": [part.to_dict() for part in self.parts],
            "citations": [citation.to_dict() for citation in self.citations],
            "sources": [{"n": n, "rows": list(map(row_json, rows))} for n, rows in enumerate(self.sources, 1)],
            "dangling": self.dangling,
            **self.context.to_dict(),
            "followups": list(self.followups),
            "usage": asdict(self.usage),
            "saved": asdict(self.saved),
        }

    def __str__(self) -> str:
        """Return the text and its numbered sources, for a terminal."""
        sources = dict.fromkeys(f"[{citation.n}] {citation.span.location}" for citation in self.citations)
        return make_visible(PART_SEPARATOR.join(filter(None, [self._text_with_remarks, "\n".join(sources)])))

    @property
    def _text_with_remarks(self) -> str:
        """Return the text with its markers and what is said about it."""
        note = TRUNCATION_NOTE if self.truncated else ""
        return PART_SEPARATOR.join(filter(None, [self.remark, self.marked().text, note]))

    def _repr_html_(self) -> str:
        """Return the answer for a notebook, with the quotes marked."""
        texts = {item.record.id: item.text for item in self.context}
        sources = (
            f"<p>[{n}] {escape(span.location)}<br>{_mark_quote(texts.get(span.chunk, ''), span.text)}</p>"
            for n, span in ((citation.n, citation.span) for citation in self.citations)
        )
        return f'<div style="white-space: pre-wrap">{escape(self._text_with_remarks)}</div>{"".join(sources)}'


def _bold(line: str) -> str:
    """Return a line in bold, without its list sign.

    A line with marks of its own stays as it is.

    >>> [_bold(line) for line in ("- one", "It *is*.", "| a |")]
    ['- **one**', 'It *is*.', '| a |']
    """
    begin = _LINE_START.match(line)
    start = begin.end() if begin else 0
    has_marks = re.search(r"[*_`|]", line) or not line[start:].strip()
    return line if has_marks else f"{line[:start]}**{line[start:].rstrip()}**"


def _mark_quote(text: str, quote: str) -> str:
    """Return the quote as marked HTML within its text.

    >>> _mark_quote("One <b>. Two. Three.", "Two.")
    'One &lt;b&gt;. <mark>Two.</mark> Three.'
    """
    before, found, after = text.partition(quote)
    if not found:
        return f"<mark>{escape(quote)}</mark>"
    before = before if len(before) <= _MAX_AROUND else f"…{before[-_MAX_AROUND:]}"
    after = after if len(after) <= _MAX_AROUND else f"{after[:_MAX_AROUND]}…"
    return f"{escape(before)}<mark>{escape(quote)}</mark>{escape(after)}"
