"""errors of the system, Ctrl-C and missing memory -> one line that says what happened and what to do."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kumihimo.cli.main import describe_failure
from kumihimo.core.errors import StorageError
from tests.cli_runner import kumi

FULL = "the disk is full: free some room on it, and run the same command again"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "a.db"), f"a.db: No space left on device: {FULL}"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), f"Disk quota exceeded: {FULL}"),
        (StorageError("database or disk is full"), f"database or disk is full: {FULL}"),
        (OSError(errno.EACCES, "Permission denied", "a"), "a: Permission denied: check that you may read and write it"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "b"), "b: File name too long"),
        (TimeoutError(), "TimeoutError"),
        (
            StorageError("disk I/O error"),
            "the database of the index or of its cache: disk I/O error: check that you may write to its folder",
        ),
    ],
)
def test_an_error_says_what_happened_and_only_a_full_disk_is_full(error: OSError | StorageError, text: str) -> None:
    assert describe_failure(error) == text


def test_an_error_names_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> object:
        raise PermissionError(errno.EACCES, "Permission denied", "the/index.db")

    monkeypatch.setattr("kumihimo.app.facade.Kumihimo.open", fail)
    ran = kumi(tmp_path, "status")
    remedy = "check that you may read and write it"
    assert (ran.returncode, ran.stderr) == (2, f"kumi: the/index.db: Permission denied: {remedy}\n")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["retrieve", "--questions", "kumi.toml"],
        ["retrieve", "q", "--out", "kumi.toml", "--force"],
        ["eval", "import", "kumi.toml"],
        ["eval", "retrieval", "--from-run", "kumi.toml", "--qrels", "kumi.toml"],
        ["tune", "--write"],
        ["trust"],
        ["init", "--force"],
        ["init", "kumi.toml", "--force"],
    ],
)
def test_a_pipe_is_refused(tmp_path: Path, words: list[str]) -> None:
    """Reading it would wait for ever."""
    os.mkfifo(tmp_path / "kumi.toml")
    ran = kumi(tmp_path, *words)
    assert (ran.returncode, "is no ordinary file" in ran.stderr) == (2, True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_no_query(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "q.rq")
    assert "is no ordinary file" in kumi(tmp_path, "sparql", "@q.rq").stderr


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="this system has no /dev/fd")
def test_the_output_of_a_command_is_read(tmp_path: Path) -> None:
    """`kumi retrieve --questions <(command)`"""
    reading, writing = os.pipe()
    os.write(writing, b"[]\n")
    os.close(writing)
    assert f"/dev/fd/{reading}, line 1: write" in kumi(tmp_path, "retrieve", "--questions", f"/dev/fd/{reading}").stderr
    os.close(reading)


# -- before the command line is there


def run_entry(prepare: str) -> subprocess.CompletedProcess[str]:
    code = f"{prepare}\nfrom kumihimo.cli.entry import run_kumi\nrun_kumi()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        ("KeyboardInterrupt", 130, "kumi: stopped\n"),
        ("MemoryError", 2, "kumi: there is not enough memory: end other programs, or give this one more\n"),
    ],
)
def test_an_interrupted_start_is_one_line(error: str, code: int, line: str) -> None:
    """The modules of the command line are imported inside the guard."""
    finder = f"class F:\n def find_spec(self, name, *_):\n  if name == 'kumihimo.cli.main': raise {error}"
    ran = run_entry(f"import sys\n{finder}\nsys.meta_path.insert(0, F())")
    assert (ran.returncode, ran.stdout, ran.stderr) == (code, "", line)


def test_a_traceback_is_made_visible() -> None:
    finder = "class F:\n def find_spec(self, name, *_):\n  if name == 'kumihimo.cli.main': raise ValueError('\\x1b[2J')"
    ran = run_entry(f"import sys\n{finder}\nsys.meta_path.insert(0, F())")
    assert ran.returncode == 1
    assert ran.stderr.endswith("ValueError: \\x1b[2J\n")


def test_ctrl_c_without_an_index_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    codes: list[int] = []
    monkeypatch.setattr("kumihimo.cli.care_commands.installed_catalogue", interrupt)
    monkeypatch.setattr(os, "_exit", codes.append)
    ran = kumi(tmp_path, "methods")
    assert (codes, ran.stderr.strip()) == ([130], "kumi: stopped")
