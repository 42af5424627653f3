"""the stores of other systems -> text units, with all that these systems have made of them."""

from collections.abc import Callable, Mapping
from pathlib import Path

from kumihimo.importers.graphml import read_graphml
from kumihimo.importers.graphrag import read_graphrag
from kumihimo.importers.lightrag import read_lightrag
from kumihimo.importers.nano import read_nano
from kumihimo.importers.openie import read_openie
from kumihimo.importers.store import ForeignStore

IMPORTERS: Mapping[str, Callable[[Path], ForeignStore]] = {
    "graphrag": read_graphrag,
    "lightrag": read_lightrag,
    "nano": read_nano,
    "graphml": read_graphml,
    "openie": read_openie,
}
