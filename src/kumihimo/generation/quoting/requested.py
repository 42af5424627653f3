"""a question + an index -> the answer to a request: a list, an outline, topics; or None."""

from functools import reduce

from kumihimo.core.context import Context
from kumihimo.generation.phrases import question_language
from kumihimo.generation.quoting.drafts import Draft
from kumihimo.generation.quoting.outlines import write_outline
from kumihimo.generation.quoting.ranking import IndexReader
from kumihimo.generation.quoting.requests import Request
from kumihimo.generation.quoting.selected import write_selected
from kumihimo.generation.quoting.topics import write_topics
from kumihimo.llm.protocols import Embedder


def write_requested(
    request: Request, question: str, context: Context, reader: IndexReader, embed: Embedder
) -> Draft | None:
    """Return the answer to a request, or None."""
    bare = reduce(lambda text, part: text.replace(part, ""), (request.subject, request.other), question)
    language = question_language(bare if any(map(str.isalpha, bare)) else question, context)
    match request.kind:
        case "documents":
            return write_selected(request.selection, reader, language)
        case "outline":
            return write_outline(request.subject, reader, language)
    return write_topics(request.subject, context, reader, embed, language)
