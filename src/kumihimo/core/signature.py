"""function -> Signature: its inputs, settings and output, from its parameters."""

import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from inspect import Parameter, getdoc, signature
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from kumihimo.core.context import Context, Question
from kumihimo.core.errors import StepError
from kumihimo.core.records import Record
from kumihimo.core.settings import Setting
from kumihimo.core.table import Group, Table

F = TypeVar("F", bound=Callable[..., Any])
Shape = Literal["row", "group", "table", "method"]


METHOD_PORTS = ("llm", "keyword_search", "vector_search", "tokenizer", "rerank")
STEP_PORTS = ("llm", "tokenizer", "recognizer")
MethodSettings = Mapping[str, Any]  # name -> value


class IndexSizes(Protocol):
    """The sizes of an index, for bounds on the cost of a question."""

    def rows(self, table: str) -> int: ...
    def tokens(self, table: str) -> int: ...  # of all rows together
    def level(self, level: int) -> tuple[int, int]: ...  # reports of a community level, and their tokens
    def prompt_tokens(self, prompt: Path) -> int: ...  # of a prompt without its variables


@dataclass(frozen=True, slots=True)
class QueryCost:
    """Bounds on the model calls of a method for one question, each as (minimum, maximum).

    prompt_tokens: of all calls together, apart from the question. texts: embedded for the question.
    """

    calls: tuple[int, int] = (0, 0)
    prompt_tokens: tuple[int, int] = (0, 0)
    texts: tuple[int, int] = (0, 0)

    @classmethod
    def for_calls(cls, calls: tuple[int, int], prompt: tuple[int, int], texts: tuple[int, int] = (0, 0)) -> Self:
        """Return the cost of calls whose prompts have the same bounds."""
        return cls(calls, (calls[0] * prompt[0], calls[1] * prompt[1]), texts)


QueryBound = Callable[[MethodSettings, IndexSizes], QueryCost]  # the settings of the method, the index


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """The facts about a step or a method beside its signature, as a decorator `@declare(...)`.

    scope: of a step, the step whose settings and model it shares. shared: settings of a step that are those of another
    scope, and that scope. best_for: of a method, the questions it suits.
    answer_prompt: of a method, a prompt of its own for the answer. calls: of a method with an LLM, the bound of its
    model calls for one question. level: of a method, the deepest level of reports that it reads.
    """

    scope: str = ""
    shared: Mapping[str, str] = field(default_factory=dict)
    best_for: str = ""
    answer_prompt: Path | None = None
    calls: QueryBound | None = None
    level: Callable[[MethodSettings], int] | None = None

    def __call__(self, function: F) -> F:
        """Attach these facts to a function."""
        function.declaration = self  # type: ignore[attr-defined]
        return function


declare = Declaration


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
    settings_groups: Mapping[str, Any]  # keyword-only parameters whose fields are settings, with their defaults
    output_type: type[Record] | None
    many: bool  # whether a call returns any number of rows
    takes_text: bool  # of a method: whether it takes the text of a question, not a parsed one
    declaration: Declaration = Declaration()

    @property
    def summary(self) -> str:
        """Return the first line of the docstring."""
        return (getdoc(self.function) or "").partition("\n")[0]

    @property
    def scope(self) -> str:
        """Return the name under which users set its settings and its model."""
        return self.declaration.scope or self.name

    @property
    def makes_one_row(self) -> bool:
        """Return whether a call makes exactly one row, even without a model."""
        hint = get_type_hints(self.function).get("return")
        needs_model = "llm" in self.ports and "llm" not in self.optional_ports
        return not (self.many or needs_model or type(None) in get_args(hint))

    def keyword_arguments(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return the settings as the keyword arguments of the function.

        Settings that belong to a dataclass come as one instance of it.
        """
        arguments = dict(values)
        for parameter, group in self.settings_groups.items():
            names = [field.name for field in fields(group) if field.name in arguments]
            arguments[parameter] = replace(group, **{name: arguments.pop(name) for name in names})
        return arguments


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
    settings_groups = {p.name: p.default for p in parameters if _is_settings_group(p)}
    inputs = {p.name: hints.get(p.name) for p in parameters[1:] if p.name not in {**settings, **settings_groups}}
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
        name,
        function,
        shape,
        input_type,
        tables,
        optional_tables,
        ports,
        optional_ports,
        settings,
        settings_groups,
        output_type,
        many,
        hints.get(parameters[0].name) is str,
        getattr(function, "declaration", Declaration()),
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
    """Return the settings of a function: keyword-only parameters with defaults.

    A parameter of a frozen dataclass stands for the fields of the class.
    """
    return _read_settings(*_hints_and_parameters(function))


def _hints_and_parameters(function: Callable[..., Any]) -> tuple[dict[str, Any], list[Parameter]]:
    return get_type_hints(function, include_extras=True), list(signature(function).parameters.values())


def _read_settings(hints: Mapping[str, Any], parameters: Iterable[Parameter]) -> dict[str, Setting]:
    settings: dict[str, Setting] = {}
    for p in parameters:
        if _is_settings_group(p):
            types_ = get_type_hints(type(p.default), include_extras=True)
            found = (Setting.of(f.name, types_[f.name], getattr(p.default, f.name)) for f in fields(p.default))
            settings |= {setting.name: setting for setting in found}
        elif p.kind is Parameter.KEYWORD_ONLY and p.default is not Parameter.empty:
            settings[p.name] = Setting.of(p.name, hints[p.name], p.default)
    return settings


def _is_settings_group(parameter: Parameter) -> bool:
    """Return whether the fields of this parameter's default are settings."""
    return parameter.kind is Parameter.KEYWORD_ONLY and is_dataclass(parameter.default)


def _input_shape(name: str, hint: Any) -> tuple[Shape, type[Record] | None]:
    if hint is str or (isinstance(hint, type) and issubclass(hint, Question)):
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
