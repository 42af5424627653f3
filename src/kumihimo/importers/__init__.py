"""the stores of other systems -> text units, with all that these systems have made of them."""

from collections.abc import Callable, Mapping
from pathlib import Path

from kumihimo.core.errors import SourceError
from kumihimo.importers import graphrag, lightrag
from kumihimo.importers.store import ForeignStore

__all__ = ["IMPORTERS", "read_store"]
IMPORTERS: Mapping[str, Callable[[Path], ForeignStore]] = {
    "graphrag": graphrag.read_graphrag,
    "lightrag": lightrag.read_working_folder,
    "nano": lightrag.read_working_folder,
}


def read_store(kind: str, path: Path) -> ForeignStore:
    """Return what a store holds.

    kind: one of `IMPORTERS`. Raises SourceError if it is not as its system writes it.
    """
    try:
        return IMPORTERS[kind](path)
    except (KeyError, TypeError, ValueError, AttributeError) as error:  # a column or a value that is not there
        reason = f"{type(error).__name__}: {error}"[:200]
        raise SourceError(
            f"{path}: not a store as {kind} writes it ({reason}); check the kind and the version, and report this"
        ) from error
