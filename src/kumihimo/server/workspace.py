"""index folders -> Workspace: the indexes that one server serves, by name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kumihimo.app.facade import Kumihimo
from kumihimo.core.errors import SettingsError


@dataclass(frozen=True, slots=True)
class ServedIndex:
    """An index with its name in addresses."""

    name: str
    kumi: Kumihimo


@dataclass(frozen=True, slots=True)
class Workspace:
    """The served indexes; the first one also has the short addresses."""

    indexes: Mapping[str, ServedIndex]


def index_name(folder: Path) -> str:
    """Return the name of an index in addresses.

    >>> [index_name(Path(folder)) for folder in ("/work/reports/.kumi", "notes.kumi")]
    ['reports', 'notes']
    """
    folder = folder.resolve()
    return folder.parent.name if folder.name.startswith(".") else folder.stem


def open_workspace(folders: Iterable[Path]) -> Workspace:
    """Open the indexes. Raise SettingsError for two of the same name."""
    indexes: dict[str, ServedIndex] = {}
    for folder in folders:
        name = index_name(folder)
        if name in indexes:
            raise SettingsError(f"two indexes are called {name}: rename the folder of one of them")
        indexes[name] = ServedIndex(name, Kumihimo.open(folder))
    return Workspace(indexes)
