"""graph tables -> the community tree, resolved references and excerpts: shared by all displays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.core.records import Chunk, Community, Entity, Reference, Report
from kumihimo.core.spans import Span
from kumihimo.core.table import NO_ROWS, Table, codec
from kumihimo.index.communities import communities_at_level, deepest_level
from kumihimo.index.data_refs import sources_of

if TYPE_CHECKING:
    from kumihimo.app.opened.results import CommunityLevel

SOURCE_LEVEL = "TS"  # the source texts, as in the paper


def table_or_empty(snapshot: Snapshot, name: str) -> Table[Any]:
    """Return a table of the index; an empty one if not built."""
    return snapshot.table(name) if snapshot.db.has(name) else Table(name, codec(snapshot.record_types[name]), NO_ROWS)


@dataclass(frozen=True)
class CommunityTree:
    """The communities, from level 0 down to the leaves."""

    level: Mapping[str, int]
    parent: Mapping[str, str]
    children: Mapping[str, tuple[str, ...]]
    members: Mapping[str, tuple[str, ...]]  # of leaves

    @cached_property
    def leaf_by_entity(self) -> dict[str, str]:
        """Return the leaf community of each entity."""
        return {entity: leaf for leaf, entities in self.members.items() for entity in entities}

    @cached_property
    def size(self) -> dict[str, int]:
        """Return the number of entities in each community."""
        sizes: dict[str, int] = {}
        for id in sorted(self.level, key=lambda id: (-self.level[id], id)):
            sizes[id] = len(self.members[id]) + sum(sizes[child] for child in self.children[id])
        return sizes

    @property
    def depth(self) -> int:
        """Return the number of levels."""
        return max(self.level.values(), default=-1) + 1

    def roots(self) -> list[str]:
        """Return the communities of level 0, largest first."""
        return self.sort_by_size(id for id, parent in self.parent.items() if not parent)

    def sorted_children(self, id: str) -> list[str]:
        """Return the children of a community, largest first."""
        return self.sort_by_size(self.children[id])

    def sort_by_size(self, ids: Iterable[str]) -> list[str]:
        return sorted(ids, key=lambda id: (-self.size[id], id))

    def ancestors(self, id: str) -> list[str]:
        """Return the path from level 0 to the community itself."""
        path = [id]
        while parent := self.parent[path[-1]]:
            path.append(parent)
        return path[::-1]

    def at_level(self, level: int) -> list[str]:
        """Return communities that cover each entity once at this level.

        They are the communities of the level, and leaves above it.
        """
        return self.sort_by_size(
            id for id, n in self.level.items() if n == level or (n < level and not self.children[id])
        )

    def entities(self, id: str) -> Iterator[str]:
        """Yield all entities in a community."""
        yield from self.members[id]
        for child in self.children[id]:
            yield from self.entities(child)

    def entity_path(self, entity: str) -> list[str]:
        """Return the communities of an entity, one for each level.

        On levels below its leaf, the leaf repeats.
        """
        if entity not in self.leaf_by_entity:
            return []
        path = self.ancestors(self.leaf_by_entity[entity])
        return path + path[-1:] * (self.depth - len(path))


def load_tree(snapshot: Snapshot) -> CommunityTree:
    """Return the communities of the index; empty if not built."""
    level, parent, children, members = {}, {}, {}, {}
    for community in table_or_empty(snapshot, "communities"):
        level[community.id], parent[community.id] = community.level, community.parent
        children[community.id], members[community.id] = community.children, community.members
    return CommunityTree(level, parent, children, members)


def part_sources(report: Report, part: int) -> tuple[Reference, ...]:
    """Return the distinct sources of the summary (0) or a finding."""
    return tuple(dict.fromkeys(sources_of(report, part)))


def maker_of(report: Report) -> str:
    """Return what made a report: model or rows."""
    return "model" if report.written_with else "rows"


def reference_names(snapshot: Snapshot, report: Report) -> dict[Reference, str]:
    """Return display names of the rows that a report cites."""
    return {reference: display_name(snapshot, reference) for reference in report.citations()}


def display_name(snapshot: Snapshot, reference: Reference) -> str:
    """Return the display name of a row.

    An entity's name, both ends of a relation or claim, a report's title, a chunk's place, or else the id.
    """
    record = table_or_empty(snapshot, reference[0]).get(reference[1])
    if record is None:
        return reference[1]
    if reference[0] == "chunks":
        return ", ".join(filter(None, next((span.uri, span.place) for span in snapshot.trace(reference))))
    if reference[0] in ("relations", "claims"):
        return " – ".join(filter(None, record.names))
    return str(getattr(record, "name", "") or getattr(record, "title", "") or record.id)


def document_uris(snapshot: Snapshot) -> dict[str, str]:
    """Return the URI of each document, by id."""
    return dict(table_or_empty(snapshot, "documents").columns("id", "uri"))


def entity_excerpts(snapshot: Snapshot, uris: Mapping[str, str], entity: Entity, limit: int, width: int) -> list[Span]:
    """Return excerpts that mention an entity, one document after the other.

    Each document gives one excerpt before any gives a second.
    """
    chunks = dict.fromkeys(id.rpartition(".")[0] for id in table_or_empty(snapshot, "mentions").ids(entity=entity.id))
    first_chunks = {id.partition(".")[0]: id for id in reversed(chunks)}.values()
    chunk_ids = list(dict.fromkeys([*sorted(first_chunks), *chunks]))[:limit]
    rows = (table_or_empty(snapshot, "chunks").get(id) for id in chunk_ids)
    forms = entity.forms or (entity.name,)
    return [
        snapshot.tracer.locate(cut_excerpt(chunk, forms, uris[chunk.document], width))
        for chunk in rows
        if chunk and chunk.document in uris
    ]


def cut_excerpt(chunk: Chunk, forms: Sequence[str], uri: str, width: int) -> Span:
    """Return an excerpt around the name, cut at word boundaries.

    width: maximum characters.

    >>> text = "They say that Orrell mended the old net."
    >>> chunk = Chunk(id="d.00000", title="", start=100, end=140, tokens=9, text=text)
    >>> excerpt = cut_excerpt(chunk, ["Orrell"], "notes/a.md", 22)
    >>> excerpt.text, excerpt.start
    ('that Orrell mended', 109)
    """
    lower = chunk.text.lower()
    name_start = max(min((i for form in forms if (i := lower.find(form.lower())) >= 0), default=0), 0)
    start = max(0, min(name_start - width // 3, len(chunk.text) - width))
    end = min(len(chunk.text), start + width)
    if start and (space := re.search(r"\s", chunk.text[start:name_start])):
        start += space.end()
    if (
        end < len(chunk.text)
        and (space := re.search(r"\s\S*$", chunk.text[name_start:end]))
        and space.start() > width // 3
    ):
        end = name_start + space.start()
    return Span(chunk.id, uri, chunk.start + start, chunk.start + end, chunk.text[start:end])


def measure_levels(communities: Table[Community], reports: Table[Report], chunks: Table[Chunk]) -> list[CommunityLevel]:
    """Return what each level and the source would cost to read.

    (GraphRAG, arXiv:2404.16130, table 2.) Leaf communities repeat on deeper levels, so every level covers all entities.
    """
    all_communities = list(communities)
    report_tokens: dict[str, int] = dict(reports.columns("id", "tokens"))
    texts = [tokens for (tokens,) in chunks.columns("tokens")]
    results = []
    for level in range(deepest_level(all_communities) + 1 if all_communities else 0):
        sizes = [report_tokens[c.id] for c in communities_at_level(all_communities, level) if c.id in report_tokens]
        results.append(_measure_level(f"C{level}", sizes, sum(texts)))
    return [*results, _measure_level(SOURCE_LEVEL, texts, sum(texts))]


def _measure_level(name: str, sizes: list[int], source: int) -> CommunityLevel:
    from kumihimo.app.opened.results import CommunityLevel

    return CommunityLevel(name, len(sizes), sum(sizes), 100 * sum(sizes) / source if source else 0.0)


def index_levels(snapshot: Snapshot) -> tuple[CommunityLevel, ...]:
    """Return the levels of an index; empty without reports."""
    tables = ("communities", "reports", "chunks")
    if not all(map(snapshot.db.has, tables)):
        return ()
    return tuple(measure_levels(*map(snapshot.table, tables)))
