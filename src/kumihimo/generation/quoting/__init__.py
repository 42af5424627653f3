"""question + context -> Answer without a model: excerpts of documents that one can read."""

from collections.abc import Iterator, Sequence

from kumihimo.core.answer import Answer, Part, Status
from kumihimo.core.context import Context, Evidence, KeyPoint
from kumihimo.core.spans import Citation
from kumihimo.core.usage import Usage
from kumihimo.generation.answer import make_quoter
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
    extracted points, the points are the answer. If the excerpts match weakly, or not at all, the status says so.
    requests: False for a method that the user named: its evidence answers.
    """
    question, request = asked.text, read_request(asked) if requests else None
    if request and (draft := write_requested(request, question, context, reader, embed)):
        parts, status = tuple(draft.parts), draft.status
        return Answer(question, method, parts, context, Usage(), status=status, approach=request.kind)
    points = [item for item in context if isinstance(item.record, KeyPoint)]
    if points:
        parts = tuple(_write_points(points[:_MAX_POINTS], reader))
        return Answer(question, method, parts, context, Usage(), approach="points")
    excerpts = choose_excerpts(AnswerRules(asked), context, reader, embed)
    status = judge_excerpts(excerpts)
    shown = () if status == "nothing" else excerpts
    parts = tuple(write_excerpt(excerpt, n) for n, excerpt in enumerate(shown, 1))
    return Answer(question, method, parts, context, Usage(), status=status, approach="passages")


def judge_excerpts(excerpts: Sequence[Excerpt]) -> Status:
    """Return how well the excerpts answer: answered, closest or nothing."""
    if max((excerpt.coverage for excerpt in excerpts), default=0.0) < _NOTHING:
        return "nothing"
    return "answered" if excerpts[0].confidence >= _ENOUGH and excerpts[0].answers else "closest"


def write_excerpt(excerpt: Excerpt, n: int) -> Part:
    """Return an excerpt, a line per row."""
    text = excerpt.span.text
    blocks = [text[block.start : block.end] for block in split_blocks(text)]
    lines = [collapse_spaces(block) for block in (excerpt.lead, *blocks) if block and not is_rule_row(block)]
    return Part.ending_with("passage", "\n".join(lines), [Citation(n, excerpt.span)])


def _write_points(points: Sequence[Evidence], reader: IndexReader) -> Iterator[Part]:
    """Yield the points, each cited by its best sentence."""
    for n, item in enumerate(points, 1):
        verbatim = isinstance(item.record, KeyPoint) and item.record.verbatim
        text = _in_quotation_marks(item.text) if verbatim else collapse_spaces(item.text)
        spans = make_quoter(list(reader.spans(item)))(item.text)[:1]
        yield Part.ending_with("sentence", text, [Citation(n, span) for span in spans])


def _in_quotation_marks(text: str) -> str:
    """Return the sentence on one line, in its script's quotation marks."""
    line = collapse_spaces(text)
    if not any("\u3040" <= c <= "\u9fff" for c in line):
        return f"“{line}”"
    return f"『{line}』" if "「" in line else f"「{line}」"
