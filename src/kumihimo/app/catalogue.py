"""built-in entries + plug-ins -> the Catalogue of an index."""

from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from kumihimo.core.catalogue import Catalogue, collect_file_types
from kumihimo.core.errors import KumiError, SettingsError
from kumihimo.core.signature import collect_signatures
from kumihimo.index import STEPS
from kumihimo.methods import METHODS
from kumihimo.readers import READERS

BUILT_IN = Catalogue(STEPS, METHODS, READERS)
PLUGIN_GROUPS = ("kumihimo.steps", "kumihimo.methods", "kumihimo.readers")  # methods read the tables of steps
Function = Callable[..., Any]


def extend_catalogue(
    catalogue: Catalogue,
    *,
    methods: Iterable[Function] = (),
    steps: Iterable[Function] = (),
    readers: Iterable[Function] = (),
    origin: str = "another program",
) -> Catalogue:
    """Return the catalogue with these functions.

    origin: who offers them, for messages once they are missing. Raises StepError where a function is no step, method or
    reader, or where its name is taken.
    """
    new_steps = collect_signatures(*steps)
    new_methods = collect_signatures(*methods)
    new_readers = collect_file_types(*readers)
    plugins = dict.fromkeys([*new_steps, *new_methods, *new_readers], origin)
    return catalogue.extend(new_steps, new_methods, new_readers, plugins)


@cache
def installed_catalogue() -> Catalogue:
    """Return the built-in entries with those of all installed plug-ins.

    A plug-in is a distribution with entry points `kumihimo.methods`, `kumihimo.steps` or `kumihimo.readers`. Raises
    SettingsError where one cannot be loaded.
    """
    catalogue = BUILT_IN
    installed = entry_points()
    for group in PLUGIN_GROUPS:
        for entry in sorted(installed.select(group=group), key=lambda entry: (entry.name, entry.value)):
            catalogue = _add_plugin(catalogue, entry)
    return catalogue


def _add_plugin(catalogue: Catalogue, entry: EntryPoint) -> Catalogue:
    """Return the catalogue with the function of an entry point."""
    distribution = entry.dist.name if entry.dist else "unknown"
    kind = entry.group.removeprefix("kumihimo.")
    try:
        function = entry.load()
        return extend_catalogue(catalogue, **{kind: [function]}, origin=f"the plug-in {distribution}")
    except (KumiError, ImportError, AttributeError) as error:
        raise SettingsError(
            f"the plug-in {distribution} does not fit ({entry.group}: {entry.name} = {entry.value}): {error}; "
            f"upgrade it, or remove it with `pip uninstall {distribution}`"
        ) from error
