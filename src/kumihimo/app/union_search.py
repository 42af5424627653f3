"""the searches of several indexes -> one search of all: for a method whose graph leads from one index to another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kumihimo.app.merged_evidence import drop_copies, name_evidence
from kumihimo.app.union_tables import UnionRows
from kumihimo.core.context import Context, Evidence
from kumihimo.core.index_names import id_in_index, split_id
from kumihimo.core.table import Table
from kumihimo.search.protocols import KeywordSearch, RowTokens, VectorSearch


@dataclass(frozen=True, slots=True)
class UnionKeywordSearch:
    """Keyword search in tables of several indexes, by name.

    How rare a word is counts in each index by itself.
    """

    parts: Mapping[str, KeywordSearch]

    def __call__(self, table: Table[Any], text: str, *, k: int) -> Context:
        found = {index: self.parts[index](own, text, k=k) for index, own in part_tables(table).items()}
        return merge_hits(table, found, k)

    def tokens(self, table: Table[Any], ids: Sequence[str]) -> dict[str, RowTokens]:
        tables, found = part_tables(table), dict[str, RowTokens]()
        for index, own_ids in _ids_by_index(ids).items():
            own = self.parts[index].tokens(tables[index], own_ids)
            found |= {id_in_index(index, id): row for id, row in own.items()}
        return found


@dataclass(frozen=True, slots=True)
class UnionVectorSearch:
    """Vector search in tables of several indexes, which one model has embedded."""

    parts: Mapping[str, VectorSearch]

    def __call__(
        self, table: Table[Any], text: str | Sequence[str], *, k: int, candidate_ids: Collection[str] | None = None
    ) -> Context:
        by_index = None if candidate_ids is None else _ids_by_index(candidate_ids)
        found = {
            index: self.parts[index](own, text, k=k, candidate_ids=_candidates(by_index, index))
            for index, own in part_tables(table).items()
        }
        return merge_hits(table, found, k)

    def search_many(
        self, table: Table[Any], texts: Sequence[str], *, k: int, candidate_ids: Collection[str] | None = None
    ) -> list[Context]:
        by_index = None if candidate_ids is None else _ids_by_index(candidate_ids)
        found = {
            index: self.parts[index].search_many(own, texts, k=k, candidate_ids=_candidates(by_index, index))
            for index, own in part_tables(table).items()
        }
        return [merge_hits(table, {index: own[n] for index, own in found.items()}, k) for n in range(len(texts))]


def part_tables(table: Table[Any]) -> Mapping[str, Table[Any]]:
    """Return the tables of the indexes behind one table."""
    assert isinstance(table.rows, UnionRows)
    return table.rows.tables


def merge_hits(table: Table[Any], found: Mapping[str, Context], k: int) -> Context:
    """Return the best hits of all by score, ties by id."""
    assert isinstance(table.rows, UnionRows)
    is_named = table.rows.is_named
    hits: list[Evidence] = [
        name_evidence(index, item) if is_named else item for index, context in found.items() for item in context
    ]
    ranked = sorted(hits, key=lambda item: (-item.score, item.reference))
    return drop_copies(Context(tuple(ranked)), [*found]).top(k)


def _ids_by_index(ids: Iterable[str]) -> dict[str, list[str]]:
    """Return the ids in each index; without a name, at ""."""
    by_index: dict[str, list[str]] = defaultdict(list)
    for index, id in map(split_id, ids):
        by_index[index].append(id)
    return by_index


def _candidates(by_index: Mapping[str, list[str]] | None, index: str) -> list[str] | None:
    return None if by_index is None else [*by_index.get(index, ()), *by_index.get("", ())]
