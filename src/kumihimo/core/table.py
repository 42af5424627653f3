"""rows -> Table: immutable records of one class, by id, read lazily."""

import json
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from json.encoder import encode_basestring
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

from kumihimo.core.errors import KumiError, StepError, describe_unknown
from kumihimo.core.records import Record

R = TypeVar("R", bound=Record)
T = TypeVar("T")
Row = tuple[Any, ...]  # id, text, then the columns of the class, as SQLite values
MADE_FROM = "made_from"  # in a lookup: the id of the source row, with which ids begin
LookupRecorder = Callable[[str, tuple[str, ...], tuple[object, ...], bool], None]

_SQL = {str: "TEXT", int: "INTEGER", float: "REAL", bool: "INTEGER"}
_encode_json = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode


class Rows(Protocol):
    """The raw rows of one table, in any storage.

    Every result is sorted by id.
    """

    def get_many(self, ids: Sequence[str]) -> list[Row]: ...
    def where(self, columns: tuple[str, ...], values: tuple[object, ...]) -> list[Row]: ...
    def ids(self, columns: tuple[str, ...], values: tuple[object, ...]) -> list[str]: ...
    def ids_grouped(self, column: str, values: Sequence[str], limit: int | None = None) -> list[tuple[str, str]]: ...
    def child_values(self, parents: Sequence[str], column: str) -> dict[str, list[Any]]: ...
    def pages(self, *columns: str) -> Iterator[list[Row]]: ...
    def count(self) -> int: ...


class View(Protocol):
    """The visible rows of a table, if some documents are hidden.

    is_whole: whether a row is shown as it is stored. partial_rows: the rows that are shown otherwise, which no search
    index holds. once: a value that is computed once for the view.
    """

    def is_whole(self, id: str) -> bool: ...
    def partial_rows(self) -> Sequence[Row]: ...
    def once(self, key: Hashable, compute: Callable[[], T]) -> T: ...


class _NoRows:
    """The rows of a table not built yet."""

    def get_many(self, *_: Any, **__: Any) -> list[Any]:
        return []

    where = ids = ids_grouped = get_many

    def child_values(self, parents: Sequence[str], *_: Any) -> dict[str, list[Any]]:
        return {parent: [] for parent in parents}

    def pages(self, *_: Any, **__: Any) -> Iterator[list[Row]]:
        return iter(())

    def count(self) -> int:
        return 0


NO_ROWS: Rows = _NoRows()


@dataclass(frozen=True, slots=True)
class Codec(Generic[R]):
    """The conversion of records of one class to rows and back."""

    record: type[R]
    columns: tuple[str, ...]
    sql_types: tuple[str, ...]  # TEXT, INTEGER, REAL; JSON for everything else
    nullable: tuple[bool, ...]
    lookup_keys: tuple[tuple[str, ...], ...]  # column combinations allowed in lookups
    encode: Callable[[str, R], Row]
    decode: Callable[[Row], R]

    def index_texts(self, rows: Iterable[Row]) -> dict[str, str]:
        """Return the text of each row that searches find."""
        if self.record.index_text is Record.index_text:  # the column, without a record for each row
            return {row[0]: row[1] for row in rows if row[1]}
        return {row[0]: text for row in rows if (text := self.decode(row).index_text)}

    @property
    def indexes(self) -> Iterator[tuple[str, ...]]:
        """Yield the columns that need an index."""
        return (key for key in self.lookup_keys if key not in (("id",), (MADE_FROM,)))


_codecs: dict[type[Record], Codec[Any]] = {}


def codec(record: type[R]) -> Codec[R]:
    """Return the codec of a record class.

    Raises StepError for a column of an unsupported type.
    """
    if record not in _codecs:
        _codecs[record] = _build_codec(record)
    return _codecs[record]


def _build_codec(record: type[R]) -> Codec[R]:
    hints = get_type_hints(record)
    columns = tuple(f.name for f in fields(record))
    column_types = [_column_type(record, name, hints[name]) for name in columns]
    kinds = tuple(kind for kind, _, _ in column_types)
    json_loaders = {i: loader for i, (kind, _, loader) in enumerate(column_types) if kind == "JSON"}
    bools = {i for i, name in enumerate(columns) if hints[name] in (bool, bool | None)}
    loaders: dict[int, Callable[[Any], object]] = {**json_loaders, **dict.fromkeys(bools, bool)}
    value_loaders = {i - 2: load for i, load in loaders.items()}  # positions after id and text
    dumpers = [(i, _dump_strings if load is _load_strings else _encode_json) for i, load in json_loaders.items()]
    get_values = attrgetter(*columns[1:]) if len(columns) > 2 else lambda r: (r.text,)

    def encode(id: str, r: R) -> Row:
        row = [id, *get_values(r)]
        for i, dump in dumpers:
            row[i] = None if row[i] is None else dump(row[i])
        return tuple(row)

    def decode(row: Row) -> R:
        id, text, *values = row
        for i, load in value_loaders.items():
            if values[i] is not None:
                values[i] = load(values[i])
        return record(*values, id=id, text=text)

    return Codec(
        record, columns, kinds, tuple(null for _, null, _ in column_types), _lookup_keys(record), encode, decode
    )


