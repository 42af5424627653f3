"""a question + an index -> the answer to a request: a list, an outline, topics, a comparison, rows; or None."""

from collections import Counter
from functools import reduce

from kumihimo.core.context import Context
from kumihimo.generation.phrases import question_language
from kumihimo.generation.quoting.answer_kinds import AnswerRules
from kumihimo.generation.quoting.drafts import Draft
from kumihimo.generation.quoting.excerpts import IndexReader, choose_excerpts
from kumihimo.generation.quoting.listing import write_documents, write_list, write_outline
from kumihimo.generation.quoting.passages import read_passages
from kumihimo.generation.quoting.requests import ROW_KINDS, Request
from kumihimo.generation.quoting.table_rows import write_rows
from kumihimo.generation.quoting.topics import write_topics
from kumihimo.llm.protocols import Embedder
from kumihimo.text.question import ParsedQuestion
from kumihimo.text.sentences import collapse_spaces

_MAX_PASSAGES = 8
_MIN_COVERAGE = 0.5
_MAX_CHARS = 560  # of each subject


def write_requested(
    request: Request, question: str, context: Context, reader: IndexReader, embed: Embedder
) -> Draft | None:
    """Return the answer to a request, or None."""
    subjects = (request.subject, request.other) if request.kind not in ROW_KINDS else ()
    bare = reduce(lambda text, part: text.replace(part, ""), subjects, question)
    language = question_language(bare if any(map(str.isalpha, bare)) else question, context)
    match request.kind:
        case "list":
            return write_list(request.subject, request.other, reader, language)
        case "documents":
            return write_documents(request.subject, reader, language)
        case "outline":
            return write_outline(request.subject, reader, embed, language)
        case "compare":
            return _write_comparison(request.subject, request.other, reader, embed)
        case "themes":
            return write_topics(request.subject, context, reader, embed, language)
    return write_rows(request.kind, question, context, reader, language)


def _write_comparison(one: str, other: str, reader: IndexReader, embed: Embedder) -> Draft | None:
    """Return excerpts on both subjects; None if one of them has none."""
    passages = read_passages(reader)
    draft = Draft()
    for subject in (one, other):
        if passages is None:
            return None
        numbers = passages.mentioning(subject)
        counts = Counter({i: passages.texts[i].casefold().count(subject.casefold()) for i in numbers})
        best = sorted(numbers, key=lambda i: (-counts[i], i))[:_MAX_PASSAGES]
        context = Context(tuple(map(passages.evidence, best)))
        excerpts = choose_excerpts(AnswerRules(ParsedQuestion(subject)), context, reader, embed)
        quoted = {citation.span for citation in draft.citations}
        excerpts = [
            e for e in excerpts if e.coverage >= _MIN_COVERAGE and e.size <= _MAX_CHARS and e.span not in quoted
        ]
        if not excerpts:
            return None
        draft.add(f"{subject}:")
        room = draft.size + _MAX_CHARS
        for excerpt in excerpts:
            if draft.size + excerpt.size <= room:
                draft.quote(excerpt.span, f"- {collapse_spaces(excerpt.lead)} " if excerpt.lead else "- ")
    return draft
