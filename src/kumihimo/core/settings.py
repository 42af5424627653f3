"""texts -> settings: the keyword-only defaults of a function are its settings, and say what type they have."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, Union, get_args, get_origin

from kumihimo.core.errors import SettingsError, unknown

Values = Mapping[str, Mapping[str, object]]  # scope (a step, a method) -> setting -> value


@dataclass(frozen=True, slots=True)
class Setting:
    """One keyword-only parameter: its name, its type, what it is when nobody says otherwise."""

    name: str
    type: Any
    default: object

    def read(self, scope: str, value: object) -> object:
        """The value, in the setting's type, from a text or from TOML. Raises SettingsError."""
        for kind in sorted(_arms(self.type), key=lambda kind: kind is not type(None)):  # "none" is a text, too
            got = _as(kind, value)
            if got is not _NO:
                return got
        raise SettingsError(f"{scope}.{self.name} is {self.kind}, not {value!r} (default: {self.default!r})")

    @property
    def kind(self) -> str:
        """Its type in a person's words."""
        return " or ".join(_said(kind) for kind in _arms(self.type))


_NO = object()
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_SAID = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", type(None): "none"}


def _said(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple:
        return "a list"
    return _SAID.get(kind, str(kind))


def _arms(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _as(kind: Any, value: object) -> object:
    if get_origin(kind) is Literal:
        return next((choice for choice in get_args(kind) if str(choice) == str(value)), _NO)
    if get_origin(kind) is tuple:
        return _list(get_args(kind)[0], value)
    if kind is bool:
        return value if isinstance(value, bool) else _WORDS.get(str(value).lower(), _NO)
    if kind is str:
        return value if isinstance(value, str) else _NO
    if kind is type(None):
        return None if value is None or value == "none" else _NO
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return _NO
    return _number(kind, value)


def _list(kind: Any, value: object) -> object:
    if isinstance(value, str):
        value = _parts(value.strip())
    if not isinstance(value, list | tuple):
        return _NO
    items = tuple(_as(kind, item) for item in value)
    return _NO if _NO in items else items


def _parts(text: str) -> object:
    """Of `1,2,3`, or of `[1, 2, 3]` as it stands in kumi.toml."""
    if not text.startswith("["):
        return [part.strip() for part in text.split(",")] if text else []
    try:
        return json.loads(text)
    except ValueError:
        return _NO


def _number(kind: type[int] | type[float], value: str | int | float) -> object:
    if kind is int and isinstance(value, float):
        return _NO
    try:
        number = kind(value)
    except (ValueError, OverflowError):
        return _NO
    return number if isfinite(number) else _NO


def resolve(known: Mapping[str, Mapping[str, Setting]], *layers: Values) -> dict[str, dict[str, object]]:
    """Every scope's settings: defaults, then each layer over the ones before it.

    Raises SettingsError, naming the nearest known scope or setting.

    >>> known = {"chunks": {"size": Setting("size", int, 600)}}
    >>> resolve(known, {"chunks": {"size": "300"}})
    {'chunks': {'size': 300}}
    >>> resolve(known, {"chunks": {"sise": 300}})
    Traceback (most recent call last):
    kumihimo.core.errors.SettingsError: chunks has no setting 'sise'; did you mean 'size'? Known: size
    """
    values = {scope: {s.name: s.default for s in settings.values()} for scope, settings in known.items()}
    for layer in layers:
        for scope, given in layer.items():
            if scope not in known:
                raise SettingsError(unknown("step, method or model", scope, known))
            for name, value in given.items():
                if name not in known[scope]:
                    raise SettingsError(f"{scope} has {unknown('setting', name, known[scope])}")
                values[scope][name] = known[scope][name].read(scope, value)
    return values
