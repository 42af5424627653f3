"""documents -> tables: one build of a handful of steps, without views, and a look at what it made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kumihimo.core.flow import Pool, Port, Progress, build, inline
from kumihimo.core.records import digest
from kumihimo.core.settings import Values
from kumihimo.core.signature import catalogue
from kumihimo.core.table import Row
from kumihimo.ports.ledger import SqlLedger
from kumihimo.ports.store import SqlRows, Store
from tests.laws.world import load

Step = Callable[..., Any]


@dataclass
class Small:
    """One index folder. Documents are given as uri -> text; `id` names them as the index does."""

    folder: Path
    ports: Mapping[str, Port] = field(default_factory=dict)
    pool: Pool = inline
    progress: Progress | None = None

    def build(
        self, steps: list[Step], documents: Mapping[str, str], settings: Values | None = None, code: str = "1"
    ) -> None:
        store = Store(self.folder)
        with store.building() as db:
            ledger = SqlLedger(db)
            load(ledger, documents)
            build(
                catalogue(*steps),
                ledger,
                settings=settings or {},
                ports=self.ports,
                code=code,
                pool=self.pool,
                progress=self.progress,
            )

    def rows(self, table: str) -> list[Row]:
        store = Store(self.folder)
        try:
            with store.reading() as db:
                return [row for page in SqlRows(db, table).pages() for row in page]
        finally:
            store.close()

    def texts(self, table: str) -> list[str]:
        return [row[1] for row in self.rows(table)]

    def asked(self, sql: str) -> list[Row]:
        store = Store(self.folder)
        try:
            with store.reading() as db:
                return db.all(sql)
        finally:
            store.close()

    def failed(self) -> list[Row]:
        return self.asked("SELECT step, maker, error FROM failed ORDER BY step, maker")


def id(uri: str) -> str:
    return digest(uri)
