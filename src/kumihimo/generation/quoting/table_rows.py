"""a document with tables + a question -> the rows that win, or a sum: over one column that the question names."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from unicodedata import normalize

from kumihimo.core.context import Context
from kumihimo.core.spans import Span
from kumihimo.generation.quoting.drafts import Draft, say
from kumihimo.generation.quoting.ranking import IndexReader
from kumihimo.generation.quoting.requests import asks_who, column_words
from kumihimo.generation.quoting.windows import is_rule_row
from kumihimo.text.numbers import number_unit, read_column
from kumihimo.text.sentences import collapse_spaces, is_table_row, split_blocks
from kumihimo.text.tokens import subject_terms

_MAX_EVIDENCE, _MAX_WINNERS = 4, 3
_MIN_ROWS = 3  # with a number in the column
_MIN_SHARE = 0.5  # of the words of a column, in the question
_MIN_NUMERIC = 0.8  # of the filled cells of a column of numbers
_MIN_KNOWN = 0.6  # of the words of the question, in the table, its headings and its title
_PAIR = re.compile(r"([^:;]{1,60}): (.*)", re.DOTALL)
_YEAR = re.compile(r"\b[12]\d{3}\b|(?<!\d)[12]\d{3}(?=年)")
_COUNTED = re.compile(r"(?<!\d)\d{1,2}[月日年期回]")  # names rows, as 9月 does
_ASKED_FOR = re.compile(
    r"\b(?:which|what|in which|in what)\s+(\w+)|(?:どの|何の)(\w{1,4}?)(?:が|は|で|に|の)|哪(?:个|個|一)?(\w{1,3})",
    re.IGNORECASE,
)
_ENGLISH = re.compile(r"\b(?:what|which|who|how|the)\b", re.IGNORECASE)  # a question in words of the table
_SUM_ROW = re.compile(r"\b(?:total|sum|average|mean)\b|^\W*all\W*$|合計|総計|小計|平均|总计|總計|合计", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table with its cells by column."""

    start: int
    end: int
    cells: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a table and the text above it; header: its own row, if the rows do not repeat their columns."""

    rows: tuple[Row, ...]
    above: str
    header: str = ""


def write_rows(kind: str, question: str, context: Context, reader: IndexReader, language: str) -> Draft | None:
    """Return the highest or lowest rows, a total or an average.

    Returns None if the evidence has no table, or if it is not clear which column and rows the question means.
    """
    plain = " ".join(normalize("NFKC", question).split())
    uris = dict.fromkeys(
        span.uri for item in context.top(_MAX_EVIDENCE) for span in reader.spans(item) if _has_rows(span.text)
    )
    fitting: list[tuple[tuple[float, float], Draft]] = []
    for uri in uris:
        text, title, body = reader.document(uri)
        for table in read_tables(text, body):
            if kind in ("highest", "lowest") and _names_repeat(plain, table):
                continue  # a person or thing has several rows: its sum may win, not one row
            share = _known_share(plain, table, title)
            column, fit = _choose_column(plain, table)
            if share >= _MIN_KNOWN and column:
                rows = _rows_named(plain, column, table)
                draft = _compare_rows(kind, plain, column, rows, table, uri, text, language)
                fitting += [((share, fit), draft)] if draft else []
    best = max((fits for fits, _ in fitting), default=(0.0, 0.0))
    drafts = [draft for fits, draft in fitting if fits == best]
    return drafts[0] if len(drafts) == 1 else None


def _has_rows(text: str) -> bool:
    return any(map(is_table_row, text.splitlines()))


def read_tables(text: str, begin: int = 0) -> list[Table]:
    r"""Return the tables of a text.

    >>> [table] = read_tables("| boat | crew |\n|---|---|\n| Ebb | 4 |\n| Tide | 12 |")
    >>> [dict(row.cells) for row in table.rows], table.header
    ([{'boat': 'Ebb', 'crew': '4'}, {'boat': 'Tide', 'crew': '12'}], '| boat | crew |')
    >>> [dict(row.cells) for table in read_tables("boat: Ebb; crew: 4\n\nboat: Tide; crew: 12") for row in table.rows]
    [{'boat': 'Ebb', 'crew': '4'}, {'boat': 'Tide', 'crew': '12'}]
    """
    tables: list[Table] = []
    rows: list[tuple[int, int]] = []
    above = ""
    for block in split_blocks(text, begin):
        if block.kind == "row":
            rows.append((block.start, block.end))
            continue
        tables += _build_tables(text, rows, above)
        above = (
            text[block.start : block.end]
            if block.kind == "heading" or rows
            else f"{above}\n{text[block.start : block.end]}"
        )
        above, rows = above[-600:], []
    return [*tables, *_build_tables(text, rows, above)]


def _build_tables(text: str, rows: Sequence[tuple[int, int]], above: str) -> Iterator[Table]:
    """Yield the table of these rows, if it has columns."""
    texts = [text[start:end] for start, end in rows]
    if len(rows) < 2:
        return
    if " | " in texts[0] or texts[0].startswith("|"):
        cells = [[cell.strip().strip("*_") for cell in line.strip().strip("|").split("|")] for line in texts]
        records = (
            Row(start, end, dict(zip(cells[0], own, strict=False)))
            for (start, end), own, line in list(zip(rows, cells, texts, strict=True))[1:]
            if not is_rule_row(line)
        )
        yield Table(tuple(records), above, texts[0])
        return
    pieces = [[_PAIR.fullmatch(part.strip()) for part in line.split("; ")] for line in texts]
    counts = Counter(match[1] for line in pieces for match in line if match)
    names = {name for name, count in counts.items() if count > 1}
    yield Table(tuple(Row(*row, _named_cells(line, names)) for row, line in zip(rows, texts, strict=True)), above)


def _named_cells(line: str, names: set[str]) -> dict[str, str]:
    """Return the cells of `city: Otaru; founded: 1922`."""
    cells: dict[str, str] = {}
    last = ""
    for part in line.split("; "):
        match = _PAIR.fullmatch(part.strip())
        if match and (match[1] in names or not last):
            last = match[1]
            cells[last] = match[2]
        elif last:
            cells[last] += f"; {part}"
    return cells


def _choose_column(question: str, table: Table) -> tuple[str, float]:
    """Return the only column of numbers named, or empty.

    A column that holds a cell of the question (`9月`) chooses rows and is no measure.
    """
    target_words = _asked_words(question)
    terms = frozenset(subject_terms(column_words(question)))
    scores: dict[str, float] = {}
    for column in dict.fromkeys(name for row in table.rows for name in row.cells):
        words = frozenset(subject_terms(column.replace("_", " "))) - {""}
        shared = words & (terms - (target_words if len(words) == 1 else frozenset()))
        if (
            not all(map(str.isdigit, shared))
            and len(shared) >= min(2, _MIN_SHARE * len(words))
            and _is_numeric(table, column)
            and not any(_names_cell(question, row.cells.get(column, "")) for row in table.rows)
        ):
            scores[column] = len(shared) + len(shared) / len(words)
    best = sorted(scores, key=lambda name: -scores[name])
    certain = best and (len(best) == 1 or scores[best[0]] > scores[best[1]])
    return (best[0], scores[best[0]]) if certain else ("", 0.0)


def _names_repeat(question: str, table: Table) -> bool:
    """Return whether the things that a question asks for have several rows.

    A person is asked for by `who`; the first column must then name each row.
    """
    columns = list(dict.fromkeys(name for row in table.rows for name in row.cells))
    target_words = _asked_words(question)
    targets = [name for name in columns if target_words.intersection(subject_terms(name.replace("_", " ")))]
    who = asks_who(question)
    for name in columns[:1] if who else targets:
        cells = [row.cells.get(name, "").strip() for row in table.rows if row.cells.get(name, "").strip()]
        names = [cell for cell in cells if not any(map(str.isdigit, cell))]
        if len(set(names)) < len(names) or (who and len(names) < len(cells)):
            return True
    return False


def _asked_words(question: str) -> set[str]:
    """Return the terms of what a question asks for."""
    targets = [" ".join(filter(None, match.groups())) for match in _ASKED_FOR.finditer(question)]
    return {word for words in targets for word in subject_terms(words)}


def _is_numeric(table: Table, column: str) -> bool:
    filled = [row.cells[column] for row in table.rows if row.cells.get(column, "").strip(" -–—")]
    count = sum(number_unit(cell) is not None for cell in filled)
    return count >= _MIN_ROWS and count >= _MIN_NUMERIC * len(filled)


def _known_share(question: str, table: Table, title: str) -> float:
    """Return the share of a question that a table has.

    0 if a year or a month is missing.
    """
    terms = frozenset(subject_terms(column_words(question)))
    cells = (f"{name} {cell}" for row in table.rows for name, cell in row.cells.items())
    whole = "\n".join([title, table.above, table.header, *cells]).replace("_", " ")
    named = [*_YEAR.findall(question), *_COUNTED.findall(question)]
    if not terms or not all(re.search(rf"(?<!\d){re.escape(name)}", whole) for name in named):
        return 0.0
    return len(terms.intersection(subject_terms(whole))) / len(terms)


def _rows_named(question: str, column: str, table: Table) -> list[Row]:
    """Return the rows that a question names, or all.

    It names a row by a year or a cell. Rows of totals are left out.
    """
    rows = [
        row
        for row in table.rows
        if not any(_SUM_ROW.search(cell) and number_unit(cell) is None for cell in row.cells.values())
    ]
    for year in _YEAR.findall(question):
        rows = [row for row in rows if any(year in cell for cell in row.cells.values())] or rows
    for name in dict.fromkeys(name for row in rows for name in row.cells if name != column):
        rows = [row for row in rows if _names_cell(question, row.cells.get(name, ""))] or rows
    return rows


def _names_cell(question: str, cell: str) -> bool:
    """Return whether a question contains a cell; bare numbers do not count."""
    words = " ".join(normalize("NFKC", cell).split())
    if len(words) < 2 or words.casefold() not in question.casefold() or number_unit(words) == "":
        return False
    return re.search(rf"(?<![0-9A-Za-z]){re.escape(words)}(?![0-9A-Za-z])", question, re.IGNORECASE) is not None


def _compare_rows(
    kind: str, question: str, column: str, rows: Sequence[Row], table: Table, uri: str, text: str, language: str
) -> Draft | None:
    """Return the result over rows, or None if they are too few.

    If the numbers of the column are in doubt, the draft says so and gives no result.
    """
    others = [text for row in table.rows for pair in row.cells.items() if pair[0] != column for text in pair]
    cells = [row.cells.get(column, "") for row in table.rows]
    numbers = read_column(cells, [column, table.above, *others], english=_ENGLISH.search(question) is not None)
    by_row = dict(zip((row.start for row in table.rows), numbers.values, strict=True))
    found = [(row, value) for row in rows if (value := by_row[row.start]) is not None]
    values: dict[str, str] = {"what": say(kind, language), "column": column}
    if numbers.problem:
        values |= zip(("one", "other", "third"), numbers.examples, strict=False)
        winners = list(rows)
    elif len(found) < 2:
        return None
    else:
        result = _compute(kind, [value for _, value in found])
        winners = [row for row, value in found if value == result or kind not in ("highest", "lowest")]
        values |= {"value": numbers.format(result), "n": f"{len(found):,}", "total": f"{len(table.rows):,}"}
    draft = Draft()
    draft.add(say(numbers.problem or "rows", language, **values), "sentence")
    if table.header:
        draft.add(table.header, "table")
    for row in winners[:_MAX_WINNERS]:
        span = Span("", uri, row.start, row.end, text[row.start : row.end])
        draft.cite(collapse_spaces(span.text), span, "table")
    if len(winners) > _MAX_WINNERS:
        draft.add(say("more", language, n=f"{len(winners) - _MAX_WINNERS:,}"))
    return draft


def _compute(kind: str, values: Sequence[Decimal]) -> Decimal:
    """Return a result; an average with two decimals or more.

    >>> [str(_compute(kind, [Decimal("0.125"), Decimal(2)])) for kind in ("highest", "total", "average")]
    ['2', '2.125', '1.062']
    """
    if kind in ("highest", "lowest"):
        return max(values) if kind == "highest" else min(values)
    total = sum(values, Decimal(0))
    decimals = max(2, *(-int(value.as_tuple().exponent) for value in values))
    return total if kind == "total" else round(total / len(values), decimals)
