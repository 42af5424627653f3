"""a community with its elements and child reports -> its report."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain, islice
from math import isnan
from pathlib import Path
from typing import Annotated, Any, Literal

from kumihimo.core import digests, errors, records, settings
from kumihimo.core.context import Tokenizer
from kumihimo.core.table import Table
from kumihimo.index import data_refs, report_context
from kumihimo.index.imports import ImportedCommunity
from kumihimo.index.report_context import ReportContext, ReportTables, community_entities
from kumihimo.llm import prompts, protocols

WRITTEN_ELSEWHERE = "import"  # what wrote the report of an import
MIN_ENTITIES = 4  # of a community whose report a model writes
_DIGEST_MODULUS = 2**64

Evidence = Mapping[str, tuple[int, int]]  # document -> number of rows, sum of their hashes


def collect_evidence(community: records.Community, tables: ReportTables) -> Evidence:
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


def _own_evidence(community: records.Community, tables: ReportTables) -> Iterator[tuple[str, int, int]]:
    relations = chain(*tables.relations.ids_grouped("source", community.members).values())
    claims = chain(*tables.claims.ids_grouped("subject", community.members).values())
    rows: Iterator[records.Mention | records.RelationMention | records.Assertion] = chain(
        *tables.mentions.where_grouped("entity", community.members).values(),
        *tables.ties.where_grouped("relation", relations).values(),
        *tables.assertions.where_grouped("claim", claims).values(),
    )
    for row in rows:
        details = (row.status, row.start, row.end) if isinstance(row, records.Assertion) else ()
        digest = digests.hash_parts(row.id, getattr(row, row.GROUP), row.text, *details)
        yield row.id.partition(".")[0], 1, int(digest, 16)


def _evidence_of_parts(community: records.Community, tables: ReportTables) -> Iterator[tuple[str, int, int]]:
    for report in tables.reports.get_many(community.children).values():
        yield from ((document, rows, int(digest, 16)) for document, rows, digest in report.evidence)


def with_evidence(report: records.Report, evidence: Evidence) -> records.Report:
    """Return the report with its evidence, documents in order."""
    rows = tuple((document, *_stored(evidence[document])) for document in sorted(evidence))
    return replace(report, evidence=rows)


def _stored(rows: tuple[int, int]) -> tuple[int, str]:
    return rows[0], f"{rows[1]:016x}"


def is_slight(community: records.Community, tables: ReportTables, evidence: Evidence) -> bool:
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


def _is_read(community: records.Community, tables: ReportTables, depth: int, window: int) -> bool:
    """Return whether methods, or the report of its parent, read this report."""
    if community.level <= depth:
        return True
    parent = tables.communities.get(community.parent)
    return bool(
        parent and _is_read(parent, tables, depth, window) and report_context.elements_exceed(parent, tables, window)
    )


def is_star(context: ReportContext) -> bool:
    """Return whether all relations have one entity in common."""
    ends = [{relation.source, relation.target} for relation in context.relations]
    return len(ends) >= MIN_RAYS and not context.reports and bool(set.intersection(*ends))


def keep_report(
    earlier: records.Report, community: records.Community, evidence: Evidence, written_with: str, refresh: float
) -> records.Report | None:
    """Return the earlier report with its new evidence, or None.

    It stays while the model and the prompt are the same, everything it was written from is still there, unchanged, and
    at most the share `refresh` of the evidence is new.
    """
    updated = update_report(earlier, community, evidence)
    if not updated or updated.written_with != written_with:
        return None
    new_rows, all_rows = sum(evidence[document][0] for document in updated.added), sum(n for n, _ in evidence.values())
    return updated if new_rows <= refresh * all_rows else None


def update_report(earlier: records.Report, community: records.Community, evidence: Evidence) -> records.Report | None:
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
    community: records.Community,
    imported: Table[ImportedCommunity],
    tables: ReportTables,
    tokenizer: Tokenizer,
    refresh: float,
) -> records.Report | None:
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
    sources = tuple(tuple(s for s in each if getattr(tables, s[0]).get(s[1])) for each in given.sources)
    report = records.Report(
        title=given.title,
        summary=given.summary,
        rating=given.rating,
        reason=given.reason,
        findings=given.findings,
        sources=sources,
        dropped=sum(map(len, given.sources)) - sum(map(len, sources)),  # rows that edits have left out
        level=community.level,
        elements=0,
        tokens=0,
        written_with=WRITTEN_ELSEWHERE,
        added=added,
    )
    return report_context.add_report_text(with_evidence(report, evidence), tokenizer)


PROMPT = Path(__file__).with_suffix(".md")
LANGUAGE_OF_NOTES = "Write in the language of most notes."
MAX_SOURCES = 5  # of a finding
MIN_RAYS = 3  # relations of a star
PARTS_RULE = (
    "Reports are on parts of the group: say what joins the parts and what matters most in each. Do not tell again what"
    " is in them."
)
CLAIMS_RULE = "Claims are what somebody says: keep who says it, and whether it is true, false or suspected."

_NUMBER = re.compile(r"\d{1,9}")


class RowNumbers(list[int]):
    """The type of numbers in a reply: any text or list that holds some.

    Weak models write `"3, 4"`, `["Entities (3)"]` or null for `[3, 4]`.
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(_read_numbers, handler(list[int]))


