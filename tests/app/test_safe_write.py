"""content -> files: of others only by force, complete or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kumihimo.core.errors import SettingsError
from kumihimo.text.safe_write import FILE_MARK, check_ordinary_file, write_file, write_folder


def test_only_files_of_ours_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "deeper" / "page.html"
    write_file(path, [f"<!-- {FILE_MARK} -->\n", "1"])
    write_file(path, ["2"])
    assert path.read_text() == "2"
    with pytest.raises(SettingsError, match="or replace it with --force"):
        write_file(path, ["3"])
    assert path.read_text() == "2"
    write_file(path, ["4"], is_ours=lambda path: path.read_text() == "2")
    write_file(path, ["5"], force=True)
    assert path.read_text() == "5"
    assert [each.name for each in path.parent.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    "text",
    [
        f'Quote: "{FILE_MARK}". Precious.',
        f"Mine.\n# {FILE_MARK}\n",
        f"# {FILE_MARK} by mistake\n",
        f"<p>Mine.</p>\n<!-- {FILE_MARK} -->\n",
        f'{{"mine": 1, "note": "{FILE_MARK}"}}',
    ],
)
def test_a_file_that_quotes_the_mark_is_not_ours(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text(text)
    with pytest.raises(SettingsError, match="mine already exists"):
        write_file(tmp_path / "mine", ["1"])
    assert (tmp_path / "mine").read_text() == text


@pytest.mark.parametrize(
    "start",
    [
        f"# {FILE_MARK}\n",
        f'<?xml version="1.0"?>\n<!-- {FILE_MARK} -->\n',
        f'\n<!DOCTYPE html>\n<html lang="en">\n<head>\n  <!-- {FILE_MARK} -->\n',
        json.dumps({"note": FILE_MARK, "stages": {}}, indent=2),
    ],
)
def test_the_mark_of_each_format_is_recognised(start: str, tmp_path: Path) -> None:
    write_file(tmp_path / "ours", [start, "1"])
    write_file(tmp_path / "ours", ["2"])
    assert (tmp_path / "ours").read_text() == "2"


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

    with pytest.raises(SettingsError, match="csv already exists"):
        write_folder(folder, fill)
    write_folder(folder, fill, force=True)
    assert ((folder / "a.csv").read_text(), (folder / "b.csv").read_text()) == ("1", "mine")
    write_folder(folder, fill)
    (folder / "b.csv").write_text("mine")
    with pytest.raises(SettingsError, match=r"b.csv already exists"):
        write_folder(folder, lambda target: write_file(target / "b.csv", ["1"]))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_neither_read_nor_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(SettingsError, match="is no ordinary file"):
            check_ordinary_file(path)
        with pytest.raises(SettingsError, match="is no ordinary file"):
            write_file(path, ["1"], force=True)
    folder = tmp_path / "csv"
    folder.mkdir()
    os.mkfifo(folder / ".kumihimo.json")
    with pytest.raises(SettingsError, match="is no ordinary file"):
        write_folder(folder, _fill("a.csv"))


def _fill(*names: str) -> Callable[[Path], None]:
    """Return a function that writes these files."""

    def fill(target: Path) -> None:
        for name in names:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_text("1")

    return fill


@pytest.mark.parametrize(
    "manifest",
    [
        *('{"files": ["a\\u0000b"]}', '{"files": [1]}', "[]", "[" * 100_000, '{"files": 1}', "\xff", "{}", "null"),
        '{"files": ["mine.csv"]}',
        f'{{"files": ["{"0" * 32} a\\u0000b"]}}',
        f'{{"files": ["{"0" * 32} ../mine.csv", "{"0" * 32} /mine.csv"]}}',
    ],
)
def test_a_manifest_of_others_makes_no_folder_ours(manifest: str, tmp_path: Path) -> None:
    (tmp_path / ".kumihimo.json").write_text(manifest, "latin-1")
    (tmp_path / "mine.csv").write_text("mine")
    with pytest.raises(SettingsError, match="already exists"):
        write_folder(tmp_path, _fill("a.csv"))
    assert not (tmp_path / "a.csv").exists()
    write_folder(tmp_path, _fill("a.csv"), force=True)
    assert ((tmp_path / "a.csv").read_text(), (tmp_path / "mine.csv").read_text()) == ("1", "mine")


def test_only_files_with_our_content_are_replaced_or_removed(tmp_path: Path) -> None:
    folder = tmp_path / "vault"
    write_folder(folder, _fill("edited.md", "gone.md", "gone and edited.md", "same.md"))
    for name in ("edited.md", "gone and edited.md"):
        (folder / name).write_text("mine")
    with pytest.raises(SettingsError, match=r"edited\.md has changed since `kumi` wrote it"):
        write_folder(folder, _fill("edited.md", "same.md"))
    assert (folder / "edited.md").read_text() == "mine"
    assert (folder / "gone.md").exists()
    write_folder(folder, _fill("edited.md", "same.md"), force=True)
    assert (folder / "edited.md").read_text() == "1"
    assert (folder / "gone and edited.md").read_text() == "mine"
    assert not (folder / "gone.md").exists()


def test_a_write_after_an_interrupted_one_needs_no_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "csv"
    write_folder(folder, _fill("a.csv", "b.csv"))
    replace, moved = Path.replace, []

    def interrupt(self: Path, target: Path) -> Path:
        moved.append(target.name)
        if target.name == "c.csv":
            raise KeyboardInterrupt
        return replace(self, target)

    def fill(target: Path) -> None:
        for name in ("a.csv", "b.csv", "c.csv"):
            (target / name).write_text("2")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            write_folder(folder, fill)
    assert moved == [".kumihimo.json", "a.csv", "b.csv", "c.csv"]
    write_folder(folder, _fill("a.csv"))
    assert sorted(path.name for path in folder.iterdir()) == [".kumihimo.json", "a.csv"]


@pytest.mark.parametrize("force", [False, True])
def test_links_in_a_folder_are_not_followed(force: bool, tmp_path: Path) -> None:
    """A stranger's list of files once had files elsewhere replaced and deleted."""
    folder, elsewhere = tmp_path / "vault", tmp_path / "elsewhere"
    write_folder(elsewhere, _fill("Bo.md", "keys.md"))
    write_folder(folder, _fill("entities/Bo.md", "entities/keys.md"))
    for name in ("Bo.md", "keys.md"):
        (folder / "entities" / name).unlink()
    (folder / "entities").rmdir()
    (folder / "entities").symlink_to(elsewhere)
    before = {path.name: path.stat().st_ino for path in elsewhere.iterdir()}
    for name in ("Bo.md", "new.md"):
        with pytest.raises(SettingsError, match=r"vault/entities is a link: remove it"):
            write_folder(folder, _fill(f"entities/{name}"), force=force)
    write_folder(folder, _fill("Bo.md"), force=force)
    assert {path.name: path.stat().st_ino for path in elsewhere.iterdir()} == before
    assert (folder / "entities").is_symlink()


