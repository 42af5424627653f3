"""texts -> settings: the keyword-only defaults of a function are its settings, and say what type they have."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, Union, get_args, get_origin

from kumihimo.core.errors import SettingsError, describe_unknown

SettingValues = Mapping[str, Mapping[str, object]]  # scope (a step, a method) -> setting -> value


@dataclass(frozen=True, slots=True)
class Setting:
    """One keyword-only parameter: its name, its type, what it is when nobody says otherwise."""

    name: str
    type: Any
    default: object

    def parse(self, scope: str, value: object) -> object:
        """The value, in the setting's type, from a text or from TOML. Raises SettingsError."""
        for kind in sorted(_union_members(self.type), key=lambda kind: kind is not type(None)):  # "none" is a text, too
            got = _convert(kind, value)
            if got is not _INVALID:
                return got
        raise SettingsError(
            f"{scope}.{self.name} is {self.type_description}, not {value!r} (default: {self.default!r})"
        )

    @property
    def type_description(self) -> str:
        """Its type in a person's words."""
        return " or ".join(_describe_type(kind) for kind in _union_members(self.type))


_INVALID = object()
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", type(None): "none"}


def _describe_type(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple:
        return "a list"
    return _TYPE_NAMES.get(kind, str(kind))


def _union_members(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _convert(kind: Any, value: object) -> object:
    if get_origin(kind) is Literal:
        return next((choice for choice in get_args(kind) if str(choice) == str(value)), _INVALID)
    if get_origin(kind) is tuple:
        return _parse_list(get_args(kind)[0], value)
    if kind is bool:
        return value if isinstance(value, bool) else _BOOLEANS.get(str(value).lower(), _INVALID)
    if kind is str:
        return value if isinstance(value, str) else _INVALID
    if kind is type(None):
        return None if value is None or value == "none" else _INVALID
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return _INVALID
    return _parse_number(kind, value)


def _parse_list(kind: Any, value: object) -> object:
    if isinstance(value, str):
        value = _split_list(value.strip())
    if not isinstance(value, list | tuple):
        return _INVALID
    items = tuple(_convert(kind, item) for item in value)
    return _INVALID if _INVALID in items else items


def _split_list(text: str) -> object:
    """Of `1,2,3`, or of `[1, 2, 3]` as it stands in kumi.toml."""
    if not text.startswith("["):
        return [part.strip() for part in text.split(",")] if text else []
    try:
        return json.loads(text)
    except ValueError:
        return _INVALID


def _parse_number(kind: type[int] | type[float], value: str | int | float) -> object:
    if kind is int and isinstance(value, float):
        return _INVALID
    try:
        number = kind(value)
    except (ValueError, OverflowError):
        return _INVALID
    return number if isfinite(number) else _INVALID


def resolve_settings(
    definitions: Mapping[str, Mapping[str, Setting]], *layers: SettingValues
) -> dict[str, dict[str, object]]:
    """Every scope's settings: defaults, then each layer over the ones before it.

    Raises SettingsError, naming the nearest known scope or setting.

    >>> known = {"chunks": {"size": Setting("size", int, 600)}}
    >>> resolve(known, {"chunks": {"size": "300"}})
    {'chunks': {'size': 300}}
    >>> resolve(known, {"chunks": {"sise": 300}})
    Traceback (most recent call last):
    kumihimo.core.errors.SettingsError: chunks has no setting 'sise'; did you mean 'size'? Known: size
    """
    values = {scope: {s.name: s.default for s in settings.values()} for scope, settings in definitions.items()}
    for layer in layers:
        for scope, given in layer.items():
            if scope not in definitions:
                raise SettingsError(describe_unknown("step, method or model", scope, definitions))
            for name, value in given.items():
                if name not in definitions[scope]:
                    raise SettingsError(f"{scope} has {describe_unknown('setting', name, definitions[scope])}")
                values[scope][name] = definitions[scope][name].parse(scope, value)
    return values
