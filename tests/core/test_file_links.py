"""paths -> whether they lead elsewhere, also on Windows."""

from __future__ import annotations

import os
from pathlib import Path
from stat import S_IFDIR
from types import SimpleNamespace

import pytest

from kumihimo.text.safe_write import is_link


def test_symbolic_links_are_links(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "file").touch()
    names = ("link", "file", ".", "nothing", "x" * 5000, "a\0b")
    assert [is_link(tmp_path / name) for name in names] == [True, False, False, False, False, False]


@pytest.mark.parametrize(("tag", "expected"), [(0xA0000003, True), (0xA000000C, False), (0, False)])
def test_a_junction_of_windows_is_a_link(
    tag: int, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = SimpleNamespace(st_mode=S_IFDIR | 0o777, st_reparse_tag=tag)
    monkeypatch.setattr(Path, "lstat", lambda path: status)
    assert is_link(tmp_path) is expected
    assert os.path.lexists(tmp_path)
