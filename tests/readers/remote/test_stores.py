"""files of a store that fsspec knows -> documents; only what has changed is fetched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import known_implementations

from kumihimo import Kumihimo
from kumihimo.core.errors import SourceError


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryFileSystem]:
    store = fsspec.filesystem("memory")
    store.pipe({"/notes/a.md": b"The tide turns.", "/notes/deep/b#1.txt": b"The mole holds.", "/notes/c.png": b"x"})
    monkeypatch.delenv("KUMI_OFFLINE", raising=False)
    store.pipe({"/notes/.git/d.md": b"hidden", "/other/e.md": b"elsewhere"})
    yield store
    store.store.clear()
    store.pseudo_dirs[:] = [""]


@pytest.fixture
def kumi(tmp_path: Path) -> Iterator[Kumihimo]:
    with Kumihimo(tmp_path / "index.kumi") as kumi:
        yield kumi


def documents(kumi: Kumihimo) -> dict[str, object]:
    """Return the address of each document by its uri."""
    with kumi.snapshot() as snapshot:
        return {document.uri: document.metadata["url"] for document in snapshot.table("documents")}


def opened(store: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with each file that is opened."""
    paths: list[str] = []
    really_open = MemoryFileSystem.open

    def note_and_open(self: Any, path: str, *args: Any, **options: Any) -> Any:
        paths.append(path)
        return really_open(self, path, *args, **options)

    monkeypatch.setattr(MemoryFileSystem, "open", note_and_open)
    return paths


def test_only_changes_are_fetched(kumi: Kumihimo, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = opened(store, monkeypatch)
    built = kumi.index("memory://notes", methods=["bm25"])
    assert (built.new, built.failed, built.skipped) == (2, (), ("memory-notes/c.png",))
    assert documents(kumi) == {
        "memory-notes/a.md": "memory://notes/a.md",
        "memory-notes/deep/b_1.txt": "memory://notes/deep/b%231.txt",
    }
    assert paths == ["/notes/a.md", "/notes/deep/b#1.txt"]
    paths.clear()
    assert kumi.index().unchanged == 2
    assert paths == []
    store.pipe("/notes/a.md", b"The tide has turned.")
    store.rm("/notes/deep/b#1.txt")
    paths.clear()
    built = kumi.index()
    assert (paths, built.changed, built.removed) == (["/notes/a.md"], 1, 1)


def test_one_file(kumi: Kumihimo, store: Any) -> None:
    kumi.index("memory://other/e.md", methods=["bm25"])
    assert list(documents(kumi)) == ["memory-other/e.md"]
    kumi.remove("memory://other/e.md")
    assert documents(kumi) == {}


def test_a_store_that_is_away_keeps_its_rows(kumi: Kumihimo, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kumi.index("memory://notes", methods=["bm25"])
    before, files = documents(kumi), dict(store.store)
    store.store.clear()
    built = kumi.index()
    assert [(item, error.partition(":")[0]) for _, item, error in built.failed] == [("memory-notes", "memory")]
    assert documents(kumi) == before
    store.store.update(files)

    def fail(*_: object, **__: object) -> None:
        raise PermissionError("denied")

    store.pipe("/notes/a.md", b"The tide has turned.")
    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "open", fail)
        built = kumi.index()
    assert [item for _, item, _ in built.failed] == ["memory-notes/a.md"]
    assert documents(kumi) == before
    built = kumi.index()
    assert (built.failed, built.changed) == ((), 1)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("memory://nothing", "no file is there: check the address"),
        ("nowhere://a/b", "no store is known by nowhere://"),
        ("zip://a.txt", "no store is known by zip://"),
        ("simplecache::s3://a/b", "is no address"),
        ("sftp://me:secret@host/notes", "with a password is not stored"),
    ],
)
def test_addresses_without_files(kumi: Kumihimo, address: str, message: str) -> None:
    with pytest.raises(SourceError, match=message) as raised:
        kumi.index(address, methods=["bm25"])
    assert "secret" not in str(raised.value)


def test_a_missing_driver_is_named(kumi: Kumihimo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUMI_OFFLINE", raising=False)
    monkeypatch.setitem(known_implementations, "tide", {"class": "tidefs.TideFileSystem", "err": "Install tidefs"})
    with pytest.raises(SourceError, match=r"tide:// needs a driver: `pip install tidefs` \(Install tidefs\)"):
        kumi.index("tide://bucket/notes")
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(SourceError, match=r"pip install 'kumihimo\[remote\]'"):
        kumi.index("s3://bucket/notes")


def test_a_file_over_the_limit_is_listed(tmp_path: Path, store: Any) -> None:
    store.pipe("/notes/big.txt", b"a" * (1 << 20) + b"b")
    with Kumihimo(tmp_path / "index.kumi", {"reading": {"size": 1}}) as kumi:
        built = kumi.index("memory://notes", methods=["bm25"])
        assert [(item, "reading.size" in error) for _, item, error in built.failed] == [("memory-notes/big.txt", True)]
        assert len(documents(kumi)) == 2
