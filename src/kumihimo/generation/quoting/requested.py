"""a request + an index -> what rules find: documents, an outline, an overview, rows; or its sources for a model."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from kumihimo.core import answer, digests, records, table
from kumihimo.core.context import Context, Evidence, Result, Tokenizer
from kumihimo.core.spans import Span
from kumihimo.generation.phrases import question_language
from kumihimo.generation.quoting import ranking, table_rows
from kumihimo.generation.quoting.drafts import Draft
from kumihimo.generation.quoting.passages import is_one_document, rank_documents
from kumihimo.generation.quoting.requests import Request, read_request
from kumihimo.text.question import ParsedQuestion

_MAX_PASSAGES = 4  # beside a list or rows
_MAX_STRETCHES = 20  # of a document that does not fit


def asks_for_documents(asked: ParsedQuestion, reader: ranking.IndexReader) -> bool:
    """Return whether a question requests documents, or a certain one."""
    request, documents = read_request(asked, reader), reader.find_table("documents")
    if request is None or request.kind != "outline" or documents is None:
        return request is not None and request.kind == "documents"
    return is_one_document(documents.get_many(rank_documents(request.subject, reader)).values())


def write_result(
    request: Request | None, question: str, context: Context, reader: ranking.IndexReader
) -> tuple[str, Draft] | None:
    """Return the kind of what rules find, and its text; or None.

    Without a request these are the rows of a table, or a note that passages answer.
    """
    if request is None:
        return table_rows.write_rows(question, context, reader)
    from kumihimo.generation.quoting import outlines, overview, selected  # few questions need them

    bare = question.replace(request.subject, "")
    language = question_language(bare if any(map(str.isalpha, bare)) else question, context)
    if request.kind == "compare":
        return None
    if request.kind == "documents":
        kind, draft = "documents", selected.write_selected(request.selection, reader, language)
    elif found := overview.read_overview(reader, request.subject):
        kind, draft = "themes", overview.write_overview(found, reader, language) if found.ids else None
    else:
        kind, draft = "outline", outlines.write_outline(request.subject, reader, language)
    return (kind, draft) if draft else None


def add_result(
    kind: str, draft: Draft, context: Context, reader: ranking.IndexReader, tokenizer: Tokenizer, budget: int
) -> Context:
    """Return what rules found as evidence, with passages.

    One document is read: all of it, or passages spread over it that fit into the budget. Beside a list or rows stand
    the best passages of the evidence.
    """
    chunks = reader.find_table("chunks")
    lines = [(line, _chunks_at(spans, chunks)) for line, spans in _split_lines(draft.parts)]
    heads = [line for line, sources in lines if not sources]
    cited = tuple(dict.fromkeys(source for _, sources in lines for source in sources))
    uris = dict.fromkeys(citation.span.uri for citation in draft.citations)
    if kind in ("documents", "outline") and chunks and len({uri.partition("#")[0] for uri in uris}) == 1:
        passages, is_whole = _read_documents(list(map(digests.hash_parts, uris)), chunks, budget)
        texts = [("\n".join(heads if is_whole else (line for line, _ in lines)), cited)]
    else:
        passages = context if draft.status == "closest" else context.top(_MAX_PASSAGES)
        texts = [("\n".join(heads), cited), *((line, sources) for line, sources in lines if sources)]
    results = (
        Result(id=digests.hash_parts(text, *chain(*sources)), text=text, sources=sources, tokens=len(tokenizer(text)))
        for text, sources in texts
    )
    return Context((*(Evidence("points", result, 1.0) for result in results), *passages))


def _split_lines(parts: Sequence[answer.Part]) -> Iterator[tuple[str, list[Span]]]:
    """Yield each line of an answer with the spans that it cites."""
    for part in parts:
        end = -1
        for line in part.text.split("\n"):
            begin, end = end, end + 1 + len(line)
            numbers = {n for start, _, own in part.markers if begin < start <= end for n in own}
            yield line, [citation.span for citation in part.citations if citation.n in numbers]


def _chunks_at(spans: Iterable[Span], chunks: table.Table[records.Chunk] | None) -> tuple[records.Reference, ...]:
    """Return the passages in which the spans begin."""
    found: list[str] = []
    if chunks is None:
        return ()
    for span in spans:
        document = digests.hash_parts(span.uri)
        ids, starts = (chunks.child_values([document], column)[document] for column in ("id", "start"))
        found += ids[max(bisect_right(starts, span.start) - 1, 0) :][:1]
    return tuple(("chunks", id) for id in found)


def _read_documents(documents: Sequence[str], chunks: table.Table[records.Chunk], budget: int) -> tuple[Context, bool]:
    """Return the passages of documents, and whether these are all.

    Those of a longer document are stretches at equal distances. Their score is 0: none is left out of a prompt.
    """
    ids, sizes = ([*chain(*chunks.child_values(documents, column).values())] for column in ("id", "tokens"))
    count = len(ids) * budget // (sum(sizes) or 1)
    if count < len(ids):
        parts = min(count, _MAX_STRETCHES) or 1
        ids = [id for n in range(parts) for id in ids[n * len(ids) // parts :][: count // parts or 1]]
    rows = chunks.get_many(ids).values()
    return Context(tuple(Evidence(chunks.name, row, 0.0) for row in rows)), count >= len(sizes)
