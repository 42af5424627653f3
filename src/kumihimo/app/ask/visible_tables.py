"""a snapshot + expressions over metadata -> the documents that match, and what its tables show of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from kumihimo.core.errors import ItemFailed
from kumihimo.core.table import NO_ROWS, Rows, Table
from kumihimo.core.task import Task
from kumihimo.core.views import ViewMemory, Views
from kumihimo.core.wiring import ROOT, Port, Step
from kumihimo.llm.registry import RULES

if TYPE_CHECKING:
    from kumihimo.app.ask.snapshot import Snapshot


def visible_table(snapshot: Snapshot, table: Table[Any]) -> Table[Any]:
    """Return the visible rows of a table of a snapshot."""
    if not snapshot.rights and not snapshot.filter:
        return table
    memory = snapshot.db.once_per_build(
        ("view", snapshot.rights, snapshot.filter), lambda: ViewMemory(visible_documents(snapshot))
    )

    def stored_rows(name: str) -> Rows:
        return snapshot.stored_table(name).rows if snapshot.db.has(name) else NO_ROWS

    def task_of(step: Step, rows: Callable[[str], Rows]) -> Task:
        ports: dict[str, Port] = {"tokenizer": snapshot.tokenizer, "llm": _NoModel()}
        if recognizer := snapshot.catalogue.recognizer:
            ports["recognizer"] = recognizer
        if "llm" in step.signature.optional_ports:
            del ports["llm"]
        settings = snapshot.catalogue.settings_for_step(step.name, snapshot.settings)
        return Task(step, settings, ports, rows, {}, from_scratch=True)

    rows = Views(snapshot.catalogue.wired, stored_rows, task_of, memory, snapshot.db.check_cancelled).rows(table.name)
    return Table(table.name, table.codec, rows, view=rows)


def visible_documents(snapshot: Snapshot) -> frozenset[str]:
    """Return the ids of the documents that a snapshot shows.

    A field that no document has is unset for rights, and an error in a filter. Raises SettingsError.
    """
    # imported here, since few questions have a filter
    from kumihimo.search.metadata_filter import matching_documents

    expression, lenient = (snapshot.filter, False) if snapshot.filter else (snapshot.rights, True)
    outer = replace(snapshot, filter="") if snapshot.filter else replace(snapshot, rights="")
    metadata_model = snapshot.db.meta("models", {}).get("metadata", RULES)
    # a table made by rule only repeats the metadata of the documents
    metadata = outer.table("metadata") if metadata_model != RULES else None
    return matching_documents(expression, outer.table(ROOT), metadata, lenient=lenient)


@dataclass(frozen=True, slots=True)
class _NoModel:
    """The model of a step that needs one: it answers nothing, so the step falls back on its rules."""

    fingerprint: ClassVar[str] = ""
    workers: ClassVar[int] = 1

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise ItemFailed("")
