"""tables of the graph -> a folder of Parquet files; needs the extra `parquet`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, get_type_hints

from kumihimo.app.catalogue import RECORD_TYPES
from kumihimo.app.safe_write import write_folder
from kumihimo.app.snapshot import Snapshot
from kumihimo.core.errors import KumiError
from kumihimo.exports.csv_ import GRAPH_TABLES, column_names, table_rows

_BATCH_ROWS = 10_000  # in memory at once


def write_parquet(snapshot: Snapshot, path: Path) -> dict[str, int]:
    """Write one file for each table.

    Lists of names stay lists; lists of lists become JSON. Raises KumiError without pyarrow.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        message = "Parquet is written with a library that is not installed: `pip install 'kumihimo[parquet]'`"
        raise KumiError(message) from error
    snapshot.table("entities")
    count = dict.fromkeys(GRAPH_TABLES, 0)

    def fill(target: Path) -> None:
        for name in GRAPH_TABLES:
            schema = pyarrow.schema(list(_fields(pyarrow, snapshot, name)))
            with parquet.ParquetWriter(target / f"{name}.parquet", schema) as out:
                for batch in _batches(snapshot, name):
                    values_by_column = [
                        [_value(row[i], schema[i], pyarrow) for row in batch] for i in range(len(schema))
                    ]
                    out.write_table(pyarrow.table(values_by_column, schema=schema))
                    count[name] += len(batch)

    write_folder(path, fill)
    return count


def _batches(snapshot: Snapshot, name: str) -> Iterator[list[tuple[object, ...]]]:
    rows = table_rows(snapshot, name)
    while batch := list(islice(rows, _BATCH_ROWS)):
        yield batch


def _fields(pyarrow: Any, snapshot: Snapshot, name: str) -> Iterator[Any]:
    arrow_types = {str: "string", int: "int64", float: "float64", bool: "bool_"}
    hints = get_type_hints(RECORD_TYPES[name]) | {"community": str}
    for column in column_names(snapshot, name):
        if hints[column] == tuple[str, ...]:
            yield pyarrow.field(column, pyarrow.list_(pyarrow.string()))
        else:
            plain_type = next(
                (
                    python_type
                    for python_type in (bool, int, float)
                    if hints[column] in (python_type, python_type | None)
                ),
                str,
            )
            yield pyarrow.field(column, getattr(pyarrow, arrow_types[plain_type])())


def _value(value: object, field: Any, pyarrow: Any) -> object:
    if not isinstance(value, tuple):
        return value
    return list(value) if pyarrow.types.is_list(field.type) else json.dumps(value, ensure_ascii=False)
