"""question + context -> Answer in a chat model's words: the evidence alone, each statement with its citation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from kumihimo.core.context import Answer, Context, Evidence, SpanFinder, Tokenizer
from kumihimo.core.errors import SettingsError
from kumihimo.core.spans import Citation, Span
from kumihimo.core.usage import Usage
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, TokenCallback
from kumihimo.llm.structured import Reply, require_text
from kumihimo.text.sentences import split_sentences

if TYPE_CHECKING:
    from kumihimo.generation.citation_filter import CitationFilter

PROMPT = Path(__file__).with_suffix(".md")
_MAX_QUOTE_CHARS = 1000  # characters of a document that is cited as a whole
_MAX_PLACES = 3  # places of a source that the model is told
TRUNCATION_NOTE = "(The model's reply broke off here, at the greatest length it may have.)"


def answer(
    question: str,
    method: str,
    context: Context,
    spans: SpanFinder,
    llm: LLM,
    tokenizer: Tokenizer,
    path: Path,
    on_token: TokenCallback | None,
    *,
    budget: int = 12000,
    response: str = "",
) -> Answer:
    """What the model says on the evidence, word for word but for citations that point nowhere; those are counted.

    path: the prompt. hear: is told the text as it comes. budget: tokens of evidence that the model is given.
    response: the form that is wanted, `one paragraph`, `a table`; empty: whatever fits.
    """
    from kumihimo.generation.citation_filter import CitationFilter  # here: who builds an index cites and quotes nothing
    from kumihimo.generation.extractive_answer import no_answer_text

    if not context:
        if on_token:
            on_token(no_answer_text(question, context))
        return Answer(question, method, no_answer_text(question, context), (), context, Usage(), model=llm.fingerprint)
    sources = context.fit(budget, tokenizer).evidence
    if not sources:
        raise SettingsError(f"no evidence fits into answer.budget = {budget} tokens: raise it")
    told = "\n\n".join(f"[{n}] {_format_source(item, spans)}" for n, item in enumerate(sources, 1))
    heard = CitationFilter(len(sources), on_token)
    wanted = _question_text(question, context.queries, response)
    reply: Reply = llm(
        render_prompt(path, sources=told, question=wanted), parse=_check_text, on_token=heard if on_token else None
    )
    text = CitationFilter(len(sources))
    text(reply.text)
    for each in (heard, text):
        each.end()
        each.add(f"\n\n{TRUNCATION_NOTE}" if reply.truncated else "")
    citations = tuple(_resolve_citations(text, sources, spans))
    return Answer(
        question, method, text.text, citations, context, Usage(), model=llm.fingerprint, dangling=text.dangling
    )


def _question_text(question: str, searched: Sequence[str], response: str) -> str:
    """What the model is asked: the question, with what was searched for to answer it."""
    parts = [question]
    if searched:
        parts.append("\n".join(["Searched for to answer it:", *(f"- {one}" for one in searched)]))
    return "\n\n".join([*parts, f"Form of the answer: {response}"] if response else parts)


def _format_source(item: Evidence, spans: SpanFinder) -> str:
    """A source as the model is told it: where it stands, and what it says."""
    uris = dict.fromkeys(span.uri for span in islice(spans(item), _MAX_PLACES))
    return f"({', '.join(uris)})\n{item.prompt_text}"


def _check_text(reply: Reply) -> Reply:
    require_text(reply)
    return reply


def _resolve_citations(text: CitationFilter, sources: Sequence[Evidence], spans: SpanFinder) -> Iterator[Citation]:
    """For each citation the sentence of its source that says most of the statement before it; by source, each once."""
    quotes = cache(lambda n: [_source_quoter(part, spans) for part in sources[n - 1].parts])
    found: dict[Citation, None] = {}
    said, after, statement = text.text, 0, ""
    for start, end, named in text.citations:
        statement = _last_sentence(said[after:start]) or statement
        after = end
        found |= dict.fromkeys(Citation(n, s) for n in named for quote in quotes(n) for s in quote(statement))
    return iter(sorted(found, key=lambda citation: citation.n))


def _source_quoter(item: Evidence, spans: SpanFinder) -> Callable[[str], Iterable[Span]]:
    """Gives what stands in the documents for a statement on this source: of a whole document no more than it takes."""
    from kumihimo.generation.extractive_answer import make_quoter

    wholes = list(spans(item))
    said = make_quoter(wholes)

    def quote(statement: str) -> Iterable[Span]:
        found = said(statement)
        if found is wholes and not all(span.chunk for span in wholes):
            found = [_truncate_span(span) for span in said(item.prompt_text)]
        return found

    return quote


def _truncate_span(span: Span) -> Span:
    return (
        span
        if len(span.text) <= _MAX_QUOTE_CHARS
        else replace(span, end=span.start + _MAX_QUOTE_CHARS, text=span.text[:_MAX_QUOTE_CHARS])
    )


def _last_sentence(text: str) -> str:
    """
    >>> _last_sentence("It rains. A ticket costs 3.50 euros")
    'A ticket costs 3.50 euros'
    """
    found = [text[start:end] for start, end in split_sentences(text, 0, len(text))]
    return next((sentence for sentence in reversed(found) if any(c.isalnum() for c in sentence)), "")
