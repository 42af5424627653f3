"""names such as `global:C0` -> System: a method and its settings, as an evaluation compares them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from kumihimo.app.snapshot import DEFAULT_METHOD, Snapshot, get_method
from kumihimo.core.errors import IndexUnavailable, SettingsError, describe_unknown
from kumihimo.core.settings import Setting, SettingValues, resolve_settings

_LEVEL = re.compile(r"C(\d+)")  # of the communities, as GraphRAG names them


@dataclass(frozen=True, slots=True)
class System:
    """What answers questions: a method with these settings, the others as they are set."""

    name: str
    method: str
    settings: Mapping[str, Any]


def parse_systems(names: str | Iterable[str], index_settings: SettingValues | None = None) -> list[System]:
    """Those named, `bm25`, `global:C0`, `light:hybrid`, `naive:words=false+k=10`: settings are joined by a plus.

    `C0` is level=0; a value without a name, a choice of the one setting that has it. own: settings of the index, by
    method. Raises SettingsError where a method, a setting or a value is not known, or a system is named twice.

    >>> [(s.method, s.settings) for s in systems("global:C0, light:hybrid,naive:words=false+k=10")]
    [('global', {'level': 0}), ('light', {'mode': 'hybrid'}), ('naive', {'words': False, 'k': 10})]
    """
    listed = names.split(",") if isinstance(names, str) else names
    found = [parse_system(name.strip()) for name in listed if name.strip()]
    if not found:
        raise SettingsError("no method is named: say which, such as --methods bm25,naive")
    whole: dict[str, System] = {}
    for one in found:
        set_to = repr((one.method, sorted(_all_settings(one, index_settings or {}).items())))
        if same := whole.get(set_to):
            raise SettingsError(
                f"{same.name} and {one.name} are one system: name it once; `--again {same.name}` asks it once more"
            )
        whole[set_to] = one
    return found


def parse_system(name: str) -> System:
    """One of them."""
    named, _, said = name.partition(":")
    asked = get_method(named.strip())
    settings: dict[str, object] = {}
    for setting, value in _iterate_settings(asked.name, asked.settings, said):
        if setting in settings:
            raise SettingsError(f"{name} sets {setting} twice: name it once")
        settings[setting] = value
    known = {asked.name: asked.settings}
    read = resolve_settings(known, {asked.name: settings})[asked.name]
    return System(name, asked.name, {setting: read[setting] for setting in settings})


def _iterate_settings(named: str, known: Mapping[str, Setting], said: str) -> Iterator[tuple[str, str]]:
    for part in filter(None, (part.strip() for part in said.split("+"))):
        setting, equals, value = part.partition("=")
        yield (
            (setting.strip(), value.strip())
            if equals
            else (_setting_for_value(named, known, part), _LEVEL.sub(r"\1", part))
        )


def _setting_for_value(named: str, known: Mapping[str, Setting], value: str) -> str:
    """The setting that a value without a name is of. Raises SettingsError."""
    if _LEVEL.fullmatch(value) and "level" in known:
        return "level"
    choices: dict[str, list[str]] = {}
    for setting in known.values():
        for choice in get_args(setting.type) if get_origin(setting.type) is Literal else ():
            choices.setdefault(str(choice), []).append(setting.name)
    of = choices.get(value, [])
    if len(of) > 1:
        said = " or ".join(f"{setting}={value}" for setting in of)
        raise SettingsError(f"{named}:{value} may be any of several settings: write {said}")
    if not of:
        levels = ["C0"] if "level" in known else []
        wrong = describe_unknown(
            "setting or choice", value, [*(f"{setting}=..." for setting in known), *choices, *levels]
        )
        raise SettingsError(f"{named} has {wrong}")
    return of[0]


def _all_settings(one: System, own: SettingValues) -> dict[str, object]:
    """All of its settings, those too that it does not name."""
    known = {one.method: get_method(one.method).settings}
    return resolve_settings(known, {one.method: own.get(one.method, {})}, {one.method: one.settings})[one.method]


def select_systems(snapshot: Snapshot, names: str) -> tuple[list[System], dict[str, str]]:
    """The systems named, each ready to be asked. Raises SettingsError, Unusable, where one is not.

    With none named: of the methods that the index was built for those that are ready, and why others are not.
    """
    if names.strip():
        found = parse_systems(names, snapshot.settings)
        for one in found:
            snapshot.validate_method(one.method, **one.settings)
        return found, {}
    left: dict[str, str] = {}
    for name in built_methods(snapshot):
        try:
            snapshot.validate_method(name)
        except (SettingsError, IndexUnavailable) as error:
            left[name] = str(error)
    ready = [parse_system(name) for name in built_methods(snapshot) if name not in left]
    if not ready:
        raise SettingsError(f"none of the index's methods can be asked: {'; '.join(left.values())}")
    return ready, left


def built_methods(snapshot: Snapshot) -> list[str]:
    """The methods that the index was built for."""
    return list(snapshot.db.meta("methods", [DEFAULT_METHOD]))
