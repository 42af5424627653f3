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

from kumihimo.core.digests import digest
from kumihimo.core.errors import ItemFailed, StepError
from kumihimo.core.records import Record
from kumihimo.core.settings import Values
from kumihimo.core.signature import Signature
from kumihimo.core.table import Codec, Row, Rows, codec
from kumihimo.core.task import Job, Looked, Made, Pool, Port, Progress, Task, given, inline, tables
from kumihimo.core.wiring import ROOT, plan

PAGE = 512  # keys whose rows are written at once
HELD = 32  # keys whose rows are read at once: a document may be large


class Ledger(Protocol):
    """A build in progress: the tables as they are becoming, and what is remembered of each step."""

    # tables
    def shape(self, table: str, codec: Codec[Any], source: str = "", key: str = "") -> bool: ...
    def settle(self, table: str) -> None: ...
    def rows(self, table: str) -> Rows: ...
    def grouped(self, table: str, column: str, keys: list[str]) -> dict[str, list[Row]]: ...
    def made(self, table: str, makers: list[str], *, many: bool) -> dict[str, list[Row]]: ...
    def change(self, table: str, old: list[Row], new: list[Row]) -> None: ...

    def retire(self, kept: list[str]) -> None: ...

    # what changed in this build
    def watch(self, table: str, key: str | None, looks: Iterable[tuple[str, ...]]) -> None: ...
    def changed(self, table: str) -> bool: ...
    def looks(self, table: str) -> set[int] | None: ...

    # the keys to work on, wave by wave
    def todo(self, step: str, source: str, key: str, wave: str, *, everything: bool) -> None: ...
    def more(self, keys: Iterable[str]) -> None: ...
    def waves(self) -> Iterator[Iterator[list[str]]]: ...
    @property
    def todos(self) -> int: ...  # how many keys there were to work on

    # what is remembered between builds
    def fingerprint(self, step: str) -> str | None: ...
    def mark(self, step: str, fingerprint: str) -> None: ...
    def failed(self, step: str) -> dict[str, str]: ...
    def fail(self, step: str, errors: Iterable[tuple[str, str | None]]) -> None: ...
    def looked(self, step: str) -> Iterator[tuple[str, Looked]]: ...
    def look(self, step: str, made: Iterable[tuple[str, Looked]]) -> None: ...


Ports = Callable[[str], Mapping[str, Port]]  # a step's name -> what it may be given from the world


def watch(steps: Mapping[str, Signature], ledger: Ledger) -> None:
    """Have the ledger note what the steps will ask for, before the documents change."""
    for step in plan(steps):
        if step.keyed:
            ledger.watch(step.source, step.key, ())
            for parameter, table in step.tables.items():
                ledger.watch(table, None, codec(step.signature.tables[parameter]).looks)


def build(
    steps: Mapping[str, Signature],
    ledger: Ledger,
    *,
    settings: Values,
    ports: Ports,
    code: str,
    pool: Pool = inline,
    progress: Progress | None = None,
    afresh: Collection[str] = (),
) -> None:
    """Bring every table up to date with `documents`, whose changes the ledger (which `watch`ed) already holds.

    ports: what each step is given from the world. code: digest of the code and prompts that make the tables. Steps
    that ask run through `pool`. afresh: table steps that are to forget what they had made before.
    """
    order = plan(steps)
    ledger.retire([step.name for step in order])
    prints = fingerprints(steps, settings=settings, ports=ports, code=code)
    for step in order:
        task = Task(step, settings.get(step.name, {}), ports(step.name), ledger.rows, ledger.failed(step.name))
        ledger.shape(step.name, step.makes, step.source, step.key)
        _Run(task, ledger, pool, progress or _silent, step.name in afresh).bring_up_to_date(prints[step.name])


def fingerprints(steps: Mapping[str, Signature], *, settings: Values, ports: Ports, code: str) -> dict[str, str]:
    """For each step the digest of everything that determines its table, the tables it is made from included."""
    prints = {ROOT: code}
    for step in plan(steps):
        marks = [port.mark if port else "" for port in given(step, ports(step.name)).values()]
        said = json.dumps(settings.get(step.name, {}), sort_keys=True)
        prints[step.name] = digest(code, step.name, said, *marks, *(prints[table] for table in step.inputs))
    return prints


def _silent(step: str, done: int, total: int) -> None:
    """Say nothing."""


