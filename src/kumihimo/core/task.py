"""a key and its rows -> the rows a step makes: the unit of parallel work.

Rows travel as tuples; the worker decodes, calls and encodes. A worker is a thread of this process, or another process,
which creates the task from a `TaskSpec`: the step's name and its settings.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kumihimo.core.errors import ItemFailed, StepError, UpstreamFailed, describe_unknown
from kumihimo.core.executors import WorkerContext
from kumihimo.core.records import Record
from kumihimo.core.table import NO_ROWS, Group, JobTable, LookupRecorder, Row, Rows, Table, codec, lookup_hash
from kumihimo.core.wiring import PREVIOUS, Port, Step

MAX_KNOWN = 10_000  # rows of a table that jobs share
MAX_ROWS = 99_999  # rows of one call: ordinals have five digits; with more rows the item fails

Dependencies = bytes  # sorted 64-bit hashes of a call's lookups
Job = list[tuple[str, list[Row]]]  # keys with their input rows


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one step call: rows, lookups and error."""

    key: str
    rows: list[Row]
    dependencies: Dependencies
    error: str | None


RunJob = Callable[[Job], list[StepResult]]
Pool = Callable[[RunJob, Iterable[Job]], Iterator[list[StepResult]]]  # results in the order of the jobs
RowsOf = Callable[[str], Rows]  # a table's name -> its rows


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """A piece of news from a build, a question or an evaluation.

    step: the table, or the search index, `words of chunks`; `search` and `answer` of a question. done, total: the items
    of the step; total 0: unknown. share: of the whole build, from 0 to 1. model: the model that is asked.
    """

    step: str
    done: int = 0
    total: int = 0
    share: float | None = None
    model: str = ""


Progress = Callable[[ProgressEvent], None]


def ignore_progress(event: ProgressEvent) -> None:
    """Ignore an event."""


