"""a snapshot + a part of a name, or an id -> a page of entities, relations, passages; the neighbours; a path.

Only the rows that are shown are read, so that a graph of any size can be browsed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Generic, TypeVar

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse.community_tree import CommunityTree, cut_excerpt, load_tree, table_or_empty
from kumihimo.core.records import Claim, Entity, Record, Relation
from kumihimo.core.spans import Span
from kumihimo.core.wiring import ROOT
from kumihimo.generation.quoting.drafts import name_value as name_value
from kumihimo.generation.quoting.overview import Overview, read_overview
from kumihimo.search.row_listing import Listing, list_rows
from kumihimo.text.name_keys import entity_id, name_key, relation_id

T = TypeVar("T")
R = TypeVar("R", bound=Record)
_EXCERPT = 300  # characters
_NAMES = ("name", "forms")


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """A page of a list.

    next: where the following page begins; empty: there is none.
    """

    items: tuple[T, ...]
    next: str = ""


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Entities near one another, with all relations between them.

    more: whether the first entity has further neighbours.
    """

    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]
    more: bool


def page_of(rows: Iterable[R], limit: int) -> ListPage[R]:
    """Return the first rows; the next page begins after the last."""
    taken = tuple(islice(rows, limit + 1))
    return ListPage(taken[:limit], taken[limit - 1].id if len(taken) > limit else "")


def browse_overview(snapshot: Snapshot, part: str = "") -> Overview | None:
    """Return the overview of the visible documents, read once per build.

    part: a folder or a time; None if no document is of it.
    """
    return read_overview(snapshot.tracer, part)


# -- entities


def list_entities(
    snapshot: Snapshot, text: str = "", *, kind: str = "", after: str = "", limit: int
) -> ListPage[Entity]:
    """Return entities, most mentions first.

    text: a part of a name; whole names come first, then whole words, then beginnings, then others. Without it, those
    that are named things. kind: the main type. after: the id of the last entity of the page before.
    """
    if not text.strip():
        ids = [id for id, own in named_entities(snapshot).items() if not kind or own == kind]
        first = (ids.index(after) + 1 if after in ids else len(ids)) if after else 0
        taken = ids[first : first + limit]
        rows: dict[str, Entity] = table_or_empty(snapshot, "entities").get_many(taken)
        return ListPage(tuple(rows[id] for id in taken), taken[-1] if len(ids) > first + limit else "")
    listing = Listing("mentions", True, text.strip(), _NAMES, {"type": kind} if kind else {})
    found: Iterator[Entity] = _list(snapshot, "entities", listing, after)
    return page_of((entity for entity in found if not kind or entity.type == kind), limit)


def named_entities(snapshot: Snapshot) -> dict[str, str]:
    """Return the types of the entities that are named things, by id.

    Those with most mentions come first. They are chosen once per build.
    """

    def choose() -> dict[str, str]:
        from kumihimo.index.rules.listed_names import select_named  # its patterns take long to compile

        named = select_named(table_or_empty(snapshot, "entities"))
        return {e.id: e.type for e in sorted(named, key=lambda e: (-e.mentions, e.name, e.id))}

    types: dict[str, str] = snapshot.db.once_per_build(("named", snapshot.rights, snapshot.filter), choose)
    return types


def count_listed(snapshot: Snapshot) -> dict[str, int]:
    """Return the number of entities that are named things, and of others."""
    named = len(named_entities(snapshot))
    return {"total": named, "other": len(table_or_empty(snapshot, "entities")) - named}


def search_entities(snapshot: Snapshot, text: str, limit: int) -> list[Entity]:
    """Return entities by the words of their descriptions, best first.

    Empty if the index has no keyword index of them.
    """
    if not snapshot.db.has("words_entities_postings"):
        return []
    found = snapshot.keyword_search()(snapshot.table("entities"), text, k=limit)
    return [item.record for item in found if isinstance(item.record, Entity)]


def find_entity(snapshot: Snapshot, name: str) -> Entity | None:
    """Return the entity with this id, name or form."""
    entities = table_or_empty(snapshot, "entities")
    entity: Entity | None = entities.get(name) or entities.get(entity_id(name_key(name)))
    if entity is None and name.strip():
        listing = Listing("mentions", True, " ".join(name.split()), _NAMES)
        listed: Iterator[Entity] = _list(snapshot, "entities", listing)
        entity = next((each for each in listed if _is_called(each, name)), None)
    return entity


