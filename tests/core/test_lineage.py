"""a row -> its chunks: by its id, by its group, by its own list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import KumiError
from kumihimo.core.lineage import trace_sources
from kumihimo.core.records import Document, Record, Reference
from kumihimo.core.signature import collect_signatures
from kumihimo.core.table import Table, codec
from kumihimo.core.wiring import Catalogue
from kumihimo.storage.database import SqlRows
from kumihimo.storage.sqlite.store import SqliteStore
from tests.core.factories_build import Small, Step, id
from tests.toy_steps import chunk_words, chunks, entries, glosses, loose, volumes

STEPS: list[Step] = [chunks, chunk_words, entries, glosses, volumes, loose]
WIRED = Catalogue(collect_signatures(*STEPS)).wired
A, B = id("a"), id("b")


@contextmanager
def index(folder: Path) -> Iterator[Callable[[str], Table[Record]]]:
    Small(folder).build(STEPS, {"a": "sea sky\nsky", "b": "sea"})
    store, steps = SqliteStore(folder), WIRED
    kinds: dict[str, type[Record]] = {"documents": Document} | {
        n: s.signature.output_type for n, s in steps.items() if s.signature.output_type
    }
    with store.read_transaction() as db:
        yield lambda name: Table(name, codec(kinds[name]), SqlRows(db, name))
    store.close()


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        (("documents", A), [("documents", A)]),
        (("chunks", f"{A}.00001"), [("chunks", f"{A}.00001")]),
        (("chunk_words", f"{A}.00001.00000"), [("chunks", f"{A}.00001")]),
        (("entries", hash_parts("sky")), [("chunks", f"{A}.00000"), ("chunks", f"{A}.00001")]),
        (("glosses", hash_parts("sky")), [("chunks", f"{A}.00000"), ("chunks", f"{A}.00001")]),
        (("entries", hash_parts("sea")), sorted([("chunks", f"{A}.00000"), ("chunks", f"{B}.00000")])),
        (("loose", "one"), []),
    ],
)
def test_a_row_stands_on_these(tmp_path: Path, reference: Reference, expected: list[Reference]) -> None:
    with index(tmp_path) as tables:
        assert list(trace_sources(WIRED, tables, reference)) == expected


def test_what_several_members_share_is_met_once(tmp_path: Path) -> None:
    with index(tmp_path) as tables:
        references = list(trace_sources(WIRED, tables, ("volumes", "all")))
    assert sorted(references) == sorted([("chunks", f"{A}.00000"), ("chunks", f"{A}.00001"), ("chunks", f"{B}.00000")])


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    with index(tmp_path) as tables, pytest.raises(KumiError, match=r"^there is no table 'wrods' to trace from$"):
        list(trace_sources(WIRED, tables, ("wrods", "a")))


@pytest.mark.parametrize(
    "reference",
    [
        ("volumes", "none"),
        ("entries", hash_parts("sun")),
        ("chunk_words", f"{A}.00000.00099"),
        ("chunk_words", "nonsense"),
        ("glosses", hash_parts("sun")),
        ("chunks", f"{A}.00099"),
        ("documents", id("z")),
    ],
)
def test_a_row_that_is_not_there_is_named(tmp_path: Path, reference: Reference) -> None:

    with index(tmp_path) as tables, pytest.raises(KumiError, match=f"^table {reference[0]} has no row "):
        list(trace_sources(WIRED, tables, reference))
