"""steps, methods and readers -> Catalogue: everything that an index can use, in one value."""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from kumihimo.core.errors import SettingsError, StepError, describe_unknown
from kumihimo.core.records import Document, Record
from kumihimo.core.settings import Setting, SettingValues
from kumihimo.core.signature import METHOD_PORTS, STEP_PORTS, Signature
from kumihimo.core.wiring import ROOT, Port, Step, check_table, order_steps

F = TypeVar("F", bound=Callable[..., Any])
Reader = Callable[[bytes, str], Iterable[Any]]  # the content of a file, its name in errors -> its pages


@dataclass(frozen=True, slots=True)
class FileType:
    """A type of files, and the function that reads them.

    has_attachments: it may hold files of any other type, so a change of any reader counts as a change of this one.
    is_simple: reading takes little memory and time for the size of the file, so a small file needs no child process.
    """

    media_type: str
    read: Reader
    has_attachments: bool = False
    is_simple: bool = False


def reads(*suffixes: str, media_type: str) -> Callable[[F], F]:
    """Return a decorator for a reader of files.

    suffixes: those of the files, such as ".srt".
    """

    def attach(function: F) -> F:
        function.file_types = dict.fromkeys(suffixes, FileType(media_type, function))  # type: ignore[attr-defined]
        return function

    return attach


def collect_file_types(*readers: Callable[..., Any]) -> dict[str, FileType]:
    """Return the file types of reader functions, by suffix.

    Raises StepError where a function has no `@reads`, or a suffix does not begin with a dot.
    """
    file_types: dict[str, FileType] = {}
    for reader in readers:
        declared: dict[str, FileType] = getattr(reader, "file_types", {})
        if not declared or not all(suffix.startswith(".") and suffix == suffix.lower() for suffix in declared):
            raise StepError(f'{reader.__name__}: a reader needs its suffixes: @reads(".srt", media_type="text/plain")')
        file_types |= declared
    return file_types


@dataclass(frozen=True)
class Catalogue:
    """The steps, methods and readers that an index can use.

    readers: suffix -> `FileType`. origins: who offers a step, a method or a suffix, for all that are not built in.
    recognizer: the NER model of the user's choice.
    """

    steps: Mapping[str, Signature] = field(default_factory=dict)
    methods: Mapping[str, Signature] = field(default_factory=dict)
    readers: Mapping[str, FileType] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    recognizer: Port | None = None

    def extend(
        self,
        steps: Mapping[str, Signature],
        methods: Mapping[str, Signature],
        readers: Mapping[str, FileType],
        origins: Mapping[str, str],
    ) -> "Catalogue":
        """Return a catalogue with more entries.

        Raises StepError where a name exists already.
        """
        existing = {name.casefold() for name in (ROOT, *self.steps, *self.methods)}  # tables differ in more than case
        for name in (*steps, *methods):
            if name.casefold() in existing:
                raise StepError(f"{name}: there is already a step or a method of this name: rename the function")
            existing.add(name.casefold())
        if duplicate := next((suffix for suffix in readers if suffix in self.readers), ""):
            raise StepError(f"{duplicate}: there is already a reader for this suffix")
        return Catalogue(
            {**self.steps, **steps},
            {**self.methods, **methods},
            {**self.readers, **readers},
            {**self.origins, **origins},
            self.recognizer,
        )

    def check(self) -> None:
        """Raise StepError where an added entry does not fit."""
        own = {name: s for name, s in {**self.steps, **self.methods}.items() if name in self.origins}
        for name, s in own.items():
            ports = METHOD_PORTS if s.shape == "method" else STEP_PORTS
            for port in s.ports:
                if port not in ports:
                    raise StepError(f"{name}: {describe_unknown('table or port', port, [*ports, *self.record_types])}")
            for table, record_type in {**s.tables, **s.optional_tables}.items():
                if s.shape == "method":
                    check_table(name, table, record_type, self.record_types)
        if own.keys() & self.steps.keys():
            _ = self.order  # connects the steps

    @cached_property
    def order(self) -> tuple[Step, ...]:
        """Return the steps, each after the steps it depends on."""
        return tuple(order_steps(self.steps))

    @cached_property
    def wired(self) -> dict[str, Step]:
        """Return the steps by name, connected to their tables."""
        return {step.name: step for step in self.order}

    @cached_property
    def _upstream(self) -> dict[str, set[str]]:
        """Return each step with all the steps that it depends on."""
        upstream: dict[str, set[str]] = {ROOT: set()}
        for step in self.order:
            upstream[step.name] = {step.name}.union(*(upstream[table] for table in step.inputs))
        return upstream

    @cached_property
    def record_types(self) -> dict[str, type[Record]]:
        """Return the record class of each table."""
        return {ROOT: Document} | {name: step.output_type for name, step in self.steps.items() if step.output_type}

    def method(self, name: str) -> Signature:
        """Return the method with this name. Raise SettingsError with the closest one."""
        if name not in self.methods:
            raise SettingsError(describe_unknown("method", name, self.methods))
        return self.methods[name]

    def scope(self, step: str) -> str:
        """Return the settings scope of a step.

        Steps that continue one conversation share the settings and the model of its first step.
        """
        return self.steps[step].scope if step in self.steps else step

    def step_settings(self) -> dict[str, dict[str, Setting]]:
        """Return the settings of all steps, grouped by scope."""
        by_scope: dict[str, dict[str, Setting]] = {}
        for step in self.steps.values():
            by_scope.setdefault(step.scope, {}).update(step.settings)
        return by_scope

    def settings_for_step(self, step: str, settings: SettingValues) -> dict[str, object]:
        """Return the settings of one step."""
        values = settings.get(self.scope(step), {})
        return {name: values[name] for name in self.steps[step].settings if name in values}

    def upstream_steps(self, tables: Iterable[str]) -> set[str]:
        """Return the steps that build these tables, with all their inputs."""
        return set().union(*(self._upstream[table] for table in tables if table in self.steps))

    def downstream_steps(self, steps: Container[str]) -> set[str]:
        """Return these steps and all steps downstream of them."""
        names: set[str] = set()
        for step in self.order:
            if step.name in steps or names.intersection(step.inputs):
                names.add(step.name)
        return names
