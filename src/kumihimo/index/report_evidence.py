"""a community -> the evidence of its report, by document; an earlier report -> whether it may stay."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice

from kumihimo.core.context import Tokenizer
from kumihimo.core.digests import hash_parts
from kumihimo.core.records import Assertion, Community, Mention, RelationMention, Report
from kumihimo.core.table import Table
from kumihimo.index import report_context
from kumihimo.index.imports import ImportedCommunity
from kumihimo.index.report_context import ReportTables, community_entities

WRITTEN_ELSEWHERE = "import"  # what wrote the report of an import
MIN_ENTITIES = 4  # of a community whose report a model writes
_DIGEST_MODULUS = 2**64

Evidence = Mapping[str, tuple[int, int]]  # document -> number of rows, sum of their hashes


def collect_evidence(community: Community, tables: ReportTables) -> Evidence:
    """Return what the documents say about the entities of a community.

    That is their mentions, the mentions of the relations that begin at them, and the assertions about them. The hashes
    of the rows of a document are added, so it makes no difference how a community is divided, and a community with
    parts needs the evidence of their reports only.
    """
    evidence: dict[str, tuple[int, int]] = {}
    for document, rows, digest in chain(_own_evidence(community, tables), _evidence_of_parts(community, tables)):
        before = evidence.get(document, (0, 0))
        evidence[document] = before[0] + rows, (before[1] + digest) % _DIGEST_MODULUS
    return evidence


def _own_evidence(community: Community, tables: ReportTables) -> Iterator[tuple[str, int, int]]:
    relations = chain(*tables.relations.ids_grouped("source", community.members).values())
    claims = chain(*tables.claims.ids_grouped("subject", community.members).values())
    rows: Iterator[Mention | RelationMention | Assertion] = chain(
        *tables.mentions.where_grouped("entity", community.members).values(),
        *tables.ties.where_grouped("relation", relations).values(),
        *tables.assertions.where_grouped("claim", claims).values(),
    )
    for row in rows:
        details = (row.status, row.start, row.end) if isinstance(row, Assertion) else ()
        digest = hash_parts(row.id, getattr(row, row.GROUP), row.text, *details)
        yield row.id.partition(".")[0], 1, int(digest, 16)


def _evidence_of_parts(community: Community, tables: ReportTables) -> Iterator[tuple[str, int, int]]:
    for report in tables.reports.get_many(community.children).values():
        yield from ((document, rows, int(digest, 16)) for document, rows, digest in report.evidence)


def with_evidence(report: Report, evidence: Evidence) -> Report:
    """Return the report with its evidence, documents in order."""
    rows = tuple((document, *_stored(evidence[document])) for document in sorted(evidence))
    return replace(report, evidence=rows)


def _stored(rows: tuple[int, int]) -> tuple[int, str]:
    return rows[0], f"{rows[1]:016x}"


def is_slight(community: Community, tables: ReportTables, evidence: Evidence) -> bool:
    """Return whether a community has few entities, or rests on one chunk."""
    if len(list(islice(community_entities(tables, community), MIN_ENTITIES))) < MIN_ENTITIES:
        return True
    if len(evidence) > 1:
        return False
    chunks: set[str] = set()
    for entity in community_entities(tables, community):
        chunks |= {id.rpartition(".")[0] for id in tables.mentions.ids(entity=entity)}
        if len(chunks) > 1:
            return False
    return True


def keep_report(
    earlier: Report, community: Community, evidence: Evidence, written_with: str, refresh: float
) -> Report | None:
    """Return the earlier report with its new evidence, or None.

    It stays while the model and the prompt are the same, everything it was written from is still there, unchanged, and
    at most the share `refresh` of the evidence is new.
    """
    updated = update_report(earlier, community, evidence)
    if not updated or updated.written_with != written_with:
        return None
    new_rows, all_rows = sum(evidence[document][0] for document in updated.added), sum(n for n, _ in evidence.values())
    return updated if new_rows <= refresh * all_rows else None


def update_report(earlier: Report, community: Community, evidence: Evidence) -> Report | None:
    """Return the text of an earlier report with the evidence of today.

    None if no model wrote it, if a document that it was written from is gone or says something else, or if a part whose
    report it cites is gone.
    """
    if not earlier.written_with:
        return None
    written_from = {row[0]: row[1:] for row in earlier.evidence if row[0] not in earlier.added}
    if any(document not in evidence or _stored(evidence[document]) != rows for document, rows in written_from.items()):
        return None
    if any(table == "reports" and id not in community.children for table, id in earlier.citations()):
        return None
    added = tuple(sorted(evidence.keys() - written_from.keys()))
    return replace(with_evidence(earlier, evidence), level=community.level, added=added)


def imported_report(
    community: Community,
    imported: Table[ImportedCommunity],
    tables: ReportTables,
    tokenizer: Tokenizer,
    refresh: float,
) -> Report | None:
    """Return the report that an import brought.

    It stays while at most the share `refresh` of the evidence is of documents that it was not written from.
    """
    given = next((row for row in imported.where(community=community.id) if row.title), None)
    if given is None:
        return None
    evidence = {**dict.fromkeys(given.documents, (0, 0)), **collect_evidence(community, tables)}
    added = tuple(sorted(evidence.keys() - set(given.documents)))
    if sum(evidence[document][0] for document in added) > refresh * sum(rows for rows, _ in evidence.values()):
        return None
    report = Report(
        title=given.title,
        summary=given.summary,
        rating=given.rating,
        reason=given.reason,
        findings=given.findings,
        sources=given.sources,
        dropped=0,
        level=community.level,
        elements=0,
        tokens=0,
        extractive=False,
        written_with=WRITTEN_ELSEWHERE,
        added=added,
    )
    return report_context.add_report_text(with_evidence(report, evidence), tokenizer)
