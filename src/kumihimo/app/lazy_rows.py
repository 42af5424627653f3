"""rows + the step that makes them -> the same rows, with missing ones made on demand."""

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

RowFutures = dict[str, Future[Row | None]]  # by id


@dataclass(frozen=True, slots=True)
class RowMaker:
    """Makes rows of a row step on demand, each once.

    The step makes one row of the same id for each source row. rows: the tables that the step reads. futures: rows made
    so far or in progress. strict: treat a substitute for a failed row as an error.
    """

    step: Step
    settings: Mapping[str, object]
    ports: Mapping[str, Port]
    rows: Callable[[str], Rows]
    futures: RowFutures
    strict: bool = False

    def __call__(self, id: str) -> Row | None:
        """Return the row, or None without a source row. Raises ItemFailed."""
        future: Future[Row | None] = Future()
        if (pending := self.futures.setdefault(id, future)) is not future:
            return pending.result()
        try:
            future.set_result(self._make_row(id))
        except BaseException as error:
            self.futures.pop(id)  # a later call tries again
            future.set_exception(error)
            raise
        return future.result()

    def _make_row(self, id: str) -> Row | None:
        source = self.rows(self.step.source).get(id)
        if source is None:
            return None
        (result,) = Task(self.step, self.settings, self.ports, self._rows_for_step, {})([(id, [source])])
        if result.error and (self.strict or not result.rows):
            raise ItemFailed(result.error)
        return result.rows[0] if result.rows else None

    def _rows_for_step(self, table: str) -> Rows:
        """Return a table for the step; its own table is lazy too."""
        rows = self.rows(table)
        return LazyRows(rows, self) if table == self.step.name else rows


@dataclass(frozen=True, slots=True)
class LazyRows:
    """Rows of a table; missing ones are made when read.

    Only reads by id make rows. visible: an invisible row is not made either. lenient: skip rows that fail.
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
    """Return the same LLM, limited to cached replies."""
    return _CacheOnlyLLM(llm.chat, llm.cache, Budget(), llm.scope)


@dataclass(frozen=True, slots=True)
class _CacheOnlyLLM(CachedLLM):
    def _request_reply(self, _request_key: bytes, _messages: Messages, *_: Any) -> Reply:
        raise ItemFailed("not asked")
