"""a community, its entities, relations, claims, and the reports of its parts -> its report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kumihimo.core.context import Tokenizer
from kumihimo.core.records import Claim, Community, Entity, Mention, Relation, Report
from kumihimo.core.table import Table
from kumihimo.index.report_render import rate_mentions, report_markdown
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, Messages

if TYPE_CHECKING:
    from kumihimo.index.data_refs import ResolvedReferences
    from kumihimo.index.report_context import ReportContext

PROMPT = Path(__file__).with_suffix(".md")
LANGUAGE_OF_TABLES = (
    "Write in the language of the descriptions in the tables; where they are in several, in that of most of them."
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One of the findings of a reply."""

    summary: str
    explanation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A report as a model gives it."""

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
    when: Literal["built", "asked"] = "built",
) -> Report | None:
    """What there is to say of a community (GraphRAG, arXiv:2404.16130, section 3.1.5).

    None with `when="asked"`: whoever needs it calls this again with "built".

    But: numbers in references count within the prompt and are mapped back; those that point nowhere are taken out and
    counted. An entity that is tied to no other is a community without a report: there is no more to say of it than
    its description; nor is a model asked about a part of one entity. Without one, the report is made of sentences
    (`rules/digests.py`).
    """
    if when == "asked" or (len(community.members) == 1 and not community.parent):
        return None
    from kumihimo.index.report_context import ReportTables, select_report_context

    graph = ReportTables(communities, entities, relations, claims, reports)
    if llm is None:
        from kumihimo.index.rules import extractive_reports  # here: reading a graph needs none of the rules

        digest = extractive_reports.build_extractive_report(community, graph, mentions, tokenizer)
        return digest if digest.title else None
    found = select_report_context(community, graph, window=window, order=order)
    if not found.entities and not found.reports:
        return None
    if len(community.members) == 1:
        made = _single_entity_report(found)
    else:
        made = _to_report(llm(report_messages(found, persona, language), schema=Written), found)
    return replace(made, level=community.level, tokens=len(tokenizer(made.text)))


def report_messages(context: ReportContext, persona: str = "", language: str = "") -> Messages:
    """What a model is asked."""
    from kumihimo.index.report_context import render_report_context

    return render_prompt(
        PROMPT,
        persona=f"{persona.strip()}\n\n" if persona.strip() else "",
        language=f"Write in {language.strip()}." if language.strip() else LANGUAGE_OF_TABLES,
        tables=render_report_context(context),
    )


def _single_entity_report(context: ReportContext) -> Report:
    """The report of a single entity: its name and its description, rated by how often it is named."""
    entity = context.entities[0]
    rating, reason = rate_mentions(entity.mentions)
    return _build_report(entity.name, entity.text, (), rating=rating, reason=reason, elements=context.elements)


def _to_report(reply: Written, context: ReportContext) -> Report:
    """The report, with its references mapped back to rows."""
    from kumihimo.index import data_refs

    said = [reply.summary, *(text for f in reply.findings for text in (f.summary, f.explanation))]
    texts = [data_refs.resolve_references(text.strip(), context.ids_by_table) for text in said]
    summary, *rest = [text.text for text in texts]
    return _build_report(
        " ".join(data_refs.strip_references(reply.title).split()),
        summary,
        tuple(zip(rest[::2], rest[1::2], strict=True)),
        rating=min(max(reply.rating, 0.0), 10.0),
        reason=reply.rating_explanation.strip(),
        elements=context.elements,
        data=tuple(sorted({reference for text in texts for reference in text.data})),
        dropped=sum(text.dropped for text in texts),
    )


def _build_report(
    title: str,
    summary: str,
    findings: tuple[tuple[str, str], ...],
    *,
    rating: float,
    reason: str,
    elements: int,
    data: ResolvedReferences = (),
    dropped: int = 0,
) -> Report:
    return Report(
        title,
        summary,
        rating,
        reason,
        findings,
        data,
        dropped,
        level=0,
        elements=elements,
        tokens=0,
        extractive=False,
        text=report_markdown(title, summary, findings),
    )
