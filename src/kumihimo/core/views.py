"""tables + the visible documents -> views: each row as its step makes it of these documents alone.

A row whose sources are all visible stands as it is stored. A row with visible and hidden sources is *partial*: its step
runs again, over the views of the tables that it reads, without a model. All others are hidden.
"""

import json
from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from threading import RLock
from typing import Any

from kumihimo.core import cancel, lineage, task, wiring
from kumihimo.core.records import Document, Record, Reference
from kumihimo.core.table import Row, Rows, codec
from kumihimo.core.view_rows import IsWhole, PartialRows, ViewRows, blank_column, hide, merge_states

RowsByTable = Callable[[str], Rows]
TaskFactory = Callable[[wiring.Step, RowsByTable], task.Task]


@dataclass(frozen=True, slots=True)
class ViewMemory:
    """What is known so far of the tables of one build, for some visible documents.

    states: by table and maker; hidden ones are left out. made: the rows of partial makers. computed: what searches
    remember, by table. lock: of the thread that adds to it; threads and connections share it.
    """

    documents: Container[str]
    states: dict[str, Mapping[str, bool]] = field(default_factory=dict)
    made: dict[str, dict[str, list[Row]]] = field(default_factory=dict)
    computed: dict[str, dict[Hashable, Any]] = field(default_factory=dict)
    lock: RLock = field(default_factory=RLock)

    @property
    def weight(self) -> int:
        """Return the number of rows in memory."""
        return sum(map(len, [*self.made.values(), *self.states.values()]))


@dataclass(frozen=True, slots=True)
class Views:
    """The tables of an index as some documents make them.

    stored: returns all rows of a table. task_of: returns a step over these rows, without a model. check: raises if a
    thread that waits for another one is to stop.
    """

    steps: Mapping[str, wiring.Step]
    stored: RowsByTable
    task_of: TaskFactory
    memory: ViewMemory
    check: Callable[[], None] = lambda: None
    opened: dict[str, ViewRows] = field(default_factory=dict)

    def rows(self, table: str) -> ViewRows:
        """Return the visible rows of a table."""
        if table not in self.opened:
            self.opened[table] = self._open(table)
        return self.opened[table]

    def _open(self, table: str) -> ViewRows:
        documents, stored = self.memory.documents, self.stored(table)
        computed = self.memory.computed.setdefault(table, {})
        if lineage.starts_with_document(self.steps, table):
            lacking = self._lacking_rows(table)
            rows = hide(stored, lambda id: id.partition(".")[0] in documents and id not in lacking())
            if table == wiring.ROOT:  # what another system has made of a document may rest on others, too
                rows = replace(rows, blank=partial(blank_column, "imported", codec(Document).columns))
            return replace(rows, computed=computed, guard=self._guard)
        step, states = self.steps[table], partial(self._states, table)
        one_each = step.keyed and step.signature.makes_one_row
        remade = PartialRows(step.output_codec.columns, states, partial(self._make, step), one_each)
        return ViewRows(stored, _find_once(states), _maker_function(step), remade, computed, self._guard)

    def _guard(self) -> AbstractContextManager[None]:
        return cancel.locked(self.memory.lock, self.check)

    def _make(self, step: wiring.Step, makers: Iterable[str]) -> list[Row]:
        """Return the rows of partial makers, made of what is visible."""
        makers, made = list(makers), self.memory.made.setdefault(step.name, {})
        if missing := [maker for maker in makers if maker not in made]:
            source, run = self.rows(step.source), self.task_of(step, self.rows)
            with self._guard():
                for maker in missing:
                    if maker not in made:  # a step that reads its own table has made others
                        [result] = run([(maker, source.where((step.key,), (maker,)))])
                        made[maker] = result.rows
        return [row for maker in makers for row in made[maker]]

    # -- which rows are visible

    def _states(self, table: str) -> Mapping[str, bool]:
        with self._guard():
            if table not in self.memory.states:
                find = self._keyed_states if self.steps[table].keyed else self._whole_table_states
                states = find(self.steps[table])
                self.memory.states[table] = {maker: state for maker, state in states.items() if state is not None}
            return self.memory.states[table]

    def _keyed_states(self, step: wiring.Step) -> Mapping[str, IsWhole]:
        """Return the state of each maker of a keyed step."""
        source, stored, maker_of = self.rows(step.source), self.stored(step.name), _maker_function(step)
        makers = dict.fromkeys(maker_of(id) for page in stored.pages("id") for (id,) in page)
        if step.signature.shape == "row":
            states: dict[str, IsWhole] = {maker: source.state_of(maker) for maker in makers}
        else:
            grouped = merge_states(source.stored.pages("id", step.key), source.state_of)
            states = {maker: grouped.get(maker) for maker in makers}
        evidence = step.output_codec.record.EVIDENCE
        for page in stored.pages("id", evidence) if evidence else ():
            states |= {maker_of(id): False for id, text in page if states[maker_of(id)] and self._is_lacking(text)}
        return states

    def _is_lacking(self, evidence: str) -> bool:
        """Return whether a document of the evidence of a row is hidden."""
        documents = (row if isinstance(row, str) else row[0] for row in json.loads(evidence))
        return any(document not in self.memory.documents for document in documents)

    def _lacking_rows(self, table: str) -> Callable[[], Container[str]]:
        """Return a function that finds the rows with hidden evidence."""
        evidence = self.steps[table].output_codec.record.EVIDENCE if table in self.steps else ""
        if not evidence:
            return frozenset

        @cache
        def find() -> frozenset[str]:
            pages = self.stored(table).pages("id", evidence)
            return frozenset(id for page in pages for id, text in page if self._is_lacking(text))

        return find

    def _whole_table_states(self, step: wiring.Step) -> Mapping[str, IsWhole]:
        """Return the state of each row of a whole-table step.

        A partial row keeps its visible sources.
        """
        row_codec, made = step.output_codec, self.memory.made.setdefault(step.name, {})
        records: dict[str, Record] = {
            row[0]: row_codec.decode(row) for page in self.stored(step.name).pages() for row in page
        }
        states: dict[str, IsWhole] = {}

        def state_of(reference: Reference) -> IsWhole:
            table, id = reference
            if table != step.name:
                return self.rows(table).state_of(id)
            if id not in states:
                states[id] = find_state(records[id]) if id in records else None
            return states[id]

        def find_state(record: Record) -> IsWhole:
            parents = record.parents()
            if parents and all(map(state_of, parents)):
                return True
            reduced: dict[str, Any] = {
                column: tuple(id for id in getattr(record, column) if state_of((table, id)) is not None)
                for column, table in record.SOURCES.items()
            }
            if not any(reduced.values()):
                return None
            made[record.id] = [row_codec.encode(record.id, replace(record, **reduced))]
            return False

        return {id: state_of((step.name, id)) for id in records}


def _find_once(states: Callable[[], Mapping[str, bool]]) -> Callable[[str], IsWhole]:
    """Return a function from a maker to its state."""
    found: list[Mapping[str, bool]] = []

    def state(maker: str) -> IsWhole:
        if not found:
            found.append(states())
        return found[0].get(maker)

    return state


def _maker_function(step: wiring.Step) -> Callable[[str], str]:
    """Return a function from a row id to its maker."""
    return (lambda id: id.rpartition(".")[0]) if step.keyed and step.signature.many else str
