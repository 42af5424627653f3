"""a snapshot, or an answer -> the result of a tool: values for a program, and the same as text for a language model."""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse import browse, community_tree, document_list, json_values
from kumihimo.core import digests, records
from kumihimo.core.answer import TRUNCATION_NOTE, Answer
from kumihimo.core.context import Context
from kumihimo.core.errors import SettingsError
from kumihimo.core.spans import Span
from kumihimo.llm.budget import Budget
from kumihimo.text import sentences, translation

Json = dict[str, Any]
_MAX_ANSWER, _MAX_QUOTE, _MAX_CITATIONS = 30_000, 1_000, 60
_MAX_LINE, _MAX_FIELDS = 300, 12  # of a value, and of the metadata of a document
_MAX_TEXT = 10_000  # characters of a passage, or of a report
_FIRST_PART = 4_000  # of a document that is opened without a place
_MAX_FOUND = 24_000  # of all passages found together
_MAX_EACH = 1_500
_MAX_MORE = 20
_MAX_RELATIONS, _MAX_PASSAGES, _MAX_REPORTS, _MAX_SIMILAR = 20, 8, 10, 5
_MAX_DESCRIPTION = 3_000
_OF_ANSWERS = ("question", "method", "model", "approach", "status", "truncated", "text", "citations")


class BadArgument(SettingsError):
    """An argument of a tool, or an address, that cannot be used as it is."""


class ToolReply(NamedTuple):
    """A result of a tool, as values and as text."""

    values: Json
    text: str


