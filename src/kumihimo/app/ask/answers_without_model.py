"""a question + evidence -> the answer without a chat model; + earlier answers -> a question that stands alone."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from kumihimo.app.evidence.source_tracer import SourceTracer
from kumihimo.app.opened.catalogue import GRAPH_METHOD
from kumihimo.core.answer import Answer, Part
from kumihimo.core.context import Context
from kumihimo.core.errors import SettingsError
from kumihimo.generation.answer import rewrite_standalone
from kumihimo.generation.quoting import quote_answer
from kumihimo.generation.quoting.drafts import Draft
from kumihimo.generation.quoting.requested import write_result
from kumihimo.generation.quoting.requests import carry_names, read_request
from kumihimo.llm.cached_llm import StructuredLLM
from kumihimo.llm.local_embedder import LocalEmbedder, create_local_embedder
from kumihimo.llm.protocols import Embedder
from kumihimo.text.question import ParsedQuestion
from kumihimo.text.word_variants import WordIndex


def find_result(
    asked: ParsedQuestion, searched: ParsedQuestion, context: Context, tracer: SourceTracer
) -> tuple[str, Draft] | None:
    """Return what rules find for a model: its kind and text.

    An overview is left to the model, which reads widely.
    """
    request = read_request(searched, tracer) or read_request(asked, tracer)
    found = None if request and request.kind == "themes" else write_result(request, searched.text, context, tracer)
    return found if found and found[0] not in ("passages", "themes") else None


def answer_without_model(
    asked: ParsedQuestion,
    searched: ParsedQuestion,
    context: Context,
    *,
    tracer: SourceTracer,
    words: WordIndex | None,
    embedder: str,
    note: str,
    is_default: bool,
) -> Answer:
    """Return the passages of the evidence, or the answer to a request.

    searched: the question in the spelling of the documents. words, embedder: of the index. note: on what the question
    took over. is_default: whether nobody chose the method, so that requests are answered.
    """
    is_default = is_default or context.method == GRAPH_METHOD  # its answer to a question on all is the overview
    encoder: Embedder | None = None
    with suppress(SettingsError):  # that of the index is on a server, or not installed here
        encoder = create_local_embedder(embedder)
    encoder = None if isinstance(encoder, LocalEmbedder) else encoder  # which knows words, not their meaning
    request = (read_request(searched, tracer) or read_request(asked, tracer)) if is_default else None
    result = quote_answer(searched, context, tracer, encoder, words, request, tables=is_default)
    notes = (Part("note", note),) if note else ()
    return replace(result, question=asked.text, parts=notes + result.parts)


def add_history(
    question: ParsedQuestion, history: Sequence[Answer], llm: StructuredLLM | None
) -> tuple[ParsedQuestion, str]:
    """Return the question with words of earlier ones, and a note.

    llm: rewrites it; None: by rules. Raises SettingsError if it gets too long.
    """
    if not history:
        return question, ""
    text, note = (rewrite_standalone(question.text, history, llm), "") if llm else carry_names(question.text, history)
    asked = ParsedQuestion(text) if text != question.text else question
    if problem := asked.find_problem():
        raise SettingsError(problem)
    return asked, note
