"""A folder yields the files to read, sorted, each once."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from stat import S_IFDIR
from types import SimpleNamespace
from unicodedata import normalize

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.readers import READERS
from kumihimo.readers.documents import has_reader
from kumihimo.readers.folder import MAX_IGNORE_BYTES, walk


def fill(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")


def names(root: Path) -> list[str]:
    return [name for _, name in walk(root)]


def test_files_come_sorted_by_path(tmp_path: Path) -> None:
    fill(tmp_path, "b.txt", "a/z.md", "a.txt", "a-b/c.xyz", "a/b/c.txt")
    assert names(tmp_path) == ["a-b/c.xyz", "a.txt", "a/b/c.txt", "a/z.md", "b.txt"]
    assert [has_reader(path, READERS) for path, _ in walk(tmp_path)] == [False, True, True, True, True]


def test_a_file_is_its_own_root(tmp_path: Path) -> None:
    fill(tmp_path, ".hidden.md")
    assert list(walk(tmp_path / ".hidden.md")) == [(tmp_path / ".hidden.md", ".hidden.md")]


def test_nothing_there(tmp_path: Path) -> None:
    assert names(tmp_path) == []
    with pytest.raises(SourceError, match=r"gone: no such file or folder"):
        names(tmp_path / "gone")
    with pytest.raises(SourceError, match="check the path"):
        names(tmp_path / ("x" * 5000))


def test_hidden_and_ignored_files_are_left_out(tmp_path: Path) -> None:
    fill(
        tmp_path,
        ".git/config.txt",
        ".env.txt",
        "keep.txt",
        "x.log",
        "out/a.txt",
        "sub/x.log",
        "sub/a.tmp",
        "sub/b/a.tmp",
    )
    (tmp_path / ".gitignore").write_text("\ufeff*.log\n/out/\n", encoding="utf-8")
    (tmp_path / "sub" / ".kumiignore").write_text("!x.log\r\n/a.tmp\r\n", encoding="utf-8")
    assert names(tmp_path) == ["keep.txt", "sub/b/a.tmp", "sub/x.log"]


def test_links_are_followed_within_the_root_only(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    fill(outside, "secret.txt")
    fill(tmp_path / "root-too", "secret.txt")
    fill(root, "a.txt", ".releases/3/notes.txt")
    (root / "out").symlink_to(outside)
    (root / "out.txt").symlink_to(outside / "secret.txt")
    (root / "too").symlink_to(tmp_path / "root-too")
    (root / "broken.txt").symlink_to(root / "nothing")
    (root / "current").symlink_to(root / ".releases" / "3")
    (root / "0.txt").symlink_to(root / "a.txt")  # a file keeps its own name
    assert names(root) == ["a.txt", "current/notes.txt"]


def test_loops_of_links_end(tmp_path: Path) -> None:
    fill(tmp_path, "a/x.txt", "b/y.txt")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "to-b").symlink_to(tmp_path / "b")
    (tmp_path / "b" / "to-a").symlink_to(tmp_path / "a")
    (tmp_path / "self.txt").symlink_to(tmp_path / "self.txt")
    assert names(tmp_path) == ["a/x.txt", "b/y.txt"]


def test_the_root_may_be_a_link(tmp_path: Path) -> None:
    fill(tmp_path / "real", "a.txt")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert list(walk(tmp_path / "link")) == [(tmp_path / "link" / "a.txt", "a.txt")]


def test_names_are_composed(tmp_path: Path) -> None:
    fill(tmp_path, normalize("NFD", "café/ガ.txt"))
    assert names(tmp_path) == ["café/ガ.txt"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps such names apart, or lets them be")
def test_names_that_become_the_same_are_told_apart(tmp_path: Path) -> None:
    fill(tmp_path, "é.txt", normalize("NFD", "é.txt"))
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt"))).write_text("x", encoding="utf-8")
    assert names(tmp_path) == ["é.txt", "é.txt~2", "\ufffd.txt"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_a_pipe_is_no_file_to_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    assert names(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    with pytest.raises(SourceError, match=r"closed: .*list it in \.kumiignore"):
        names(tmp_path)


def test_a_link_to_a_name_that_is_too_long_hides_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("x", encoding="utf-8")
    (tmp_path / "bad").symlink_to("x" * 300)
    (tmp_path / "self").symlink_to("self")
    assert [name for _, name in walk(tmp_path)] == ["good.txt"]


def test_an_ignore_file_has_a_limit(tmp_path: Path) -> None:
    (tmp_path / ".kumiignore").write_bytes(b"x" * (MAX_IGNORE_BYTES + 1))
    with pytest.raises(SourceError, match=r"\.kumiignore: holds more than 100,000 bytes: shorten it"):
        list(walk(tmp_path))


@pytest.mark.parametrize("inside", [True, False])
def test_a_junction_of_windows_is_followed_as_a_link(
    inside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A junction is a folder for Python, but leads elsewhere: it was read without end, or out of the root."""
    fill(tmp_path, "root/sub/a.txt", "elsewhere/secret.txt")
    junction = tmp_path / "root" / "sub" / "junction"
    junction.symlink_to(tmp_path / ("root" if inside else "elsewhere"))
    lstat = Path.lstat

    def lstat_of_windows(path: Path) -> object:
        return SimpleNamespace(st_mode=S_IFDIR, st_reparse_tag=0xA0000003) if path == junction else lstat(path)

    monkeypatch.setattr(Path, "is_symlink", lambda path: False)
    monkeypatch.setattr(Path, "lstat", lstat_of_windows)
    assert names(tmp_path / "root") == ["sub/a.txt"]


def test_lock_files_of_office_are_left_out(tmp_path: Path) -> None:
    fill(tmp_path, "report.docx", "~$report.docx", "~notes.txt")
    assert names(tmp_path) == ["report.docx", "~notes.txt"]


def test_no_file_is_looked_up_on_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, *(f"{number}.txt" for number in range(40)))
    looked_up: list[object] = []
    for name in ("stat", "lstat"):
        look_up = getattr(os, name)

        def count(path: object, look_up: object = look_up, **options: object) -> object:
            looked_up.append(path)
            return look_up(path, **options)  # type: ignore[operator]

        monkeypatch.setattr(os, name, count)
    assert len(names(tmp_path)) == 40
    assert looked_up
    assert not [path for path in looked_up if str(path).endswith(".txt")]
