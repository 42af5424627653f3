"""entities and relations in a few words -> the tables of a graph, alone or in an index of its documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kumihimo.core.digests import hash_parts
from kumihimo.core.records import Chunk, Community, Document, Entity, Member, Mention, Record, Relation, RelationMention
from kumihimo.core.table import Table, codec
from kumihimo.storage.database import SqlRows
from kumihimo.storage.ledger import SqlLedger
from kumihimo.text import name_keys
from tests.stores import open_store

_KINDS: dict[str, tuple[Any, str, str]] = {  # what each table holds, and what its rows are keyed by
    "documents": (Document, "", ""),
    "chunks": (Chunk, "documents", "id"),
    "mentions": (Mention, "chunks", "id"),
    "ties": (RelationMention, "chunks", "id"),
    "entities": (Entity, "mentions", "entity"),
    "relations": (Relation, "ties", "relation"),
    "communities": (Community, "", ""),
    "members": (Member, "communities", ""),
}


def id(name: str) -> str:
    """Of the entity of that name."""
    return name_keys.entity_id(name_keys.name_key(name))


def entity(name: str, *types: str, text: str = "", mentions: int = 1, forms: Sequence[str] = ()) -> Entity:
    kinds = types or ("person",)
    return Entity(
        id=id(name),
        name=name,
        type=kinds[0],
        forms=(name, *forms),
        types=kinds,
        mentions=mentions,
        tokens=len(text.split()),
        text=text,
    )


def relation(one: str, other: str, text: str = "", weight: int = 1) -> Relation:
    (source, first), (target, second) = sorted((id(name), name) for name in (one, other))
    made = name_keys.relation_id(source, target)
    return Relation(
        id=made,
        source=source,
        target=target,
        names=(first, second),
        keywords=(),
        weight=weight,
        strength=None,
        tokens=len(text.split()),
        text=text,
    )


def mention(chunk: str, n: int, name: str) -> Mention:
    return Mention(id=f"{chunk}.{n:05}", entity=id(name), name=name, type="person")


def document(uri: str, *texts: str) -> tuple[Document, list[Chunk]]:
    """One document of these chunks."""
    whole = "\n".join(texts)
    made = Document(id=hash_parts(uri), uri=uri, file=uri, title="", media_type="text/plain", text=whole)
    starts = [sum(len(text) + 1 for text in texts[:i]) for i in range(len(texts))]
    chunks = [
        Chunk(id=f"{made.id}.{i:05}", title="", start=at, end=at + len(text), tokens=len(text.split()), text=text)
        for i, (at, text) in enumerate(zip(starts, texts, strict=True))
    ]
    return made, chunks


def put(folder: Path, tables: Mapping[str, Iterable[Record]]) -> None:
    """Make these the tables of the index in that folder, beside those that it has."""
    with open_store(folder).write_transaction() as db:
        ledger = SqlLedger(db)
        for name, records in tables.items():
            record, source, key = _KINDS[name]
            code = codec(record)
            ledger.ensure_table(name, code, source, key)
            old = [row for page in ledger.rows(name).pages() for row in page]
            ledger.change(name, old, [code.encode(row.id, row) for row in sorted(records, key=lambda row: row.id)])
            ledger.settle(name)


@contextmanager
def graph(
    folder: Path, entities: Iterable[Entity], relations: Iterable[Relation] = ()
) -> Iterator[tuple[Table[Entity], Table[Relation]]]:
    """The two tables, as they are read."""
    put(folder, {"entities": entities, "relations": relations})
    store = open_store(folder)
    with store.read_transaction() as db:
        yield (
            Table("entities", codec(Entity), SqlRows(db, "entities")),
            Table("relations", codec(Relation), SqlRows(db, "relations")),
        )
    store.close()
