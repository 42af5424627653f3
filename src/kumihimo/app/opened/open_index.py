"""a place + settings -> OpenIndex: what reads and writes one index, for everything behind the facade."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any

from kumihimo.app.opened import catalogue as catalogues
from kumihimo.app.settings import config, trust
from kumihimo.app.settings.settings_registry import SettingsRegistry
from kumihimo.core import context, wiring
from kumihimo.core.settings import SettingValues, resolve_settings
from kumihimo.llm import local_embedder
from kumihimo.llm.functions import ModelFunction, function_layers, name_functions
from kumihimo.llm.registry import ModelRegistry
from kumihimo.search.vector_files import MappedFiles
from kumihimo.storage import Store
from kumihimo.storage.place import DEFAULT_FOLDER as DEFAULT_FOLDER, IndexPlace as IndexPlace
from kumihimo.storage.response_cache import ResponseCache


@dataclass(frozen=True, slots=True)
class IndexAddress:
    """A place, its cache, and the layers of settings, as JSON values: another process opens the index with it.

    They hold no keys: a setting names the environment variable with the key.
    """

    place: str = field(repr=False)  # holds the password of a database, if its address does
    cache: str  # a file; empty: the cache is in the index
    layers: Sequence[SettingValues]
    reads_files: bool = False  # whether the third layer is that of aliases.txt

    def open(self) -> "OpenIndex":
        """Open the index.

        kumi.toml and the environment are not read again.
        """
        return connect_index(self.place, self.layers, cache=self.cache or None, reads_files=self.reads_files)


@dataclass(frozen=True, slots=True)
class OpenIndex:
    """An open index: its place, and what reads and writes it.

    cache: of replies, which several indexes may share. has_functions: it uses functions passed to `Kumihimo.open`,
    so no other process can open its address. files: the vector files that are mapped.
    """

    place: IndexPlace
    store: Store
    cache: ResponseCache
    catalogue: wiring.Catalogue
    settings_registry: SettingsRegistry
    settings: dict[str, dict[str, object]]
    models: ModelRegistry
    tokenizer: context.Tokenizer
    address: IndexAddress
    has_functions: bool
    files: MappedFiles = field(default_factory=dict)
    build_lock: Lock = field(default_factory=Lock)  # of builds that questions start

    @property
    def folder(self) -> Path:
        """Return the folder of the files of the index."""
        return self.place.folder

    @property
    def base(self) -> Path:
        """Return the folder of kumi.toml, which stored paths are relative to."""
        return self.place.base

    def with_current_edits(self) -> "OpenIndex":
        """Return the index with the lines that aliases.txt has now."""
        if not self.address.reads_files:
            return self
        layers = list(self.address.layers)
        layers[2] = config.read_aliases(self.base / config.ALIASES)
        values = self.settings_registry.own_values(resolve_settings(self.settings_registry.all, *layers))
        return replace(self, settings={**self.settings, "mentions": values["mentions"]})

    def close(self) -> None:
        """Close the files."""
        self.store.close()
        self.cache.close()


def connect_index(
    place: str | Path | IndexPlace,
    layers: Sequence[SettingValues] = (),
    *,
    cache: str | Path | None = None,
    catalogue: wiring.Catalogue | None = None,
    functions: Mapping[str, ModelFunction] | None = None,
    reads_files: bool = False,
) -> OpenIndex:
    """Return an open index with these layers of settings, and no others.

    functions: models in place of servers, by their kind. reads_files: as for `IndexAddress`; then each build reads
    aliases.txt again.
    """
    place, catalogue = IndexPlace.at(place, cache), catalogue or catalogues.installed_catalogue()
    registry, store, replies = SettingsRegistry(catalogue), place.open_store(), ResponseCache(place.open_cache())
    layers = [config.fields_to_settings(layer) for layer in layers]
    if {scope for layer in layers for scope in layer} - registry.all.keys():
        layers = catalogues.without_missing_scopes(store, catalogue, layers)
    values = resolve_settings(registry.all, *layers)
    trust.register_secrets(values, registry.all)
    cache_file = str(place.cache_file.absolute()) if place.cache_file else ""
    address = IndexAddress(place.address, cache_file, layers, reads_files)
    has_functions = bool(functions) or catalogue is not catalogues.installed_catalogue()
    models = ModelRegistry(registry.model_values(values), lambda: replies, place.base, functions or {})
    settings, tokenizer = registry.own_values(values), local_embedder.LocalTokenizer()
    return OpenIndex(place, store, replies, catalogue, registry, settings, models, tokenizer, address, has_functions)


def open_index(
    place: str | Path | IndexPlace = DEFAULT_FOLDER,
    *,
    settings: SettingValues | None = None,
    cache: str | Path | None = None,
    models: Mapping[str, Any] | None = None,
    **entries: Any,
) -> OpenIndex:
    """Return an open index with the settings of kumi.toml and the environment.

    models: functions in place of servers, by their kind. entries: functions for the catalogue, as `extend_catalogue`
    takes them. Other parameters: as for `Kumihimo.open`.
    """
    catalogue = catalogues.installed_catalogue()
    if any(entries.values()):
        catalogue = catalogues.extend_catalogue(catalogue, **entries)
    place = IndexPlace.at(place)
    layers = trust.read_trusted_layers(place.base, SettingsRegistry(catalogue).all, os.environ)
    cache = cache or os.environ.get("KUMI_CACHE") or None
    functions = name_functions(models or {}, settings or {})
    below, above = function_layers(functions)
    all_layers = [below, *layers, settings or {}, above]
    return connect_index(place, all_layers, cache=cache, catalogue=catalogue, functions=functions, reads_files=True)
