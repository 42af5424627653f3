"""a snapshot + ids, names and topics -> the results of the tools that only read."""

from itertools import islice

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse.browse import browse_communities, find_entity, list_entities, list_passages, list_relations
from kumihimo.app.browse.community_tree import table_or_empty
from kumihimo.app.browse.document_list import DocumentList, ListedDocument
from kumihimo.app.browse.json_values import neighbour_json
from kumihimo.core.context import Context
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import SettingsError
from kumihimo.core.records import Entity, Relation, Report
from kumihimo.core.spans import Span
from kumihimo.llm.budget import Budget
from kumihimo.server.mcp import results
from kumihimo.server.mcp.arguments import BadArgument, DocumentsArguments, OpenArguments
from kumihimo.text.sentences import shorten_line, shorten_title

_MAX_TEXT = 10_000  # characters of a passage, or of a report
_FIRST_PART = 4_000  # of a document that is opened without a place
_MAX_FOUND = 24_000  # of all passages found together
_MAX_EACH = 1_500
_MAX_MORE = 20
_MAX_RELATIONS, _MAX_PASSAGES, _MAX_REPORTS, _MAX_SIMILAR = 20, 8, 10, 5
_MAX_DESCRIPTION = 3_000


def show_evidence(index: str, context: Context) -> results.SearchResult:
    """Return what a search found; long texts are cut."""
    limit = min(_MAX_EACH, _MAX_FOUND // max(len(context), 1))
    evidence = [item.to_dict(rank) for rank, item in enumerate(context, 1)]
    is_cut = any(len(item.text) > limit for item in context)
    note = "Texts that end with … are cut: open_citation shows the whole." if is_cut else ""
    cut = tuple(
        {**item, "text": results.cut(item["text"], limit), "metadata": results.short_fields(item["metadata"])}
        for item in evidence
    )
    return results.SearchResult(index=index, method=context.method, evidence=cut, note=note)


def open_passage(snapshot: Snapshot, index: str, arguments: OpenArguments) -> results.OpenedResult:
    """Return a passage of a document with its surroundings.

    Of a row, it is the first source.
    """
    documents, id = DocumentList(snapshot), arguments.id.strip()
    document = documents.find(id) or documents.find(hash_parts(id))
    spans = [] if document else _row_spans(snapshot, id)
    if spans and arguments.start is None:
        start, end = spans[0].start, spans[0].end
    else:
        start = arguments.start or 0
        end = arguments.end if arguments.end is not None else start + _FIRST_PART
    document_id, end = document.id if document else hash_parts(spans[0].uri), max(end, start)
    last = min(end, start + _MAX_TEXT)
    read = documents.read_text(document_id, max(0, start - arguments.around), last + arguments.around)
    if read is None or start > read.characters:
        size = f"; it has {read.characters:,} characters" if read else ""
        raise BadArgument(f"the document {id!r} has no character {start:,}{size}")
    last = min(last, read.characters)
    span = snapshot.tracer.locate(Span("", read.uri, start, last, read.text[start - read.start : last - read.start]))
    return results.OpenedResult(
        index=index,
        passage=span.to_place(),
        before=read.text[: start - read.start],
        text=span.text,
        after=read.text[last - read.start :],
        characters=read.characters,
        next_start=last if last < min(end, read.characters) else None,
        more=results.places(spans[1:]),
    )


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


def list_documents(
    snapshot: Snapshot, index: str, indexes: tuple[str, ...], arguments: DocumentsArguments
) -> results.DocumentsResult:
    """Return a page of documents."""
    documents = DocumentList(snapshot.narrowed(arguments.filter))
    page = documents.page(arguments.text, after=arguments.cursor, limit=arguments.limit)
    return results.DocumentsResult(
        index=index,
        indexes=indexes,
        total=len(documents.table),
        documents=tuple(map(_document_row, page.items)),
        next_cursor=page.next,
    )


def _document_row(document: ListedDocument) -> results.Json:
    return {
        "id": document.id,
        "uri": document.uri,
        "title": shorten_title(document.title, results.MAX_LINE),
        "modified": document.modified,
        "metadata": results.short_fields(document.metadata),
    }


def show_entity(snapshot: Snapshot, index: str, name: str) -> results.EntityResult:
    """Return an entity with its neighbours and passages.

    Raises BadArgument, with similar names, if there is none.
    """
    snapshot.table("entities")  # raises if it has not been built
    entity = find_entity(snapshot, name.removeprefix("entities:"))
    similar = [found for found in list_entities(snapshot, name, limit=_MAX_SIMILAR).items if found != entity]
    if entity is None:
        names = [repr(found.name) for found in similar]
        hint = f"; similar names: {', '.join(names)}" if names else ": search for it, or try another form"
        raise BadArgument(f"no entity {name!r}{hint}")
    relations = list_relations(snapshot, entity.id, limit=_MAX_RELATIONS)
    passages = list_passages(snapshot, entity, limit=_MAX_PASSAGES)
    note = "There are more relations or passages: ask about them." if relations.next or passages.next else ""
    return results.EntityResult(
        index=index,
        id=entity.id,
        name=entity.name,
        type=entity.type,
        forms=entity.forms[:_MAX_MORE],
        mentions=entity.mentions,
        description=results.cut(entity.text, _MAX_DESCRIPTION),
        relations=tuple(_related(entity, relation) for relation in relations.items),
        passages=tuple({**span.to_dict(), "metadata": results.short_fields(span.metadata)} for span in passages.items),
        similar=tuple({"id": found.id, "name": found.name} for found in similar),
        note=note,
    )


def _related(entity: Entity, relation: Relation) -> results.Json:
    return {**neighbour_json(entity.id, relation), "text": shorten_line(relation.text, results.MAX_LINE)}


def show_report(snapshot: Snapshot, index: str, topic: str, budget: Budget) -> results.ReportResult:
    """Return the report with this id, or the best on a topic.

    Without a topic, the main ones are listed. budget: of an embedding model that is paid.
    """
    reports = snapshot.table("reports")  # raises if it has not been built
    if not topic.strip():
        roots = browse_communities(snapshot).roots()
        listed = reports.get_many(roots[:_MAX_MORE]).values()
        others = tuple(map(_report_link, listed))
        return results.ReportResult(index=index, others=others, note="Call report with one of the ids.")
    named = reports.get(topic.strip().removeprefix("reports:"))
    matches = [named] if named else _search_reports(snapshot, topic, budget)
    if not matches:
        raise BadArgument(f"no report on {topic!r}: call report without a topic to list the main ones")
    found, *related = matches
    return results.ReportResult(
        index=index,
        id=found.id,
        title=found.title,
        text=results.cut(found.text, _MAX_TEXT),
        sources=results.places(islice(snapshot.trace(("reports", found.id)), _MAX_REPORTS)),
        others=tuple(map(_report_link, related)),
    )


def _report_link(report: Report) -> results.Json:
    return {"id": report.id, "title": shorten_title(report.title, results.MAX_LINE)}


def _search_reports(snapshot: Snapshot, topic: str, budget: Budget) -> list[Report]:
    """Return the reports on a topic, best first."""
    table = table_or_empty(snapshot, "reports")
    found: list[Context] = []
    if snapshot.db.meta("words_reports") is not None:
        found.append(snapshot.keyword_search()(table, topic, k=_MAX_REPORTS))
    if snapshot.db.meta("vectors_reports") is not None:
        found.append(snapshot.vector_search(budget)(table, topic, k=_MAX_REPORTS))
    return [item.record for item in Context.fuse(found).top(_MAX_REPORTS) if isinstance(item.record, Report)]
