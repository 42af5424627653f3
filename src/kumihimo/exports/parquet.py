"""the tables of the graph -> a folder of Parquet files, exactly as they are; with the extra `parquet`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, get_type_hints

from kumihimo.app.safe_write import folder
from kumihimo.app.snapshot import KINDS, Reading
from kumihimo.core.errors import KumiError
from kumihimo.exports.csv_ import TABLES, columns, values

_ROWS = 10_000  # in memory at once


def write(reading: Reading, path: Path) -> dict[str, int]:
    """A file for each table; lists of names as lists, lists of lists as JSON. Raises KumiError without the library."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        message = "Parquet is written with a library that is not installed: `pip install 'kumihimo[parquet]'`"
        raise KumiError(message) from error
    reading.table("entities")
    count = dict.fromkeys(TABLES, 0)

    def fill(made: Path) -> None:
        for name in TABLES:
            schema = pyarrow.schema(list(_fields(pyarrow, reading, name)))
            with parquet.ParquetWriter(made / f"{name}.parquet", schema) as out:
                for batch in _batches(reading, name):
                    columned = [[_value(row[i], schema[i], pyarrow) for row in batch] for i in range(len(schema))]
                    out.write_table(pyarrow.table(columned, schema=schema))
                    count[name] += len(batch)

    folder(path, fill)
    return count


def _batches(reading: Reading, name: str) -> Iterator[list[tuple[object, ...]]]:
    rows = values(reading, name)
    while batch := list(islice(rows, _ROWS)):
        yield batch


def _fields(pyarrow: Any, reading: Reading, name: str) -> Iterator[Any]:
    kinds = {str: "string", int: "int64", float: "float64", bool: "bool_"}
    hints = get_type_hints(KINDS[name]) | {"community": str}
    for column in columns(reading, name):
        if hints[column] == tuple[str, ...]:
            yield pyarrow.field(column, pyarrow.list_(pyarrow.string()))
        else:
            plain = next((kind for kind in (bool, int, float) if hints[column] in (kind, kind | None)), str)
            yield pyarrow.field(column, getattr(pyarrow, kinds[plain])())


def _value(value: object, field: Any, pyarrow: Any) -> object:
    if not isinstance(value, tuple):
        return value
    return list(value) if pyarrow.types.is_list(field.type) else json.dumps(value, ensure_ascii=False)
