"""Names and paths that clients send lead nowhere but where they may."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from kumihimo.core.errors import SourceError
from kumihimo.readers import READERS
from kumihimo.server.problems import Forbidden
from kumihimo.server.uploads import allowed_path, safe_name


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("notes.md", "notes.md"),
        ("../../../etc/cron.d/job.txt", "job.txt"),
        ("/etc/job.txt", "job.txt"),
        ("..\\..\\Windows\\job.txt", "job.txt"),
        ("C:\\notes\\job.txt", "job.txt"),
        ("C:job.txt", "C_job.txt"),
        ("\\\\server\\share\\job.txt", "job.txt"),
        ("notes.md:stream.txt", "notes.md_stream.txt"),
        ("nul.txt", "_nul.txt"),
        ("Com1.notes.txt", "_Com1.notes.txt"),
        ("com².txt", "_com².txt"),
        ("aux .txt", "_aux.txt"),
        ("conin$.txt", "_conin$.txt"),
        (".hidden.txt", "hidden.txt"),
        ("...txt", None),
        ("a\0b.txt", "a_b.txt"),
        ("a\r\nb.txt", "a_b.txt".replace("_", "__")),
        ("invoice\u202etxt.md", "invoice_txt.md"),
        ("notes.md. .", "notes.md"),
        ("\u3000notes.md\u3000.", "notes.md"),
        ("\u3000.txt", "txt"),  # without a name, as " .txt"
        ("e\u0301te\u0301.txt", "été.txt"),
        ("組紐.txt", "組紐.txt"),
        ("50% #1 [net].txt", "50% #1 [net].txt"),
        (f"{'é' * 300}.txt", f"{'é' * 98}.txt"),
        ("notes", "notes"),  # its content says what it is
        ("nul", "_nul"),
        ("", None),
        ("..", None),
        (".gitignore", None),
        (".kumiignore", None),
        ("notes.exe", None),
        ("notes.txt/", None),
    ],
)
def test_the_name_of_an_upload(sent: str, stored: str | None) -> None:
    if stored is None:
        with pytest.raises(SourceError, match="no reader for"):
            safe_name(sent, READERS)
    else:
        assert safe_name(sent, READERS) == stored
        assert safe_name(stored, READERS) == stored


@given(st.text(max_size=300))
@settings(max_examples=50)
def test_any_name_stays_in_its_folder(name: str) -> None:
    stored = safe_name(f"{name}a.txt", READERS)
    assert Path("/uploads", stored).resolve().parent == Path("/uploads")
    assert not stored.startswith(".")
    assert len(stored.encode()) <= 201
    assert stored.isprintable() or not stored.isascii()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("root/notes", "rooted", "outside"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    (tmp_path / "root" / "notes" / "a.txt").write_text("a")
    (tmp_path / "root" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "root" / "inner").symlink_to(tmp_path / "root" / "notes")
    return tmp_path / "root"


@pytest.mark.parametrize(
    "path", ["notes/a.txt", "notes", ".", "inner/a.txt", "notes/../notes/a.txt", "{root}/notes/a.txt"]
)
def test_a_path_inside_a_root(root: Path, path: str) -> None:
    allowed = allowed_path(path.format(root=root), [root])
    assert allowed.exists()
    assert allowed == allowed.resolve()


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../outside/secret.txt",
        "../rooted",  # begins with the same letters
        "/etc/passwd",
        "/",
        "link/secret.txt",
        "link",
        "notes/../../outside",
        "../nothing/here.txt",  # outside, whether it exists is not told
    ],
)
def test_a_path_outside_all_roots(root: Path, path: str) -> None:
    with pytest.raises(Forbidden, match="outside the folders"):
        allowed_path(path, [root])


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no.txt", "does not exist"),
        ("a\0b", "is no path"),
        ("x" * 9000, "is no path"),
        ("https://example.org/", "does not exist"),  # addresses are for `kumi index`
        ("memory://notes", "does not exist"),
    ],
)
def test_a_path_that_is_none(root: Path, path: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        allowed_path(path, [root])


def test_without_roots_no_path_is_added(root: Path) -> None:
    with pytest.raises(Forbidden, match="kumi serve --root"):
        allowed_path(str(root), [])