@pytest.mark.parametrize("name", ["a.csv", ".kumihimo.json"])
def test_a_linked_file_in_a_folder_is_refused(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "csv"
    write_folder(folder, _fill("a.csv"))
    (folder / name).replace(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SettingsError, match=rf"csv/{name} is a link: remove it"):
        write_folder(folder, _fill("a.csv"))
    (tmp_path / "elsewhere").unlink()
    with pytest.raises(SettingsError, match=rf"csv/{name} is a link: remove it"):
        write_folder(folder, _fill("a.csv"))


def test_a_name_that_changes_in_case_only_keeps_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On macOS and Windows both names are one file: it was refused, and would have been removed at the end."""
    folder, steps = tmp_path / "vault", list[str]()
    write_folder(folder, _fill("Bo.md", "Cy.md"))
    (folder / "bo.md").hardlink_to(folder / "Bo.md")  # as such a system shows it
    replace, unlink = Path.replace, Path.unlink

    def note_replace(path: Path, target: Path) -> Path:
        steps.append(f"write {target.name}")
        return replace(path, target)

    def note_unlink(path: Path, missing_ok: bool = False) -> None:
        steps.append(f"remove {path.name}")
        unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", note_replace)
        patch.setattr(Path, "unlink", note_unlink)
        write_folder(folder, _fill("bo.md", "di.md"))
    notes = [step for step in steps if step.endswith(".md")]
    assert notes == ["remove Bo.md", "write bo.md", "write di.md", "remove Cy.md"]
    assert sorted(path.name for path in folder.glob("*.md")) == ["bo.md", "di.md"]


def test_a_file_of_others_that_differs_in_case_stays(tmp_path: Path) -> None:
    folder = tmp_path / "vault"
    write_folder(folder, _fill("Bo.md"))
    (folder / "bo.md").write_text("mine")
    with pytest.raises(SettingsError, match="already exists"):
        write_folder(folder, _fill("bo.md"))
    assert (folder / "bo.md").read_text() == "mine"
