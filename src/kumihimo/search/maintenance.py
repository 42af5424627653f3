"""search indexes + a build -> up-to-date search indexes: attached before tables change, filled after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from kumihimo.core.table import Row
from kumihimo.core.task import Progress
from kumihimo.storage.sqlite.ledger import SqlLedger
from kumihimo.storage.sqlite.store import Db, SqlRows


class SearchIndex(Protocol):
    """A search index over one table."""

    @property
    def kind(self) -> str: ...  # for progress messages
    @property
    def table(self) -> str: ...
    @property
    def name(self) -> str: ...  # of its index table
    def ensure(self, fingerprint: str) -> bool: ...
    def replace(self, old: list[Row], new: list[Row]) -> None: ...
    def clear(self) -> None: ...
    def finish(self) -> None: ...


@contextmanager
def maintain_indexes(
    ledger: SqlLedger, views: Sequence[SearchIndex], fingerprint: str, progress: Progress | None = None
) -> Iterator[None]:
    """Update the indexes with each table write inside the context.

    A new index, or one with another fingerprint, is filled on exit.
    """
    _drop_unused(ledger.db, views)
    to_fill = [view for view in views if view.ensure(fingerprint)]
    for view in views:
        if view not in to_fill:
            ledger.views[view.table].append(view)
    yield
    for view in to_fill:
        _fill_index(view, ledger.db, progress)
    for view in views:
        view.finish()


def _drop_unused(db: Db, views: Sequence[SearchIndex]) -> None:
    """Drop the indexes that no method uses."""
    names = {view.name for view in views}
    for (name,) in db.all("SELECT name FROM meta WHERE name GLOB 'words_*' OR name GLOB 'vectors_*'"):
        if name not in names:
            db.run(f'DROP TABLE IF EXISTS "{name}"')
            db.run(f'DROP TABLE IF EXISTS "{name}_ids"')
            db.run("DELETE FROM meta WHERE name = ?", name)
            db.run("DELETE FROM failed WHERE step = ?", name)


def _fill_index(index: SearchIndex, db: Db, progress: Progress | None) -> None:
    rows = SqlRows(db, index.table)
    row_count, total = 0, rows.count()
    for page in rows.pages():
        index.replace([], page)
        row_count += len(page)
        if progress:
            progress(f"{index.kind} of {index.table}", row_count, total)
