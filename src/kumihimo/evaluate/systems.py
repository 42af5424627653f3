"""Names such as `global:C0` -> System: a method with settings, as compared in an evaluation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from kumihimo.app.snapshot import DEFAULT_METHOD, Snapshot, get_method
from kumihimo.core.errors import IndexUnavailable, SettingsError, describe_unknown
from kumihimo.core.settings import Setting, SettingValues, resolve_settings

_LEVEL = re.compile(r"C(\d+)")  # a level of communities, as GraphRAG names it


@dataclass(frozen=True, slots=True)
class System:
    """A system under test: a method with settings.

    Settings that are not listed keep their configured values.
    """

    name: str
    method: str
    settings: Mapping[str, Any]


def parse_systems(names: str | Iterable[str], index_settings: SettingValues | None = None) -> list[System]:
    """Parse a list of system names.

    Examples: `bm25`, `global:C0`, `light:hybrid`, `naive:words=false+k=10`; a plus joins settings. `C0` means level=0.
    A value without a name is a choice of the one setting that allows it. index_settings: settings of the index, by
    method. Raises SettingsError for an unknown method, setting or value, and for a repeated system.

    >>> [(s.method, s.settings) for s in parse_systems("global:C0, light:hybrid,naive:words=false+k=10")]
    [('global', {'level': 0}), ('light', {'mode': 'hybrid'}), ('naive', {'words': False, 'k': 10})]
    """
    parts = names.split(",") if isinstance(names, str) else names
    parsed = [parse_system(name.strip()) for name in parts if name.strip()]
    if not parsed:
        raise SettingsError("no method is named: say which, such as --methods bm25,naive")
    by_settings: dict[str, System] = {}
    for system in parsed:
        signature = repr((system.method, sorted(_all_settings(system, index_settings or {}).items())))
        if same := by_settings.get(signature):
            raise SettingsError(
                f"{same.name} and {system.name} are one system: name it once; `--again {same.name}` asks it once more"
            )
        by_settings[signature] = system
    return parsed


def parse_system(name: str) -> System:
    """Parse one system name."""
    method_name, _, settings_text = name.partition(":")
    method = get_method(method_name.strip())
    settings: dict[str, object] = {}
    for setting, value in _iterate_settings(method.name, method.settings, settings_text):
        if setting in settings:
            raise SettingsError(f"{name} sets {setting} twice: name it once")
        settings[setting] = value
    definitions = {method.name: method.settings}
    resolved = resolve_settings(definitions, {method.name: settings})[method.name]
    return System(name, method.name, {setting: resolved[setting] for setting in settings})


def _iterate_settings(method: str, definitions: Mapping[str, Setting], settings_text: str) -> Iterator[tuple[str, str]]:
    for part in filter(None, (part.strip() for part in settings_text.split("+"))):
        setting, equals, value = part.partition("=")
        yield (
            (setting.strip(), value.strip())
            if equals
            else (_setting_for_value(method, definitions, part), _LEVEL.sub(r"\1", part))
        )


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
        problem = describe_unknown(
            "setting or choice", value, [*(f"{setting}=..." for setting in definitions), *choices, *levels]
        )
        raise SettingsError(f"{method} has {problem}")
    return names[0]


def _all_settings(system: System, index_settings: SettingValues) -> dict[str, object]:
    """Return all settings of a system, the configured ones included."""
    definitions = {system.method: get_method(system.method).settings}
    return resolve_settings(
        definitions, {system.method: index_settings.get(system.method, {})}, {system.method: system.settings}
    )[system.method]


def select_systems(snapshot: Snapshot, names: str) -> tuple[list[System], dict[str, str]]:
    """Return the named systems after validating each.

    Without names: the ready methods of the index, and the reason for each other one. Raises SettingsError or
    IndexUnavailable for a named system that is not ready.
    """
    if names.strip():
        parsed = parse_systems(names, snapshot.settings)
        for system in parsed:
            snapshot.validate_method(system.method, **system.settings)
        return parsed, {}
    skipped: dict[str, str] = {}
    for name in built_methods(snapshot):
        try:
            snapshot.validate_method(name)
        except (SettingsError, IndexUnavailable) as error:
            skipped[name] = str(error)
    ready = [parse_system(name) for name in built_methods(snapshot) if name not in skipped]
    if not ready:
        raise SettingsError(f"none of the index's methods is ready: {'; '.join(skipped.values())}")
    return ready, skipped


def built_methods(snapshot: Snapshot) -> list[str]:
    """Return the methods the index was built for."""
    return list(snapshot.db.meta("methods", [DEFAULT_METHOD]))
