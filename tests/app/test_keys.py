"""A key is shown once and stored as a hash; its budget of a day is one for all its requests, and outlives a server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.app.upkeep.keys import (
    IndexKeys,
    StoredKey,
    create_key,
    has_index,
    list_keys,
    revoke_key,
    token_digest,
)
from kumihimo.core.errors import BudgetExceeded, IndexUnavailable, SettingsError
from kumihimo.core.usage import Usage
from kumihimo.llm.budget import Account, Budget
from kumihimo.llm.protocols import Prices
from tests.stores import NEEDS_FILES


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[IndexKeys]:
    """The keys of an index on the first of May."""
    with Kumihimo.open(tmp_path / "a") as kumi:
        keys = IndexKeys.of(kumi.opened)
        keys.today = lambda: "2026-05-01"
        yield keys
        keys.close()


def add(keys: IndexKeys, daily_tokens: int | None = 10_000) -> StoredKey:
    _, token = create_key([keys.index.folder], "reader", daily_tokens=daily_tokens)
    key = keys.find(token_digest(token))
    assert key
    return key


def spend(budget: Budget, usage: Usage) -> None:
    with budget.reserve(Account("answer", "m", Prices()), 4 * usage.prompt_tokens) as charges:
        charges.append(usage)


@NEEDS_FILES
def test_a_key_opens_the_indexes_that_it_was_made_for(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    id, token = create_key(
        folders, "editor", name="Ana", rights=" author = 'Bo' ", daily_tokens=9, requests_per_minute=3
    )
    create_key([tmp_path / "a"], "reader")
    assert re.fullmatch(r"kumi_[\w-]{43}", token)
    for folder in folders:
        key = next(key for key in list_keys(folder) if key.id == id)
        assert key[1:6] == ("Ana", "editor", "author = 'Bo'", 9, 3)
        assert token.encode() not in (folder / "keys.db").read_bytes()
        assert token_digest(token) in (folder / "keys.db").read_bytes()
        assert not has_index(folder)
    assert [len(list_keys(folder)) for folder in folders] == [2, 1]


def test_no_two_keys_are_alike(tmp_path: Path) -> None:
    assert len({part for _ in range(20) for part in create_key([tmp_path], "reader")}) == 40


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"role": "owner"}, "no role 'owner'. Known: admin, editor, reader"),
        ({"rights": "author ="}, "the filter ends too early"),
        ({"daily_tokens": 0}, "the limits of a key are 1 or more"),
        ({"requests_per_minute": 0}, "the limits of a key are 1 or more"),
    ],
)
def test_a_wrong_key_is_not_stored(tmp_path: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)):
        create_key([tmp_path], **{"role": "reader", **options})  # type: ignore[arg-type]
    assert not (tmp_path / "keys.db").exists()


def test_a_revoked_key_is_found_no_more(keys: IndexKeys) -> None:
    assert not keys.valid_ids()
    id, token = create_key([keys.index.folder], "reader")
    assert keys.valid_ids()
    assert revoke_key(keys.index.folder, id)
    assert not keys.valid_ids()
    assert keys.find(token_digest(token)) is None
    assert not revoke_key(keys.index.folder, "unknown")


def test_any_text_has_a_digest() -> None:
    assert len({token_digest(text) for text in ("", "kumi_x", "kumi_\udce9", "ключ")}) == 4


def test_all_requests_of_a_day_share_a_budget(keys: IndexKeys) -> None:
    key, other = add(keys), add(keys)
    budget = keys.budget(key)
    assert keys.budget(key) is budget
    assert keys.budget(other) is not budget
    spend(budget, Usage(1, 5000, completion_tokens=4000))
    assert keys.store.usage(key.id, keys.today()).tokens == 9000
    assert keys.store.usage(other.id, keys.today()).tokens == 0
    with (
        pytest.raises(BudgetExceeded, match=r"may need [0-9,]+ tokens, and the key has 1,000 left today"),
        budget.reserve(Account("answer", "m", Prices()), 4),
    ):
        raise AssertionError("the budget is spent")


def test_the_next_day_has_a_new_budget(keys: IndexKeys) -> None:
    key = add(keys)
    first = keys.budget(key)
    spend(first, Usage(1, 100))
    keys.today = lambda: "2026-05-02"
    assert keys.budget(key).total.tokens == 0
    assert keys.store.usage(key.id, keys.today()) == Usage()


def test_a_new_server_knows_what_was_used_today(keys: IndexKeys) -> None:
    key = add(keys)
    spend(keys.budget(key), Usage(1, 70))
    again = IndexKeys.of(keys.index)
    again.today = keys.today
    assert again.budget(key).total.tokens == 70
    spend(keys.budget(key), Usage(1, 20))
    assert again.budget(key).total.tokens == 90  # of the other server, meanwhile
    again.close()


def test_a_request_that_cannot_be_recorded_is_not_charged(keys: IndexKeys, monkeypatch: pytest.MonkeyPatch) -> None:
    """For it is not sent."""
    key, cache = add(keys), keys.index.cache

    def fail(*_: object) -> None:
        raise IndexUnavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(cache, "_write_batch", fail)
        with pytest.raises(IndexUnavailable, match="full"):
            spend(keys.budget(key), Usage(1, 60))
    assert keys.store.usage(key.id, keys.today()) == Usage()
    assert all(entry.usage.calls == 0 for entry in cache.usage())


def test_what_a_key_spends_counts_for_the_index_too(keys: IndexKeys) -> None:
    spend(keys.budget(add(keys)), Usage(1, 60))
    assert [(entry.scope, entry.usage.tokens) for entry in keys.index.cache.usage()] == [("answer", 60)]
