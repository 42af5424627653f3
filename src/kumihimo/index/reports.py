"""a community with its elements and child reports -> its report."""

from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Literal

from kumihimo.core.context import Tokenizer
from kumihimo.core.records import Claim, Community, Entity, Mention, Relation, Report
from kumihimo.core.table import Table
from kumihimo.index import data_refs, report_context
from kumihimo.index.rules import extractive_reports
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, Messages

PROMPT = Path(__file__).with_suffix(".md")
LANGUAGE_OF_TABLES = (
    "Write in the language of the descriptions in the tables; where they are in several, in that of most of them."
)


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of a report, as the model replies."""

    summary: str
    explanation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A report as the model replies."""

    title: str
    summary: str
    rating: float
    rating_explanation: str = ""
    findings: list[Finding]

    def __post_init__(self) -> None:
        if not self.title.strip():
            raise ValueError("a report needs a title")
        if isnan(self.rating):
            raise ValueError("the rating is a number from 0 to 10")


def reports(
    community: Community,
    communities: Table[Community],
    entities: Table[Entity],
    relations: Table[Relation],
    claims: Table[Claim],
    mentions: Table[Mention],
    reports: Table[Report],
    tokenizer: Tokenizer,
    llm: LLM | None,
    *,
    window: int = 8000,
    order: Literal["content", "paper"] = "content",
    persona: str = "",
    language: str = "",
) -> Report | None:
    """Write the report of a community (GraphRAG, arXiv:2404.16130, section 3.1.5).

    But: reference numbers count within the prompt and are mapped back; invalid numbers are removed and counted. A
    community of one isolated entity has no report, since its description says everything; a child community of one
    entity gets a report without a model call. Without a model, the report consists of sentences from the documents
    (`rules/extractive_reports.py`).
    """
    if len(community.members) == 1 and not community.parent:
        return None
    tables = report_context.ReportTables(communities, entities, relations, claims, reports)
    if llm is None:
        report = extractive_reports.build_extractive_report(community, tables, mentions, tokenizer)
        return report if report.title else None
    context = report_context.select_report_context(community, tables, window=window, order=order)
    if not context.entities and not context.reports:
        return None
    if len(community.members) == 1:
        report = _single_entity_report(context, community.level)
    else:
        reply = llm(report_messages(context, persona, language), schema=Written)
        report = _to_report(reply, context, community.level)
    return report_context.add_report_text(report, tokenizer)


def report_messages(context: report_context.ReportContext, persona: str = "", language: str = "") -> Messages:
    """Return the messages for one report."""
    return render_prompt(
        PROMPT,
        persona=f"{persona.strip()}\n\n" if persona.strip() else "",
        language=f"Write in {language.strip()}." if language.strip() else LANGUAGE_OF_TABLES,
        tables=report_context.render_report_context(context),
    )


def _single_entity_report(context: report_context.ReportContext, level: int) -> Report:
    """Build the report of a single entity: its name and its description.

    The number of mentions gives the rating.
    """
    entity = context.entities[0]
    rating, reason = report_context.rate_mentions(entity.mentions)
    text, elements = entity.text, context.elements
    return Report(entity.name, text, rating, reason, (), (), 0, level, elements, tokens=0, extractive=False)


def _to_report(reply: Written, context: report_context.ReportContext, level: int) -> Report:
    """Convert a reply to a report; map its references back to rows."""
    texts = [reply.summary, *(text for finding in reply.findings for text in (finding.summary, finding.explanation))]
    resolved = [data_refs.resolve_references(text.strip(), context.ids_by_table) for text in texts]
    summary, *rest = [text.text for text in resolved]
    title = " ".join(data_refs.strip_references(reply.title).split())
    rating, reason = min(max(reply.rating, 0.0), 10.0), reply.rating_explanation.strip()
    findings = tuple(zip(rest[::2], rest[1::2], strict=True))
    data = tuple(sorted({reference for text in resolved for reference in text.data}))
    dropped, elements = sum(text.dropped for text in resolved), context.elements
    return Report(title, summary, rating, reason, findings, data, dropped, level, elements, tokens=0, extractive=False)
