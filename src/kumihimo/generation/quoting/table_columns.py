"""a table -> its columns: their names and units, and the numbers, the years and the names in them."""

import re
from collections.abc import Sequence
from decimal import Decimal

from kumihimo.generation.quoting.tables import Row, Table
from kumihimo.text import dates, scripts
from kumihimo.text.numbers import Column, number_unit, read_column

_MIN_ROWS, _MIN_NUMERIC = 3, 0.8  # with a number in a column of numbers; of its filled cells
_BRACKETS = re.compile(r"[(（\[]([^()（）\[\]]*)[)）\]]")
_ENDING = re.compile(
    "(?<=..)(?:年月日|年份|日期|时间|時間|年度|年|日)$|(?<=.)(?:の?名前?|名[称稱])$"
)  # 店の名前, 開店年
_ENGLISH = re.compile(r"\b(?:what|which|who|whose|how|the|is|are|of)\b", re.IGNORECASE)


class Columns:
    """The columns of a table without the rows that sum up others.

    question: its language may tell how numbers are written.
    """

    def __init__(self, table: Table, question: str) -> None:
        self.rows = tuple(row for row in table.rows if not row.sums_up)
        self.names = tuple(dict.fromkeys(name for row in self.rows for name in row.cells))
        self._table, self._is_english = table, _ENGLISH.search(question) is not None
        self._numbers: dict[str, Column] = {}

    @property
    def are_certain(self) -> bool:
        """Return whether there are several rows, each with a first cell.

        Without one, a row may be a total.
        """
        return len(self.rows) >= _MIN_ROWS and all(row.cells.get(self.names[0], "").strip() for row in self.rows)

    def cells(self, name: str) -> list[str]:
        """Return the cells of a column, empty where a row has none."""
        return [row.cells.get(name, "").strip() for row in self.rows]

    def is_numeric(self, name: str) -> bool:
        """Return whether a column has numbers."""
        filled = [cell for cell in self.cells(name) if cell.strip(" -–—")]
        count = sum(number_unit(cell) is not None for cell in filled)
        return count >= _MIN_ROWS and count >= _MIN_NUMERIC * len(filled)

    def numbers(self, name: str) -> Column:
        """Return the numbers of a column, as its country writes them."""
        if name not in self._numbers:
            others = [
                text for row in self._table.rows for pair in row.cells.items() if pair[0] != name for text in pair
            ]
            self._numbers[name] = read_column(
                self.cells(name), [name, self._table.above, *others], english=self._is_english
            )
        return self._numbers[name]

    def units(self, name: str) -> list[str]:
        """Return the units in the cells and the name of a column."""
        match = _BRACKETS.search(name)
        return [fold(unit) for unit in (self.numbers(name).unit, match[1].strip() if match else "") if unit]

    def years(self, name: str) -> list[Decimal | None]:
        """Return the years of a column of dates, or nothing."""
        years = list[Decimal | None]()
        for cell in self.cells(name):
            if len(found := years_of(cell)) != 1:
                return []
            years.append(Decimal(found[0]))
        return years

    def differ(self, name: str, rows: Sequence[Row], *, as_names: bool) -> bool:
        """Return whether rows have different cells in a column.

        Of several rows of a thing, the sum might win. The numbers of a quarter or a month may differ together with the
        year in the first column. as_names: no cell may have a digit.
        """
        cells = [(cell, "") for row in rows if (cell := row.cells.get(name, "").strip())]
        has_digits = [any(map(str.isdigit, cell)) for cell, _ in cells]
        if all(has_digits) and name != self.names[0] and self.years(self.names[0]):
            cells = [(row.cells[self.names[0]], row.cells.get(name, "")) for row in rows]
        return len(set(cells)) == len(cells) and not (as_names and any(has_digits))


def years_of(cell: str) -> list[str]:
    """Return the years of a cell.

    >>> years_of("2011-04-04"), years_of("昭和30年"), years_of("1,974"), years_of("2019–2021")
    (['2011'], ['1955'], [], ['2019', '2021'])
    """
    return sorted({date[:4] for date in dates.list_dates(cell) if re.match(r"[12]\d{3}", date)})


def full_name(column: str) -> str:
    """Return the name of a column without its unit.

    >>> full_name("Unit_price (EUR)")
    'unit price'
    """
    return _BRACKETS.sub("", fold(column)).replace("_", " ").strip() or fold(column)


def bare_name(column: str) -> str:
    """Return the name of a column without unit and ending.

    >>> bare_name("开业日期"), bare_name("曜日"), bare_name("店の名前")
    ('开业', '曜日', '店')
    """
    return _ENDING.sub("", full_name(column))


def fold(text: str) -> str:
    """Return a text on one line, without case and forms of width."""
    return " ".join(scripts.fold_text(text).casefold().split())
