"""question + context -> Answer without a model: excerpts of documents that one can read."""

from collections.abc import Sequence
from typing import Literal

from kumihimo.core.context import Answer, Context, Evidence, KeyPoint
from kumihimo.core.spans import Citation
from kumihimo.core.usage import Usage
from kumihimo.generation.answer import make_quoter
from kumihimo.generation.phrases import closest_text, no_answer_text
from kumihimo.generation.quoting.answer_kinds import AnswerRules
from kumihimo.generation.quoting.excerpts import Excerpt, IndexReader, choose_excerpts
from kumihimo.generation.quoting.readable import is_rule_row
from kumihimo.generation.quoting.requested import write_requested
from kumihimo.generation.quoting.requests import read_request
from kumihimo.llm.protocols import Embedder
from kumihimo.text.question import ParsedQuestion
from kumihimo.text.sentences import collapse_spaces, split_blocks

_MAX_POINTS = 10
_ENOUGH = 1.25  # confidence: the best excerpt answers
_NOTHING = 0.2  # of the question's words; if no excerpt has more, none is shown


def quote_answer(
    asked: ParsedQuestion, method: str, context: Context, reader: IndexReader, embed: Embedder, *, requests: bool = True
) -> Answer:
    """Answer with the best excerpts of the evidence.

    A list, an outline, topics, a comparison or the rows of a table answer a question that requests them. If the method
    extracted points, the points are the answer. If the excerpts match weakly, or not at all, the text and
    the status of the answer say so. requests: False for a method that the user named: its evidence answers.
    """
    question, request = asked.text, read_request(asked) if requests else None
    if request and (draft := write_requested(request, question, context, reader, embed)):
        return Answer(question, method, draft.text, tuple(draft.citations), context, Usage(), status=draft.status)
    points = [item for item in context if isinstance(item.record, KeyPoint)]
    if points:
        return _answer_from_points(question, method, context, points[:_MAX_POINTS], reader)
    excerpts = choose_excerpts(AnswerRules(asked), context, reader, embed)
    status = judge_excerpts(excerpts)
    if status == "nothing":
        return Answer(question, method, no_answer_text(question, context), (), context, Usage(), status=status)
    lines = [format_excerpt(excerpt, n) for n, excerpt in enumerate(excerpts, 1)]
    if status == "closest":
        lines.insert(0, closest_text(question, context))
    citations = tuple(Citation(n, excerpt.span) for n, excerpt in enumerate(excerpts, 1))
    return Answer(question, method, "\n\n".join(lines), citations, context, Usage(), status=status)


def judge_excerpts(excerpts: Sequence[Excerpt]) -> Literal["answered", "closest", "nothing"]:
    """Return how well the excerpts answer: answered, closest or nothing."""
    if max((excerpt.coverage for excerpt in excerpts), default=0.0) < _NOTHING:
        return "nothing"
    return "answered" if excerpts[0].confidence >= _ENOUGH and excerpts[0].answers else "closest"


def format_excerpt(excerpt: Excerpt, n: int) -> str:
    """Return an excerpt with its number, a line per row."""
    text = excerpt.span.text
    blocks = [text[block.start : block.end] for block in split_blocks(text)]
    lines = [collapse_spaces(block) for block in (excerpt.lead, *blocks) if block and not is_rule_row(block)]
    return f"{chr(10).join(lines)} [{n}]"


def _answer_from_points(
    question: str, method: str, context: Context, points: Sequence[Evidence], reader: IndexReader
) -> Answer:
    """Answer with the points, each cited by its best sentence."""
    lines, citations = [], []
    for n, item in enumerate(points, 1):
        verbatim = isinstance(item.record, KeyPoint) and item.record.verbatim
        lines.append(f"{_in_quotation_marks(item.text) if verbatim else collapse_spaces(item.text)} [{n}]")
        citations += [Citation(n, span) for span in make_quoter(list(reader.spans(item)))(item.text)[:1]]
    return Answer(question, method, "\n".join(lines), tuple(citations), context, Usage())


def _in_quotation_marks(text: str) -> str:
    """Return the sentence on one line, in its script's quotation marks."""
    line = collapse_spaces(text)
    if not any("\u3040" <= c <= "\u9fff" for c in line):
        return f"“{line}”"
    return f"『{line}』" if "「" in line else f"「{line}」"