class _Run:
    """One step in one build."""

    def __init__(self, task: Task, ledger: Ledger, pool: Pool, progress: Progress, afresh: bool) -> None:
        self.task, self.step, self.failing = task, task.step, task.failing
        self.ledger, self.progress, self.afresh = ledger, progress, afresh
        self.pool = pool if task.asks else inline

    def bring_up_to_date(self, fingerprint: str) -> None:
        remake = self.ledger.fingerprint(self.step.name) != fingerprint
        if self.step.keyed:
            self._keyed(remake)
        elif remake or self.afresh or self.failing or any(map(self.ledger.changed, self.step.inputs)):
            self._whole()
        self.ledger.settle(self.step.name)
        self.ledger.mark(self.step.name, fingerprint)

    # -- keyed work

    def _keyed(self, remake: bool) -> None:
        step, ledger = self.step, self.ledger
        others = [table for table in step.tables.values() if table != step.name]
        everything = remake or any(ledger.looks(table) is None for table in others)
        ledger.todo(step.name, step.source, step.key, step.wave, everything=everything)
        if not everything:
            ledger.more(self._answered_anew(others))
        done = 0
        for wave in ledger.waves():
            waiting: list[Made] = []
            for made in self.pool(self.task, self._jobs(wave)):
                waiting += made
                self.progress(step.name, done + len(waiting), max(ledger.todos, done + len(waiting)))
                if len(waiting) >= PAGE or sum(len(m.rows) for m in made) >= PAGE:
                    done = self._write(waiting, done)
                    waiting = []
            done = self._write(waiting, done)
            if step.wave:
                ledger.more(self._answered_anew([step.name]))

    def _jobs(self, wave: Iterator[list[str]]) -> Iterator[Job]:
        size = 1 if self.task.asks else HELD
        for page in wave:
            for keys in (page[i : i + HELD] for i in range(0, len(page), HELD)):
                rows = self.ledger.grouped(self.step.source, self.step.key, keys)
                jobs = [(key, rows.get(key, [])) for key in keys]
                yield from (jobs[i : i + size] for i in range(0, len(jobs), size))

    def _answered_anew(self, tables: list[str]) -> Iterator[str]:
        """The makers that looked something up whose answer is another now."""
        news: set[int] = set()
        anything = False
        for table in tables:
            looks = self.ledger.looks(table)
            anything = anything or looks is None
            news |= looks or set()
        if news or anything:
            for maker, looked in self.ledger.looked(self.step.name):
                if anything or not news.isdisjoint(array("q", looked)):
                    yield maker

    def _write(self, made: list[Made], done: int) -> int:
        """Store what differs from what the same makers had made before; gives how many are done now."""
        name = self.step.name
        before = self.ledger.made(name, [m.key for m in made], many=self.step.signature.many)
        old: list[Row] = []
        new: list[Row] = []
        for m in made:
            if m.key in before:
                differ({row[0]: row for row in before[m.key]}, m.rows, old, new)
            else:
                new += m.rows
        self.ledger.change(name, old, new)
        if self.step.tables:
            self.ledger.look(name, ((m.key, m.looked) for m in made))
        self._list_failures(made)
        return done + len(made)

    def _list_failures(self, made: list[Made]) -> None:
        errors = [(m.key, m.error) for m in made if m.error or m.key in self.failing]
        self.ledger.fail(self.step.name, errors)
        for key, error in errors:
            if error:
                self.failing[key] = error
            else:
                del self.failing[key]

    # -- whole work

    def _whole(self) -> None:
        step, ledger = self.step, self.ledger
        self.progress(step.name, 0, 1)
        try:
            read = tables(step, ledger.rows)
            if self.afresh:
                read |= {name: own.only(lambda _: False) for name, own in read.items() if own.name == step.name}
            made = self._chosen(self.task.function(**read, **self.task.given))
        except ItemFailed as failure:  # the table stays as it was
            ledger.fail(step.name, [("", str(failure) or type(failure).__name__)])
            return
        ledger.fail(step.name, [("", None)])
        old: list[Row] = []
        new: list[Row] = []
        for page in ledger.rows(step.name).pages():
            now = [made.pop(row[0]) for row in page if row[0] in made]
            differ({row[0]: row for row in page}, now, old, new)
        ledger.change(step.name, old, [*new, *made.values()])
        self.progress(step.name, 1, 1)

    def _chosen(self, records: Iterable[Record]) -> dict[str, Row]:
        """The rows by the ids that the step chose for them."""
        rows: dict[str, Row] = {}
        for record in records:
            if not record.id or record.id in rows or "." in record.id or "/" in record.id:
                raise StepError(
                    f"{self.step.name}: {record.id!r} is no id for a row: give each its own, without . or /"
                )
            rows[record.id] = self.step.makes.encode(record.id, record)
        return rows


def differ(was: dict[str, Row], now: Iterable[Row], old: list[Row], new: list[Row]) -> None:
    """Add to `old` the rows to take away and to `new` those to put; a changed row is in both."""
    for row in now:
        before = was.pop(row[0], None)
        if before != row:
            new.append(row)
            if before is not None:
                old.append(before)
    old.extend(was.values())
