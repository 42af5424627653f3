"""tables of several indexes -> one table: its ids name the index, where they begin with a document."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kumihimo.app.several.merged_evidence import drop_copies, name_evidence
from kumihimo.core.context import Context, Evidence
from kumihimo.core.index_names import id_in_index, split_id, uri_in_index
from kumihimo.core.table import Row, Rows, Table
from kumihimo.search.protocols import KeywordSearch, RowTokens, VectorSearch

_URI_COLUMNS = ("uri", "file")
_COUNT_COLUMNS = ("mentions",)  # of a row that several indexes have


@dataclass(frozen=True, slots=True)
class UnionRows:
    """The rows of the tables of one name in several indexes, in the order of the indexes.

    tables: of each index, by its name. is_named: whether its ids name the index, since they begin with a document.
    Other ids are digests of names: a row that several indexes have is that of the first, and its mentions are added.
    """

    tables: Mapping[str, Table[Any]]
    is_named: bool

    @property
    def parts(self) -> Mapping[str, Rows]:
        """Return the rows of each index."""
        return {index: table.rows for index, table in self.tables.items()}

    @property
    def columns(self) -> tuple[str, ...]:
        return next(iter(self.tables.values())).codec.columns

    def get(self, id: str) -> Row | None:
        return next(iter(self.get_many([id])), None)

    def get_many(self, ids: Sequence[str]) -> list[Row]:
        rows: dict[str, Row] = {}
        for index, name, own in self._by_index(ids):
            for row in self.parts[index].get_many(own):
                named = self._named(index, row, self.columns)
                id = id_in_index(name, row[0])
                rows.setdefault(id, (id, *named[1:]))
        return list(rows.values())

    def where(self, columns: tuple[str, ...], values: tuple[object, ...]) -> list[Row]:
        if columns == ("id",):
            return self.get_many([str(values[0])])
        found = ((index, row) for index, part in self.parts.items() for row in part.where(columns, values))
        return self._once((self._named(index, row, self.columns) for index, row in found), self.columns)

    def ids(self, columns: tuple[str, ...], values: tuple[object, ...]) -> list[str]:
        if columns == ("id",):
            return [row[0] for row in self.get_many([str(values[0])])]
        found = (self._name(index, id) for index, part in self.parts.items() for id in part.ids(columns, values))
        return list(dict.fromkeys(found))

    def ids_grouped(self, column: str, values: Sequence[str], limit: int | None = None) -> list[tuple[str, str]]:
        grouped: dict[str, list[str]] = defaultdict(list)
        for index, part in self.parts.items():
            for value, id in part.ids_grouped(column, values, limit):
                grouped[value].append(self._name(index, id))
        return [(value, id) for value, ids in grouped.items() for id in list(dict.fromkeys(ids))[:limit]]

    def child_values(self, parents: Sequence[str], column: str) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {parent: [] for parent in parents}
        for index, name, own in self._by_index(parents):
            for parent, values in self.parts[index].child_values(own, column).items():
                named = [self._name(index, value) for value in values] if column == "id" else values
                found[id_in_index(name, parent)] += named
        return found

    def pages(self, *columns: str) -> Iterator[list[Row]]:
        names = columns or self.columns
        if self.is_named:
            for index, part in self.parts.items():
                for page in part.pages(*columns):
                    yield [self._named(index, row, names) for row in page]
            return
        rows = (row for part in self.parts.values() for page in part.pages("id", *names) for row in page)
        if merged := self._once(rows, ("id", *names)):
            yield [row[1:] for row in merged]

    def count(self) -> int:
        if self.is_named:
            return sum(part.count() for part in self.parts.values())
        return len({id for part in self.parts.values() for page in part.pages("id") for (id,) in page})

    def _by_index(self, ids: Iterable[str]) -> Iterator[tuple[str, str, list[str]]]:
        """Yield indexes, the name that the ids have, and the ids there.

        An id without a name may be in any index.
        """
        ids_by_name: dict[str, list[str]] = defaultdict(list)
        for name, own_id in map(split_id, ids):
            ids_by_name[name].append(own_id)
        for name, own_ids in ids_by_name.items():
            if name in self.parts:
                yield name, name, own_ids
            elif not name and not self.is_named:
                yield from ((index, "", own_ids) for index in self.parts)

    def _name(self, index: str, id: str) -> str:
        return id_in_index(index, id) if self.is_named else id

    def _named(self, index: str, row: Row, columns: Sequence[str]) -> Row:
        """Return a row whose id and uri name the index."""
        if not self.is_named:
            return row
        names = {"id": id_in_index, **dict.fromkeys(_URI_COLUMNS, uri_in_index)}
        pairs = zip(columns, row, strict=True)
        return tuple(names[column](index, value) if column in names else value for column, value in pairs)

    def _once(self, rows: Iterable[Row], columns: Sequence[str]) -> list[Row]:
        """Return each row once, by its id, with counts added."""
        first: dict[str, Row] = {}
        for row in rows:
            known = first.setdefault(row[0], row)
            if known is not row:
                pairs = zip(columns, known, row, strict=True)
                first[row[0]] = tuple(a + b if column in _COUNT_COLUMNS else a for column, a, b in pairs)
        return list(first.values())


@dataclass(frozen=True, slots=True)
class UnionKeywordSearch:
    """Keyword search in tables of several indexes, by name.

    How rare a word is counts in each index by itself.
    """

    parts: Mapping[str, KeywordSearch]

    def __call__(self, table: Table[Any], text: str | Sequence[str], *, k: int) -> Context:
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
