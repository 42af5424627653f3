"""Names such as `global:C0` -> System: a method with settings."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.opened.catalogue import AUTO, BUILT_IN, DEFAULT_METHOD
from kumihimo.core.errors import IndexUnavailable, SettingsError, describe_unknown
from kumihimo.core.settings import Setting, SettingValues, resolve_settings
from kumihimo.core.wiring import Catalogue

_LEVEL = re.compile(r"C(\d+)")  # a level of communities, as GraphRAG names it


@dataclass(frozen=True, slots=True)
class System:
    """A system under test: a method with settings.

    Settings that are not listed keep their configured values.
    """

    name: str
    method: str
    settings: Mapping[str, Any]


def parse_systems(
    names: str | Iterable[str], index_settings: SettingValues | None = None, catalogue: Catalogue = BUILT_IN
) -> list[System]:
    """Parse a list of system names.

    Examples: `bm25`, `global:C0`, `light:hybrid`, `naive:words=false+k=10`; a plus joins settings. `C0` means level=0.
    A value without a name is a choice of the one setting that allows it. index_settings: settings of the index, by
    method. Raises SettingsError for an unknown method, setting or value, and for a repeated system.

    >>> [(s.method, s.settings) for s in parse_systems("global:C0, light:hybrid,naive:words=false+k=10")]
    [('global', {'level': 0}), ('light', {'mode': 'hybrid'}), ('naive', {'words': False, 'k': 10})]
    """
    parts = names.split(",") if isinstance(names, str) else names
    if not (parsed := [parse_system(name.strip(), catalogue) for name in parts if name.strip()]):
        raise SettingsError("no method is named: say which, such as --methods bm25,naive")
    by_settings: dict[str, System] = {}
    for system in parsed:
        definitions = {system.method: _settings_of(system.method, catalogue)}
        configured = {system.method: (index_settings or {}).get(system.method, {})}
        settings = resolve_settings(definitions, configured, {system.method: system.settings})[system.method]
        signature = repr((system.method, sorted(settings.items())))
        if same := by_settings.get(signature):
            raise SettingsError(
                f"{same.name} and {system.name} are one system: name it once; `--again {same.name}` asks it once more"
            )
        by_settings[signature] = system
    return parsed


def parse_system(name: str, catalogue: Catalogue = BUILT_IN) -> System:
    """Parse one system name."""
    method_name, _, settings_text = name.partition(":")
    method, settings = method_name.strip(), dict[str, object]()
    definitions = _settings_of(method, catalogue)
    for part in filter(None, map(str.strip, settings_text.split("+"))):
        setting, equals, value = map(str.strip, part.partition("="))
        if not equals:
            setting, value = _setting_for_value(method, definitions, part), _LEVEL.sub(r"\1", part)
        if setting in settings:
            raise SettingsError(f"{name} sets {setting} twice: name it once")
        settings[setting] = value
    resolved = resolve_settings({method: definitions}, {method: settings})[method]
    return System(name, method, {setting: resolved[setting] for setting in settings})


def _settings_of(method: str, catalogue: Catalogue) -> Mapping[str, Setting]:
    """Return the settings of a method; `auto` has none.

    Raises SettingsError for an unknown method.
    """
    return {} if method == AUTO else catalogue.method(method).settings


def _setting_for_value(method: str, definitions: Mapping[str, Setting], value: str) -> str:
    """Return the setting that a value without a name belongs to.

    Raises SettingsError if none or several allow it.
    """
    if _LEVEL.fullmatch(value) and "level" in definitions:
        return "level"
    choices: dict[str, list[str]] = {}
    for setting in definitions.values():
        for choice in get_args(setting.type) if get_origin(setting.type) is Literal else ():
            choices.setdefault(str(choice), []).append(setting.name)
    names = choices.get(value, [])
    if len(names) > 1:
        options = " or ".join(f"{setting}={value}" for setting in names)
        raise SettingsError(f"{method}:{value} may be any of several settings: write {options}")
    if not names:
        levels = ["C0"] if "level" in definitions else []
        known = [*(f"{setting}=..." for setting in definitions), *choices, *levels]
        raise SettingsError(f"{method} has {describe_unknown('setting or choice', value, known)}")
    return names[0]


def select_systems(snapshot: Snapshot, names: str) -> tuple[list[System], dict[str, str]]:
    """Return the named systems after validating each.

    Without names: the ready methods of the index, and the reason for each other one. Raises SettingsError or
    IndexUnavailable for a named system that is not ready.
    """
    if names.strip():
        parsed = parse_systems(names, snapshot.settings, snapshot.catalogue)
        for system in parsed:
            snapshot.validate_method(system.method, system.settings)
        return parsed, {}
    ready: list[System] = []
    skipped: dict[str, str] = {}
    for name in snapshot.db.meta("methods", [DEFAULT_METHOD]):
        try:
            snapshot.validate_method(name)
            ready.append(parse_system(name, snapshot.catalogue))
        except (SettingsError, IndexUnavailable) as error:
            skipped[name] = str(error)
    if not ready:
        raise SettingsError(f"none of the index's methods is ready: {'; '.join(skipped.values())}")
    return ready, skipped
