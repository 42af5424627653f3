"""keys.db holds hashes of keys and what each has used; the file appears with the first key."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import astuple
from pathlib import Path

import pytest

from kumihimo.core.errors import Cancelled, IndexUnavailable
from kumihimo.core.usage import Usage
from kumihimo.storage.key_store import KeyStore, StoredKey
from kumihimo.storage.sqlite.key_file import KeyFile

ANA = StoredKey("a1", "Ana", "reader", 'author = "Bo"', 1000, 60, "2026-01-02T00:00:00+00:00", "")
BO = StoredKey("b2", "", "admin", "", None, 120, "2026-01-01T00:00:00+00:00", "")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KeyStore]:
    with closing(KeyStore(tmp_path / "index")) as store:
        yield store


def test_reading_makes_no_file(store: KeyStore, tmp_path: Path) -> None:
    assert store.all_keys() == []
    assert store.find(b"hash") is None
    assert not store.revoke("a1", "now")
    assert store.usage("a1", "2026-01-01") == Usage()
    assert not (tmp_path / "index").exists()


def test_keys_are_found_by_their_hash_and_listed_from_the_oldest(store: KeyStore, tmp_path: Path) -> None:
    store.add(ANA, b"hash of Ana's")
    store.add(BO, b"hash of Bo's")
    assert store.find(b"hash of Ana's") == ANA
    assert store.find(b"hash of Bo's") == BO
    assert store.find(b"hash") is None
    assert store.all_keys() == [BO, ANA]
    if sys.platform != "win32":
        assert (tmp_path / "index" / "keys.db").stat().st_mode & 0o777 == 0o600


def test_a_key_is_revoked_once_and_kept(store: KeyStore) -> None:
    store.add(ANA, b"1")
    store.add(BO, b"2")
    assert store.revoke("a1", "2026-02-01")
    assert store.revoke("a1", "2026-03-01")
    assert not store.revoke("a2", "2026-03-01")
    assert [(key.id, key.revoked) for key in store.all_keys()] == [("b2", ""), ("a1", "2026-02-01")]
    assert store.find(b"1") == ANA._replace(revoked="2026-02-01")


def test_usage_is_added_up_by_key_and_day(store: KeyStore) -> None:
    store.add(ANA, b"1")
    store.add(BO, b"2")

    def add(id: str, day: str, usage: Usage) -> None:
        reservation = store.reserve(id, day, Usage(1, 1000), "server", lambda total, reserved: True)
        assert reservation
        store.settle(reservation, usage)

    for usage in (
        Usage(1, 10, completion_tokens=2, cost=0.5),
        Usage(2, 20, completion_tokens=3),
        Usage(1, 1, cost=0.25),
    ):
        add("a1", "2026-01-01", usage)
    add("a1", "2026-01-02", Usage(1, 7))
    add("b2", "2026-01-01", Usage(1, 5))
    assert astuple(store.usage("a1", "2026-01-01")) == astuple(Usage(4, 31, completion_tokens=5, cost=0.75))
    assert store.usage("a1", "2026-01-02").prompt_tokens == 7
    assert store.usage("b2", "2026-01-02") == Usage()


def test_what_is_reserved_counts_and_is_counted_apart_for_other_processes(store: KeyStore) -> None:
    store.add(ANA, b"1")
    seen: list[tuple[int, int]] = []

    def admit(total: Usage, reserved: Usage) -> bool:
        seen.append((total.tokens, reserved.tokens))
        return total.tokens < 300

    def reserve(owner: str) -> str | None:
        return store.reserve("a1", "2026-01-01", Usage(1, 100, completion_tokens=20), owner, admit)

    first = reserve("one")
    assert first
    assert reserve("one")
    assert reserve("two")
    assert reserve("three") is None
    store.settle(first, Usage(1, 50))
    assert reserve("three")
    assert seen == [(0, 0), (0, 0), (240, 240), (360, 360), (290, 240)]
    assert store.usage("a1", "2026-01-01").tokens == 50 + 3 * 120
    store.revoke("a1", "2026-01-01")
    with pytest.raises(Cancelled, match="revoked"):
        reserve("one")


def test_keys_stay_when_the_store_is_closed(store: KeyStore, tmp_path: Path) -> None:
    store.add(ANA, b"1")
    store.close()
    assert store.find(b"1") == ANA
    with closing(KeyStore(tmp_path / "index")) as other:
        other.revoke("a1", "2026-02-01")
    found = store.find(b"1")
    assert found
    assert found.revoked


def test_a_full_disk_is_no_reason_to_delete_keys(store: KeyStore) -> None:
    store.add(ANA, b"1")
    database = store.database
    assert isinstance(database, KeyFile)
    with database.write() as db:
        db.run("PRAGMA max_page_count = 1")
    large = BO._replace(rights="x" * 100_000)
    with pytest.raises(IndexUnavailable, match=r"full\): check the disk and its free space$"):
        store.add(large, b"2")
    assert store.find(b"1") == ANA


def test_two_keys_cannot_have_one_hash(store: KeyStore) -> None:
    store.add(ANA, b"1")
    with pytest.raises(IndexUnavailable, match="UNIQUE"):
        store.add(BO, b"1")
    assert store.all_keys() == [ANA]


def test_a_damaged_file_names_the_remedy(store: KeyStore, tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "keys.db").write_bytes(b"no database" * 1000)
    with pytest.raises(
        IndexUnavailable, match=r"keys\.db cannot be used .*: restore it, or delete it and make new keys"
    ):
        store.find(b"1")
