"""a key and its rows -> what a step makes of them: the seam at which work may leave this thread, or this machine.

Rows travel as tuples; whoever does the work decodes, calls and encodes. Today that is a thread of this process. For
another machine a task is made anew there, from the step's name, its settings and the addresses of its ports.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kumihimo.core.errors import ItemFailed, StepError, UpstreamFailed, describe_unknown
from kumihimo.core.table import Group, LookupRecorder, Row, Rows, Table, codec, lookup_hash
from kumihimo.core.wiring import Step

MAX_ROWS = 99_999  # rows one call may make, since ordinals are padded to five digits; with more, the item has failed

Dependencies = bytes  # the sorted 64-bit numbers of a call's look-ups
Job = list[tuple[str, list[Row]]]  # keys with their input rows


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one call of a step gave: rows, the look-ups it made, and what went wrong."""

    key: str
    rows: list[Row]
    dependencies: Dependencies
    error: str | None


RunJob = Callable[[Job], list[StepResult]]
Pool = Callable[[RunJob, Iterable[Job]], Iterator[list[StepResult]]]  # results in the order of the jobs
Progress = Callable[[str, int, int], None]  # step, keys done, keys in all


def inline(call: RunJob, jobs: Iterable[Job]) -> Iterator[list[StepResult]]:
    """The pool of one: each job in turn, in this thread."""
    return map(call, jobs)


class Port(Protocol):
    """Something from the world that a step may ask; `mark` names all that determines what it gives."""

    @property
    def fingerprint(self) -> str: ...


def select_ports(step: Step, ports: Mapping[str, Port]) -> dict[str, Port | None]:
    """Those of the ports that the step is given. Raises StepError where one is not there that it needs."""
    for port in step.signature.ports:
        if port not in ports and port not in step.signature.optional_ports:
            raise StepError(f"{step.name}: {describe_unknown('table or port', port, [*ports, *step.tables.values()])}")
    return {name: ports.get(name) for name in step.signature.ports}


class Task:
    """One step, with its settings, its ports and the tables it may look into."""

    def __init__(
        self,
        step: Step,
        settings: Mapping[str, object],
        ports: Mapping[str, Port],
        rows: Callable[[str], Rows],
        failing: dict[str, str],
    ) -> None:
        signature = step.signature
        assert signature.input_type
        self.step, self.rows, self.failing = step, rows, failing
        self.ports = select_ports(step, ports)
        self.arguments: dict[str, Any] = {**settings, **self.ports}
        self.function, self.many, self.grouped = signature.function, signature.many, signature.shape == "group"
        self.encode, self.decode = step.output_codec.encode, codec(signature.input_type).decode

    @property
    def calls_llm(self) -> bool:
        """Whether it waits for a model, so that calls are worth making side by side."""
        return self.ports.get("llm") is not None

    def __call__(self, job: Job) -> list[StepResult]:
        return [self._run_key(key, rows) for key, rows in job]

    def _run_key(self, key: str, rows: list[Row]) -> StepResult:
        if not rows:  # what made its rows is gone
            return StepResult(key, [], b"", None)
        if self.grouped and ("." in key or "/" in key):
            raise StepError(f"{self.step.name}: {key!r} is no name for a group: its column holds digests")
        looked: set[int] = set()
        error = None
        try:
            made = self._call(rows, looked)
        except ItemFailed as failure:
            error = str(failure) or type(failure).__name__
            made = list(failure.fallback)
        encode = self.encode
        if self.many:
            named = [encode(f"{key}.{i:05d}", record) for i, record in enumerate(made)]
        else:
            named = [encode(key, record) for record in made]
        if len(named) > MAX_ROWS:
            named, error = [], f"it makes {len(named):,} rows, and the most is {MAX_ROWS:,}: cut it into parts"
        return StepResult(key, named, array("q", sorted(looked)).tobytes() if looked else b"", error)

    def _call(self, rows: list[Row], looked: set[int]) -> list[Any]:
        first = Group(map(self.decode, rows)) if self.grouped else self.decode(rows[0])
        if self.step.tables:
            made = self.function(
                first, **self.arguments, **input_tables(self.step, self.rows, self.lookup_recorder(looked))
            )
        else:
            made = self.function(first, **self.arguments)
        if self.many:
            return list(made)
        return [] if made is None else [made]

    def lookup_recorder(self, dependencies: set[int]) -> LookupRecorder:
        """Adds each look-up to `looked`. Raises Waits where what is looked up by id has failed in this step."""

        def note(table: str, columns: tuple[str, ...], values: tuple[object, ...], found: bool) -> None:
            if table == self.step.name and columns == ("id",) and not found and values[0] in self.failing:
                raise UpstreamFailed(f"waits for {values[0]}, which failed")
            dependencies.add(lookup_hash(table, columns, values))

        return note


def input_tables(
    step: Step, rows: Callable[[str], Rows], record_lookup: LookupRecorder | None = None
) -> dict[str, Table[Any]]:
    """The tables that a step reads, by the names of its parameters."""
    kinds = step.signature.tables
    return {name: Table(table, codec(kinds[name]), rows(table), record_lookup) for name, table in step.tables.items()}