def _read_numbers(value: object) -> list[int]:
    """Return the numbers in a value of a reply."""
    values = value if isinstance(value, list) else [] if value is None else [value]
    return [int(number) for item in values for number in _NUMBER.findall(str(item))]


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of a report, as the model replies. sources: numbers of notes."""

    summary: str
    explanation: str
    sources: RowNumbers = field(default_factory=RowNumbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportReply:
    """A report as the model replies."""

    title: str
    summary: str
    findings: list[Finding]
    rating: float
    rating_explanation: str = ""

    def __post_init__(self) -> None:
        if not self.title.strip():
            raise ValueError("a report needs a title")
        if isnan(self.rating):
            raise ValueError("the rating is a number from 0 to 10")


def reports(
    community: records.Community,
    communities: Table[records.Community],
    entities: Table[records.Entity],
    relations: Table[records.Relation],
    claims: Table[records.Claim],
    mentions: Table[records.Mention],
    ties: Table[records.RelationMention],
    assertions: Table[records.Assertion],
    reports: Table[records.Report],
    previous: Table[records.Report],
    imported_communities: Table[ImportedCommunity],
    tokenizer: Tokenizer,
    llm: protocols.LLM | None,
    *,
    window: settings.Tokens = 8000,
    order: Literal["content", "paper"] = "content",
    persona: str = "",
    language: settings.Line = "",
    depth: Annotated[int, settings.Bounds(0, 100)] = 1,
    refresh: settings.Share = 0.1,
) -> records.Report | None:
    """Write the report of a community (GraphRAG, arXiv:2404.16130, section 3.1.5).

    But: findings name their sources as numbers within the prompt, which are mapped back to rows; the paper puts them
    into the prose. A community of few entities, of one chunk, or around one hub gets a report by rule. So does one
    below level `depth`, unless the elements of its parent do not fit into `window`. Without a model there are none,
    except those of an import, which are taken as they are. A report of the last build stays while nothing that it rests
    on is removed or changed, and at most the share `refresh` of its evidence is new. If the report of a part has
    failed, this one waits: until then it is the earlier one, one by rule, or none.
    """
    tables = ReportTables(communities, entities, relations, claims, reports, mentions, ties, assertions)
    imported = imported_report(community, imported_communities, tables, tokenizer, refresh)
    if imported or llm is None or (len(community.members) == 1 and not community.parent):
        return imported
    evidence = collect_evidence(community, tables)
    written_with = _hash_style(llm.fingerprint, str(window), order, persona, language)
    earlier = previous.get(community.id) if refresh else None
    if earlier and (kept := keep_report(earlier, community, evidence, written_with, refresh)):
        return kept
    context = report_context.select_report_context(community, tables, window=window, order=order)
    if not context.entities and not context.reports:
        return None
    complete = partial(_complete, evidence=evidence, tokenizer=tokenizer)
    is_read = _is_read(community, tables, depth, window)
    from kumihimo.index.rules import rule_reports

    if not is_read or is_slight(community, tables, evidence) or is_star(context):
        return complete(rule_reports.build_row_report(community, context))
    size = report_context.describe_size(community, tables, len(evidence))
    try:
        reply = llm(report_messages(context, size, persona, language), schema=ReportReply)
    except errors.ItemFailed as failure:
        if earlier is None:
            raise
        fallback = update_report(earlier, community, evidence)
        fallback = fallback or complete(rule_reports.build_row_report(community, context))
        raise errors.ItemFailed(str(failure), fallback=[fallback]) from failure
    return complete(replace(_to_report(reply, context, community.level), written_with=written_with))


def _complete(report: records.Report, evidence: Evidence, tokenizer: Tokenizer) -> records.Report:
    """Return the report with its evidence, text and tokens."""
    return report_context.add_report_text(with_evidence(report, evidence), tokenizer)


def report_messages(context: ReportContext, size: str, persona: str = "", language: str = "") -> protocols.Messages:
    """Return the messages for one report."""
    return prompts.render_prompt(
        PROMPT,
        persona=f"{persona.strip()}\n\n" if persona.strip() else "",
        language=f"Write in {language.strip()}." if language.strip() else LANGUAGE_OF_NOTES,
        size=size,
        notes=report_context.render_report_context(context),
        rules="\n".join([PARTS_RULE] * bool(context.reports) + [CLAIMS_RULE] * bool(context.claims)),
    )


@cache
def _hash_style(fingerprint: str, window: str, order: str, persona: str, language: str) -> str:
    """Return the hash of all that shapes a report, besides its evidence."""
    empty = ReportContext((), (), (), (), 0)
    prompt = [message["content"] for message in report_messages(empty, "", persona, language)]
    return digests.hash_parts(
        fingerprint, window, order, *prompt, PARTS_RULE, CLAIMS_RULE, prompts.reply_form(ReportReply).instructions
    )


def _to_report(reply: ReportReply, context: ReportContext, level: int) -> records.Report:
    """Convert a reply to a report; map its numbers back to rows."""
    rows = context.references
    findings = [finding for finding in reply.findings if finding.summary.strip() or finding.explanation.strip()]
    return records.Report(
        title=" ".join(data_refs.strip_references(reply.title).split()),
        summary=data_refs.strip_references(reply.summary).strip(),
        rating=min(max(reply.rating, 0.0), 10.0),
        reason=data_refs.strip_references(reply.rating_explanation).strip(),
        findings=tuple(
            (data_refs.strip_references(each.summary).strip(), data_refs.strip_references(each.explanation).strip())
            for each in findings
        ),
        sources=((), *(_cited_rows(each.sources, rows) for each in findings)),
        dropped=sum(not 1 <= number <= len(rows) for each in findings for number in each.sources),
        level=level,
        elements=context.elements,
        tokens=0,
    )


def _cited_rows(numbers: Sequence[int], rows: Sequence[records.Reference]) -> tuple[records.Reference, ...]:
    """Return the first five rows with these numbers, each once."""
    return tuple(dict.fromkeys(rows[number - 1] for number in numbers if 1 <= number <= len(rows)))[:MAX_SOURCES]
