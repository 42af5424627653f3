"""keys -> those that one caller may fetch: no two at once, and no claim outlives its process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from kumihimo.core.errors import IndexUnavailable
from kumihimo.storage import cache_database
from kumihimo.storage.cache_database import KeyClaims
from tests.counters import wait_until


def claim_and_release(claims: KeyClaims, *keys: bytes) -> list[bytes]:
    with claims.claim(keys) as claimed:
        return claimed


def test_only_free_keys_are_claimed(tmp_path: Path) -> None:
    claims = KeyClaims.in_file(tmp_path / "claims")
    with claims.claim([b"a"]) as first, claims.claim([b"a", b"b", b"c"]) as second:
        assert (first, second) == ([b"a"], [b"b", b"c"])
    assert claim_and_release(claims, b"a", b"b", b"c") == [b"a", b"b", b"c"]
    claims.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the locks belong to a process, not to an open file")
def test_two_caches_of_one_process_claim_apart(tmp_path: Path) -> None:
    first, second = KeyClaims.in_file(tmp_path / "claims"), KeyClaims.in_file(tmp_path / "claims")
    with first.claim([b"a"]):
        assert claim_and_release(second, b"a", b"b") == [b"b"]
        second.close()  # frees no claim of another
        third = KeyClaims.in_file(tmp_path / "claims")
        assert claim_and_release(third, b"a", b"b") == [b"b"]
    assert claim_and_release(third, b"a", b"b") == [b"a", b"b"]
    first.close()
    third.close()


def test_a_caller_waits_for_the_claim_of_another(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    claims, claimed = KeyClaims.in_file(tmp_path / "claims"), list[bytes]()
    thread = Thread(target=lambda: claimed.extend(claim_and_release(claims, b"a")))
    with caplog.at_level("INFO", logger="kumihimo"), claims.claim([b"a"]):
        thread.start()
        wait_until(lambda: "waiting for a reply" in caplog.text)
        assert claimed == []
    thread.join(60)
    assert claimed == [b"a"]
    claims.close()


def test_a_killed_process_frees_its_claims(tmp_path: Path) -> None:
    script = f"""
from pathlib import Path
from kumihimo.storage.cache_database import KeyClaims
with KeyClaims.in_file(Path({str(tmp_path / "claims")!r})).claim([b"a"]):
    print("claimed", flush=True)
    input()
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    claims = KeyClaims.in_file(tmp_path / "claims")
    with process:
        assert process.stdout
        assert process.stdout.readline() == "claimed\n"
        assert claim_and_release(claims, b"a", b"b") == [b"b"]
        process.kill()
    assert claim_and_release(claims, b"a", b"b") == [b"a", b"b"]
    claims.close()


def test_a_stopped_process_is_not_waited_for_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_database, "_MAX_POLLS", 2)
    claims = KeyClaims.in_file(tmp_path / "claims")
    with claims.claim([b"a"]):
        assert claim_and_release(claims, b"a") == [b"a"]
        with claims.claim([b"b"]):  # and the claim of the other stays
            assert claim_and_release(claims, b"a", b"c") == [b"c"]
    claims.close()


def test_a_long_wait_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cache_database, "_WARNING_POLLS", 1)
    monkeypatch.setattr(cache_database, "_MAX_POLLS", 3)
    claims = KeyClaims.in_file(tmp_path / "claims")
    with claims.claim([b"a"]):
        for _ in range(2):
            claim_and_release(claims, b"a")
    assert caplog.messages == ["waiting for replies that another process has requested; they are not paid for twice"]
    claims.close()


def test_waiting_ends_when_the_claims_are_closed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    claims, errors = KeyClaims.in_file(tmp_path / "claims"), list[str]()

    def wait_and_fail() -> None:
        with pytest.raises(IndexUnavailable) as error:
            claim_and_release(claims, b"a")
        errors.append(str(error.value))

    thread = Thread(target=wait_and_fail)
    with caplog.at_level("INFO", logger="kumihimo"), claims.claim([b"a"]):
        thread.start()
        wait_until(lambda: "waiting for a reply" in caplog.text)
        claims.close()
        thread.join(60)
    assert errors == ["the cache was closed while a request waited for a reply"]
