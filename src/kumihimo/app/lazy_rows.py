"""rows + the step that makes them -> the same, and those that are made only when somebody first asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from kumihimo.core.errors import ItemFailed
from kumihimo.core.table import Row, RowFilter, Rows
from kumihimo.core.task import Port, Task
from kumihimo.core.wiring import Step
from kumihimo.llm.budget import Budget
from kumihimo.llm.cached_llm import CachedLLM
from kumihimo.llm.protocols import Messages
from kumihimo.llm.structured import Reply

RowFutures = dict[str, Future[Row | None]]  # what was made, or is being made, by id


@dataclass(frozen=True, slots=True)
class RowMaker:
    """Makes the rows of a row step that gives one row of the same id for each, and each once.

    rows: of the tables that the step reads. held: what was made. strict: what a step gives in place of a row that it
    could not make is no row.
    """

    step: Step
    settings: Mapping[str, object]
    ports: Mapping[str, Port]
    rows: Callable[[str], Rows]
    futures: RowFutures
    strict: bool = False

    def __call__(self, id: str) -> Row | None:
        """The row, or None where there is nothing to make it of. Raises ItemFailed."""
        mine: Future[Row | None] = Future()
        if (known := self.futures.setdefault(id, mine)) is not mine:
            return known.result()
        try:
            mine.set_result(self._make_row(id))
        except BaseException as error:
            self.futures.pop(id)  # whoever asks later may have more luck
            mine.set_exception(error)
            raise
        return mine.result()

    def _make_row(self, id: str) -> Row | None:
        source = self.rows(self.step.source).get(id)
        if source is None:
            return None
        (made,) = Task(self.step, self.settings, self.ports, self._rows_for_step, {})([(id, [source])])
        if made.error and (self.strict or not made.rows):
            raise ItemFailed(made.error)
        return made.rows[0] if made.rows else None

    def _rows_for_step(self, table: str) -> Rows:
        """As the step reads them: of its own table, rows that are made as this one is."""
        rows = self.rows(table)
        return LazyRows(rows, self) if table == self.step.name else rows


@dataclass(frozen=True, slots=True)
class LazyRows:
    """Rows of which one that is not there is made when it is asked for by its id; no others are seen.

    passes: what is not to be seen is not made, either. lenient: one that could not be made is not there.
    """

    rows: Rows
    make: RowMaker
    visible: RowFilter = lambda _: True
    lenient: bool = False

    def get(self, id: str) -> Row | None:
        row = self.rows.get(id)
        if row is not None or self.make.rows(self.make.step.source).get(id) is None or not self.visible(id):
            return row
        try:
            return self.make(id)
        except ItemFailed:
            if not self.lenient:
                raise
            return None

    def get_many(self, ids: Sequence[str]) -> list[Row]:
        return [row for id in ids if (row := self.get(id)) is not None]

    def where(self, columns: tuple[str, ...], values: tuple[object, ...]) -> list[Row]:
        if columns != ("id",):
            return self.rows.where(columns, values)
        return [row] if (row := self.get(str(values[0]))) else []

    def ids(self, columns: tuple[str, ...], values: tuple[object, ...]) -> list[str]:
        return [row[0] for row in self.where(columns, values)] if columns == ("id",) else self.rows.ids(columns, values)

    def ids_grouped(self, column: str, values: Sequence[str], limit: int | None = None) -> list[tuple[str, str]]:
        return self.rows.ids_grouped(column, values, limit)

    def child_values(self, parents: Sequence[str], column: str) -> dict[str, list[Any]]:
        return self.rows.child_values(parents, column)

    def pages(self, *columns: str) -> Iterator[list[Row]]:
        return self.rows.pages(*columns)

    def count(self) -> int:
        return self.rows.count()


def cache_only(llm: CachedLLM) -> CachedLLM:
    """The same, from the memo alone."""
    return _CacheOnlyLLM(llm.chat, llm.cache, Budget(), llm.scope)


@dataclass(frozen=True, slots=True)
class _CacheOnlyLLM(CachedLLM):
    def _request_reply(self, _asked: bytes, _messages: Messages, *_: Any) -> Reply:
        raise ItemFailed("not asked")
