"""some documents -> views: each table as an index of these documents alone has it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest

from kumihimo.core.digests import hash_parts
from kumihimo.core.records import Document, Record
from kumihimo.core.signature import collect_signatures
from kumihimo.core.table import Rows, Table, codec
from kumihimo.core.task import Task
from kumihimo.core.views import ViewMemory, Views
from kumihimo.core.wiring import Catalogue
from kumihimo.storage.database import SqlRows
from kumihimo.storage.sqlite.store import SqliteStore
from tests.core.factories_build import Small, Step, id
from tests.toy_steps import (
    Entry,
    Gloss,
    Letter,
    Volume,
    Word,
    chunk_words,
    chunks,
    entries,
    glosses,
    letters,
    loose,
    volumes,
)

STEPS: list[Step] = [chunks, chunk_words, entries, letters, glosses, volumes, loose]
WIRED = Catalogue(collect_signatures(*STEPS)).wired
TYPES: dict[str, type[Any]] = {
    "documents": Document,
    **{name: step.output_codec.record for name, step in WIRED.items()},
}
TEXTS = {"a": "sea sky\nsky", "b": "sea", "c": "sun sea sea\noats", "d": "", "e": "oats fog"}


@contextmanager
def views(folder: Path, visible: Collection[str] | None = None) -> Iterator[dict[str, Table[Any]]]:
    """Yield the tables of an index; visible: the uris of the only visible documents."""
    store = SqliteStore(folder)
    with store.read_transaction() as db:

        def stored(table: str) -> Rows:
            return SqlRows(db, table)

        rows = stored
        if visible is not None:
            memory = ViewMemory({id(uri) for uri in visible})
            rows = Views(WIRED, stored, lambda step, rows: Task(step, {}, {}, rows, {}, True), memory).rows
        yield {name: Table(name, codec(kind), rows(name)) for name, kind in TYPES.items()}
    store.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("index")
    Small(path).build(STEPS, TEXTS)
    return path


def everything(tables: dict[str, Table[Any]], ids: dict[str, list[str]]) -> dict[str, Any]:
    """Return what every reader of the tables returns for these ids and words."""
    found: dict[str, Any] = {}
    words = sorted({hash_parts(word) for text in TEXTS.values() for word in text.split()})
    for name, table in tables.items():
        found[name] = list(table), len(table), list(table.columns("text", "id")), list(table.get_many(ids[name]))
        found[f"{name} by id"] = [(table.get(i), table.ids(id=i), table.where(id=i)) for i in ids[name]]
    chunk_words, letters = tables["chunk_words"], tables["letters"]
    found["words"] = [(chunk_words.where(name=word), chunk_words.ids(name=word)) for word in words]
    found["limited"] = [chunk_words.ids_grouped("name", words, limit=limit) for limit in (None, 1, 2, 9)]
    found["children"] = chunk_words.child_values(ids["chunks"], "text"), letters.child_values(words, "text")
    found["letters"] = letters.where(capital=False), letters.ids(capital=False), letters.ids(capital=True)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_a_view_is_an_index_of_the_visible_documents(folder: Path, tmp_path: Path, seed: int) -> None:
    visible = Random(seed).sample(sorted(TEXTS), seed % 6)
    Small(tmp_path).build(STEPS, {uri: TEXTS[uri] for uri in visible})
    with views(folder) as all_tables, views(folder, visible) as seen, views(tmp_path) as fresh:
        ids = {name: [row.id for row in table] for name, table in all_tables.items()}
        hidden = ("loose", *(["volumes"] if not visible else []))  # the first names no sources
        fresh_tables = {name: table for name, table in fresh.items() if name not in hidden}
        assert everything({**seen, **{n: fresh[n] for n in hidden}}, ids) == everything(fresh, ids)
        assert fresh_tables
        assert not seen["loose"]


@dataclass(frozen=True, slots=True)
class Verdict(Record):
    """A row that names the documents it rests on."""

    EVIDENCE: ClassVar[str] = "evidence"
    evidence: tuple[tuple[str, int], ...]


def verdicts(entry: Entry) -> Verdict:
    """Return what is known of an entry, from whatever document."""
    others = {"sky": ("a", "b"), "oats": ("c", "e")}.get(entry.text, ())
    return Verdict(tuple((id(uri), 1) for uri in others), text=f"{entry.count} of {entry.text}")


def test_a_row_rests_on_its_evidence_too(tmp_path: Path) -> None:
    steps: list[Step] = [chunks, chunk_words, entries, verdicts]
    Small(tmp_path).build(steps, TEXTS)
    wired, store = Catalogue(collect_signatures(*steps)).wired, SqliteStore(tmp_path)
    with store.read_transaction() as db:

        def state(word: str, *visible: str) -> bool | None:
            memory = ViewMemory({id(uri) for uri in visible})
            seen = Views(
                wired, lambda table: SqlRows(db, table), lambda s, rows: Task(s, {}, {}, rows, {}, True), memory
            )
            return seen.rows("verdicts").state_of(hash_parts(word))

        assert (state("sky", "a", "b"), state("sky", "a"), state("sky", "b")) == (True, False, None)
        assert (state("oats", "c", "e"), state("oats", "c")) == (True, False)
        assert state("sun", "c") is True
    store.close()


def test_rows_are_whole_partial_or_hidden(folder: Path) -> None:
    store = SqliteStore(folder)
    with store.read_transaction() as db:
        runs: list[str] = []

        def task_of(step: Any, rows: Any) -> Task:
            runs.append(step.name)
            return Task(step, {}, {}, rows, {}, True)

        memory = ViewMemory({id("a"), id("b")})
        seen = Views(WIRED, lambda table: SqlRows(db, table), task_of, memory)
        states = [seen.rows("entries").state_of(hash_parts(word)) for word in ("sky", "sea", "sun", "nothing")]
        assert states == [True, False, None, None]
        assert runs == []  # nothing is made before it is read
        sea = Table("entries", codec(Entry), seen.rows("entries"))[hash_parts("sea")]
        assert (sea.text, sea.count) == ("sea", 2)
        assert runs == ["entries"]
        again = Views(WIRED, lambda table: SqlRows(db, table), task_of, memory)
        assert Table("glosses", codec(Gloss), again.rows("glosses")).ids(id=hash_parts("sea")) == [hash_parts("sea")]
        assert [row[1] for row in again.rows("letters").partial_rows()] == ["s", "e", "a"]
        assert runs == ["entries", "glosses", "letters"]  # the entry is remembered
        assert Table("volumes", codec(Volume), again.rows("volumes"))["all"].members == tuple(
            sorted(map(hash_parts, ("sky", "sea")))
        )
        words = Table("chunk_words", codec(Word), again.rows("chunk_words"))
        assert again.rows("chunk_words").partial_rows() == []
        assert len(words) == 4
        assert len(Table("letters", codec(Letter), again.rows("letters"))) == 6
    store.close()
