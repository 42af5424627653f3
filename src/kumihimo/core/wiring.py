"""signatures -> steps in the order they run: who reads whose table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kumihimo.core.errors import StepError, describe_unknown
from kumihimo.core.records import Document, Record
from kumihimo.core.signature import Signature
from kumihimo.core.table import Codec, codec

ROOT = "documents"  # the table that readers make; all others are made of it


@dataclass(frozen=True, slots=True)
class Step:
    """A signature wired to tables."""

    signature: Signature
    source: str  # the table whose rows key the work; for a table step, its first input
    key: str  # the column of `source` that names a key: id, or its class's GROUP
    tables: Mapping[str, str]  # parameter -> table

    @property
    def name(self) -> str:
        return self.signature.name

    @property
    def output_codec(self) -> Codec[Any]:
        assert self.signature.output_type
        return codec(self.signature.output_type)

    @property
    def keyed(self) -> bool:
        return self.signature.shape != "table"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The other tables it is made from."""
        read = dict.fromkeys([self.source, *self.tables.values()])
        return tuple(table for table in read if table != self.name)

    @property
    def wave_column(self) -> str:
        """The column by which its keys are ordered, where it reads what it makes."""
        own = self.keyed and self.name in self.tables.values()
        return self.signature.input_type.WAVE if own and self.signature.input_type else ""


def order_steps(steps: Mapping[str, Signature]) -> list[Step]:
    """The steps, each after those whose tables it reads. Raises StepError where the wiring is wrong."""
    kinds: dict[str, type[Record]] = {ROOT: Document} | {n: s.output_type for n, s in steps.items() if s.output_type}
    waiting = [_wire(s, kinds) for s in steps.values()]
    order: list[Step] = []
    done = {ROOT}
    while waiting:
        ready = [step for step in waiting if done.issuperset(step.inputs)]
        if not ready:
            raise StepError(f"these steps wait for each other: {', '.join(step.name for step in waiting)}")
        order += ready
        done.update(step.name for step in ready)
        waiting = [step for step in waiting if step.name not in done]
    return order


def _wire(s: Signature, kinds: Mapping[str, type[Record]]) -> Step:
    tables = {p: s.name if p == "previous" else p for p in s.tables}
    for parameter, table in tables.items():
        if table not in kinds:
            raise StepError(f"{s.name}: {describe_unknown('table', table, kinds)}")
        if kinds[table] is not s.tables[parameter]:
            raise StepError(
                f"{s.name}: table {table} holds {kinds[table].__name__}, not {s.tables[parameter].__name__}"
            )
    if s.shape == "table":
        return Step(s, next(iter(tables.values())), "", tables)
    assert s.input_type
    sources = [table for table, kind in kinds.items() if kind is s.input_type]
    if len(sources) != 1:
        raise StepError(f"{s.name}: {len(sources)} tables hold {s.input_type.__name__} rows; it needs exactly one")
    key = s.input_type.GROUP if s.shape == "group" else "id"
    if not key:
        raise StepError(f"{s.name}: {s.input_type.__name__} needs a GROUP: the column whose value names the group")
    step = Step(s, sources[0], key, tables)
    if s.name in tables.values() and not step.wave_column:
        raise StepError(
            f"{s.name} reads what it makes: {s.input_type.__name__} needs a WAVE, the column that orders its rows"
        )
    return step
