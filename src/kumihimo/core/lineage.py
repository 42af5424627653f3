"""a row -> the chunks it was made of: read off its id, down to the documents."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from functools import cache
from typing import Any

from kumihimo.core.errors import KumiError
from kumihimo.core.records import Reference
from kumihimo.core.signature import Signature
from kumihimo.core.table import RowFilter, Table
from kumihimo.core.wiring import ROOT, Step, order_steps

TableLookup = Callable[[str], Table[Any]]
TRACE_ENDS = ("chunks", ROOT)  # where a trace ends


def trace_sources(steps: Mapping[str, Signature], tables: TableLookup, reference: Reference) -> Iterator[Reference]:
    """The chunks (or documents) that a row was made of, each once, in the order they are met.

    A row of a row step was made of the row its id begins with, one of a group step of the group's members;
    a table step's rows tell by `made_of`. Raises KumiError where the row is not there.
    """
    made_by: dict[str, Step] = {}
    if reference[0] not in (*TRACE_ENDS, *steps):
        raise KumiError(f"there is no table {reference[0]!r} to trace from")
    tables(reference[0])[reference[1]]
    waiting, seen = [reference], {reference}
    while waiting:
        table, id = waiting.pop()
        if table in TRACE_ENDS:
            yield table, id
            continue
        made_by = made_by or {step.name: step for step in order_steps(steps)}
        for maker in reversed(_parents(made_by[table], tables, id)):  # in depth, so that the first is soon found
            if maker not in seen:
                seen.add(maker)
                waiting.append(maker)


def visibility_filters(
    steps: Mapping[str, Signature], tables: TableLookup, documents: Container[str]
) -> Callable[[str], RowFilter]:
    """For each table, whether a row of it was made of these documents alone; what was read to tell is remembered.

    Raises KumiError where a row of a table step is not there.
    """
    made_by = {step.name: step for step in order_steps(steps)}

    @cache
    def of(table: str) -> RowFilter:
        if _id_starts_with_document(made_by, table):
            return lambda id: id.partition(".")[0] in documents

        @cache
        def made_of_these(id: str) -> bool:
            makers = _parents(made_by[table], tables, id)
            return bool(makers) and all(of(source)(maker) for source, maker in makers)

        return made_of_these

    return of


def _id_starts_with_document(made_by: Mapping[str, Step], table: str) -> bool:
    """Whether row steps alone lead from the documents to this table."""
    while table != ROOT and made_by[table].signature.shape == "row":
        table = made_by[table].source
    return table == ROOT


def _parents(step: Step, tables: TableLookup, id: str) -> list[Reference]:
    if step.signature.shape == "table":
        return list(tables(step.name)[id].parents())
    if step.signature.shape == "row":
        return [(step.source, id.rpartition(".")[0] if step.signature.many else id)]
    return [(step.source, member.id) for member in tables(step.source).where(**{step.key: id})]
