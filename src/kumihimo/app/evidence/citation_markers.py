"""an answer -> where its text marks its citations, and whether the text is whole."""

from collections.abc import Iterator
from dataclasses import dataclass

from kumihimo.core.context import Answer
from kumihimo.core.spans import Span
from kumihimo.generation.answer import TRUNCATION_NOTE
from kumihimo.generation.citation_filter import CitationFilter

_MAX_NUMBER = 999  # a marker has at most three digits


@dataclass(frozen=True, slots=True)
class Marker:
    """A citation in the text of an answer: `text[start:end]`, such as `[1]`, and the spans that it cites."""

    start: int
    end: int
    spans: tuple[Span, ...]


def find_markers(answer: Answer) -> Iterator[Marker]:
    """Yield the citations in the text of an answer, in order."""
    spans: dict[int, list[Span]] = {}
    for citation in answer.citations:
        spans.setdefault(citation.n, []).append(citation.span)
    parser = CitationFilter(_MAX_NUMBER)
    parser(answer.text)
    parser.end()
    for start, end, numbers in parser.citations:
        start += len(parser.text[start:end]) - len(parser.text[start:end].lstrip())
        cited = tuple(span for n in numbers for span in spans.get(n, ()))
        if cited and answer.text[start:end] == parser.text[start:end]:
            yield Marker(start, end, cited)


def is_truncated(answer: Answer) -> bool:
    """Return whether the model's reply reached its maximum length."""
    return answer.text.endswith(TRUNCATION_NOTE)
