"""folder + cache + settings -> IndexAddress: what another process needs to open the same index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kumihimo.app.catalogue import installed_catalogue
from kumihimo.core.settings import SettingValues
from kumihimo.storage.place import DEFAULT_FOLDER as DEFAULT_FOLDER
from kumihimo.storage.place import IndexPlace as IndexPlace

if TYPE_CHECKING:
    from kumihimo.app.facade import Kumihimo


@dataclass(frozen=True, slots=True)
class IndexAddress:
    """A place, its cache, and the layers of settings, as JSON values.

    They hold no keys: a setting names the environment variable with the key.
    """

    place: str  # holds the password of a database, if its address does
    cache: str  # a file; empty: the cache is in the index
    layers: Sequence[SettingValues]

    def open(self) -> Kumihimo:
        """Open the index; kumi.toml and the environment are not read again."""
        from kumihimo.app.facade import Kumihimo

        return Kumihimo(self.place, *self.layers, cache=self.cache or None)


def find_address(kumi: Kumihimo) -> IndexAddress | None:
    """Return the address of an index.

    None if it uses functions passed to `Kumihimo.open`: another process cannot have them.
    """
    return kumi.address if kumi.catalogue is installed_catalogue() else None
