"""a chunk -> what the steps of the graph get with it: its names, and the merges of its document."""

from __future__ import annotations

from dataclasses import replace

from kumihimo.core.records import Chunk
from kumihimo.core.table import Group, Table
from kumihimo.index import name_resolution
from kumihimo.index.chunk_background import Description
from kumihimo.index.imports import ImportedUnit
from kumihimo.index.name_records import ChunkNames, NameMerges
from tests.factories_tables import table


def merges_of(*chunks: Chunk, aliases: tuple[str, ...] = ()) -> Table[NameMerges]:
    """Return the merges of one document."""
    names = [replace(name_resolution.names(chunk, None), id=chunk.id) for chunk in chunks]
    row = name_resolution.merges(Group(names), table(Chunk, chunks), aliases=aliases)
    return table(NameMerges, [replace(row, id=names[0].document)] if row else [])


Inputs = tuple[Chunk, Table[Chunk], Table[ChunkNames], Table[NameMerges], Table[Description], Table[ImportedUnit]]


def inputs(chunk: Chunk, *others: Chunk) -> Inputs:
    """Return the chunk and its tables. others: the rest of its document."""
    names = replace(name_resolution.names(chunk, None), id=chunk.id)
    chunks = table(Chunk, [chunk, *others])
    return (
        chunk,
        chunks,
        table(ChunkNames, [names]),
        merges_of(chunk, *others),
        table(Description, []),
        table(ImportedUnit, []),
    )
