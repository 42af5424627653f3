"""an answer -> the content of a reply: its text with a list of sources, citations, and what else is known."""

import re
from collections.abc import AsyncIterator, Callable
from itertools import chain, islice
from typing import Any

from kumihimo.app.processes.async_facade import QuestionEvent
from kumihimo.core.answer import TRUNCATION_NOTE, Answer
from kumihimo.core.context import Context
from kumihimo.core.spans import Span
from kumihimo.text.sentences import shorten_title
from kumihimo.text.translation import translate

_MAX_EVIDENCE = 100  # ids of rows in a reply
Link = Callable[[Span], str]  # a passage -> the address of its page
_MAX_LINES = 30  # of the list
_MAX_ANNOTATIONS = 1000
_MAX_SPANS = 3  # of one number
_RULE = "\n\n---\n\n"  # between the text and its sources, in any language
_SOURCE_LINE = re.compile(r"- \[\d{1,3}\] \[(?:\\.|[^\\\]\n]){0,500}+\]\([^\s()]{1,500}+\)")
_MARKDOWN, _ESCAPED = re.compile(r"([\\`*\[\]<])"), r"\\\1"  # signs, and how they show as they are
_MAX_LABEL = 200  # characters


def extension_json(answer: Answer) -> dict[str, Any]:
    """Return the method, the model, the status and the rows found."""
    evidence = [":".join(item.reference) for item in answer.context][:_MAX_EVIDENCE]
    return {"method": answer.method, "model": answer.model, "status": answer.status, "evidence": evidence}


async def await_first(events: AsyncIterator[QuestionEvent]) -> AsyncIterator[QuestionEvent]:
    """Wait for the first evidence or text; return all events.

    Most errors are raised before it, while the status of the response can still be chosen.
    """
    received: list[QuestionEvent] = []
    async for event in events:
        received.append(event)
        if isinstance(event, Context | str | Answer):
            break

    async def all_events() -> AsyncIterator[QuestionEvent]:
        for event in received:
            yield event
        async for event in events:
            yield event

    return all_events()


def write_content(answer: Answer, link: Link) -> str:
    """Return the content of a reply.

    That is a remark, the text with its markers, and the sources in Markdown.
    """
    note = f"\n\n{translate(TRUNCATION_NOTE)}" if answer.truncated else ""
    return _before(answer) + answer.marked().text + note + source_list(answer, link)


def _before(answer: Answer) -> str:
    """Return that nothing was found, before the text."""
    remark = translate(answer.remark) if answer.status == "nothing" else ""
    return f"{remark}\n\n" if remark and answer.parts else remark


def source_list(answer: Answer, link: Link) -> str:
    """Return the sources of an answer, in Markdown; empty without citations."""
    lines: dict[str, None] = {}
    counts: dict[int, int] = {}
    for citation in answer.citations:
        span = citation.span
        counts[citation.n] = counts.get(citation.n, 0) + 1
        if counts[citation.n] <= _MAX_SPANS:
            lines[f"- [{citation.n}] [{_MARKDOWN.sub(_ESCAPED, _label(span))}]({link(span)})"] = None
    return _RULE + "\n".join([*lines][:_MAX_LINES]) if lines else ""


def without_source_list(text: str) -> str:
    """Return a text without the sources that `source_list` has added.

    >>> without_source_list("At nine. [1]\\n\\n---\\n\\n- [1] [a.md, line 1](http://localhost/documents/a?start=0&end=8)")
    'At nine. [1]'
    """
    before, rule, sources = text.rpartition(_RULE)
    is_list = rule and all(map(_SOURCE_LINE.fullmatch, sources.rstrip().split("\n")))
    return before if is_list else text


def url_citations(answer: Answer, link: Link) -> list[dict[str, Any]]:
    """Return the citations in the content of a reply.

    They are the first 1,000. Each has its characters `[start_index, end_index)`, a title, an address and the fields of
    its document.
    """
    spans: dict[int, list[Span]] = {}
    for citation in answer.citations:
        spans.setdefault(citation.n, []).append(citation.span)
    citations = {
        n: [{"title": _label(span), "url": link(span), "metadata": dict(span.metadata)} for span in own[:_MAX_SPANS]]
        for n, own in spans.items()
    }
    start = len(_before(answer))
    found = (
        {"type": "url_citation", "url_citation": {"start_index": start + first, "end_index": start + last, **each}}
        for first, last, numbers in answer.marked().markers
        for each in chain.from_iterable(citations.get(n, ()) for n in numbers)
    )
    return list(islice(found, _MAX_ANNOTATIONS))


def _label(span: Span) -> str:
    return shorten_title(f"{span.title} · {span.location}" if span.title else span.location, _MAX_LABEL)
