"""the source -> it uses nothing that one system alone has, without another way."""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import kumihimo
from kumihimo.storage import cache_database

HOUSE = Path(kumihimo.__file__).parent
MODULES = {
    "curses",
    "fcntl",
    "grp",
    "msvcrt",
    "pty",
    "pwd",
    "readline",
    "resource",
    "syslog",
    "termios",
    "tty",
    "winreg",
}
NAMES = {  # of os and signal, which Windows lacks
    *("chown", "chroot", "fchmod", "fchown", "fork", "forkpty", "geteuid", "getgid", "getloadavg", "getuid", "killpg"),
    *("mkfifo", "mknod", "nice", "posix_spawn", "pread", "pwrite", "register_at_fork", "sched_getaffinity", "setsid"),
    *("statvfs", "sysconf", "uname", "wait3", "wait4", "waitpid"),
    *("SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGXCPU", "alarm"),
    *("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_SYNC", "pthread_kill", "setitimer", "sigwait"),
}


def is_guard(node: ast.AST) -> bool:
    """Return whether a part of the source asks for the system, or goes on without a module."""
    if isinstance(node, ast.Try):
        return any("ImportError" in ast.unparse(handler.type) for handler in node.handlers if handler.type)
    if isinstance(node, ast.With):
        return any("suppress(ImportError)" in ast.unparse(item) for item in node.items)
    return isinstance(node, ast.If) and any(word in ast.unparse(node.test) for word in ("sys.platform", "os.name"))


def uses(node: ast.AST) -> Iterator[str]:
    """Yield the names that one system lacks, but not below a guard."""
    if is_guard(node):
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in MODULES)
    if isinstance(node, ast.ImportFrom):
        names = [alias.name for alias in node.names] if node.module in ("os", "signal") else []
        yield from (name for name in [node.module or "", *names] if name in MODULES | NAMES)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("os", "signal"):
        yield from {node.attr} & NAMES
    for child in ast.iter_child_nodes(node):
        yield from uses(child)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import fcntl", ["fcntl"]),
        ("try:\n    import fcntl\nexcept ImportError:\n    fcntl = None", []),
        ("if sys.platform == 'linux':\n    import fcntl", []),
        ("def f():\n    return os.fork()", ["fork"]),
        ("from signal import SIGKILL", ["SIGKILL"]),
        ("with suppress(ImportError):\n    import readline", []),
        ("getattr(signal, 'SIGXCPU', 0)", []),
    ],
)
def test_what_is_found(source: str, found: list[str]) -> None:
    assert [*uses(ast.parse(source))] == found


def test_no_module_needs_what_one_system_alone_has() -> None:
    paths = sorted(HOUSE.rglob("*.py"))
    found = {path.name: [*uses(ast.parse(path.read_text("utf-8")))] for path in paths}
    assert len(paths) > 300
    assert {name: used for name, used in found.items() if used} == {}


# -- locks, as other systems have them


class Locks:
    """The locks of a system on bytes of files."""

    LK_NBLCK, LK_UNLCK, LOCK_EX, LOCK_NB, LOCK_UN = 1, 2, 2, 4, 8

    def __init__(self) -> None:
        self.owners: dict[int, object] = {}
        self.calls: list[tuple[int, int, int]] = []

    def locking(self, file: int, mode: int, size: int) -> None:
        """Lock the bytes at the position of a file: those of Windows."""
        self._set(os.lseek(file, 0, os.SEEK_CUR), file, mode == self.LK_NBLCK, size)

    def lockf(self, file: int, mode: int, size: int, offset: int) -> None:
        """Lock bytes for a process: those of POSIX."""
        self._set(offset, os.getpid(), mode == self.LOCK_EX | self.LOCK_NB, size)

    def _set(self, offset: int, owner: int, locked: bool, size: int) -> None:
        self.calls.append((offset, locked, size))
        if not locked:
            del self.owners[offset]
        elif self.owners.setdefault(offset, owner) != owner:
            raise PermissionError(13, "Permission denied")


def load_key_claims(system: str, locks: Locks, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the module as another system does."""
    for name in ("fcntl", "msvcrt"):
        monkeypatch.setitem(sys.modules, name, locks)
    spec = importlib.util.spec_from_file_location(f"key_claims_of_{system}", cache_database.__file__)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", system)
        spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_keys_are_claimed_by_the_locks_of_each_system(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = Locks()
    claims = load_key_claims(system, locks, monkeypatch).KeyClaims.in_file(tmp_path / "claims")
    elsewhere = cache_database._lock_offset(b"b")
    locks.owners[elsewhere] = "another process"
    with claims.claim([b"a", b"b"]) as claimed:
        assert claimed == [b"a"]
        with claims.claim([b"c", b"a"]) as other:
            assert other == [b"c"]
    assert locks.owners == {elsewhere: "another process"}
    assert all(0 <= offset < 2**31 and size == 1 for offset, _, size in locks.calls)
    claims.close()


def test_claims_of_two_caches_of_one_process_stay_apart_by_posix_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There, locks belong to the process, and closing any of its files frees them."""
    module = load_key_claims("darwin", Locks(), monkeypatch)
    first, second = (module.KeyClaims.in_file(tmp_path / "claims") for _ in range(2))
    with first.claim([b"a"]):
        with second.claim([b"a", b"b"]) as claimed:
            assert claimed == [b"b"]
        closed: list[int] = []
        monkeypatch.setattr(os, "close", closed.append)
        second.close()
        assert closed == []
    first.close()
    assert len(closed) == 1


def test_the_server_takes_the_connections_that_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has no limit of open files to raise."""
    run = pytest.importorskip("kumihimo.server.run")
    monkeypatch.setattr(run, "resource", None)
    assert run.limit_connections(512) == 512


def test_trusted_files_are_kept_where_each_system_keeps_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kumihimo.app.settings import trust

    environment = {"APPDATA": str(tmp_path / "roaming"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    for name, folder in (("nt", "roaming"), ("posix", "config")):
        monkeypatch.setattr(trust, "os", SimpleNamespace(name=name))
        assert trust.trust_file_path(environment) == tmp_path / folder / "kumihimo" / "trusted.json"
