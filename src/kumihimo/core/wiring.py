"""signatures -> steps in the order they run, with the tables they read."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from kumihimo.core.errors import StepError, describe_unknown
from kumihimo.core.records import Document, Record
from kumihimo.core.signature import Signature
from kumihimo.core.table import Codec, codec

ROOT = "documents"  # the table from the readers; the source of all others
PREVIOUS = "previous"  # the parameter that gives a step its own rows of the last build


class Port(Protocol):
    """An external service that a step may call.

    `fingerprint` names everything that determines its results.
    """

    @property
    def fingerprint(self) -> str: ...


@dataclass(frozen=True)
class Step:
    """A signature connected to tables."""

    signature: Signature
    source: str  # the table with the keys; for a whole-table step, its first input
    key: str  # the key column of `source`: id, or the GROUP of its class
    tables: Mapping[str, str]  # parameter -> table

    @cached_property
    def name(self) -> str:
        return self.signature.name

    @property
    def scope(self) -> str:
        return self.signature.scope

    @property
    def output_codec(self) -> Codec[Any]:
        assert self.signature.output_type
        return codec(self.signature.output_type)

    @property
    def keyed(self) -> bool:
        return self.signature.shape != "table"

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Return the tables it reads, without its own."""
        names = dict.fromkeys([self.source, *self.tables.values()])
        return tuple(table for table in names if table != self.name)

    @property
    def remembers(self) -> bool:
        """Return whether it reads its own rows of the last build."""
        return PREVIOUS in self.tables

    @cached_property
    def wave_column(self) -> str:
        """Return the column that orders its keys.

        Empty unless the step reads what it makes in this build.
        """
        reads_itself = self.keyed and any(t == self.name and p != PREVIOUS for p, t in self.tables.items())
        return self.signature.input_type.WAVE if reads_itself and self.signature.input_type else ""


def order_steps(steps: Mapping[str, Signature]) -> list[Step]:
    """Return the steps, each after the steps it depends on.

    Raises StepError if the wiring is wrong.
    """
    record_types: dict[str, type[Record]] = {ROOT: Document} | {
        n: s.output_type for n, s in steps.items() if s.output_type
    }
    pending = [_wire(s, record_types) for s in steps.values()]
    order: list[Step] = []
    done = {ROOT}
    while pending:
        ready = [step for step in pending if done.issuperset(step.inputs)]
        if not ready:
            raise StepError(f"these steps wait for each other: {', '.join(step.name for step in pending)}")
        order += ready
        done.update(step.name for step in ready)
        pending = [step for step in pending if step.name not in done]
    return order


def check_table(function: str, table: str, record_type: type[Record], record_types: Mapping[str, type[Record]]) -> None:
    """Raise StepError unless the table exists and holds records of this class."""
    if table not in record_types:
        raise StepError(f"{function}: {describe_unknown('table', table, record_types)}")
    if record_types[table] is not record_type:
        raise StepError(f"{function}: table {table} holds {record_types[table].__name__}, not {record_type.__name__}")


def _wire(s: Signature, record_types: Mapping[str, type[Record]]) -> Step:
    tables = {p: s.name if p == PREVIOUS else p for p in s.tables}
    for parameter, table in tables.items():
        check_table(s.name, table, s.tables[parameter], record_types)
    if s.shape == "table":
        return Step(s, next(iter(tables.values())), "", tables)
    assert s.input_type
    sources = [table for table, record_type in record_types.items() if record_type is s.input_type]
    if len(sources) != 1:
        raise StepError(f"{s.name}: {len(sources)} tables hold {s.input_type.__name__} rows; it needs exactly one")
    key = s.input_type.GROUP if s.shape == "group" else "id"
    if not key:
        raise StepError(f"{s.name}: {s.input_type.__name__} needs a GROUP: the column whose value names the group")
    step = Step(s, sources[0], key, tables)
    if s.name in tables and not step.wave_column:
        raise StepError(
            f"{s.name} reads what it makes: {s.input_type.__name__} needs a WAVE, the column that orders its rows"
        )
    return step
