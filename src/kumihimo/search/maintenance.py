"""views + a build -> the same views, up to date: attached before the tables change, filled and finished after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from kumihimo.core.table import Row
from kumihimo.core.task import Progress
from kumihimo.storage.sqlite.ledger import SqlLedger
from kumihimo.storage.sqlite.store import Db, SqlRows


class SearchIndex(Protocol):
    """Another shape of one table."""

    @property
    def kind(self) -> str: ...  # in a person's words
    @property
    def table(self) -> str: ...
    @property
    def name(self) -> str: ...  # of its own table in the index
    def ensure(self, fingerprint: str) -> bool: ...
    def replace(self, old: list[Row], new: list[Row]) -> None: ...
    def clear(self) -> None: ...
    def finish(self) -> None: ...


@contextmanager
def maintain_indexes(
    ledger: SqlLedger, views: Sequence[SearchIndex], fingerprint: str, progress: Progress | None = None
) -> Iterator[None]:
    """Within, each write to a table reaches its views. One that is new, or made under another mark, is filled after."""
    _drop_unused(ledger.db, views)
    empty = [view for view in views if view.ensure(fingerprint)]
    for view in views:
        if view not in empty:
            ledger.views[view.table].append(view)
    yield
    for view in empty:
        _fill_index(view, ledger.db, progress)
    for view in views:
        view.finish()


def _drop_unused(db: Db, views: Sequence[SearchIndex]) -> None:
    """Drop the views that nobody wants: they are not kept up to date."""
    names = {view.name for view in views}
    for (name,) in db.all("SELECT name FROM meta WHERE name GLOB 'words_*' OR name GLOB 'vectors_*'"):
        if name not in names:
            db.run(f'DROP TABLE IF EXISTS "{name}"')
            db.run(f'DROP TABLE IF EXISTS "{name}_ids"')
            db.run("DELETE FROM meta WHERE name = ?", name)
            db.run("DELETE FROM failed WHERE step = ?", name)


def _fill_index(view: SearchIndex, db: Db, progress: Progress | None) -> None:
    rows = SqlRows(db, view.table)
    done, total = 0, rows.count()
    for page in rows.pages():
        view.replace([], page)
        done += len(page)
        if progress:
            progress(f"{view.kind} of {view.table}", done, total)