def _is_called(entity: Entity, name: str) -> bool:
    return name_key(name) in map(name_key, (entity.name, *entity.forms))


def _list(snapshot: Snapshot, name: str, listing: Listing, after: str = "") -> Iterator[R]:
    if snapshot.db.has(name):
        yield from list_rows(snapshot.db, snapshot.table(name), listing, after)


# -- the graph around an entity


def list_relations(snapshot: Snapshot, entity: str, *, after: str = "", limit: int) -> ListPage[Relation]:
    """Return the relations of an entity, most mentions first."""
    listing = Listing("weight", True, any_of={"source": entity, "target": entity})
    return page_of(_list(snapshot, "relations", listing, after), limit)


def list_claims(snapshot: Snapshot, entity: str, limit: int) -> list[Claim]:
    """Return claims of which an entity is the subject or object."""
    claims = table_or_empty(snapshot, "claims")
    ids = dict.fromkeys([*claims.ids(subject=entity), *claims.ids(object=entity)])
    return list(claims.get_many(islice(ids, limit)).values())


def find_neighbours(snapshot: Snapshot, entity: Entity, limit: int) -> Neighbourhood:
    """Return an entity and its closest neighbours."""
    page = list_relations(snapshot, entity.id, limit=limit)
    others = [relation.target if relation.source == entity.id else relation.source for relation in page.items]
    found: dict[str, Entity] = table_or_empty(snapshot, "entities").get_many(others)
    return Neighbourhood((entity, *found.values()), relations_between(snapshot, [entity.id, *found]), bool(page.next))


def relations_between(snapshot: Snapshot, entities: Iterable[str]) -> tuple[Relation, ...]:
    """Return all relations between these entities, most mentions first."""
    ids = [relation_id(*pair) for pair in combinations(dict.fromkeys(entities), 2)]
    rows: dict[str, Relation] = table_or_empty(snapshot, "relations").get_many(ids)
    return tuple(sorted(rows.values(), key=lambda relation: (-relation.weight, relation.id)))


def list_passages(snapshot: Snapshot, entity: Entity, *, after: str = "", limit: int) -> ListPage[Span]:
    """Return excerpts of the chunks that mention an entity.

    after: the chunk of the last excerpt of the page before.
    """
    chunks = [id for id in _chunks_of(snapshot, entity) if id > after]
    rows = table_or_empty(snapshot, "chunks").get_many(chunks[:limit])
    forms = entity.forms or (entity.name,)
    spans = []
    for chunk in rows.values():
        (uri,) = snapshot.db.values(ROOT, chunk.document, "uri")
        spans.append(snapshot.tracer.locate(cut_excerpt(chunk, forms, uri, _EXCERPT)))
    return ListPage(tuple(spans), chunks[limit - 1] if len(chunks) > limit else "")


def count_passages(snapshot: Snapshot, entity: Entity) -> int:
    """Return the number of chunks that mention an entity.

    A chunk may mention it several times.
    """
    return len(_chunks_of(snapshot, entity))


def _chunks_of(snapshot: Snapshot, entity: Entity) -> dict[str, None]:
    mentions = table_or_empty(snapshot, "mentions").ids(entity=entity.id)
    return dict.fromkeys(id.rpartition(".")[0] for id in mentions)


# -- communities


def browse_communities(snapshot: Snapshot) -> CommunityTree:
    """Return the community tree, read once per build."""
    key = ("communities", snapshot.rights, snapshot.filter)
    tree: CommunityTree = snapshot.db.once_per_build(key, lambda: load_tree(snapshot))
    return tree


def communities_of(snapshot: Snapshot, entity: str) -> list[str]:
    """Return the communities of an entity, the largest first."""
    memberships = table_or_empty(snapshot, "members").ids(entity=entity)
    tree = browse_communities(snapshot) if memberships else None
    leaves = [id.rpartition(".")[0] for id in memberships]
    return [id for leaf in leaves if tree and leaf in tree.level for id in tree.ancestors(leaf)]
