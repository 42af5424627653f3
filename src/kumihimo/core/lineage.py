"""a row -> its chunks and documents, read from its id."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kumihimo.core.errors import KumiError
from kumihimo.core.records import Reference
from kumihimo.core.table import Table
from kumihimo.core.wiring import ROOT, Step

TableLookup = Callable[[str], Table[Any]]
TRACE_ENDS = ("chunks", ROOT)  # the tables at the end of a trace


def trace_sources(steps: Mapping[str, Step], tables: TableLookup, reference: Reference) -> Iterator[Reference]:
    """Yield the source chunks or documents of a row, each once.

    A row of a row step comes from the row its id begins with, a row of a group step from the members of its group. Rows
    of a whole-table step name their sources in `parents`. Raises KumiError if the row does not exist.
    """
    if reference[0] not in (*TRACE_ENDS, *steps):
        raise KumiError(f"there is no table {reference[0]!r} to trace from")
    tables(reference[0])[reference[1]]
    stack, visited = [reference], {reference}
    while stack:
        table, id = stack.pop()
        if table in TRACE_ENDS:
            yield table, id
            continue
        for parent in reversed(_parents(steps[table], tables, id)):  # depth first: quick to the first
            if parent not in visited:
                visited.add(parent)
                stack.append(parent)


def starts_with_document(steps: Mapping[str, Step], table: str) -> bool:
    """Return whether only row steps lead from documents to this table.

    The ids of its rows then begin with the id of their document.
    """
    while table != ROOT and steps[table].signature.shape == "row":
        table = steps[table].source
    return table == ROOT


def _parents(step: Step, tables: TableLookup, id: str) -> list[Reference]:
    if step.signature.shape == "table":
        return list(tables(step.name)[id].parents())
    if step.signature.shape == "row":
        return [(step.source, id.rpartition(".")[0] if step.signature.many else id)]
    return [(step.source, member) for member in tables(step.source).ids(**{step.key: id})]
