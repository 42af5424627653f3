"""steps + changes -> tables: incremental updates, keyed or over whole tables.

A *keyed* step runs for each changed key. The engine compares the result with the previous rows of that key and writes
the difference; the difference is the work list of the next step. A row step is keyed by groups of one row. A *whole*
step runs when an input changed, and the engine writes the difference. So adding, changing and removing a document use
the same code, and the cost grows with the change.
"""

import json
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from kumihimo.core import digests, task as tasks
from kumihimo.core.cancel import CancelToken, check_cancelled
from kumihimo.core.errors import ItemFailed, StepError
from kumihimo.core.executors import BuildExecutor, inline, run_jobs
from kumihimo.core.records import Record
from kumihimo.core.settings import SettingValues
from kumihimo.core.table import Codec, Row, Rows, codec
from kumihimo.core.wiring import ROOT, Port, Step

WRITE_BATCH = 512  # keys whose rows are written at once
READ_BATCH = 32  # keys whose rows are read at once: a document may be large


class Ledger(Protocol):
    """A build in progress: its tables and the state of each step."""

    # tables
    def ensure_table(self, table: str, codec: Codec[Any], source: str = "", key: str = "") -> bool: ...
    def settle(self, table: str) -> None: ...
    def rows(self, table: str) -> Rows: ...
    def grouped(self, table: str, column: str, keys: list[str]) -> dict[str, list[Row]]: ...
    def rows_by_maker(self, table: str, makers: list[str], *, many: bool) -> dict[str, list[Row]]: ...
    def change(self, table: str, old: list[Row], new: list[Row]) -> None: ...

    def retire(self, steps: list[str]) -> None: ...

    # changes in this build
    def watch(self, table: str, key: str | None, lookup_keys: Iterable[tuple[str, ...]]) -> None: ...
    def changed(self, table: str) -> bool: ...
    def changed_lookups(self, table: str) -> set[int] | None: ...

    # keys to run, wave by wave
    def todo(self, step: str, source: str, key: str, wave: str, *, everything: bool) -> None: ...
    def add_keys(self, keys: Iterable[str]) -> None: ...
    def waves(self) -> Iterator[Iterator[list[str]]]: ...
    @property
    def todo_count(self) -> int: ...  # all keys in this run of a step

    # state kept between builds
    def fingerprint(self, step: str) -> str | None: ...
    def set_fingerprint(self, step: str, fingerprint: str) -> None: ...
    def failures(self, step: str) -> dict[str, str]: ...
    def record_failures(self, step: str, errors: Iterable[tuple[str, str | None]]) -> None: ...
    def dependencies(self, step: str) -> Iterator[tuple[str, tasks.Dependencies]]: ...
    def record_dependencies(self, step: str, dependencies: Iterable[tuple[str, tasks.Dependencies]]) -> None: ...


PortProvider = Callable[[str], Mapping[str, Port]]  # a step's name -> its ports
CodeFingerprint = Callable[[str], str]  # a table's name -> a hash of the code and prompts behind it


def watch_tables(steps: Iterable[Step], ledger: Ledger) -> None:
    """Register the lookups of the steps before the documents change."""
    for step in steps:
        if step.keyed:
            ledger.watch(step.source, step.key, ())
            for parameter, table in step.tables.items():
                ledger.watch(table, None, codec(step.signature.tables[parameter]).lookup_keys)


def build_tables(
    steps: Sequence[Step],
    ledger: Ledger,
    *,
    settings: SettingValues,
    ports: PortProvider,
    code: CodeFingerprint,
    pool: tasks.Pool = map,
    executor: BuildExecutor = inline,
    progress: tasks.Progress | None = None,
    from_scratch: Collection[str] = (),
    cancel: CancelToken | None = None,
) -> None:
    """Update every table after changes to `documents`.

    steps: in an order in which each comes after its inputs. ledger: holds the changes; call `watch_tables` on it first.
    ports: the ports of each step. pool: runs the steps that call an LLM; executor: the others, except whole-table
    steps. from_scratch: steps that ignore their previous rows. cancel: stops the build between two jobs, or two steps.
    """
    ledger.retire([step.name for step in steps])
    step_fingerprints = fingerprints(steps, settings=settings, ports=ports, code=code)
    for step in steps:
        arguments, failing = settings.get(step.name, {}), ledger.failures(step.name)
        task = tasks.Task(step, arguments, ports(step.name), ledger.rows, failing, step.name in from_scratch)
        whole = "" if step.name in step.tables.values() else "*"  # its rows are kept only if the step reads them
        ledger.ensure_table(step.name, step.output_codec, step.source, step.key or whole)
        run: tasks.Pool | partial[Any] = pool if task.calls_llm else partial(run_jobs, executor)
        _StepRun(task, ledger, run, progress or tasks.ignore_progress, cancel).update(step_fingerprints[step.name])


def fingerprints(
    steps: Iterable[Step], *, settings: SettingValues, ports: PortProvider, code: CodeFingerprint
) -> dict[str, str]:
    """Return a hash of everything that determines each table.

    The hash of a step includes the hashes of its input tables that are built.
    """
    step_fingerprints = {ROOT: code(ROOT)}
    for step in steps:
        port_fingerprints = [
            port.fingerprint if port else "" for port in tasks.select_ports(step, ports(step.name)).values()
        ]
        settings_json = json.dumps(settings.get(step.name, {}), sort_keys=True)
        step_fingerprints[step.name] = digests.hash_parts(
            code(step.name),
            step.name,
            settings_json,
            *port_fingerprints,
            *(step_fingerprints[table] for table in step.inputs if table in step_fingerprints),
        )
    return step_fingerprints


