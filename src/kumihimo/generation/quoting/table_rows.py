"""a question + evidence with tables -> the rows that meet it, how many, the highest, a sum: if no word is in doubt."""

from collections.abc import Sequence
from decimal import Decimal

from kumihimo.core.context import Context
from kumihimo.core.spans import Span
from kumihimo.generation.phrases import question_language
from kumihimo.generation.quoting import ranking, windows
from kumihimo.generation.quoting.drafts import MAX_LONG_CHARS, Draft, say
from kumihimo.generation.quoting.table_questions import TableQuestion, asks_to_compute, may_ask_of, read_question
from kumihimo.generation.quoting.tables import Row, read_tables
from kumihimo.text.sentences import collapse_spaces, is_table_row

_MAX_EVIDENCE = 4
_MAX_CHARS = 400_000  # of a document whose rows are read: about 5,000 rows, half a second
_MAX_LINE = 74  # cells of a terminal, before the number of the source
_MAX_SHOWN = {"rows": 20, "count": 20}  # of their rows; 3 of the others


def write_rows(question: str, context: Context, reader: ranking.IndexReader) -> tuple[str, Draft] | None:
    """Return the kind of a question over a table, and its answer.

    Returns None if no table of the evidence has all its words, or if several tables fit alike. For a document that is
    too long to be read while one waits, the kind is `passages`, with a note.
    """
    language = question_language(question, context)
    uris = dict.fromkeys(
        span.uri for item in context.top(_MAX_EVIDENCE) for span in reader.spans(item) if _has_rows(span.text)
    )
    fitting: list[tuple[tuple[float, int], str, Draft]] = []
    for uri in uris:
        text, title, body = reader.document(uri)
        if len(text) > _MAX_CHARS:
            if asks_to_compute(question) and may_ask_of(question, f"{title}\n{text[:_MAX_CHARS]}"):
                note = Draft()
                note.add(say("long table", language, title=title or uri, n=f"{_MAX_CHARS:,}"))
                return "passages", note
            continue
        for table in read_tables(text, body) if may_ask_of(question, f"{title}\n{text}") else ():
            reading = read_question(question, table, title)
            if reading and (draft := _write_reading(reading, uri, text, language)):
                fitting.append((reading.fit, reading.kind, draft))
    best = [found for found in fitting if found[0] == max(fit for fit, _, _ in fitting)]
    return best[0][1:] if len(best) == 1 else None


def _has_rows(text: str) -> bool:
    return any(map(is_table_row, text.splitlines()))


def _write_reading(reading: TableQuestion, uri: str, text: str, language: str) -> Draft | None:
    """Return the result over rows, or None if they are too few.

    If the numbers of the column are in doubt, the draft says so and gives no result.
    """
    kind, numbers, winners = reading.kind, reading.numbers, list(reading.rows)
    where = "".join(f", {condition}" if language == "en" else f"、{condition}" for condition in reading.conditions)
    values = {"total": f"{len(reading.all_rows):,}", "where": where}
    line = "found"
    if reading.measure:
        by_row = dict(zip((row.start for row in reading.all_rows), numbers.values, strict=True))
        found = [(row, value) for row in winners if (value := by_row[row.start]) is not None]
        values |= {"what": say(kind, language), "column": reading.measure}
        values |= zip(("one", "other", "third"), numbers.examples, strict=False)
        line = numbers.problem or "rows"
        if not numbers.problem:
            if len(found) < 2:
                return None
            result = _compute(kind, [value for _, value in found])
            winners = [row for row, value in found if value == result or kind not in ("highest", "lowest")]
            values |= {"value": numbers.format(result), "n": f"{len(found):,}"}
    else:
        values["n"] = f"{len(winners):,}"
    draft = Draft(MAX_LONG_CHARS)
    draft.add(say(line, language, **values), "sentence")
    shown = winners[: _MAX_SHOWN.get(kind, 3)]
    header, *lines = _write_table(shown, reading.columns)
    draft.add(f"{header}\n{'| --- ' * (header.count('|') - 1)}|", "table")
    for row, line in zip(shown, lines, strict=True):
        draft.cite(line, Span("", uri, row.start, row.end, text[row.start : row.end]), "table")
    if len(winners) > len(draft.citations):
        draft.add(say("more", language, n=f"{len(winners) - len(draft.citations):,}"))
    return draft


def _write_table(rows: Sequence[Row], first: Sequence[str]) -> list[str]:
    """Return the lines of a Markdown table for a terminal.

    first: the columns that are kept first, if there is not room for all.

    >>> _write_table([Row(0, 9, {"boat": "Ebb", "log": "sea " * 30, "crew": "4"})], ["crew"])
    ['| boat | crew | … |', '| Ebb | 4 | … |']
    """
    names = list(dict.fromkeys(name for row in rows for name in row.cells))
    kept: list[str] = []
    lines = [""]
    for name in dict.fromkeys([*first, *names]):
        columns = [own for own in names if own in kept or own == name]
        table = [columns, *([row.cells.get(column, "") for column in columns] for row in rows)]
        rest = " … |" if len(columns) < len(names) else ""
        cells = [[collapse_spaces(cell).replace("|", "/") for cell in line] for line in table]
        wider = [f"| {' | '.join(line)} |{rest}" for line in cells]
        if not kept or max(map(windows.cell_width, wider)) <= _MAX_LINE:
            kept, lines = columns, wider
    return lines


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
