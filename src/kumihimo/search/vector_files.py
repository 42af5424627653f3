"""one table's vectors -> their file of 16-bit numbers: its name, its mapping into memory, and the damage in it.

A number is a component of a vector of length 1, times 32,767: the error of a cosine is about 1e-5.
"""

import zlib
from errno import ENOENT
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from kumihimo.llm.protocols import Vectors
from kumihimo.storage.sqlite.store import Db

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

StoredVectors: TypeAlias = "NDArray[np.int16]"  # a row for each text
VECTOR_SCALE = 32_767
NUMBER_BYTES = 2
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
        valid = valid and bool(block.any(axis=1).all())
    if checksum != state.get("checksum"):
        return "its checksum is wrong"
    return "" if valid else "it holds vectors that are zero"


def remove_unused_files(db: Db, folder: Path) -> list[Path]:
    """Remove vector files that the index does not use.

    Return those that cannot be removed: on Windows, files that a reader of an older build maps. The next build tries
    again.
    """
    left: list[Path] = []
    states = db.all("SELECT name, value FROM meta WHERE name GLOB 'vectors_*'")
    used = {vector_path(folder, name.removeprefix("vectors_"), db.meta(name)).name for name, _ in states}
    for path in (folder / "vectors").glob("*.i16"):
        if path.name not in used:
            try:
                path.unlink(missing_ok=True)
            except OSError:
                left.append(path)
    return left


def encode_vectors(vectors: Vectors) -> StoredVectors:
    """Return the numbers to store for vectors of length 1."""
    import numpy as np

    return np.clip(np.rint(vectors * VECTOR_SCALE), -VECTOR_SCALE, VECTOR_SCALE).astype("<i2")


def map_vectors(path: Path, state: dict[str, Any]) -> StoredVectors:
    """Map the vectors of a file into memory.

    Raises FileNotFoundError if it is missing or too short.
    """
    import numpy as np

    if path.stat().st_size < state["rows"] * state["dimensions"] * NUMBER_BYTES:
        raise FileNotFoundError(ENOENT, "too short", str(path))
    return np.memmap(path, dtype="<i2", mode="r", shape=(state["rows"], state["dimensions"]))


def vector_path(folder: Path, table: str, state: dict[str, Any]) -> Path:
    """Return the path of the vectors of a table.

    state: its `meta` row.
    """
    return folder / "vectors" / f"{table}-{state.get('file', 0)}.i16"


def vector_index_name(table: str) -> str:
    """Return the name of the index table and of its `meta` row."""
    return f"vectors_{table}"
