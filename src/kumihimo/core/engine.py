"""steps + what changed -> tables: keyed and whole work, the two kinds there are.

A row is a group of one, so two kinds of work are enough. *Keyed*: for each key that changed, run the
step, compare with what that key had made before, write the difference; the difference is the next
step's work list. *Whole*: when an input changed, run the step and write the difference. Adding,
changing and removing a document are therefore one thing, and cost grows with the change.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Protocol

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed, StepError
from kumihimo.core.records import Record
from kumihimo.core.settings import SettingValues
from kumihimo.core.signature import Signature
from kumihimo.core.table import Codec, Row, Rows, codec
from kumihimo.core.task import (
    Dependencies,
    Job,
    Pool,
    Port,
    Progress,
    StepResult,
    Task,
    inline,
    input_tables,
    select_ports,
)
from kumihimo.core.wiring import ROOT, order_steps

WRITE_BATCH = 512  # keys whose rows are written at once
READ_BATCH = 32  # keys whose rows are read at once: a document may be large


class Ledger(Protocol):
    """A build in progress: the tables as they are becoming, and what is remembered of each step."""

    # tables
    def ensure_table(self, table: str, codec: Codec[Any], source: str = "", key: str = "") -> bool: ...
    def settle(self, table: str) -> None: ...
    def rows(self, table: str) -> Rows: ...
    def grouped(self, table: str, column: str, keys: list[str]) -> dict[str, list[Row]]: ...
    def rows_by_maker(self, table: str, makers: list[str], *, many: bool) -> dict[str, list[Row]]: ...
    def change(self, table: str, old: list[Row], new: list[Row]) -> None: ...

    def retire(self, steps: list[str]) -> None: ...

    # what changed in this build
    def watch(self, table: str, key: str | None, lookup_keys: Iterable[tuple[str, ...]]) -> None: ...
    def changed(self, table: str) -> bool: ...
    def changed_lookups(self, table: str) -> set[int] | None: ...

    # the keys to work on, wave by wave
    def todo(self, step: str, source: str, key: str, wave: str, *, everything: bool) -> None: ...
    def add_keys(self, keys: Iterable[str]) -> None: ...
    def waves(self) -> Iterator[Iterator[list[str]]]: ...
    @property
    def todo_count(self) -> int: ...  # how many keys there were to work on

    # what is remembered between builds
    def fingerprint(self, step: str) -> str | None: ...
    def set_fingerprint(self, step: str, fingerprint: str) -> None: ...
    def failures(self, step: str) -> dict[str, str]: ...
    def record_failures(self, step: str, errors: Iterable[tuple[str, str | None]]) -> None: ...
    def dependencies(self, step: str) -> Iterator[tuple[str, Dependencies]]: ...
    def record_dependencies(self, step: str, dependencies: Iterable[tuple[str, Dependencies]]) -> None: ...


PortProvider = Callable[[str], Mapping[str, Port]]  # a step's name -> what it may be given from the world


def watch_tables(steps: Mapping[str, Signature], ledger: Ledger) -> None:
    """Have the ledger note what the steps will ask for, before the documents change."""
    for step in order_steps(steps):
        if step.keyed:
            ledger.watch(step.source, step.key, ())
            for parameter, table in step.tables.items():
                ledger.watch(table, None, codec(step.signature.tables[parameter]).lookup_keys)


def build_tables(
    steps: Mapping[str, Signature],
    ledger: Ledger,
    *,
    settings: SettingValues,
    ports: PortProvider,
    code: str,
    pool: Pool = inline,
    progress: Progress | None = None,
    from_scratch: Collection[str] = (),
) -> None:
    """Bring every table up to date with `documents`, whose changes the ledger (which `watch`ed) already holds.

    ports: what each step is given from the world. code: digest of the code and prompts that make the tables. Steps
    that ask run through `pool`. afresh: table steps that are to forget what they had made before.
    """
    order = order_steps(steps)
    ledger.retire([step.name for step in order])
    prints = fingerprints(steps, settings=settings, ports=ports, code=code)
    for step in order:
        task = Task(step, settings.get(step.name, {}), ports(step.name), ledger.rows, ledger.failures(step.name))
        ledger.ensure_table(step.name, step.output_codec, step.source, step.key)
        _StepRun(task, ledger, pool, progress or _no_progress, step.name in from_scratch).update(prints[step.name])


def fingerprints(
    steps: Mapping[str, Signature], *, settings: SettingValues, ports: PortProvider, code: str
) -> dict[str, str]:
    """For each step the digest of everything that determines its table, the tables it is made from included."""
    prints = {ROOT: code}
    for step in order_steps(steps):
        marks = [port.fingerprint if port else "" for port in select_ports(step, ports(step.name)).values()]
        said = json.dumps(settings.get(step.name, {}), sort_keys=True)
        prints[step.name] = hash_parts(code, step.name, said, *marks, *(prints[table] for table in step.inputs))
    return prints


def _no_progress(step: str, done: int, total: int) -> None:
    """Say nothing."""


class _StepRun:
    """One step in one build."""

    def __init__(self, task: Task, ledger: Ledger, pool: Pool, progress: Progress, from_scratch: bool) -> None:
        self.task, self.step, self.failing = task, task.step, task.failing
        self.ledger, self.progress, self.from_scratch = ledger, progress, from_scratch
        self.pool = pool if task.calls_llm else inline

    def update(self, fingerprint: str) -> None:
        remake = self.ledger.fingerprint(self.step.name) != fingerprint
        if self.step.keyed:
            self._run_keyed(remake)
        elif remake or self.from_scratch or self.failing or any(map(self.ledger.changed, self.step.inputs)):
            self._run_whole()
        self.ledger.settle(self.step.name)
        self.ledger.set_fingerprint(self.step.name, fingerprint)

    # -- keyed work

    def _run_keyed(self, remake: bool) -> None:
        step, ledger = self.step, self.ledger
        others = [table for table in step.tables.values() if table != step.name]
        everything = remake or any(ledger.changed_lookups(table) is None for table in others)
        ledger.todo(step.name, step.source, step.key, step.wave_column, everything=everything)
        if not everything:
            ledger.add_keys(self._keys_with_changed_lookups(others))
        done = 0
        for wave in ledger.waves():
            waiting: list[StepResult] = []
            for made in self.pool(self.task, self._jobs(wave)):
                waiting += made
                self.progress(step.name, done + len(waiting), max(ledger.todo_count, done + len(waiting)))
                if len(waiting) >= WRITE_BATCH or sum(len(m.rows) for m in made) >= WRITE_BATCH:
                    done = self._write(waiting, done)
                    waiting = []
            done = self._write(waiting, done)
            if step.wave_column:
                ledger.add_keys(self._keys_with_changed_lookups([step.name]))

    def _jobs(self, wave: Iterator[list[str]]) -> Iterator[Job]:
        size = 1 if self.task.calls_llm else READ_BATCH
        for page in wave:
            for keys in (page[i : i + READ_BATCH] for i in range(0, len(page), READ_BATCH)):
                rows = self.ledger.grouped(self.step.source, self.step.key, keys)
                jobs = [(key, rows.get(key, [])) for key in keys]
                yield from (jobs[i : i + size] for i in range(0, len(jobs), size))

    def _keys_with_changed_lookups(self, tables: list[str]) -> Iterator[str]:
        """The makers that looked something up whose answer is another now."""
        news: set[int] = set()
        anything = False
        for table in tables:
            looks = self.ledger.changed_lookups(table)
            anything = anything or looks is None
            news |= looks or set()
        if news or anything:
            for maker, looked in self.ledger.dependencies(self.step.name):
                if anything or not news.isdisjoint(array("q", looked)):
                    yield maker

    def _write(self, made: list[StepResult], done: int) -> int:
        """Store what differs from what the same makers had made before; gives how many are done now."""
        name = self.step.name
        before = self.ledger.rows_by_maker(name, [m.key for m in made], many=self.step.signature.many)
        old: list[Row] = []
        new: list[Row] = []
        for m in made:
            if m.key in before:
                diff_rows({row[0]: row for row in before[m.key]}, m.rows, old, new)
            else:
                new += m.rows
        self.ledger.change(name, old, new)
        if self.step.tables:
            self.ledger.record_dependencies(name, ((m.key, m.dependencies) for m in made))
        self._record_failures(made)
        return done + len(made)

    def _record_failures(self, made: list[StepResult]) -> None:
        errors = [(m.key, m.error) for m in made if m.error or m.key in self.failing]
        self.ledger.record_failures(self.step.name, errors)
        for key, error in errors:
            if error:
                self.failing[key] = error
            else:
                del self.failing[key]

    # -- whole work

    def _run_whole(self) -> None:
        step, ledger = self.step, self.ledger
        self.progress(step.name, 0, 1)
        try:
            read = input_tables(step, ledger.rows)
            if self.from_scratch:
                read |= {name: own.filtered(lambda _: False) for name, own in read.items() if own.name == step.name}
            made = self._rows_by_id(self.task.function(**read, **self.task.arguments))
        except ItemFailed as failure:  # the table stays as it was
            ledger.record_failures(step.name, [("", str(failure) or type(failure).__name__)])
            return
        ledger.record_failures(step.name, [("", None)])
        old: list[Row] = []
        new: list[Row] = []
        for page in ledger.rows(step.name).pages():
            now = [made.pop(row[0]) for row in page if row[0] in made]
            diff_rows({row[0]: row for row in page}, now, old, new)
        ledger.change(step.name, old, [*new, *made.values()])
        self.progress(step.name, 1, 1)

    def _rows_by_id(self, records: Iterable[Record]) -> dict[str, Row]:
        """The rows by the ids that the step chose for them."""
        rows: dict[str, Row] = {}
        for record in records:
            if not record.id or record.id in rows or "." in record.id or "/" in record.id:
                raise StepError(
                    f"{self.step.name}: {record.id!r} is no id for a row: give each its own, without . or /"
                )
            rows[record.id] = self.step.output_codec.encode(record.id, record)
        return rows


def diff_rows(was: dict[str, Row], now: Iterable[Row], old: list[Row], new: list[Row]) -> None:
    """Add to `old` the rows to take away and to `new` those to put; a changed row is in both."""
    for row in now:
        before = was.pop(row[0], None)
        if before != row:
            new.append(row)
            if before is not None:
                old.append(before)
    old.extend(was.values())