class _StepRun:
    """A step within a build."""

    def __init__(
        self,
        task: tasks.Task,
        ledger: Ledger,
        run: Callable[[tasks.Task, Iterable[tasks.Job]], Iterator[list[tasks.StepResult]]],
        progress: tasks.Progress,
        cancel: CancelToken | None = None,
    ) -> None:
        self.task, self.step, self.failing = task, task.step, task.failing
        self.ledger, self.progress, self.cancel = ledger, progress, cancel
        self.run = run

    def update(self, fingerprint: str) -> None:
        check_cancelled(self.cancel)
        remake = self.task.from_scratch or self.ledger.fingerprint(self.step.name) != fingerprint
        if self.step.keyed:
            self._run_keyed(remake)
        elif remake or self.failing or any(map(self.ledger.changed, self.step.inputs)):
            self._run_whole()
        self.ledger.settle(self.step.name)
        self.ledger.set_fingerprint(self.step.name, fingerprint)

    # -- keyed steps

    def _run_keyed(self, remake: bool) -> None:
        step, ledger = self.step, self.ledger
        other_tables = [table for table in step.tables.values() if table != step.name]
        everything = remake or any(ledger.changed_lookups(table) is None for table in other_tables)
        ledger.todo(step.name, step.source, step.key, step.wave_column, everything=everything)
        if not everything:
            ledger.add_keys(self._keys_with_changed_lookups(other_tables))
        done = 0
        for wave in ledger.waves():
            pending: list[tasks.StepResult] = []
            for results in self.run(self.task, self._jobs(wave)):
                check_cancelled(self.cancel)
                pending += results
                finished = done + len(pending)
                self.progress(tasks.ProgressEvent(step.name, finished, max(ledger.todo_count, finished)))
                if len(pending) >= WRITE_BATCH or sum(len(result.rows) for result in results) >= WRITE_BATCH:
                    done = self._write(pending, done)
                    pending = []
            done = self._write(pending, done)
            if step.wave_column:
                ledger.add_keys(self._keys_with_changed_lookups([step.name]))

    def _jobs(self, wave: Iterator[list[str]]) -> Iterator[tasks.Job]:
        size = 1 if self.task.calls_llm else READ_BATCH
        for page in wave:
            for keys in (page[i : i + READ_BATCH] for i in range(0, len(page), READ_BATCH)):
                rows = self.ledger.grouped(self.step.source, self.step.key, keys)
                jobs = [(key, rows.get(key, [])) for key in keys]
                yield from (jobs[i : i + size] for i in range(0, len(jobs), size))

    def _keys_with_changed_lookups(self, tables: list[str]) -> Iterator[str]:
        """Yield keys whose recorded lookups changed."""
        changed: set[int] = set()
        all_changed = False
        for table in tables:
            lookups = self.ledger.changed_lookups(table)
            all_changed = all_changed or lookups is None
            changed |= lookups or set()
        if changed or all_changed:
            for key, recorded in self.ledger.dependencies(self.step.name):
                if all_changed or not changed.isdisjoint(array("q", recorded)):
                    yield key

    def _write(self, results: list[tasks.StepResult], done: int) -> int:
        """Write changed rows and return the number of finished keys.

        Rows are compared with the previous ones of the same keys.
        """
        name = self.step.name
        previous = self.ledger.rows_by_maker(name, [result.key for result in results], many=self.step.signature.many)
        old: list[Row] = []
        new: list[Row] = []
        for result in results:
            if result.key in previous:
                diff_rows({row[0]: row for row in previous[result.key]}, result.rows, old, new)
            else:
                new += result.rows
        self.ledger.change(name, old, new)
        if self.step.tables:
            self.ledger.record_dependencies(name, ((result.key, result.dependencies) for result in results))
        self._record_failures(results)
        return done + len(results)

    def _record_failures(self, results: list[tasks.StepResult]) -> None:
        errors = [(result.key, result.error) for result in results if result.error or result.key in self.failing]
        self.ledger.record_failures(self.step.name, errors)
        for key, error in errors:
            if error:
                self.failing[key] = error
            else:
                del self.failing[key]

    # -- whole-table steps

    def _run_whole(self) -> None:
        step, ledger = self.step, self.ledger
        self.progress(tasks.ProgressEvent(step.name, 0, 1))
        try:
            rows_by_id = self._rows_by_id(self.task.function(**self.task.tables(), **self.task.arguments))
        except ItemFailed as failure:  # the table stays unchanged
            ledger.record_failures(step.name, [("", str(failure) or type(failure).__name__)])
            return
        ledger.record_failures(step.name, [("", None)])
        old: list[Row] = []
        new: list[Row] = []
        for page in ledger.rows(step.name).pages():
            current = [rows_by_id.pop(row[0]) for row in page if row[0] in rows_by_id]
            diff_rows({row[0]: row for row in page}, current, old, new)
        ledger.change(step.name, old, [*new, *rows_by_id.values()])
        self.progress(tasks.ProgressEvent(step.name, 1, 1))

    def _rows_by_id(self, records: Iterable[Record]) -> dict[str, Row]:
        """Return encoded rows by the ids the step chose."""
        rows: dict[str, Row] = {}
        for record in records:
            if not record.id or record.id in rows or "." in record.id or "/" in record.id:
                raise StepError(
                    f"{self.step.name}: {record.id!r} is not a valid row id: ids are unique and contain neither . nor /"
                )
            rows[record.id] = self.step.output_codec.encode(record.id, record)
        return rows


def diff_rows(previous: dict[str, Row], current: Iterable[Row], old: list[Row], new: list[Row]) -> None:
    """Add removed rows to `old` and new rows to `new`.

    A changed row is added to both.
    """
    for row in current:
        previous_row = previous.pop(row[0], None)
        if previous_row != row:
            new.append(row)
            if previous_row is not None:
                old.append(previous_row)
    old.extend(previous.values())