def evidence_result(index: str, context: Context) -> ToolReply:
    """Return what a search found, best first; long texts are cut."""
    limit = min(_MAX_EACH, _MAX_FOUND // max(len(context), 1))
    found = [_cut_text(item.to_dict(rank), limit) for rank, item in enumerate(context, 1)]
    is_cut = any(len(item.text) > limit for item in context)
    note = "Texts that end with … are cut: open_citation shows the whole." if is_cut else ""
    texts = [
        f"{item['rank']}. {place_line(item) if item['uri'] else item['title']} [{item['table']}:{item['id']}]"
        f"\n{item['text']}"
        for item in found
    ]
    values = {"index": index, "method": context.method, "evidence": found, "note": note}
    return ToolReply(values, _paragraphs(*(texts or ["Nothing was found."]), note))


def answer_result(index: str, answer: Answer) -> ToolReply:
    """Return an answer with the passages behind its citations.

    Its text has a number for each citation.
    """
    whole = answer.marked().to_dict()
    values = {"index": index, **{name: whole[name] for name in _OF_ANSWERS}}
    citations = [_cut_text(each, _MAX_QUOTE) for each in values["citations"]][:_MAX_CITATIONS]
    text, model = _cut(values["text"], _MAX_ANSWER), values["model"].partition(" ")[0]
    sources = [f"[{each['n']}] {place_line(each)}" for each in citations]
    note = translation.translate(TRUNCATION_NOTE) if answer.truncated else ""
    shown = _paragraphs(translation.translate(answer.remark), text, note, _list("Sources:", sources))
    return ToolReply({**values, "model": model, "text": text, "citations": citations}, shown)


def open_passage(snapshot: Snapshot, index: str, id: str, start: int | None, end: int | None, around: int) -> ToolReply:
    """Return a passage of a document with its surroundings.

    Of a row, it is the first source. `next_start`: where the text goes on, if it was cut. `more`: other places.
    """
    documents = document_list.DocumentList(snapshot)
    document = documents.find(id) or documents.find(digests.hash_parts(id))
    spans = [] if document else _row_spans(snapshot, id)
    if spans and start is None:
        start, end = spans[0].start, spans[0].end
    else:
        start = start or 0
        end = end if end is not None else start + _FIRST_PART
    document_id, end = document.id if document else digests.hash_parts(spans[0].uri), max(end, start)
    last = min(end, start + _MAX_TEXT)
    read = documents.read_text(document_id, max(0, start - around), last + around)
    if read is None or start > read.characters:
        size = f"; it has {read.characters:,} characters" if read else ""
        raise BadArgument(f"the document {id!r} has no character {start:,}{size}")
    last = min(last, read.characters)
    span = snapshot.tracer.locate(Span("", read.uri, start, last, read.text[start - read.start : last - read.start]))
    before, after, more = read.text[: start - read.start], read.text[last - read.start :], _places(spans[1:])
    next_start = last if last < min(end, read.characters) else None
    place, texts = span.to_place(), {"before": before, "text": span.text, "after": after}
    cut = f"(Cut: call open_citation again with start={next_start}.)" if next_start else ""
    others = _list("Other places of this row:", map(place_line, more))
    shown = _paragraphs(place_line(place), f"{before}>>>{span.text}<<<{after}", cut, others)
    rest = {"characters": read.characters, "next_start": next_start, "more": more}
    return ToolReply({"index": index, "passage": place, **texts, **rest}, shown)


def _row_spans(snapshot: Snapshot, id: str) -> list[Span]:
    """Return the sources of a row. Raise BadArgument if there are none."""
    try:
        item = snapshot.find(id)
    except SettingsError:
        raise BadArgument(f"nothing has the id {id!r}: search, ask and list_documents return ids") from None
    spans = list(islice(snapshot.trace(item), _MAX_MORE + 1))
    if not spans:
        raise BadArgument(f"{id!r} has no source in a document: open one of its parts")
    return spans


def documents_result(
    snapshot: Snapshot, index: str, indexes: tuple[str, ...], text: str, *, after: str, limit: int
) -> ToolReply:
    """Return a page of documents. indexes: the collections that may be used."""
    documents = document_list.DocumentList(snapshot)
    page, total = documents.page(text, after=after, limit=limit), len(documents.table)
    rows = [_document_row(document) for document in page.items]
    more = f"There are more: call list_documents with cursor={page.next}." if page.next else ""
    others = f"Collections: {', '.join(indexes)}." if len(indexes) > 1 else ""
    values = {"index": index, "indexes": indexes, "total": total, "documents": rows, "next_cursor": page.next}
    listed = "\n".join(map(_document_line, rows))
    return ToolReply(values, _paragraphs(f"{total} documents in {index}.", listed, more, others))


def _document_row(document: document_list.ListedDocument) -> Json:
    return {
        "id": document.id,
        "uri": document.uri,
        "title": sentences.shorten_title(document.title, _MAX_LINE),
        "modified": document.modified,
        "metadata": _short_fields(document.metadata),
    }


def _document_line(document: Json) -> str:
    values = "; ".join(f"{name} = {_plain(value)}" for name, value in document["metadata"].items())
    title = document["title"] or document["uri"]
    return f"- {title} ({document['uri']}) [{document['id']}]{f': {values}' if values else ''}"


def entity_result(snapshot: Snapshot, index: str, name: str) -> ToolReply:
    """Return an entity with its neighbours and passages.

    Raises BadArgument, with similar names, if there is none.
    """
    snapshot.table("entities")  # raises if it has not been built
    entity = browse.find_entity(snapshot, name.removeprefix("entities:"))
    similar = [found for found in browse.list_entities(snapshot, name, limit=_MAX_SIMILAR).items if found != entity]
    if entity is None:
        names = [repr(found.name) for found in similar]
        hint = f"; similar names: {', '.join(names)}" if names else ": search for it, or try another form"
        raise BadArgument(f"no entity {name!r}{hint}")
    relations = browse.list_relations(snapshot, entity.id, limit=_MAX_RELATIONS)
    passages = browse.list_passages(snapshot, entity, limit=_MAX_PASSAGES)
    values = {
        "index": index,
        **{field: getattr(entity, field) for field in ("id", "name", "type")},
        "forms": entity.forms[:_MAX_MORE],
        "mentions": entity.mentions,
        "description": _cut(entity.text, _MAX_DESCRIPTION),
        "relations": [
            {**json_values.neighbour_json(entity.id, r), "text": sentences.shorten_line(r.text, _MAX_LINE)}
            for r in relations.items
        ],
        "passages": [_cut_text(span.to_dict(), len(span.text)) for span in passages.items],
        "similar": [{"id": found.id, "name": found.name} for found in similar],
        "note": "There are more relations or passages: ask about them." if relations.next or passages.next else "",
    }
    return ToolReply(values, _describe_entity(values))


def _describe_entity(entity: Json) -> str:
    kind = f" ({entity['type']})" if entity["type"] else ""
    passages = [f"{place_line(each)} [chunks:{each['chunk']}]\n{each['text']}" for each in entity["passages"]]
    return _paragraphs(
        f"{entity['name']}{kind} [entities:{entity['id']}], mentions: {entity['mentions']}",
        entity["description"],
        _list("Related:", [f"- {each['name']}: {each['text']}" for each in entity["relations"]]),
        _paragraphs("Passages:", *passages) if passages else "",
        f"Similar names: {'; '.join(each['name'] for each in entity['similar'])}." if entity["similar"] else "",
        entity["note"],
    )


def report_result(snapshot: Snapshot, index: str, topic: str, budget: Budget) -> ToolReply:
    """Return the report with this id, or the best on a topic.

    Without a topic, the main ones are listed. budget: of an embedding model that is paid.
    """
    reports = snapshot.table("reports")  # raises if it has not been built
    if not topic.strip():
        listed = reports.get_many(browse.browse_communities(snapshot).roots()[:_MAX_MORE]).values()
        return _report_result(index, None, (), listed, "Call report with one of the ids.")
    named = reports.get(topic.strip().removeprefix("reports:"))
    matches = [named] if named else _search_reports(snapshot, topic, budget)
    if not matches:
        raise BadArgument(f"no report on {topic!r}: call report without a topic to list the main ones")
    found, *related = matches
    return _report_result(index, found, islice(snapshot.trace(("reports", found.id)), _MAX_REPORTS), related, "")


def _report_result(
    index: str, report: records.Report | None, spans: Iterable[Span], related: Iterable[records.Report], note: str
) -> ToolReply:
    """Return a report with its sources, or a list of reports."""
    sources = _places(spans)
    others = [{"id": each.id, "title": sentences.shorten_title(each.title, _MAX_LINE)} for each in related]
    head = {"id": report.id, "title": report.title} if report else {"id": "", "title": ""}
    text = _cut(report.text, _MAX_TEXT) if report else ""
    shown = _paragraphs(
        text,
        _list("Sources:", map(place_line, sources)),
        _list("Other reports:" if report else "Reports:", [f"- {each['title']} [{each['id']}]" for each in others]),
        note,
    )
    return ToolReply({"index": index, **head, "text": text, "sources": sources, "others": others, "note": note}, shown)


def _search_reports(snapshot: Snapshot, topic: str, budget: Budget) -> list[records.Report]:
    """Return the reports on a topic, best first."""
    table = community_tree.table_or_empty(snapshot, "reports")
    found: list[Context] = []
    if snapshot.db.meta("words_reports") is not None:
        found.append(snapshot.keyword_search()(table, topic, k=_MAX_REPORTS))
    if snapshot.db.meta("vectors_reports") is not None:
        found.append(snapshot.vector_search(budget)(table, topic, k=_MAX_REPORTS))
    return [item.record for item in Context.fuse(found).top(_MAX_REPORTS) if isinstance(item.record, records.Report)]


# -- parts of results


def place_line(place: Json) -> str:
    """Return a place with what `open_citation` needs of it."""
    label = f"{place['title']} · " if place["title"] else ""
    return f"{label}{place['location']} (document {place['document']}, {place['start']}-{place['end']})"


def _places(spans: Iterable[Span]) -> list[Json]:
    """Return the places of spans, each once."""
    return [span.to_place() for span in dict.fromkeys(spans)]


def _list(head: str, lines: Iterable[str]) -> str:
    """Return the lines below a head; empty without lines."""
    listed = [*lines]
    return "\n".join([head, *listed]) if listed else ""


def _paragraphs(*parts: str) -> str:
    return "\n\n".join(filter(None, parts))


def _cut(text: str, limit: int) -> str:
    """Return the beginning of a text, with … if it goes on.

    >>> _cut("harbour", 4), _cut("bar", 4)
    ('har…', 'bar')
    """
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _cut_text(row: Json, limit: int) -> Json:
    """Return a passage with a short text and short metadata."""
    return {**row, "text": _cut(row["text"], limit), "metadata": _short_fields(row["metadata"])}


def _short_fields(metadata: Mapping[str, object]) -> Json:
    """Return the first fields of a document, with short values."""
    return {name: _short_value(value) for name, value in islice(metadata.items(), _MAX_FIELDS)}


def _short_value(value: object) -> Any:
    if isinstance(value, list):
        return [_short_value(item) for item in value[:_MAX_FIELDS]]
    return value if isinstance(value, bool | int | float | None) else sentences.shorten_line(str(value), _MAX_LINE)


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
