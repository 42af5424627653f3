"""question + context -> Answer without a model: passages of documents that one can read."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from kumihimo.core.answer import Answer, Part, Status
from kumihimo.core.context import Context, Evidence, KeyPoint
from kumihimo.core.spans import Citation
from kumihimo.core.usage import Usage
from kumihimo.generation import answer, phrases
from kumihimo.generation.quoting import drafts, ranking, requested
from kumihimo.generation.quoting.absent import find_absent_words
from kumihimo.generation.quoting.passages import best_sentence
from kumihimo.generation.quoting.requests import Request
from kumihimo.llm.protocols import Embedder
from kumihimo.text import sentences, word_variants
from kumihimo.text.question import ParsedQuestion

_MAX_POINTS = 10
_SAME_BLOCK = {("item", "item"), ("row", "row")}  # lines without an empty one between them


def quote_answer(
    asked: ParsedQuestion,
    context: Context,
    reader: ranking.IndexReader,
    encoder: Embedder | None = None,
    words: word_variants.WordIndex | None = None,
    request: Request | None = None,
    *,
    tables: bool = True,
) -> Answer:
    """Answer with the best passages of the evidence.

    A list, an outline, topics or the rows of a table answer a question that requests them. A comparison has a passage
    for each of its two subjects. If the method extracted points, the points are the answer. The status says how likely
    the first passage is the answer. A note names the words that no document has. encoder: ranks passages by meaning.
    words: of the index. request: what the question requests. Without it, and without tables, the evidence answers: as
    for a method that the user named.
    """
    notes = list[Part]()
    result = Answer(asked.text, context.method, (), context, Usage())
    if (tables or request) and (found := requested.write_result(request, asked.text, context, reader)):
        kind, draft = found
        notes = draft.parts
        if kind != "passages":
            return replace(result, parts=tuple(draft.parts), status=draft.status, approach=kind)
    points = [item for item in context if isinstance(item.record, KeyPoint)]
    if points:
        return replace(result, parts=tuple(_write_points(points[:_MAX_POINTS], reader)), approach="points")
    compared = (request.subject, request.other) if request and request.kind == "compare" else ()
    passages = ranking.choose_passages(asked, context, reader, encoder, words, compared)
    language = phrases.question_language(asked.text, context)
    about = ParsedQuestion(f"{request.subject} {request.other}") if request and request.subject else asked
    absent = find_absent_words(about, words.has) if words else []
    if absent:
        notes.append(Part("note", drafts.say("absent", language, words=drafts.quote_words(absent, language))))
    shown = [write_passage(asked, passage, n, language) for n, passage in enumerate(passages, 1)]
    status: Status = "nothing" if not passages else "answered" if passages[0].answers and not absent else "closest"
    return replace(result, parts=(*notes, *shown), status=status, approach="compare" if compared else "passages")


def write_passage(asked: ParsedQuestion, passage: ranking.Passage, n: int, language: str) -> Part:
    """Return a passage, with its best sentence marked."""
    lines = list(passage.region.lines(passage.window))
    gaps = ["\n" if pair in _SAME_BLOCK else "\n\n" for pair in pairwise(kind for kind, _ in lines)]
    text = "".join(line + gap for (_, line), gap in zip(lines, [*gaps, ""], strict=True))
    start, end = best_sentence(text, asked.terms)
    if passage.window.more:
        text += "\n" + drafts.say("more", language, n=f"{passage.window.more:,}")
    spans = passage.span, *passage.copies
    part = Part.ending_with("passage", text, [Citation(n, span) for span in spans])
    return replace(part, headings=passage.headings, marks=((start, end),))


def _write_points(points: Sequence[Evidence], reader: ranking.IndexReader) -> Iterator[Part]:
    """Yield the points, each cited by its best sentence."""
    for n, item in enumerate(points, 1):
        verbatim = isinstance(item.record, KeyPoint) and item.record.verbatim
        text = _in_quotation_marks(item.text) if verbatim else sentences.collapse_spaces(item.text)
        spans = answer.make_quoter(list(reader.spans(item)))(item.text)[:1]
        yield Part.ending_with("sentence", text, [Citation(n, span) for span in spans])


def _in_quotation_marks(text: str) -> str:
    """Return the sentence on one line, in its script's quotation marks."""
    line = sentences.collapse_spaces(text)
    if not any("\u3040" <= c <= "\u9fff" for c in line):
        return f"“{line}”"
    return f"『{line}』" if "「" in line else f"「{line}」"
