"""one table's vectors -> their file: its name, its mapping into memory, and the damage in it."""

import zlib
from errno import ENOENT
from pathlib import Path
from typing import Any

from kumihimo.llm.protocols import Vectors
from kumihimo.storage.sqlite.store import Db

BLOCK_ROWS = 256  # so few rows that BLAS uses one thread: on a busy machine threads wait for each other


def find_vector_damage(db: Db, path: Path, table: str, ids: set[str]) -> str:
    """Return what is wrong with the vectors of a table; empty: nothing.

    path: of their file. ids: of the rows that should have a vector, unless it could not be made.
    """
    import numpy as np

    name = vector_index_name(table)
    state = db.meta(name)
    slots: dict[str, int] = dict(db.all(f'SELECT id, slot FROM "{name}"'))
    failed = {id for (id,) in db.all("SELECT maker FROM failed WHERE step = ?", name)}
    if slots.keys() != ids - failed or max(slots.values(), default=-1) >= state["rows"]:
        return f"its rows are not those of {table}"
    if not state["rows"]:
        return ""
    try:
        matrix = map_vectors(path, state)
    except FileNotFoundError:
        return "it is missing or too short"
    checksum, valid = 0, True
    for i in range(0, len(matrix), BLOCK_ROWS):
        block = np.asarray(matrix[i : i + BLOCK_ROWS])
        checksum = zlib.crc32(block.tobytes(), checksum)
        valid = valid and bool(np.isfinite(block).all() and block.any(axis=1).all())
    if checksum != state.get("checksum"):
        return "its checksum is wrong"
    return "" if valid else "it holds vectors that are zero or not finite"


def map_vectors(path: Path, state: dict[str, Any]) -> Vectors:
    """Map the vectors of a file into memory.

    Raises FileNotFoundError if it is missing or too short.
    """
    import numpy as np

    if path.stat().st_size < state["rows"] * state["dimensions"] * 4:
        raise FileNotFoundError(ENOENT, "too short", str(path))
    return np.memmap(path, dtype="<f4", mode="r", shape=(state["rows"], state["dimensions"]))


def vector_path(folder: Path, table: str, state: dict[str, Any]) -> Path:
    """Return the path of the vectors of a table.

    state: its `meta` row.
    """
    return folder / "vectors" / f"{table}-{state.get('file', 0)}.f32"


def vector_index_name(table: str) -> str:
    """Return the name of the index table and of its `meta` row."""
    return f"vectors_{table}"
