"""question + context -> Answer in a chat model's words: the evidence alone, each statement with its citation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from kumihimo.core.context import Answer, Context, Evidence, Ruler, Spans
from kumihimo.core.errors import SettingsError
from kumihimo.core.spans import Citation, Span
from kumihimo.core.usage import Usage
from kumihimo.llm.prompts import prompt
from kumihimo.llm.protocols import Ask, Hear
from kumihimo.llm.structured import Reply, any_text
from kumihimo.text.sentences import sentences

if TYPE_CHECKING:
    from kumihimo.generation.citation_filter import Cited

PROMPT = Path(__file__).with_suffix(".md")
_LONG = 1000  # characters of a document that is cited as a whole
_NAMED = 3  # places of a source that the model is told
CUT = "(The model's reply broke off here, at the greatest length it may have.)"


def answer(
    question: str,
    method: str,
    context: Context,
    spans: Spans,
    ask: Ask,
    ruler: Ruler,
    path: Path,
    hear: Hear | None,
    *,
    budget: int = 12000,
    response: str = "",
) -> Answer:
    """What the model says on the evidence, word for word but for citations that point nowhere; those are counted.

    path: the prompt. hear: is told the text as it comes. budget: tokens of evidence that the model is given.
    response: the form that is wanted, `one paragraph`, `a table`; empty: whatever fits.
    """
    from kumihimo.generation.citation_filter import Cited  # here: who builds an index cites and quotes nothing
    from kumihimo.generation.extractive_answer import nothing

    if not context:
        if hear:
            hear(nothing(question, context))
        return Answer(question, method, nothing(question, context), (), context, Usage(), model=ask.mark)
    sources = context.fit(budget, ruler).evidence
    if not sources:
        raise SettingsError(f"no evidence fits into answer.budget = {budget} tokens: raise it")
    told = "\n\n".join(f"[{n}] {_told(item, spans)}" for n, item in enumerate(sources, 1))
    heard = Cited(len(sources), hear)
    wanted = _wanted(question, context.searched, response)
    reply: Reply = ask(prompt(path, sources=told, question=wanted), read=_spoken, hear=heard if hear else None)
    text = Cited(len(sources))
    text(reply.text)
    for each in (heard, text):
        each.end()
        each.add(f"\n\n{CUT}" if reply.cut else "")
    citations = tuple(_citations(text, sources, spans))
    return Answer(question, method, text.said, citations, context, Usage(), model=ask.mark, dangling=text.dangling)


def _wanted(question: str, searched: Sequence[str], response: str) -> str:
    """What the model is asked: the question, with what was searched for to answer it."""
    parts = [question]
    if searched:
        parts.append("\n".join(["Searched for to answer it:", *(f"- {one}" for one in searched)]))
    return "\n\n".join([*parts, f"Form of the answer: {response}"] if response else parts)


def _told(item: Evidence, spans: Spans) -> str:
    """A source as the model is told it: where it stands, and what it says."""
    uris = dict.fromkeys(span.uri for span in islice(spans(item), _NAMED))
    return f"({', '.join(uris)})\n{item.told}"


def _spoken(reply: Reply) -> Reply:
    any_text(reply)
    return reply


def _citations(text: Cited, sources: Sequence[Evidence], spans: Spans) -> Iterator[Citation]:
    """For each citation the sentence of its source that says most of the statement before it; by source, each once."""
    quotes = cache(lambda n: [_quoter(part, spans) for part in sources[n - 1].parts])
    found: dict[Citation, None] = {}
    said, after, statement = text.said, 0, ""
    for start, end, named in text.marks:
        statement = _last_sentence(said[after:start]) or statement
        after = end
        found |= dict.fromkeys(Citation(n, s) for n in named for quote in quotes(n) for s in quote(statement))
    return iter(sorted(found, key=lambda citation: citation.n))


def _quoter(item: Evidence, spans: Spans) -> Callable[[str], Iterable[Span]]:
    """Gives what stands in the documents for a statement on this source: of a whole document no more than it takes."""
    from kumihimo.generation.extractive_answer import quoter

    wholes = list(spans(item))
    said = quoter(wholes)

    def quote(statement: str) -> Iterable[Span]:
        found = said(statement)
        if found is wholes and not all(span.chunk for span in wholes):
            found = [_beginning(span) for span in said(item.told)]
        return found

    return quote


def _beginning(span: Span) -> Span:
    return span if len(span.text) <= _LONG else replace(span, end=span.start + _LONG, text=span.text[:_LONG])


def _last_sentence(text: str) -> str:
    """
    >>> _last_sentence("It rains. A ticket costs 3.50 euros")
    'A ticket costs 3.50 euros'
    """
    found = [text[start:end] for start, end in sentences(text, 0, len(text))]
    return next((sentence for sentence in reversed(found) if any(c.isalnum() for c in sentence)), "")
