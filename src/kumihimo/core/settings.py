"""texts -> settings: the keyword-only defaults of a function, with their types."""

import json
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from kumihimo.core import network, redaction
from kumihimo.core.errors import MAX_SHOWN, SettingsError, describe_unknown

SettingValues = Mapping[str, Mapping[str, object]]  # scope (a step, a method) -> setting -> value


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the greatest number that a setting may have: `k: Annotated[int, Bounds(1, 1000)] = 20`.

    Of a text they count its characters, of a list its items. asked: both for a question over the network, if a value
    may cost the owner of the index much.

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


@dataclass(frozen=True, slots=True)
class TextForm:
    """The form of a text, such as `persona: Annotated[str, LINE] = ""`.

    description: for an error. accepts: tells whether a text is one, or raises SettingsError with what is wrong.
    """

    description: str
    accepts: Callable[[str], object]

    def check_text(self, text: str, name: str) -> None:
        """Raise SettingsError for another text. name: of the setting."""
        try:
            is_accepted = self.accepts(text)
        except SettingsError as error:
            raise SettingsError(f"{name}: {error}") from error
        if not is_accepted:
            raise SettingsError(f"{name} has to be {self.description}, not {show_value(text)}")


TEXT = TextForm("a text, not spaces alone", lambda text: not text or text.strip())  # where the hint has none
LINE = TextForm("one line without spaces around it", lambda text: text == text.strip() and len(text.splitlines()) < 2)
SIZES = {str: Bounds(0, 10_000), tuple: Bounds(0, 10_000)}  # where the hint has none

Batch = Annotated[int, Bounds(1, 10_000)]  # of what one request holds
Count = Annotated[int, Bounds(0, 1_000_000)]
Line = Annotated[str, Bounds(0, 1000), LINE]
Name = Annotated[str, Bounds(1, 1000), LINE]
Names = tuple[Name, ...]
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

    size: the bounds of a text or a list. form: of a text.
    """

    name: str
    type: Any
    default: object
    bounds: Bounds | None = None
    size: Bounds | None = None
    form: TextForm | network.Mark | None = None

    @classmethod
    def of(cls, name: str, hint: Any, default: object) -> "Setting":
        """Return the setting of a parameter with this hint."""
        members = _union_members(hint)
        kinds = tuple(get_args(each)[0] if get_origin(each) is Annotated else each for each in members)
        notes = [note for each in members for note in getattr(each, "__metadata__", ())]
        bounds = next((note for note in notes if isinstance(note, Bounds)), None)
        form = next((note for note in notes if isinstance(note, TextForm | network.Mark)), None)
        counts = str in kinds or any(get_origin(kind) is tuple for kind in kinds)
        bounds, size = (None, bounds) if counts else (bounds, None)
        return cls(name, Union[kinds], default, bounds, size, form)  # noqa: UP007

    @property
    def mark(self) -> network.Mark | None:
        """Return the form if it needs trust."""
        return self.form if isinstance(self.form, network.Mark) else None

    def parse(self, scope: str, value: object) -> object:
        """Convert a text or a TOML value to the setting's type.

        Raises SettingsError for another type, another form, and out of bounds.
        """
        # None first: the text "none" is a str, too
        for member in sorted(_union_members(self.type), key=lambda member: member is not type(None)):
            converted = _convert(member, value)
            if converted is not _INVALID and self._allows(converted):
                if isinstance(converted, str) and get_origin(member) is not Literal:
                    self._check_text(f"{scope}.{self.name}", converted)
                return self._parse_items(scope, member, converted) if isinstance(converted, tuple) else converted
        raise SettingsError(
            f"{scope}.{self.name} is {self.type_description}, not {show_value(value)} (default: {self.default!r})"
        )

    def _check_text(self, name: str, text: str) -> None:
        """Raise SettingsError for a text of another form, without a key."""
        if not self.mark and (found := _CONTROL.search(text)):
            raise SettingsError(f"{name} has the control character {found[0]!r}: take it out")
        (self.form or TEXT).check_text(text, name)

    def _parse_items(self, scope: str, hint: Any, values: tuple[object, ...]) -> tuple[object, ...]:
        """Return the items of a list in their type, each once."""
        item = Setting.of(self.name, get_args(hint)[0], self.default)
        items = tuple(replace(item, name=f"{self.name}[{n}]").parse(scope, each) for n, each in enumerate(values))
        if item.type is str and len({*items}) < len(items):
            twice = next(each for n, each in enumerate(items) if each in items[:n])
            raise SettingsError(f"{scope}.{self.name} names {show_value(twice)} twice: keep one")
        return items

    def check_asked(self, scope: str, value: object) -> None:
        """Raise SettingsError for a value beyond the bounds of questions."""
        asked = self.bounds.asked if self.bounds else None
        if asked and not replace(self, bounds=Bounds(*asked))._allows(value):
            raise SettingsError(
                f"{scope}.{self.name} is from {asked[0]:,} to {asked[1]:,} in a question over the network, not "
                f"{value!r}: choose a number between, or set it in the kumi.toml of the index"
            )

    def _allows(self, value: object) -> bool:
        if isinstance(value, str | tuple):
            return len(value) in (self.size or SIZES[type(value)])
        return self.bounds is None or not isinstance(value, int | float) or value in self.bounds

    @property
    def type_description(self) -> str:
        """Return a readable name of the type, with its bounds."""
        return " or ".join(map(self._describe_member, _union_members(self.type)))

    def _describe_member(self, hint: Any) -> str:
        description = _describe_type(hint)
        if default_size := SIZES.get(get_origin(hint) or hint):
            size, kind = self.size or default_size, "characters" if hint is str else "items"
            return f"{description} of {f'{size.least:,}' if size.least else 'up'} to {size.most:,} {kind}"
        return f"{description} {self.bounds}" if self.bounds and hint in (int, float) else description


def show_value(value: object) -> str:
    """Return the beginning of a value for an error, without secrets."""
    return redaction.redact(f"{value!r}"[: 50 * MAX_SHOWN])[:MAX_SHOWN]


_CONTROL = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\ud800-\\udfff]")  # and what is no character
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
        return _parse_list(value)
    if hint is bool:
        return value if isinstance(value, bool) else _BOOLEANS.get(str(value).lower(), _INVALID)
    if hint is str:
        return value if isinstance(value, str) else _INVALID
    if hint is type(None):
        return None if value is None or value == "none" else _INVALID
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return _INVALID
    return _parse_number(hint, value)


def _parse_list(value: object) -> object:
    if isinstance(value, str):
        value = _split_list(value.strip())
    return tuple(value) if isinstance(value, list | tuple) else _INVALID


def _split_list(text: str) -> object:
    """Split `1,2,3`, or parse a list as in kumi.toml."""
    if not text.startswith("["):
        return [part.strip() for part in text.split(",")] if text else []
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
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
