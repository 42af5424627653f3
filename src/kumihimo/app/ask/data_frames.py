"""a table of an index -> a table of Arrow or a data frame of pandas."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, get_type_hints

from kumihimo.core.errors import KumiError
from kumihimo.core.records import Record
from kumihimo.core.table import Table
from kumihimo.text.packages import loading_extra

_BATCH_ROWS = 10_000  # converted at once


def to_arrow(table: Table[Any]) -> Any:
    """Return all rows of a table as an Arrow table.

    They are in the order of their ids. Numbers, truth values and lists of names keep their types. Other lists and
    mappings become JSON. Raises KumiError without pyarrow.
    """
    with loading_frames("parquet", "pyarrow"):
        import pyarrow
    columns = table.codec.columns
    schema = arrow_schema(table.codec.record, columns)
    rows = (tuple(getattr(record, column) for column in columns) for record in table)
    return pyarrow.Table.from_batches(arrow_batches(rows, schema), schema=schema)


def to_pandas(table: Table[Any]) -> Any:
    """Return all rows of a table as a data frame.

    Its index is the id. Types are those of `to_arrow`. Raises KumiError without pandas.
    """
    with loading_frames("frames", "pandas"):
        import pandas  # noqa: F401 (pyarrow needs it)
    return to_arrow(table).to_pandas().set_index("id")


@contextmanager
def loading_frames(extra: str, package: str) -> Iterator[None]:
    """Turn a missing package into an error with the remedy."""
    try:
        with loading_extra(extra, package):
            yield
    except ModuleNotFoundError as error:
        raise KumiError(f"{package} is not installed: `pip install 'kumihimo[{extra}]'`") from error


def arrow_schema(record: type[Record], columns: Sequence[str]) -> Any:
    """Return the Arrow types of these columns."""
    import pyarrow

    types: dict[Any, Any] = {bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64()}
    types |= {python_type | None: arrow_type for python_type, arrow_type in types.items()}
    types[tuple[str, ...]] = pyarrow.list_(pyarrow.string())
    hints: Mapping[str, Any] = get_type_hints(record)
    return pyarrow.schema([(column, types.get(hints.get(column), pyarrow.string())) for column in columns])


def arrow_batches(rows: Iterable[Sequence[object]], schema: Any) -> Iterator[Any]:
    """Yield the rows in batches of this schema."""
    import pyarrow

    pending = iter(rows)
    while batch := list(islice(pending, _BATCH_ROWS)):
        columns = [[_value(row[i], field) for row in batch] for i, field in enumerate(schema)]
        yield pyarrow.record_batch(columns, schema=schema)


def _value(value: object, field: Any) -> object:
    import pyarrow

    if not isinstance(value, tuple | Mapping):
        return value
    if isinstance(value, tuple) and pyarrow.types.is_list(field.type):
        return list(value)
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
