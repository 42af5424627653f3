"""function -> Signature: the name is the wiring, the parameters say what is read, the defaults are the settings."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from inspect import Parameter, getdoc, signature
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from kumihimo.core.context import Context
from kumihimo.core.errors import StepError
from kumihimo.core.records import Record
from kumihimo.core.settings import Setting
from kumihimo.core.table import Group, Table

Shape = Literal["row", "group", "table", "method"]


@dataclass(frozen=True, slots=True)
class Signature:
    """What a step or a method says of itself."""

    name: str
    function: Callable[..., Any]
    shape: Shape
    input_type: type[Record] | None  # the class of the rows a step is keyed by
    tables: Mapping[str, type[Record]]  # further parameters that are tables
    optional_tables: Mapping[
        str, type[Record]
    ]  # of a method: tables that it reads where they are there, and else is given None
    ports: tuple[str, ...]  # further parameters that are not: what the world provides
    optional_ports: frozenset[str]  # those of the ports that it can do without: it is given None
    settings: Mapping[str, Setting]
    output_type: type[Record] | None
    many: bool  # whether one call makes any number of rows

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (getdoc(self.function) or "").partition("\n")[0]


def collect_signatures(*functions: Callable[..., Any]) -> dict[str, Signature]:
    """Functions by name: a list one can read. Raises StepError where a name stands twice."""
    read: dict[str, Signature] = {}
    for function in functions:
        found = _read_signature(function)
        if found.name in read:
            raise StepError(f"two functions are called {found.name!r}: rename one")
        read[found.name] = found
    return read


def _read_signature(function: Callable[..., Any]) -> Signature:
    hints, parameters = _hints_and_parameters(function)
    name = function.__name__.rstrip("_")
    if not parameters:
        raise StepError(f"{name}: the first parameter says what it works on, and it has none")
    shape, first = _input_shape(name, hints.get(parameters[0].name))
    makes, many = _output_type(name, shape, hints.get("return"))
    settings = _read_settings(hints, parameters)
    inputs = {p.name: hints.get(p.name) for p in parameters[1:] if p.name not in settings}
    _check_positional(name, [p for p in parameters if p.name in inputs])
    tables = {parameters[0].name: first} if shape == "table" and first is not None else {}
    tables |= {name: get_args(hint)[0] for name, hint in inputs.items() if get_origin(hint) is Table}
    may = {name: held for name, hint in inputs.items() if shape == "method" and (held := _optional_table_type(hint))}
    ports = tuple(name for name in inputs if name not in tables and name not in may)
    optional = frozenset(name for name in ports if type(None) in get_args(inputs[name]))
    return Signature(name, function, shape, first, tables, may, ports, optional, settings, makes, many)


def _check_positional(name: str, inputs: Iterable[Parameter]) -> None:
    """Raises StepError for one that cannot be given by its place."""
    for given in inputs:
        if given.kind is Parameter.KEYWORD_ONLY or given.default is not Parameter.empty:
            raise StepError(f"{name}: {given.name} needs its place: inputs first, settings after `*` with a default")


def _optional_table_type(hint: Any) -> type[Record] | None:
    """The records of a table that may not be there: `Table[X] | None`."""
    return next((get_args(arm)[0] for arm in get_args(hint) if get_origin(arm) is Table), None)


def settings_of(function: Callable[..., Any]) -> dict[str, Setting]:
    """The settings of any function: its keyword-only parameters that have defaults."""
    return _read_settings(*_hints_and_parameters(function))


def _hints_and_parameters(function: Callable[..., Any]) -> tuple[dict[str, Any], list[Parameter]]:
    return get_type_hints(function), list(signature(function).parameters.values())


def _read_settings(hints: Mapping[str, Any], parameters: Iterable[Parameter]) -> dict[str, Setting]:
    return {
        p.name: Setting(p.name, hints[p.name], p.default)
        for p in parameters
        if p.kind is Parameter.KEYWORD_ONLY and p.default is not Parameter.empty
    }


def _input_shape(name: str, hint: Any) -> tuple[Shape, type[Record] | None]:
    if hint is str:
        return "method", None
    if get_origin(hint) is Group:
        return "group", get_args(hint)[0]
    if get_origin(hint) is Table:
        return "table", get_args(hint)[0]
    if isinstance(hint, type) and issubclass(hint, Record):
        return "row", hint
    raise StepError(f"{name}: the first parameter is a record, a Group or Table of them, or a str; it is {hint}")


def _output_type(name: str, shape: Shape, hint: Any) -> tuple[type[Record] | None, bool]:
    if shape == "method":
        if hint is not Context:
            raise StepError(f"{name}: a method gives a Context, not {hint}")
        return None, False
    if get_origin(hint) in (Union, types.UnionType):
        hint = next((arm for arm in get_args(hint) if arm is not type(None)), None)
    many = get_origin(hint) in (Iterable, Iterator, list, tuple)
    if many:
        hint = get_args(hint)[0]
    if not (isinstance(hint, type) and issubclass(hint, Record)):
        raise StepError(f"{name}: a step gives a record or an Iterable of records, not {hint}")
    if shape == "table" and not many:
        raise StepError(f"{name}: a step over a whole table gives an Iterable of records")
    return hint, many
