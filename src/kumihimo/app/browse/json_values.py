"""records -> JSON values: one form for the command line, HTTP and the page; an answer has its own `to_dict`."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse import community_tree
from kumihimo.app.opened.catalogue import DEFAULT_METHOD
from kumihimo.app.settings.settings_registry import RECALL, RECALL_SETS, setting_help
from kumihimo.core import settings, signature, wiring
from kumihimo.core.records import Claim, Entity, Reference, Relation, Report
from kumihimo.core.spans import Span
from kumihimo.generation.quoting.overview import Overview

Json = dict[str, Any]


def plain(value: object) -> Any:
    """Return a value as JSON has it: dataclasses as objects, no infinity.

    >>> plain(Span("c", "a.md", 0, 3, "One"))["uri"], plain((1, float("inf")))
    ('a.md', [1, None])
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


# -- rows of tables


def entity_json(entity: Entity) -> Json:
    """Return an entity for a list, without its description."""
    return {name: plain(getattr(entity, name)) for name in ("id", "name", "type", "mentions", "forms")}


def neighbour_json(entity: str, relation: Relation) -> Json:
    """Return the other end of a relation, seen from an entity."""
    end = 1 if relation.source == entity else 0
    return {
        "id": (relation.source, relation.target)[end],
        "name": relation.names[end],
        "relation": relation.id,
        "weight": relation.weight,
        "strength": relation.strength,
        "text": relation.text,
    }


def relation_json(relation: Relation) -> Json:
    """Return a relation with both ends."""
    names = ("id", "source", "target", "names", "keywords", "weight", "strength", "text")
    return {name: plain(getattr(relation, name)) for name in names}


def claim_json(claim: Claim) -> Json:
    """Return a claim about an entity."""
    names = ("id", "subject", "object", "names", "type", "statuses", "start", "end", "quotes", "text")
    return {name: plain(getattr(claim, name)) for name in names}


def trace_json(reference: Reference, text: str, spans: Iterable[Span]) -> Json:
    """Return a row with its source spans."""
    return {"table": reference[0], "id": reference[1], "text": text, "spans": [span.to_dict() for span in spans]}


# -- the overview


def overview_json(snapshot: Snapshot, overview: Overview) -> Json:
    """Return an overview: counts, the newest and largest documents, and topics.

    read: the number of passages in which topics were counted, of all `passages`.
    """

    def link(id: str) -> Json:
        uri, title = snapshot.db.values(wiring.ROOT, id, "uri", "title")
        return {"id": id, "uri": uri, "title": title or uri}

    topics = [
        {
            "name": topic.name,
            "quote": snapshot.tracer.locate(topic.quote).to_dict(),
            "documents": list(map(link, topic.documents)),
        }
        for topic in overview.topics
    ]
    rest = {each.name: plain(getattr(overview, each.name)) for each in fields(overview) if each.name != "ids"}
    return {"documents": len(overview.ids), **rest, "topics": topics}


# -- communities and reports


def community_json(tree: community_tree.CommunityTree, id: str, report: Report | None) -> Json:
    """Return a community with the title of its report.

    maker: what made the report: a model or rows. changes: documents since it was written.
    """
    return {
        "id": id,
        "level": tree.level[id],
        "parent": tree.parent[id],
        "children": len(tree.children[id]),
        "entities": tree.size[id],
        **{name: getattr(report, name, None) for name in ("title", "rating")},
        "maker": community_tree.maker_of(report) if report else None,
        "changes": len(report.added) if report else 0,
    }


def report_json(
    snapshot: Snapshot, tree: community_tree.CommunityTree, report: Report, *, most_passages: int | None = None
) -> Json:
    """Return a whole report, with the names of its references.

    most_passages: to count by document; None: all, which takes long for a large community.
    """
    names = community_tree.reference_names(snapshot, report)

    def sources(part: int) -> list[Json]:
        rows = community_tree.part_sources(report, part)
        return [{"table": table, "id": id, "name": names[table, id]} for table, id in rows]

    return {
        **community_json(tree, report.id, report),
        "above": [title_json(snapshot, id) for id in tree.ancestors(report.id)[:-1]],
        "summary": report.summary,
        "summary_sources": sources(0),
        "reason": report.reason,
        "findings": [
            {"summary": summary, "explanation": explanation, "sources": sources(n)}
            for n, (summary, explanation) in enumerate(report.findings, 1)
        ],
        "parts": [title_json(snapshot, id) for id in tree.sorted_children(report.id)],
        "members": [
            {"id": id, "name": community_tree.display_name(snapshot, ("entities", id))}
            for id in tree.members[report.id]
        ],
        "sources": _source_counts(snapshot, report, most_passages),
        "dropped": report.dropped,
    }


def title_json(snapshot: Snapshot, id: str) -> Json:
    """Return a community with the title of its report."""
    return {"id": id, "title": community_tree.display_name(snapshot, ("reports", id))}


def _source_counts(snapshot: Snapshot, report: Report, most: int | None) -> dict[str, int]:
    """Return the documents of a community with passage counts, largest first."""
    passages = Counter(span.uri for span in islice(snapshot.trace(("reports", report.id)), most))
    return dict(sorted(passages.items(), key=lambda item: (-item[1], item[0])))


# -- methods


def method_json(name: str, method: signature.Signature) -> Json:
    """Return a method with its recall and settings."""
    help_texts = setting_help(name, method)
    return {
        "summary": method.summary,
        "suits": method.declaration.best_for,
        "recall@5": dict(zip(RECALL_SETS, RECALL.get(name, ()), strict=False)),
        "default": name == DEFAULT_METHOD,
        "reads": list(method.tables),
        "settings": {
            setting.name: {**_setting_json(setting), "help": help_texts.get(setting.name, "")}
            for setting in method.settings.values()
        },
    }


def _setting_json(setting: settings.Setting) -> Json:
    bounds = setting.bounds
    return {
        "type": setting.type_description,
        "default": plain(setting.default),
        "choices": list(get_args(setting.type)) if get_origin(setting.type) is Literal else [],
        "bounds": [bounds.least, bounds.most] if bounds else None,
        "network_bounds": list(bounds.asked or (bounds.least, bounds.most)) if bounds else None,
    }