def _lookup_keys(record: type[Record]) -> tuple[tuple[str, ...], ...]:
    indexed = [(entry,) if isinstance(entry, str) else entry for entry in record.INDEX]
    group = [(record.GROUP,)] if record.GROUP else []
    return (("id",), *dict.fromkeys([*group, *indexed]))


def _column_type(record: type[Record], name: str, hint: Any) -> tuple[str, bool, Callable[[str], object]]:
    """Return the SQL type, whether null is allowed, and a JSON decoder."""
    nullable = False
    if get_origin(hint) in (Union, types.UnionType):
        members = [member for member in get_args(hint) if member is not type(None)]
        if len(members) != 1:
            raise StepError(f"{record.__name__}.{name}: a column has one type, or one type and None; it is {hint}")
        hint, nullable = members[0], True
    if hint in _SQL:
        return _SQL[hint], nullable, json.loads
    if get_origin(hint) is tuple:
        return "JSON", nullable, _load_strings if get_args(hint) == (str, ...) else _load_frozen
    if get_origin(hint) in (dict, Mapping):
        return "JSON", nullable, json.loads
    raise StepError(f"{record.__name__}.{name}: a column is str, int, float, bool, a tuple or a Mapping; it is {hint}")


def _dump_strings(texts: Iterable[str]) -> str:
    """Encode a JSON list of texts, faster than `_encode_json`."""
    return f"[{','.join(map(encode_basestring, texts))}]"


def _load_strings(text: str) -> object:
    """Decode a JSON list of texts, faster than `_load_frozen`."""
    if text == "[]" or "\\" in text:
        return _load_frozen(text)
    return tuple(text[2:-2].split('","'))


def _load_frozen(text: str) -> object:
    return () if text == "[]" else _freeze(json.loads(text))


def _freeze(value: Any) -> Any:
    return tuple([_freeze(item) if type(item) is list else item for item in value]) if type(value) is list else value


def lookup_values(columns: Sequence[str], row: Row, key: Iterable[str]) -> list[Any]:
    """Return the values of a row in the columns of a lookup."""
    return [row[0].rpartition(".")[0] if name == MADE_FROM else row[columns.index(name)] for name in key]


def lookup_hash(table: str, columns: tuple[str, ...], values: Sequence[object]) -> int:
    """Return the signed 64-bit hash of a lookup, equal in every process."""
    text = "\x1f".join([table, *columns, *map(_value_text, values)])
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big", signed=True)


def _value_text(value: object) -> str:
    """Return the value as text: the same for True, 1 and 1.0.

    SQLite treats them as equal.
    """
    return repr(float(value)) if isinstance(value, int | float) else str(value)


