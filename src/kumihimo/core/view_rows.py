"""the rows of a table + which of them are visible -> the rows that a view shows: whole, partial or none."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, TypeVar

from kumihimo.core.table import Row, Rows, lookup_values

T = TypeVar("T")
IsWhole = bool | None  # True: shown as stored; False: partial, shown otherwise; None: hidden


@dataclass(frozen=True, slots=True)
class PartialRows:
    """The partial rows of a table.

    columns: of the table. states: returns whether the rows of each maker are whole. make: returns the rows of partial
    makers. one_each: whether each maker has one row.
    """

    columns: tuple[str, ...]
    states: Callable[[], Mapping[str, bool]]
    make: Callable[[Iterable[str]], list[Row]]
    one_each: bool = False


@dataclass(frozen=True, slots=True)
class ViewRows:
    """The rows of one table in a view.

    state: of a maker, the row or group that a row comes from. maker_of: the maker of a row, from its id. partial: None
    if no row is. computed: what `once` remembers. guard: holds the lock of the view. blank: hides values of rows with
    these columns; none: all.

    A lookup finds a partial row by a value that its stored row has too.
    """

    stored: Rows
    state: Callable[[str], IsWhole]
    maker_of: Callable[[str], str] = str
    partial: PartialRows | None = None
    computed: dict[Hashable, Any] = field(default_factory=dict)
    guard: Callable[[], AbstractContextManager[None]] = nullcontext
    blank: Callable[[list[Row], Sequence[str]], list[Row]] = lambda rows, _: rows

    def state_of(self, id: str) -> IsWhole:
        """Return the state of a stored row."""
        return self.state(self.maker_of(id))

    def is_whole(self, id: str) -> bool:
        """Return whether a row is shown as it is stored."""
        return self.state(self.maker_of(id)) is True

    def partial_rows(self) -> list[Row]:
        """Return all partial rows, which no search index holds."""
        if not self.partial:
            return []
        return self.partial.make(maker for maker, is_whole in self.partial.states().items() if not is_whole)

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return a value that is computed once for this table and view."""
        if key not in self.computed:
            with self.guard():
                if key not in self.computed:
                    self.computed[key] = compute()
        value: T = self.computed[key]
        return value

    # -- the rows

    def get_many(self, ids: Sequence[str]) -> list[Row]:
        rows = self.blank(self.stored.get_many([id for id in ids if self.is_whole(id)]), ())
        if made := self._make(ids):
            wanted = set(ids)
            rows += [row for row in made if row[0] in wanted]
        return rows

    def where(self, columns: tuple[str, ...], values: tuple[object, ...]) -> list[Row]:
        if columns == ("id",):
            return self.get_many([str(value) for value in values])
        stored = self.stored.where(columns, values)
        rows = self.blank([row for row in stored if self.is_whole(row[0])], ())
        made = self._make_where([row[0] for row in stored], columns, values)
        return sorted([*rows, *made], key=itemgetter(0)) if made else rows

    def ids(self, columns: tuple[str, ...], values: tuple[object, ...]) -> list[str]:
        if columns == ("id",):
            return [row[0] for row in self.where(columns, values)]
        return self._show_ids(self.stored.ids(columns, values), columns, values)

    def ids_grouped(self, column: str, values: Sequence[str], limit: int | None = None) -> list[tuple[str, str]]:
        pairs = self.stored.ids_grouped(column, values, limit)
        if limit is not None:
            counts = Counter(value for value, _ in pairs)
            # these may have more visible rows
            cut = {value for value, id in pairs if counts[value] == limit and not self.is_whole(id)}
            pairs = [*(pair for pair in pairs if pair[0] not in cut), *self.stored.ids_grouped(column, sorted(cut))]
        shown: list[tuple[str, str]] = []
        for value, group in groupby(pairs, key=itemgetter(0)):
            visible = self._show_ids([id for _, id in group], (column,), (value,))
            shown += [(value, id) for id in islice(visible, limit)]
        return shown

    def child_values(self, parents: Sequence[str], column: str) -> dict[str, list[Any]]:
        ids, values = self.stored.child_values(parents, "id"), self.stored.child_values(parents, column)
        return {
            parent: [value for (value,) in self._show(list(zip(ids[parent], values[parent], strict=True)), (column,))]
            for parent in parents
        }

    def pages(self, *columns: str) -> Iterator[list[Row]]:
        last = ""
        for page in self.stored.pages(*(("id", *columns) if columns else ())):
            yield self.blank(self._show(page, columns, last), columns)
            last = self.maker_of(page[-1][0])

    def count(self) -> int:
        if self.partial and self.partial.one_each:
            return len(self.partial.states())
        return sum(map(len, self.pages("id")))

    # -- partial rows

    def _make(self, ids: Iterable[str]) -> list[Row]:
        """Return the rows of the partial makers of some rows."""
        if not self.partial:
            return []
        makers = dict.fromkeys(map(self.maker_of, ids))
        return self.partial.make([maker for maker in makers if self.state(maker) is False])

    def _make_where(self, ids: Iterable[str], columns: tuple[str, ...], values: tuple[object, ...]) -> list[Row]:
        """Return those with these values."""
        all_columns = self.partial.columns if self.partial else ()
        return [row for row in self._make(ids) if lookup_values(all_columns, row, columns) == list(values)]

    def _show_ids(self, ids: list[str], columns: tuple[str, ...], values: tuple[object, ...]) -> list[str]:
        """Return the visible ids among those with these values."""
        visible = list(filter(self.is_whole, ids))
        made = self._make_where(ids, columns, values)
        return sorted([*visible, *(row[0] for row in made)]) if made else visible

    def _show(self, page: Sequence[Row], columns: tuple[str, ...], last: str = "") -> list[Row]:
        """Return the visible rows of a page.

        The first column of the page is the id. columns: to return; empty: all. last: the maker before the page, whose
        rows are done.
        """
        places = self._places(columns)
        shown: list[Row] = []
        for row in page:
            maker = self.maker_of(row[0])
            if (state := self.state(maker)) is True:
                shown.append(row[1:] if columns else row)
            elif state is False and maker != last and self.partial:
                made = self.partial.make([maker])
                shown += (tuple(row[i] for i in places) if columns else row for row in made)
            last = maker
        return shown

    def _places(self, columns: Iterable[str]) -> list[int]:
        return list(map(self.partial.columns.index, columns)) if self.partial else []


def blank_column(column: str, all_columns: Sequence[str], rows: list[Row], columns: Sequence[str]) -> list[Row]:
    """Return rows of these columns, or of all, with an empty column."""
    place = next((i for i, name in enumerate(columns or all_columns) if name == column), None)
    return rows if place is None else [(*row[:place], "", *row[place + 1 :]) for row in rows]


def hide(stored: Rows, visible: Callable[[str], bool]) -> ViewRows:
    """Return the rows whose ids are visible, as they are stored."""
    return ViewRows(stored, lambda id: visible(id) or None)


def merge_states(pages: Iterable[Sequence[Row]], state_of: Callable[[str], IsWhole]) -> Mapping[str, IsWhole]:
    """Return the state of each group, from the states of its members.

    pages: of the id and the group of each member.
    """
    states: dict[str, IsWhole] = {}
    for page in pages:
        for id, group in page:
            state = state_of(id)
            states[group] = state if states.get(group, state) is state else False
    return states
