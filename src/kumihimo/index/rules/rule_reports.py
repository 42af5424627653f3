"""a small community -> its report by rule: the descriptions of its rows."""

from collections.abc import Iterator

from kumihimo.core.records import Community, Entity, Reference, Report
from kumihimo.index import report_context
from kumihimo.index.report_context import ReportContext

MAX_TITLE_NAMES = 3
MAX_FINDINGS = 10  # of a report of rows

Finding = tuple[str, str, tuple[Reference, ...]]  # heading, text, rows


def build_row_report(community: Community, context: ReportContext) -> Report:
    """Build a report of the rows of a community, without a model.

    The summary describes the entity with most mentions. Each finding is on one entity: its description, its relations
    to entities of earlier findings, and its claims. Parts that are too long for `context` are findings too.
    """
    entities = sorted(context.entities, key=lambda entity: (-entity.mentions, entity.name, entity.id))
    parts: list[Finding] = [(report.title, report.summary, (("reports", report.id),)) for report in context.reports]
    described = [*_describe_entities(entities, context), *(part for part in parts if part[1])]
    names = [entity.name for entity in entities] + [report.title for report in context.reports]
    first, *rest = described or [("", "", ())]
    findings = rest[:MAX_FINDINGS]
    rating, reason = report_context.rate_mentions(sum(entity.mentions for entity in entities))
    return Report(
        title=", ".join(names[:MAX_TITLE_NAMES]),
        summary=first[1],
        rating=rating,
        reason=reason,
        findings=tuple((heading, text) for heading, text, _ in findings),
        sources=(first[2], *(rows for _, _, rows in findings)),
        dropped=0,
        level=community.level,
        elements=context.elements,
        tokens=0,
    )


def _describe_entities(entities: list[Entity], context: ReportContext) -> Iterator[Finding]:
    """Yield what the rows say about each entity, each row once."""
    seen: set[str] = set()
    for entity in entities:
        seen.add(entity.id)
        relations = [r for r in context.relations if entity.id in (r.source, r.target) and {r.source, r.target} <= seen]
        claims = [claim for claim in context.claims if claim.subject == entity.id]
        texts = [entity.text, *(relation.text for relation in relations), *(claim.text for claim in claims)]
        sources = [("entities", entity.id)]
        sources += [("relations", relation.id) for relation in relations]
        sources += [("claims", claim.id) for claim in claims]
        if lines := list(dict.fromkeys(filter(None, texts))):
            yield entity.name, "\n".join(lines), tuple(sources)
