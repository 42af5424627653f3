"""two entities -> the shortest path of relations between them, searched from both ends."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse.community_tree import table_or_empty
from kumihimo.core.records import Entity, Relation

MAX_ROWS = 50_000  # relations that a search reads: about a second


@dataclass(frozen=True, slots=True)
class GraphPath:
    """The entities from one to another, with the relation of each pair.

    Without entities, none was found. complete: whether all relations on the way were read; if not, there may be a path,
    or a shorter one.
    """

    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()
    complete: bool = True


@dataclass(slots=True)
class _Side:
    """One end of the search: how each entity was reached, and the outermost ones."""

    reached: dict[str, Relation | None]
    edge: list[str]
    depth: dict[str, int]

    @classmethod
    def of(cls, entity: str) -> "_Side":
        return cls({entity: None}, [entity], {entity: 0})

    def walk_back(self, entity: str) -> Iterator[tuple[str, Relation]]:
        """Yield each step from an entity to the end of this side."""
        while relation := self.reached[entity]:
            entity = _other_end(relation, entity)
            yield entity, relation


@dataclass(slots=True)
class _Search:
    """A search for one path, with what it may still read."""

    snapshot: Snapshot
    rows_left: int
    complete: bool = field(default=True)

    def expand(self, side: _Side, other: _Side) -> list[str]:
        """Go one step further; return where it meets the other side."""
        edge, new = frozenset(side.edge), list[str]()
        for relation in self._relations_of(side.edge):
            for here in (relation.source, relation.target):
                there = _other_end(relation, here)
                if here in edge and there not in side.reached:
                    side.reached[there], side.depth[there] = relation, side.depth[here] + 1
                    new.append(there)
        side.edge = new
        return [entity for entity in new if entity in other.reached]

    def _relations_of(self, entities: Iterable[str]) -> list[Relation]:
        """Return the relations of these entities, most mentions first."""
        table = table_or_empty(self.snapshot, "relations")
        ids: dict[str, None] = {}
        for column in ("source", "target"):
            for found in table.ids_grouped(column, entities).values():
                ids |= dict.fromkeys(found)
        self.complete = self.complete and len(ids) <= self.rows_left
        rows = table.get_many(list(ids)[: self.rows_left])
        self.rows_left -= len(rows)
        return sorted(rows.values(), key=lambda relation: (-relation.weight, relation.id))


def find_path(snapshot: Snapshot, start: Entity, end: Entity, *, max_rows: int = MAX_ROWS) -> GraphPath:
    """Return the shortest path between two entities.

    Of equally short ones, it takes relations with many mentions. max_rows: relations that are read at most.
    """
    if start.id == end.id:
        return GraphPath((start,))
    search, near, far = _Search(snapshot, max_rows), _Side.of(start.id), _Side.of(end.id)
    while near.edge and far.edge and search.rows_left > 0:
        side, other = (near, far) if len(near.edge) <= len(far.edge) else (far, near)
        if meetings := search.expand(side, other):
            middle = min(meetings, key=lambda entity: near.depth[entity] + far.depth[entity])
            return _join(snapshot, near, middle, far, complete=search.complete)
    return GraphPath(complete=search.complete and search.rows_left > 0)


def _join(snapshot: Snapshot, near: _Side, middle: str, far: _Side, *, complete: bool) -> GraphPath:
    first, second = list(near.walk_back(middle))[::-1], list(far.walk_back(middle))
    ids = [*(entity for entity, _ in first), middle, *(entity for entity, _ in second)]
    entities = table_or_empty(snapshot, "entities").get_many(ids)
    relations = [relation for _, relation in (*first, *second)]
    return GraphPath(tuple(entities[id] for id in ids), tuple(relations), complete)


def _other_end(relation: Relation, entity: str) -> str:
    return relation.target if relation.source == entity else relation.source
