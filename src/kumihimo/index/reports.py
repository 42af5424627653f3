"""a community, its entities, relations, claims, and the reports of its parts -> its report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kumihimo.core.context import Ruler
from kumihimo.core.records import Claim, Community, Entity, Mention, Relation, Report
from kumihimo.core.table import Table
from kumihimo.index.report_render import markdown, rated
from kumihimo.llm.prompts import prompt
from kumihimo.llm.protocols import Ask, Messages

if TYPE_CHECKING:
    from kumihimo.index.data_refs import Data
    from kumihimo.index.report_context import Selected

PROMPT = Path(__file__).with_suffix(".md")
SAME = "Write in the language of the descriptions in the tables; where they are in several, in that of most of them."


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
    ruler: Ruler,
    ask: Ask | None,
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
    from kumihimo.index.report_context import Graph, selected

    graph = Graph(communities, entities, relations, claims, reports)
    if ask is None:
        from kumihimo.index.rules import extractive_reports  # here: reading a graph needs none of the rules

        digest = extractive_reports.report(community, graph, mentions, ruler)
        return digest if digest.title else None
    found = selected(community, graph, window=window, order=order)
    if not found.entities and not found.reports:
        return None
    if len(community.members) == 1:
        made = _lone(found)
    else:
        made = _read(ask(messages(found, persona, language), into=Written), found)
    return replace(made, level=community.level, tokens=len(ruler(made.text)))


def messages(found: Selected, persona: str = "", language: str = "") -> Messages:
    """What a model is asked."""
    from kumihimo.index.report_context import rendered

    return prompt(
        PROMPT,
        persona=f"{persona.strip()}\n\n" if persona.strip() else "",
        language=f"Write in {language.strip()}." if language.strip() else SAME,
        tables=rendered(found),
    )


def _lone(found: Selected) -> Report:
    """The report of a single entity: its name and its description, rated by how often it is named."""
    entity = found.entities[0]
    rating, reason = rated(entity.mentions)
    return _report(entity.name, entity.text, (), rating=rating, reason=reason, elements=found.elements)


def _read(written: Written, found: Selected) -> Report:
    """The report, with its references mapped back to rows."""
    from kumihimo.index import data_refs

    said = [written.summary, *(text for f in written.findings for text in (f.summary, f.explanation))]
    texts = [data_refs.resolve(text.strip(), found.numbered) for text in said]
    summary, *rest = [text.text for text in texts]
    return _report(
        " ".join(data_refs.unmarked(written.title).split()),
        summary,
        tuple(zip(rest[::2], rest[1::2], strict=True)),
        rating=min(max(written.rating, 0.0), 10.0),
        reason=written.rating_explanation.strip(),
        elements=found.elements,
        data=tuple(sorted({reference for text in texts for reference in text.data})),
        dropped=sum(text.dropped for text in texts),
    )


def _report(
    title: str,
    summary: str,
    findings: tuple[tuple[str, str], ...],
    *,
    rating: float,
    reason: str,
    elements: int,
    data: Data = (),
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
        text=markdown(title, summary, findings),
    )
