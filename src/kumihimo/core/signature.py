"""function -> Signature: its inputs, settings and output, from its parameters."""

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
    """The interface that a step or a method declares."""

    name: str
    function: Callable[..., Any]
    shape: Shape
    input_type: type[Record] | None  # record class of the first parameter
    tables: Mapping[str, type[Record]]  # parameters that are tables
    optional_tables: Mapping[str, type[Record]]  # of a method: None if the table is missing
    ports: tuple[str, ...]  # parameters for external services
    optional_ports: frozenset[str]  # ports that may be None
    settings: Mapping[str, Setting]
    output_type: type[Record] | None
    many: bool  # whether a call returns any number of rows

    @property
    def summary(self) -> str:
        """Return the first line of the docstring."""
        return (getdoc(self.function) or "").partition("\n")[0]


def collect_signatures(*functions: Callable[..., Any]) -> dict[str, Signature]:
    """Return the signatures of functions, by name.

    Raises StepError if two have the same name.
    """
    signatures: dict[str, Signature] = {}
    for function in functions:
        entry = _read_signature(function)
        if entry.name in signatures:
            raise StepError(f"two functions are called {entry.name!r}: rename one")
        signatures[entry.name] = entry
    return signatures


def _read_signature(function: Callable[..., Any]) -> Signature:
    hints, parameters = _hints_and_parameters(function)
    name = function.__name__.rstrip("_")
    if not parameters:
        raise StepError(f"{name}: it needs a first parameter: a record, a Group or Table of records, or a str")
    shape, input_type = _input_shape(name, hints.get(parameters[0].name))
    output_type, many = _output_type(name, shape, hints.get("return"))
    settings = _read_settings(hints, parameters)
    inputs = {p.name: hints.get(p.name) for p in parameters[1:] if p.name not in settings}
    _check_positional(name, [p for p in parameters if p.name in inputs])
    tables = {parameters[0].name: input_type} if shape == "table" and input_type is not None else {}
    tables |= {name: get_args(hint)[0] for name, hint in inputs.items() if get_origin(hint) is Table}
    optional_tables = {
        name: record_type
        for name, hint in inputs.items()
        if shape == "method" and (record_type := _optional_table_type(hint))
    }
    ports = tuple(name for name in inputs if name not in tables and name not in optional_tables)
    optional_ports = frozenset(name for name in ports if type(None) in get_args(inputs[name]))
    return Signature(
        name, function, shape, input_type, tables, optional_tables, ports, optional_ports, settings, output_type, many
    )


def _check_positional(name: str, inputs: Iterable[Parameter]) -> None:
    """Raise StepError for an input that is not positional."""
    for parameter in inputs:
        if parameter.kind is Parameter.KEYWORD_ONLY or parameter.default is not Parameter.empty:
            raise StepError(
                f"{name}: {parameter.name} must be positional: inputs first, then settings after `*`, with defaults"
            )


def _optional_table_type(hint: Any) -> type[Record] | None:
    """Return the record class of a `Table[X] | None` hint."""
    return next((get_args(member)[0] for member in get_args(hint) if get_origin(member) is Table), None)


def settings_of(function: Callable[..., Any]) -> dict[str, Setting]:
    """Return the settings of a function: keyword-only parameters with defaults."""
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
            raise StepError(f"{name}: a method returns a Context, not {hint}")
        return None, False
    if get_origin(hint) in (Union, types.UnionType):
        hint = next((member for member in get_args(hint) if member is not type(None)), None)
    many = get_origin(hint) in (Iterable, Iterator, list, tuple)
    if many:
        hint = get_args(hint)[0]
    if not (isinstance(hint, type) and issubclass(hint, Record)):
        raise StepError(f"{name}: a step returns a record or an Iterable of records, not {hint}")
    if shape == "table" and not many:
        raise StepError(f"{name}: a whole-table step returns an Iterable of records")
    return hint, many
