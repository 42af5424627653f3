"""texts -> settings: the keyword-only defaults of a function, with their types."""

import json
import re
import types
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from kumihimo.core import network, redaction
from kumihimo.core.errors import MAX_SHOWN, SettingsError, describe_unknown

SettingValues = Mapping[str, Mapping[str, object]]  # scope (a step, a method) -> setting -> value


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the greatest number that a setting may have: `k: Annotated[int, Bounds(1, 1000)] = 20`.

    asked: both for a question over the network, if a value may cost the owner of the index much.

    >>> str(Bounds(1, 1000)), 0 in Bounds(1, 1000)
    ('from 1 to 1,000', False)
    """

    least: float
    most: float
    asked: tuple[float, float] | None = None

    def __contains__(self, value: float) -> bool:
        return self.least <= value <= self.most

    def __str__(self) -> str:
        return f"from {self.least:,} to {self.most:,}"


Batch = Annotated[int, Bounds(1, 10_000)]  # of what one request holds
Count = Annotated[int, Bounds(0, 1_000_000)]
Patience = Annotated[float, Bounds(0, 86_400)]  # seconds
Price = Annotated[float, Bounds(0, 1_000_000)]
Rate = Annotated[int, Bounds(0, 1_000_000_000)]  # in a minute
Results = Annotated[int, Bounds(1, 10_000, asked=(1, 1000))]  # of a search
Retries = Annotated[int, Bounds(0, 100)]
Seconds = Annotated[float, Bounds(0.001, 86_400)]
Seed = Annotated[int, Bounds(0, 1_000_000_000)]
Share = Annotated[float, Bounds(0, 1)]
StartRows = Annotated[int, Bounds(1, 1000, asked=(1, 100))]  # each takes further searches
Tokens = Annotated[int, Bounds(1, 1_000_000)]
Weight = Annotated[float, Bounds(0, 1000)]
Window = Annotated[int, Bounds(1, 1_000_000, asked=(1000, 100_000))]  # tokens of a batch, which costs a call
Workers = Annotated[int, Bounds(1, 1000)]


@dataclass(frozen=True, slots=True)
class Setting:
    """A keyword-only parameter: its name, type and default, the bounds of its numbers.

    mark: of a text that needs trust.
    """

    name: str
    type: Any
    default: object
    bounds: Bounds | None = None
    mark: network.Mark | None = None

    @classmethod
    def of(cls, name: str, hint: Any, default: object) -> "Setting":
        """Return the setting of a parameter with this hint."""
        members = _union_members(hint)
        kinds = tuple(get_args(each)[0] if get_origin(each) is Annotated else each for each in members)
        notes = [note for each in members for note in getattr(each, "__metadata__", ())]
        bounds = next((note for note in notes if isinstance(note, Bounds)), None)
        mark = next((note for note in notes if isinstance(note, network.Mark)), None)
        return cls(name, Union[kinds], default, bounds, mark)  # noqa: UP007

    def parse(self, scope: str, value: object) -> object:
        """Convert a text or a TOML value to the setting's type.

        Raises SettingsError for another type, and out of bounds.
        """
        # None first: the text "none" is a str, too
        for member in sorted(_union_members(self.type), key=lambda member: member is not type(None)):
            converted = _convert(member, value)
            if converted is not _INVALID and self._allows(converted):
                if isinstance(self.mark, network.AddressForm) and converted not in (None, *self.mark.words):
                    self.mark.parse_address(str(converted), f"{scope}.{self.name}")
                elif isinstance(self.mark, network.KeyVariable) and not _VARIABLE.fullmatch(str(converted or "")):
                    raise SettingsError(  # without the value: it may be the key itself
                        f"{scope}.{self.name} is the name of an environment variable, such as OPENAI_API_KEY: put the "
                        "key into that variable"
                    )
                return converted
        raise SettingsError(
            f"{scope}.{self.name} is {self.type_description}, not {redaction.redact(f'{value!r}')[:MAX_SHOWN]} "
            f"(default: {self.default!r})"
        )

    def check_asked(self, scope: str, value: object) -> None:
        """Raise SettingsError for a value beyond the bounds of questions."""
        asked = self.bounds.asked if self.bounds else None
        if asked and not replace(self, bounds=Bounds(*asked))._allows(value):
            raise SettingsError(
                f"{scope}.{self.name} is from {asked[0]:,} to {asked[1]:,} in a question over the network, not "
                f"{value!r}: choose a number between, or set it in the kumi.toml of the index"
            )

    def _allows(self, value: object) -> bool:
        return self.bounds is None or not isinstance(value, int | float) or value in self.bounds

    @property
    def type_description(self) -> str:
        """Return a readable name of the type, with its bounds."""
        return " or ".join(map(self._describe_member, _union_members(self.type)))

    def _describe_member(self, hint: Any) -> str:
        description = _describe_type(hint)
        return f"{description} {self.bounds}" if self.bounds and hint in (int, float) else description


_VARIABLE = re.compile("(?:[A-Za-z_][A-Za-z0-9_]*)?")
_INVALID = object()
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", type(None): "none"}


def _describe_type(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        return "a list"
    return _TYPE_NAMES.get(hint, str(hint))


def _union_members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _convert(hint: Any, value: object) -> object:
    if get_origin(hint) is Literal:
        return next((choice for choice in get_args(hint) if str(choice) == str(value)), _INVALID)
    if get_origin(hint) is tuple:
        return _parse_list(get_args(hint)[0], value)
    if hint is bool:
        return value if isinstance(value, bool) else _BOOLEANS.get(str(value).lower(), _INVALID)
    if hint is str:
        return value if isinstance(value, str) else _INVALID
    if hint is type(None):
        return None if value is None or value == "none" else _INVALID
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return _INVALID
    return _parse_number(hint, value)


def _parse_list(hint: Any, value: object) -> object:
    if isinstance(value, str):
        value = _split_list(value.strip())
    if not isinstance(value, list | tuple):
        return _INVALID
    items = tuple(_convert(hint, item) for item in value)
    return _INVALID if _INVALID in items else items


def _split_list(text: str) -> object:
    """Split `1,2,3`, or parse a list as in kumi.toml."""
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
        return number if isfinite(number) else _INVALID
    except (ValueError, OverflowError):
        return _INVALID


def resolve_settings(
    definitions: Mapping[str, Mapping[str, Setting]], *layers: SettingValues
) -> dict[str, dict[str, object]]:
    """Merge settings: defaults, then each layer over the previous ones.

    Raises SettingsError, with the closest known scope or setting.

    >>> definitions = {"chunks": {"size": Setting("size", int, 600)}}
    >>> resolve_settings(definitions, {"chunks": {"size": "300"}})
    {'chunks': {'size': 300}}
    >>> resolve_settings(definitions, {"chunks": {"sise": 300}})
    Traceback (most recent call last):
    kumihimo.core.errors.SettingsError: chunks has no setting 'sise'; did you mean 'size'? Known: size
    """
    values = {scope: {s.name: s.default for s in settings.values()} for scope, settings in definitions.items()}
    for layer in layers:
        for scope, overrides in layer.items():
            if scope not in definitions:
                raise SettingsError(describe_unknown("step, method or model", scope, definitions))
            values[scope] = override_settings(scope, definitions[scope], values[scope], overrides)
    return values


def override_settings(
    scope: str,
    definitions: Mapping[str, Setting],
    values: Mapping[str, object],
    given: Mapping[str, object],
    *,
    is_remote: bool = False,
) -> dict[str, object]:
    """Return the values of a scope, with given ones over them.

    is_remote: the given ones come over the network, where some have narrower bounds. Raises SettingsError, with the
    closest known setting.
    """
    merged = dict(values)
    for name, value in given.items():
        if name not in definitions:
            raise SettingsError(f"{scope} has {describe_unknown('setting', name, definitions)}")
        merged[name] = definitions[name].parse(scope, value)
        if is_remote and merged[name] != values.get(name):
            definitions[name].check_asked(scope, merged[name])
    return merged
