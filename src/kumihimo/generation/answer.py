"""question + context -> Answer by a chat model: from the evidence alone, with citations."""

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
_MAX_QUOTE_CHARS = 1000  # of a document that is cited as a whole
_MAX_PLACES = 3  # of a source, in the prompt
TRUNCATION_NOTE = "(The model's reply ends here: it reached the maximum length.)"


def answer(
    question: str,
    method: str,
    context: Context,
    spans: SpanFinder,
    llm: LLM,
    tokenizer: Tokenizer,
    prompt_path: Path,
    on_token: TokenCallback | None,
    *,
    budget: int = 12000,
    response: str = "",
) -> Answer:
    """Answer from the evidence with a chat model and citations.

    The text is the model's, without citations of missing sources; those are counted. prompt_path: the prompt file.
    on_token: receives the text as it comes. budget: maximum evidence tokens for the model. response: wanted form, such
    as `one paragraph` or `a table`; empty for a free form.
    """
    from kumihimo.generation.citation_filter import CitationFilter  # here: unused by builds
    from kumihimo.generation.extractive_answer import no_answer_text

    if not context:
        if on_token:
            on_token(no_answer_text(question, context))
        return Answer(question, method, no_answer_text(question, context), (), context, Usage(), model=llm.fingerprint)
    sources = context.fit(budget, tokenizer).evidence
    if not sources:
        raise SettingsError(f"no evidence fits into answer.budget = {budget} tokens: raise it")
    sources_text = "\n\n".join(f"[{n}] {_format_source(item, spans)}" for n, item in enumerate(sources, 1))
    live_filter = CitationFilter(len(sources), on_token)
    query = _question_text(question, context.queries, response)
    reply: Reply = llm(
        render_prompt(prompt_path, sources=sources_text, question=query),
        parse=_check_text,
        on_token=live_filter if on_token else None,
    )
    citation_filter = CitationFilter(len(sources))
    citation_filter(reply.text)
    for stream in (live_filter, citation_filter):
        stream.end()
        stream.add(f"\n\n{TRUNCATION_NOTE}" if reply.truncated else "")
    citations = tuple(_resolve_citations(citation_filter, sources, spans))
    return Answer(
        question,
        method,
        citation_filter.text,
        citations,
        context,
        Usage(),
        model=llm.fingerprint,
        dangling=citation_filter.dangling,
    )


def _question_text(question: str, queries: Sequence[str], response: str) -> str:
    """Return the question with its searched queries and wanted form."""
    parts = [question]
    if queries:
        parts.append("\n".join(["Searched for to answer it:", *(f"- {query}" for query in queries)]))
    return "\n\n".join([*parts, f"Form of the answer: {response}"] if response else parts)


def _format_source(item: Evidence, spans: SpanFinder) -> str:
    """Return a source for the prompt: its place and its text."""
    uris = dict.fromkeys(span.uri for span in islice(spans(item), _MAX_PLACES))
    return f"({', '.join(uris)})\n{item.prompt_text}"


def _check_text(reply: Reply) -> Reply:
    require_text(reply)
    return reply


def _resolve_citations(
    citation_filter: CitationFilter, sources: Sequence[Evidence], spans: SpanFinder
) -> Iterator[Citation]:
    """Return the cited sentences, by source and each once.

    Each citation gets the sentence of its source that best matches the statement before it.
    """
    quotes = cache(lambda n: [_source_quoter(part, spans) for part in sources[n - 1].parts])
    citations: dict[Citation, None] = {}
    full_text, position, statement = citation_filter.text, 0, ""
    for start, end, numbers in citation_filter.citations:
        statement = _last_sentence(full_text[position:start]) or statement
        position = end
        citations |= dict.fromkeys(
            Citation(n, s) for n in numbers for find_quote in quotes(n) for s in find_quote(statement)
        )
    return iter(sorted(citations, key=lambda citation: citation.n))


def _source_quoter(item: Evidence, spans: SpanFinder) -> Callable[[str], Iterable[Span]]:
    """Return a function that finds the spans behind a statement.

    Of a whole document it returns no more than necessary.
    """
    from kumihimo.generation.extractive_answer import make_quoter

    source_spans = list(spans(item))
    find_sentence = make_quoter(source_spans)

    def quote(statement: str) -> Iterable[Span]:
        spans_found = find_sentence(statement)
        if spans_found is source_spans and not all(span.chunk for span in source_spans):
            spans_found = [_truncate_span(span) for span in find_sentence(item.prompt_text)]
        return spans_found

    return quote


def _truncate_span(span: Span) -> Span:
    return (
        span
        if len(span.text) <= _MAX_QUOTE_CHARS
        else replace(span, end=span.start + _MAX_QUOTE_CHARS, text=span.text[:_MAX_QUOTE_CHARS])
    )


def _last_sentence(text: str) -> str:
    """Return the last sentence with a letter or digit.

    >>> _last_sentence("It rains. A ticket costs 3.50 euros")
    'A ticket costs 3.50 euros'
    """
    texts = [text[start:end] for start, end in split_sentences(text, 0, len(text))]
    return next((sentence for sentence in reversed(texts) if any(c.isalnum() for c in sentence)), "")
