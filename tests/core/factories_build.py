"""documents -> tables: builds of small steps, without views."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kumihimo.core.digests import hash_parts
from kumihimo.core.engine import build_tables, watch_tables
from kumihimo.core.errors import ItemFailed
from kumihimo.core.settings import SettingValues
from kumihimo.core.signature import collect_signatures
from kumihimo.core.table import Row
from kumihimo.core.task import Pool, Progress
from kumihimo.core.wiring import Port, order_steps
from kumihimo.storage.database import SqlRows
from kumihimo.storage.ledger import SqlLedger
from kumihimo.storage.sqlite.store import SqliteStore
from tests.laws.factories_history import load

Step = Callable[..., Any]


@dataclass
class Small:
    """An index folder.

    Documents are given as uri -> text; `id` returns the id of a uri.
    """

    folder: Path
    ports: Mapping[str, Port] = field(default_factory=dict)
    pool: Pool = map
    progress: Progress | None = None

    def build(
        self,
        steps: list[Step],
        documents: Mapping[str, str],
        settings: SettingValues | None = None,
        code: str = "1",
        from_scratch: Collection[str] = (),
    ) -> None:
        store = SqliteStore(self.folder)
        with store.write_transaction() as db:
            ledger = SqlLedger(db)
            wired = order_steps(collect_signatures(*steps))
            watch_tables(wired, ledger)
            load(ledger, documents)
            build_tables(
                wired,
                ledger,
                settings=settings or {},
                ports=lambda _: self.ports,
                code=lambda _: code,
                pool=self.pool,
                progress=self.progress,
                from_scratch=from_scratch,
            )

    def rows(self, table: str) -> list[Row]:
        store = SqliteStore(self.folder)
        try:
            with store.read_transaction() as db:
                return [row for page in SqlRows(db, table).pages() for row in page]
        finally:
            store.close()

    def texts(self, table: str) -> list[str]:
        return [row[1] for row in self.rows(table)]

    def query(self, sql: str) -> list[Row]:
        store = SqliteStore(self.folder)
        try:
            with store.read_transaction() as db:
                return db.all(sql)
        finally:
            store.close()

    def failures(self) -> list[Row]:
        return self.query("SELECT step, maker, error FROM failed ORDER BY step, maker")


def id(uri: str) -> str:
    return hash_parts(uri)


@dataclass
class Model:
    """A model made from a function; it counts its prompts."""

    answer: Callable[[str], str]
    fingerprint: str = "model"
    prompt_counts: Counter[str] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.prompt_counts = Counter()

    def __call__(self, prompt: str) -> str:
        self.prompt_counts[prompt] += 1
        return self.answer(prompt)


def failing(*prompts: str) -> Model:
    """Return a model that uppercases prompts, and fails at these."""

    def answer(prompt: str) -> str:
        if prompt in prompts:
            raise ItemFailed(f"no answer to {prompt}")
        return prompt.upper()

    return Model(answer)
