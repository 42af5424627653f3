"""the tables of the entity graph -> what all who show it share: the tree of communities, references, excerpts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kumihimo.app.snapshot import RECORD_TYPES, Snapshot
from kumihimo.core.records import Chunk, Entity, Reference, Report
from kumihimo.core.spans import Span
from kumihimo.core.table import NO_ROWS, Table, codec
from kumihimo.index.data_refs import split_at_references

TextParts = list[str | list[Reference]]  # text, and in it what it refers to


def table_or_empty(snapshot: Snapshot, name: str) -> Table[Any]:
    """A table of the index; one without rows where it has not been built."""
    return snapshot.table(name) if snapshot.db.has(name) else Table(name, codec(RECORD_TYPES[name]), NO_ROWS)


@dataclass(frozen=True)
class CommunityTree:
    """The communities, from those of level 0 down to their leaves."""

    level: Mapping[str, int]
    parent: Mapping[str, str]
    children: Mapping[str, tuple[str, ...]]
    members: Mapping[str, tuple[str, ...]]  # of leaves

    @cached_property
    def leaf_by_entity(self) -> dict[str, str]:
        """Of each entity, the leaf it belongs to."""
        return {entity: leaf for leaf, entities in self.members.items() for entity in entities}

    @cached_property
    def size(self) -> dict[str, int]:
        """Of each community, how many entities are in it."""
        found: dict[str, int] = {}
        for id in sorted(self.level, key=lambda id: (-self.level[id], id)):
            found[id] = len(self.members[id]) + sum(found[child] for child in self.children[id])
        return found

    @property
    def depth(self) -> int:
        """How many levels there are."""
        return max(self.level.values(), default=-1) + 1

    def roots(self) -> list[str]:
        """Those of level 0, largest first."""
        return self.sort_by_size(id for id, parent in self.parent.items() if not parent)

    def sorted_children(self, id: str) -> list[str]:
        """The parts of a community, largest first."""
        return self.sort_by_size(self.children[id])

    def sort_by_size(self, ids: Iterable[str]) -> list[str]:
        return sorted(ids, key=lambda id: (-self.size[id], id))

    def ancestors(self, id: str) -> list[str]:
        """The community itself and those it is part of, from level 0 down."""
        found = [id]
        while parent := self.parent[found[-1]]:
            found.append(parent)
        return found[::-1]

    def at_level(self, level: int) -> list[str]:
        """Every entity once: the communities of that level, and those of lower levels that are not split."""
        return self.sort_by_size(
            id for id, n in self.level.items() if n == level or (n < level and not self.children[id])
        )

    def entities(self, id: str) -> Iterator[str]:
        """All that are in a community."""
        yield from self.members[id]
        for child in self.children[id]:
            yield from self.entities(child)

    def entity_path(self, entity: str) -> list[str]:
        """The communities an entity is in, by level: on each level one, its leaf again where it is split no further."""
        if entity not in self.leaf_by_entity:
            return []
        found = self.ancestors(self.leaf_by_entity[entity])
        return found + found[-1:] * (self.depth - len(found))


def load_tree(snapshot: Snapshot) -> CommunityTree:
    """The communities of the index; none where they have not been built."""
    level, parent, children, members = {}, {}, {}, {}
    for community in table_or_empty(snapshot, "communities"):
        level[community.id], parent[community.id] = community.level, community.parent
        children[community.id], members[community.id] = community.children, community.members
    return CommunityTree(level, parent, children, members)


def split_references(text: str, report: Report) -> TextParts:
    """A part of a report, with what its `[Data: ...]` refer to; what points nowhere is left out.

    >>> from kumihimo.core.records import Report
    >>> data = (("entities", 5, "e5"), ("relations", 23, "r23"))
    >>> report = Report("", "", 0.0, "", (), data, 0, 0, 0, 0, False)
    >>> said("It leaks [Data: Entities (5, 8); Relationships (23, +more)].", report)
    ['It leaks ', [('entities', 'e5'), ('relations', 'r23')], '.']
    >>> said("Nobody knows [Data: Entities (9)].", report)
    ['Nobody knows', '.']
    """
    ids = {(table, number): id for table, number, id in report.data}
    found: TextParts = []
    for stretch, space, named in split_at_references(text):
        meant = dict.fromkeys((t, ids[t, n]) for t, numbers in named.items() for n in numbers if (t, n) in ids)
        found += [f"{stretch}{space}", list(meant)] if meant else [stretch]
    return [part for part in found if part]


def name_references(text: str, report: Report, names: Mapping[Reference, str]) -> str:
    """A part of a report with the names of what it refers to in place of their numbers."""
    parts = split_references(text, report)
    return "".join(p if isinstance(p, str) else f"[{'; '.join(names.get(ref, ref[1]) for ref in p)}]" for p in parts)


def reference_names(snapshot: Snapshot, report: Report) -> dict[Reference, str]:
    """What the rows that a report refers to are called."""
    return {reference: display_name(snapshot, reference) for reference in report.citations()}


def display_name(snapshot: Snapshot, reference: Reference) -> str:
    """The name of an entity, both of a relation or a claim, the title of a report, the place of a chunk; or its id."""
    record = table_or_empty(snapshot, reference[0]).get(reference[1])
    if record is None:
        return reference[1]
    if reference[0] == "chunks":
        return ", ".join(filter(None, next((span.uri, span.place) for span in snapshot.trace(reference))))
    if reference[0] in ("relations", "claims"):
        return " – ".join(filter(None, record.names))
    return str(getattr(record, "name", "") or getattr(record, "title", "") or record.id)


def document_uris(snapshot: Snapshot) -> dict[str, str]:
    """Where each document stands, by its id."""
    return dict(table_or_empty(snapshot, "documents").columns("id", "uri"))


def entity_excerpts(snapshot: Snapshot, uris: Mapping[str, str], entity: Entity, limit: int, width: int) -> list[Span]:
    """Where the documents speak of an entity: a few words around its name, at first one place of each document."""
    chunks = dict.fromkeys(id.rpartition(".")[0] for id in table_or_empty(snapshot, "mentions").ids(entity=entity.id))
    firsts = {id.partition(".")[0]: id for id in reversed(chunks)}.values()
    chosen = list(dict.fromkeys([*sorted(firsts), *chunks]))[:limit]
    found = (table_or_empty(snapshot, "chunks").get(id) for id in chosen)
    forms = entity.forms or (entity.name,)
    return [snapshot.locate(cut_excerpt(c, forms, uris[c.document], width)) for c in found if c and c.document in uris]


def cut_excerpt(chunk: Chunk, forms: Sequence[str], uri: str, width: int) -> Span:
    """So many characters of a chunk at most, with the name in them, from a word's beginning to a word's end.

    >>> text = "They say that Orrell mended the old net."
    >>> chunk = Chunk(id="d.00000", title="", start=100, end=140, tokens=9, text=text)
    >>> around(chunk, ["Orrell"], "notes/a.md", 22).text, around(chunk, ["Orrell"], "notes/a.md", 22).start
    ('that Orrell mended', 109)
    """
    lower = chunk.text.lower()
    at = max(min((i for form in forms if (i := lower.find(form.lower())) >= 0), default=0), 0)
    begin = max(0, min(at - width // 3, len(chunk.text) - width))
    end = min(len(chunk.text), begin + width)
    if begin and (space := re.search(r"\s", chunk.text[begin:at])):
        begin += space.end()
    if end < len(chunk.text) and (space := re.search(r"\s\S*$", chunk.text[at:end])) and space.start() > width // 3:
        end = at + space.start()
    return Span(chunk.id, uri, chunk.start + begin, chunk.start + end, chunk.text[begin:end])
