"""content -> files: of others only by force, complete or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kumihimo.app.safe_write import FILE_MARK, check_ordinary_file, write_file, write_folder
from kumihimo.core.errors import SettingsError


def test_only_files_of_ours_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "deeper" / "page.html"
    write_file(path, [f"<!-- {FILE_MARK} -->", "1"])
    write_file(path, ["2"])
    assert path.read_text() == "2"
    with pytest.raises(SettingsError, match="or replace it with --force"):
        write_file(path, ["3"])
    assert path.read_text() == "2"
    write_file(path, ["4"], is_ours=lambda path: path.read_text() == "2")
    write_file(path, ["5"], force=True)
    assert path.read_text() == "5"
    assert [each.name for each in path.parent.iterdir()] == ["page.html"]


def test_an_empty_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "new").touch(mode=0o600)
    write_file(tmp_path / "new", ["1"])
    assert (tmp_path / "new").read_text() == "1"
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600


def test_links_beside_the_file_are_not_followed(tmp_path: Path) -> None:
    """A link with the name of a temporary file once led the content elsewhere."""
    (tmp_path / "mine").write_text("mine")
    for name in ("page.html", ".kumihimo.json"):
        (tmp_path / f".{name}.part").symlink_to("mine")
        (tmp_path / f"{name}.part").symlink_to("mine")
    write_file(tmp_path / "page.html", ["1"])
    write_folder(tmp_path, lambda target: write_file(target / "a.csv", ["1"]), force=True)
    assert (tmp_path / "mine").read_text() == "mine"
    assert (tmp_path / "a.csv").read_text() == "1"


def test_a_folder_of_others_is_filled_only_by_force(tmp_path: Path) -> None:
    folder = tmp_path / "csv"
    folder.mkdir()
    (folder / "a.csv").write_text("mine")
    (folder / "b.csv").write_text("mine")

    def fill(target: Path) -> None:
        (target / "a.csv").write_text("1")

    with pytest.raises(SettingsError, match="csv is there already"):
        write_folder(folder, fill)
    write_folder(folder, fill, force=True)
    assert ((folder / "a.csv").read_text(), (folder / "b.csv").read_text()) == ("1", "mine")
    write_folder(folder, fill)
    (folder / "b.csv").write_text("mine")
    with pytest.raises(SettingsError, match=r"b.csv is there already"):
        write_folder(folder, lambda target: write_file(target / "b.csv", ["1"]))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_neither_read_nor_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(SettingsError, match="is no ordinary file"):
            check_ordinary_file(path)
        with pytest.raises(SettingsError, match="is no ordinary file"):
            write_file(path, ["1"], force=True)
