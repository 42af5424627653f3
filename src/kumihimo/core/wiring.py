"""signatures -> steps in the order they run, with the tables they read."""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar

from kumihimo.core.errors import SettingsError, StepError, describe_unknown
from kumihimo.core.records import Document, Record
from kumihimo.core.settings import Setting, SettingValues
from kumihimo.core.signature import METHOD_PORTS, STEP_PORTS, Signature
from kumihimo.core.table import Codec, codec

ROOT = "documents"  # the table from the readers; the source of all others
PREVIOUS = "previous"  # the parameter that gives a step its own rows of the last build


class Port(Protocol):
    """An external service that a step may call.

    `fingerprint` names everything that determines its results.
    """

    @property
    def fingerprint(self) -> str: ...


@dataclass(frozen=True)
class Step:
    """A signature connected to tables."""

    signature: Signature
    source: str  # the table with the keys; for a whole-table step, its first input
    key: str  # the key column of `source`: id, or the GROUP of its class
    tables: Mapping[str, str]  # parameter -> table

    @cached_property
    def name(self) -> str:
        return self.signature.name

    @property
    def scope(self) -> str:
        return self.signature.scope

    @property
    def output_codec(self) -> Codec[Any]:
        assert self.signature.output_type
        return codec(self.signature.output_type)

    @property
    def keyed(self) -> bool:
        return self.signature.shape != "table"

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Return the tables it reads, without its own."""
        names = dict.fromkeys([self.source, *self.tables.values()])
        return tuple(table for table in names if table != self.name)

    @property
    def remembers(self) -> bool:
        """Return whether it reads its own rows of the last build."""
        return PREVIOUS in self.tables

    @cached_property
    def wave_column(self) -> str:
        """Return the column that orders its keys.

        Empty unless the step reads what it makes in this build.
        """
        reads_itself = self.keyed and any(t == self.name and p != PREVIOUS for p, t in self.tables.items())
        return self.signature.input_type.WAVE if reads_itself and self.signature.input_type else ""


def order_steps(steps: Mapping[str, Signature]) -> list[Step]:
    """Return the steps, each after the steps it depends on.

    Raises StepError if the wiring is wrong.
    """
    record_types: dict[str, type[Record]] = {ROOT: Document} | {
        n: s.output_type for n, s in steps.items() if s.output_type
    }
    pending = [_wire(s, record_types) for s in steps.values()]
    order: list[Step] = []
    done = {ROOT}
    while pending:
        ready = [step for step in pending if done.issuperset(step.inputs)]
        if not ready:
            raise StepError(f"these steps wait for each other: {', '.join(step.name for step in pending)}")
        order += ready
        done.update(step.name for step in ready)
        pending = [step for step in pending if step.name not in done]
    return order


def check_table(function: str, table: str, record_type: type[Record], record_types: Mapping[str, type[Record]]) -> None:
    """Raise StepError unless the table exists and holds records of this class."""
    if table not in record_types:
        raise StepError(f"{function}: {describe_unknown('table', table, record_types)}")
    if record_types[table] is not record_type:
        raise StepError(f"{function}: table {table} holds {record_types[table].__name__}, not {record_type.__name__}")


def _wire(s: Signature, record_types: Mapping[str, type[Record]]) -> Step:
    tables = {p: s.name if p == PREVIOUS else p for p in s.tables}
    for parameter, table in tables.items():
        check_table(s.name, table, s.tables[parameter], record_types)
    if s.shape == "table":
        return Step(s, next(iter(tables.values())), "", tables)
    assert s.input_type
    sources = [table for table, record_type in record_types.items() if record_type is s.input_type]
    if len(sources) != 1:
        raise StepError(f"{s.name}: {len(sources)} tables hold {s.input_type.__name__} rows; it needs exactly one")
    key = s.input_type.GROUP if s.shape == "group" else "id"
    if not key:
        raise StepError(f"{s.name}: {s.input_type.__name__} needs a GROUP: the column whose value names the group")
    step = Step(s, sources[0], key, tables)
    if s.name in tables and not step.wave_column:
        raise StepError(
            f"{s.name} reads what it makes: {s.input_type.__name__} needs a WAVE, the column that orders its rows"
        )
    return step


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
            own = {name: s for name, s in step.settings.items() if name not in step.declaration.shared}
            by_scope.setdefault(step.scope, {}).update(own)
        return by_scope

    def settings_for_step(self, step: str, settings: SettingValues) -> dict[str, object]:
        """Return the settings of one step."""
        own, shared = self.steps[step].settings, self.steps[step].declaration.shared
        values = {name: settings.get(shared.get(name, self.scope(step)), {}) for name in own}
        return {name: of_scope[name] for name, of_scope in values.items() if name in of_scope}

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
