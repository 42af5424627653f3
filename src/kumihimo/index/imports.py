"""documents of an import -> imported_units, imported_descriptions, imported_communities: what another system has made.

The steps that a model or a rule does for other documents take these rows instead, so nothing is paid again.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar

from kumihimo.core import digests, signature
from kumihimo.core.records import Community, Document, Record, Reference
from kumihimo.index import extraction_parser
from kumihimo.text import graph_edits, name_keys
from kumihimo.text.text_units import SharedDescription, TextUnit, UnitCommunity, dump_units, load_units


@dataclass(frozen=True, slots=True)
class ImportedUnit(Record):
    """What another system extracted from a chunk; the id is that of the chunk.

    content: JSON, as documents keep it. folder: where the files of the same import are. documents: those that its
    descriptions and communities rest on.
    """

    BIG: ClassVar[bool] = True
    SEARCHED_BY: ClassVar[tuple[str, ...]] = ()
    EVIDENCE: ClassVar[str] = "documents"

    content: str
    folder: str
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ImportedDescription(Record):
    """A description that another system wrote, as `text`.

    subject: the entity or relation. documents: those that it was written from.
    """

    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("subject",)
    SEARCHED_BY: ClassVar[tuple[str, ...]] = ()
    SHARED_TEXT: ClassVar[bool] = True
    EVIDENCE: ClassVar[str] = "documents"

    subject: str
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ImportedCommunity(Record):
    """A community that another system detected, with its report, if there is one.

    community, parent: ids of communities. members: entities. documents: those that it rests on. The other columns are
    those of `Report`.
    """

    BIG: ClassVar[bool] = True
    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("community",)
    SEARCHED_BY: ClassVar[tuple[str, ...]] = ()
    EVIDENCE: ClassVar[str] = "documents"

    community: str
    level: int
    parent: str
    members: tuple[str, ...]
    documents: tuple[str, ...]
    title: str
    summary: str
    rating: float
    reason: str
    findings: tuple[tuple[str, str], ...]
    sources: tuple[tuple[Reference, ...], ...]


def imported_units(document: Document) -> Iterable[ImportedUnit]:
    """Return the text units of an imported document, one for each chunk."""
    if not document.imported:
        return []
    folder = document.uri.rpartition("/")[0]
    return [
        ImportedUnit(dump_units((unit,)), folder, _document_ids(folder, _shared_documents(unit)))
        for unit in load_units(document.imported)
    ]


@signature.declare(shared={"aliases": "mentions"})
def imported_descriptions(
    imported_unit: ImportedUnit, *, aliases: tuple[str, ...] = ()
) -> Iterable[ImportedDescription]:
    """Return the descriptions that rest on this text unit first."""
    for description in load_unit(imported_unit.content).descriptions:
        yield ImportedDescription(
            _subject_id(description, graph_edits.parse_edits(aliases)),
            _document_ids(imported_unit.folder, description.documents),
            text=description.text,
        )


@signature.declare(shared={"aliases": "mentions"})
def imported_communities(imported_unit: ImportedUnit, *, aliases: tuple[str, ...] = ()) -> Iterable[ImportedCommunity]:
    """Return the communities that rest on this unit first."""
    edits = graph_edits.parse_edits(aliases)
    for community in load_unit(imported_unit.content).communities:
        yield ImportedCommunity(
            community=community.key,
            level=community.level,
            parent=community.parent,
            members=tuple(dict.fromkeys(map(edits.entity_of, community.members))),
            documents=_document_ids(imported_unit.folder, community.documents),
            title=community.title,
            summary=community.summary,
            rating=min(max(community.rating, 0.0), 10.0),
            reason=community.reason,
            findings=tuple((finding.summary, finding.explanation) for finding in community.findings),
            sources=_report_sources(community, edits),
        )


# -- what other steps make of these rows


@lru_cache(maxsize=64)  # mentions, ties and assertions of a chunk read it in turn
def load_unit(content: str) -> TextUnit:
    """Return the unit of a row."""
    [unit] = load_units(content)
    return unit


def unit_records(unit: ImportedUnit) -> list[extraction_parser.ExtractedRecord]:
    """Return the records of a unit."""
    content = load_unit(unit.content)
    return [
        *(extraction_parser.ExtractedEntity(name, kind, "") for name, kind in content.entities),
        *(
            extraction_parser.ExtractedRelation(tie.source, tie.target, tie.text, tie.keywords, tie.strength)
            for tie in content.relations
        ),
        *(
            extraction_parser.ExtractedClaim(c.subject, c.object, c.type, c.status, c.start, c.end, c.text, c.quote)
            for c in content.claims
        ),
    ]


def add_imported(
    leaf_of: Mapping[str, str],
    previous: Mapping[str, Community],
    imported: Iterable[ImportedCommunity],
    entities: Container[str],
) -> tuple[dict[str, str], dict[str, Community]]:
    """Return the leaves of entities, and all communities.

    An import decides once: later builds may add entities to its communities, and divide them. An entity in two leaves
    belongs to the first.
    """
    rows = {row.community: row for row in sorted(imported, key=lambda row: row.community)}
    if not rows:  # most indexes: no work that grows with the corpus
        return dict(leaf_of), dict(previous)
    communities, leaves = dict(previous), dict(leaf_of)
    for leaf, members in _members_of_leaves(rows, entities).items():
        if leaf not in previous:
            leaves |= dict.fromkeys(members, leaf)
            communities[leaf] = Community(id=leaf, level=0, parent="", children=(), members=tuple(members))
        path = [*_path_to_root(leaf, rows), ""]
        for id, parent in pairwise(path):
            known = communities.get(id) or Community(id=id, level=0, parent="", children=(), members=())
            communities[id] = replace(known, parent=parent, members=known.members if id == leaf else ())
    return {member: leaf for member, leaf in leaves.items() if communities[leaf].members}, _with_levels(communities)


def _members_of_leaves(rows: Mapping[str, ImportedCommunity], entities: Container[str]) -> dict[str, list[str]]:
    """Return the members of each leaf in the order of ids."""
    parents = {row.parent for row in rows.values()}
    given: dict[str, str] = {}
    for row in rows.values():
        for member in row.members if row.community not in parents else ():
            if member in entities:
                given.setdefault(member, row.community)
    members_of: dict[str, list[str]] = {}
    for member, leaf in sorted(given.items()):
        members_of.setdefault(leaf, []).append(member)
    return members_of


def _with_levels(communities: Mapping[str, Community]) -> dict[str, Community]:
    """Return the communities with levels by their parents."""
    levels = {"": -1}

    def level_of(id: str) -> int:
        if id not in levels:
            levels[id] = level_of(communities[id].parent) + 1
        return levels[id]

    return {id: replace(row, level=level_of(id)) for id, row in communities.items()}


def _path_to_root(leaf: str, rows: Mapping[str, ImportedCommunity]) -> list[str]:
    """Return a community and its known ancestors."""
    path = [leaf]
    while (parent := rows[path[-1]].parent) in rows and parent not in path:
        path.append(parent)
    return path


def _subject_id(description: SharedDescription, edits: graph_edits.GraphEdits) -> str:
    ids = [edits.entity_of(name) for name in description.names]
    return ids[0] if len(ids) == 1 else name_keys.relation_id(*ids[:2])


def _shared_documents(unit: TextUnit) -> Iterator[str]:
    for description in unit.descriptions:
        yield from description.documents
    for community in unit.communities:
        yield from community.documents


def _document_ids(folder: str, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({digests.hash_parts("/".join(filter(None, [folder, name]))) for name in names}))


def _report_sources(community: UnitCommunity, edits: graph_edits.GraphEdits) -> tuple[tuple[Reference, ...], ...]:
    """Return the rows that the summary and each finding name."""
    findings = ([_reference(names, edits) for names in finding.sources] for finding in community.findings)
    return ((), *(tuple(dict.fromkeys(references)) for references in findings))


def _reference(names: tuple[str, ...], edits: graph_edits.GraphEdits) -> Reference:
    ids = [edits.entity_of(name) if name else "" for name in names[:2]]
    if len(names) == 1:
        return "entities", ids[0]
    if len(names) == 2:
        return "relations", name_keys.relation_id(*ids)
    return "claims", digests.hash_parts(*ids, name_keys.name_key(names[2]))
