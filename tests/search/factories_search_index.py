"""texts -> an index of one table that is searched: built as a build does it, by what changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kumihimo.core.context import Context
from kumihimo.core.engine import diff_rows
from kumihimo.core.records import Record
from kumihimo.core.table import Row, RowFilter, Table, codec
from kumihimo.search.protocols import KeywordSearch
from kumihimo.storage.sqlite.ledger import SqlLedger
from kumihimo.storage.sqlite.store import Db, SqlRows, Store

Search = Callable[[str, int], list[tuple[str, float]]]  # question, k -> ids and scores


@dataclass(frozen=True, slots=True)
class Note(Record):
    """A text, and something by which it is not found."""

    pages: int = 0


@dataclass
class Notes:
    """One index folder with a table of notes, given as id -> text."""

    folder: Path
    view: Callable[[Db], Any]
    search: Callable[[Db], KeywordSearch]
    filled: list[bool] = field(default_factory=list)  # for each build, whether the view had to be filled anew

    def __post_init__(self) -> None:
        self.store = Store(self.folder)

    @contextmanager
    def building(self, texts: Mapping[str, str], *, fingerprint: str = "1", pages: int = 0) -> Iterator[None]:
        """A build that makes these the notes of the index, open just before its end."""
        with self.store.write_transaction() as db:
            ledger, view = SqlLedger(db), self.view(db)
            ledger.ensure_table("notes", codec(Note), "documents", "id")
            anew = view.ensure(fingerprint)
            if not anew:
                ledger.views["notes"].append(view)
            rows = [codec(Note).encode(id, Note(text=text, pages=pages)) for id, text in texts.items()]
            old: list[Row] = []
            new: list[Row] = []
            diff_rows({row[0]: row for page in ledger.rows("notes").pages() for row in page}, rows, old, new)
            ledger.change("notes", old, new)
            for page in ledger.rows("notes").pages() if anew else ():
                view.replace([], page)
            view.finish()
            self.filled.append(anew)
            yield

    def build(self, texts: Mapping[str, str], *, fingerprint: str = "1", pages: int = 0) -> None:
        with self.building(texts, fingerprint=fingerprint, pages=pages):
            pass

    @contextmanager
    def searching(self, passes: RowFilter = lambda _: True) -> Iterator[Search]:
        """Searches of one snapshot."""
        with self.store.read_transaction() as db:
            search, table = self.search(db), Table("notes", codec(Note), SqlRows(db, "notes")).filtered(passes)

            def found(question: str, k: int) -> list[tuple[str, float]]:
                context: Context = search(table, question, k=k)
                assert all(item.table == "notes" and item.record == table[item.record.id] for item in context)
                return [(item.record.id, item.score) for item in context]

            yield found

    def found(self, question: str, k: int = 10) -> list[tuple[str, float]]:
        with self.searching() as search:
            return search(question, k)

    def ids(self, question: str, k: int = 10) -> list[str]:
        return [id for id, _ in self.found(question, k)]

    def filtered(self, question: str, k: int, kept: set[str]) -> tuple[list[tuple[str, float]], int]:
        """What is found of the rows that are kept, and how often was asked whether one is."""
        asked: list[str] = []
        with self.searching(lambda id: bool(asked.append(id)) or id in kept) as search:  # type: ignore[func-returns-value]
            found = search(question, k)
        return found, len(asked)
