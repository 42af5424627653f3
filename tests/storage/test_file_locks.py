"""paths -> addresses that SQLite opens, on each system."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

import pytest

from kumihimo.storage.sqlite.connection import database_address


@pytest.mark.parametrize(
    ("path", "address"),
    [
        (PurePosixPath("/notes/a b?.db"), "file:///notes/a%20b%3F.db?immutable=1"),
        (PureWindowsPath(r"C:\notes\a#.db"), "file:///C:/notes/a%23.db?immutable=1"),
        (PureWindowsPath(r"\\server\share\a b.db"), "file:////server/share/a%20b.db?immutable=1"),
    ],
)
def test_an_address_has_no_host(path: PurePath, address: str) -> None:
    assert database_address(path, "?immutable=1") == address


def test_sqlite_refuses_a_host_and_opens_the_address(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="authority"):
        sqlite3.connect("file://server/share/a.db", uri=True)
    address = database_address(tmp_path / "a b#?.db")
    for form in (address, address.replace("file:///", "file:////")):
        with closing(sqlite3.connect(form, uri=True)) as db:
            db.execute("CREATE TABLE IF NOT EXISTS t (x)")
    assert [path.name for path in tmp_path.iterdir()] == ["a b#?.db"]