@dataclass(slots=True, eq=False, repr=False)
class Table(Generic[R]):
    """Records of one class, ordered by id.

    In a row or group step a table allows lookups only, such as `get` and `where`. Each lookup is recorded, also if it
    finds nothing, so the call runs again when the result changes. `view` tells a search, which ranks stored rows, what
    the table shows of them; None: all.
    """

    name: str
    codec: Codec[R]
    rows: Rows
    record_lookup: LookupRecorder | None = None
    view: View | None = None

    def __iter__(self) -> Iterator[R]:
        for page in self._pages():
            yield from map(self.codec.decode, page)

    def __len__(self) -> int:
        self._check_iterable()
        return self.rows.count()

    def __bool__(self) -> bool:
        return len(self) > 0

    def __contains__(self, id: str) -> bool:
        return self.get(id) is not None

    def __getitem__(self, id: str) -> R:
        record = self.get(id)
        if record is None:
            raise KumiError(f"table {self.name} has no row {id!r}; it may have changed since: ask again")
        return record

    def get(self, id: str) -> R | None:
        """Return the record with this id, or None."""
        return self.get_many([id]).get(id)

    def get_many(self, ids: Iterable[str]) -> dict[str, R]:
        """Return the existing records by id, in the order of `ids`.

        Faster than single lookups.
        """
        unique_ids = list(dict.fromkeys(ids))
        rows = {row[0]: row for row in self.rows.get_many(unique_ids)} if unique_ids else {}
        if self.record_lookup:
            for id in unique_ids:
                self.record_lookup(self.name, ("id",), (id,), id in rows)
        return {id: self.codec.decode(rows[id]) for id in unique_ids if id in rows}

    def where(self, **conditions: object) -> list[R]:
        """Return the records with these column values.

        The columns are one entry of the class's INDEX, or its GROUP.
        """
        columns, values = self._lookup_key(conditions)
        rows = self.rows.where(columns, values)
        if self.record_lookup:
            self.record_lookup(self.name, columns, values, bool(rows))
        return list(map(self.codec.decode, rows))

    def ids(self, **conditions: object) -> list[str]:
        """Return the ids of matching records without reading their rows."""
        columns, values = self._lookup_key(conditions)
        ids = self.rows.ids(columns, values)
        if self.record_lookup:
            self.record_lookup(self.name, columns, values, bool(ids))
        return ids

    def ids_grouped(self, column: str, values: Iterable[str], *, limit: int | None = None) -> dict[str, list[str]]:
        """Return the ids for each of these values of one column.

        Faster than `ids` for each value. limit: the most ids for each value, the first ones.
        """
        ids_by_value: dict[str, list[str]] = {value: [] for value in values}
        columns, _ = self._lookup_key({column: ""})
        for value, id in self.rows.ids_grouped(column, list(ids_by_value), limit) if ids_by_value else ():
            ids_by_value[value].append(id)
        if self.record_lookup:
            for value, ids in ids_by_value.items():
                self.record_lookup(self.name, columns, (value,), bool(ids))
        return ids_by_value

    def where_grouped(self, column: str, values: Iterable[str]) -> dict[str, list[R]]:
        """Return the records for each of these values of one column.

        Faster than `where` for each value.
        """
        ids_by_value = self.ids_grouped(column, values)
        ids = [id for group in ids_by_value.values() for id in group]
        rows = {row[0]: row for row in self.rows.get_many(ids)} if ids else {}
        return {value: [self.codec.decode(rows[id]) for id in ids] for value, ids in ids_by_value.items()}

    def child_values(self, parents: Iterable[str], column: str) -> dict[str, list[Any]]:
        """Return a column of the rows made from each parent.

        The ids of these rows begin with the id of the parent; the values are ordered by id. Not allowed in row and
        group steps, which would have to record the lookups.
        """
        self._check_iterable()
        self._check_column(column)
        return self.rows.child_values(list(dict.fromkeys(parents)), column)

    def _lookup_key(self, conditions: Mapping[str, object]) -> tuple[tuple[str, ...], tuple[object, ...]]:
        columns = next((entry for entry in self.codec.lookup_keys if set(entry) == set(conditions)), None)
        if columns is None:
            available = [",".join(entry) for entry in self.codec.lookup_keys]
            raise StepError(f"table {self.name}: {describe_unknown('index', ','.join(conditions), available)}")
        return columns, tuple(conditions[column] for column in columns)

    def columns(self, *names: str) -> Iterator[Row]:
        """Yield raw tuples of some columns, faster than records."""
        for name in names:
            self._check_column(name)
        for page in self._pages(*names):
            yield from page

    def _check_column(self, name: str) -> None:
        if name not in self.codec.columns:
            raise StepError(f"table {self.name}: {describe_unknown('column', name, self.codec.columns)}")

    def _pages(self, *names: str) -> Iterator[list[Row]]:
        self._check_iterable()
        return self.rows.pages(*names)

    def _check_iterable(self) -> None:
        if self.record_lookup:
            raise StepError(f"table {self.name} allows only `get` and `where` here; only whole-table steps iterate")


@dataclass(slots=True, eq=False, repr=False)
class JobTable(Table[R]):
    """A table that does not change during a job, whose keys are often ids of its rows.

    So each row is read once, and those with the keys of the job together.
    """

    keys: Sequence[str] = ()
    known: dict[str, R | None] = field(default_factory=dict)

    def get_many(self, ids: Iterable[str]) -> dict[str, R]:
        unique_ids = list(dict.fromkeys(ids))
        if new := [id for id in unique_ids if id not in self.known]:
            keys = () if len(new) > 1 or new[0] not in self.keys else self.keys
            new = [*dict.fromkeys([*new, *(key for key in keys if key not in self.known)])]
            self.known |= dict.fromkeys(new) | {row[0]: self.codec.decode(row) for row in self.rows.get_many(new)}
        found = {id: record for id in unique_ids if (record := self.known[id]) is not None}
        if self.record_lookup:
            for id in unique_ids:
                self.record_lookup(self.name, ("id",), (id,), id in found)
        return found


class Group(tuple[R, ...]):
    """The rows of one group, sorted by id; never empty."""

    __slots__ = ()