def select_ports(step: Step, ports: Mapping[str, Port]) -> dict[str, Port | None]:
    """Return the ports of a step.

    Raises StepError if a required one is missing.
    """
    for port in step.signature.ports:
        if port not in ports and port not in step.signature.optional_ports:
            raise StepError(f"{step.name}: {describe_unknown('table or port', port, [*ports, *step.tables.values()])}")
    return {name: ports.get(name) for name in step.signature.ports}


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A task without lookups, which another process can create. name: of the step."""

    name: str
    settings: Mapping[str, object]

    def open(self, context: WorkerContext) -> RunJob:
        step = next(step for step in context.catalogue.order if step.name == self.name)
        return Task(step, self.settings, context.ports, lambda _: NO_ROWS, {})

    def describe(self, job: Job) -> str:
        keys = [key for key, _ in job]
        return " to ".join(dict.fromkeys([keys[0], keys[-1]]))


class Task:
    """A step with its settings, ports and tables.

    from_scratch: whether it does not see its rows of the last build.
    """

    def __init__(
        self,
        step: Step,
        settings: Mapping[str, object],
        ports: Mapping[str, Port],
        rows: RowsOf,
        failing: dict[str, str],
        from_scratch: bool = False,
    ) -> None:
        signature = step.signature
        assert signature.input_type
        self.step, self.rows, self.failing, self.from_scratch = step, rows, failing, from_scratch
        self.settings, self.shared_rows = settings, dict[str, dict[str, Any]]()
        self.ports = select_ports(step, ports)
        self.arguments: dict[str, Any] = {**signature.keyword_arguments(settings), **self.ports}
        self.function, self.many, self.grouped = signature.function, signature.many, signature.shape == "group"
        self.encode, self.decode = step.output_codec.encode, codec(signature.input_type).decode

    @property
    def calls_llm(self) -> bool:
        """Return whether the step calls an LLM.

        Only then do concurrent calls save time.
        """
        return self.ports.get("llm") is not None

    @property
    def spec(self) -> TaskSpec | None:
        """Return the spec for another process.

        None for calls of an LLM, and for lookups: their rows are in the transaction of this process.
        """
        return None if self.calls_llm or self.step.tables else TaskSpec(self.step.name, self.settings)

    def __call__(self, job: Job) -> list[StepResult]:
        tables = self.tables([key for key, _ in job])
        return [self.run_key(key, rows, tables) for key, rows in job]

    def run_key(self, key: str, rows: list[Row], tables: Mapping[str, Table[Any]]) -> StepResult:
        """Call the step for one key."""
        if not rows:  # the source rows are gone
            return StepResult(key, [], b"", None)
        if self.grouped and ("." in key or "/" in key):
            raise StepError(f"{self.step.name}: {key!r} is not a valid group id: the GROUP column holds hashes")
        dependencies: set[int] = set()
        error = None
        try:
            records = self._call(rows, tables, dependencies)
        except ItemFailed as failure:
            error = str(failure) or type(failure).__name__
            records = list(failure.fallback)
        encode = self.encode
        if self.many:
            encoded = [encode(f"{key}.{i:05d}", record) for i, record in enumerate(records)]
        else:
            encoded = [encode(key, record) for record in records]
        if len(encoded) > MAX_ROWS:
            encoded, error = [], f"it makes {len(encoded):,} rows; the maximum is {MAX_ROWS:,}: split it into parts"
        return StepResult(key, encoded, array("q", sorted(dependencies)).tobytes() if dependencies else b"", error)

    def _call(self, rows: list[Row], tables: Mapping[str, Table[Any]], dependencies: set[int]) -> list[Any]:
        subject = Group(map(self.decode, rows)) if self.grouped else self.decode(rows[0])
        arguments, failed = self.arguments, list[str]()
        recorder = self.lookup_recorder(dependencies, failed)
        for name, table in tables.items():
            table.record_lookup = _ignore_lookup if name == PREVIOUS else recorder
        if self.step.wave_column and self.calls_llm:
            arguments = {**arguments, "llm": _WaitingModel(arguments["llm"], failed)}
        result = self.function(subject, **arguments, **tables)
        if self.many:
            return list(result)
        return [] if result is None else [result]

    def lookup_recorder(self, dependencies: set[int], failed: list[str]) -> LookupRecorder:
        """Return a function that adds each lookup to `dependencies`.

        It raises UpstreamFailed for a row of this step that failed; one with a fallback is added to `failed`.
        """

        def record(table: str, columns: tuple[str, ...], values: tuple[object, ...], exists: bool) -> None:
            if table == self.step.name and columns == ("id",) and values[0] in self.failing:
                failed.append(str(values[0]))
                if not exists:
                    raise _upstream_failed(failed)
            dependencies.add(lookup_hash(table, columns, values))

        return record

    def tables(self, keys: Sequence[str] = ()) -> dict[str, Table[Any]]:
        """Return the tables of the step by parameter name.

        keys: of a job. Look-ups of rows of the last build are not recorded: what a step remembers is no reason to run
        it again.
        """
        record_types, tables = self.step.signature.tables, dict[str, Table[Any]]()
        for name, table in self.step.tables.items():
            rows = NO_ROWS if name == PREVIOUS and self.from_scratch else self.rows(table)
            kind = codec(record_types[name])
            is_fixed = keys and table != self.step.name
            tables[name] = (
                JobTable(table, kind, rows, keys=keys, known=self._shared_rows(table, record_types[name]))
                if is_fixed
                else Table(table, kind, rows)
            )
        return tables

    def _shared_rows(self, table: str, record_type: type[Record]) -> dict[str, Any]:
        """Return the rows of another table that jobs have read.

        Only the table of this step changes meanwhile.
        """
        known = self.shared_rows.get(table)
        if known is None or record_type.BIG or len(known) > MAX_KNOWN:
            known = self.shared_rows[table] = {}
        return known


@dataclass(frozen=True)
class _WaitingModel:
    """A model that is not asked about the fallback of a failed row.

    The reply would be thrown away: the next build makes the row first. failed: the failed rows that the item has read.
    """

    model: Any
    failed: list[str]

    def __call__(self, *prompts: Any, **options: Any) -> Any:
        if self.failed:
            raise _upstream_failed(self.failed)
        return self.model(*prompts, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


def _upstream_failed(failed: list[str]) -> UpstreamFailed:
    return UpstreamFailed(f"waits for {failed[0]}, which failed")


def _ignore_lookup(table: str, columns: tuple[str, ...], values: tuple[object, ...], exists: bool) -> None:
    """Record nothing."""
