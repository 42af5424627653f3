"""what is to be written -> a file or a folder that is whole, and in place of nothing but what we wrote ourselves."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from kumihimo.core.errors import SettingsError

FILE_MARK = "written by kumihimo"  # near the beginning of each file that may be written again
OWNED_FILES_LIST = ".kumihimo.json"  # in a folder: the files of it that we wrote


def write_file(path: Path, parts: Iterable[str]) -> None:
    """A file of these texts, in place of one that has our mark at most. Raises SettingsError."""

    def fill(made: Path) -> None:
        with made.open("w", encoding="utf-8", newline="\n") as out:
            out.writelines(parts)

    write_file_with(path, fill)


def write_file_with(path: Path, fill: Callable[[Path], None]) -> None:
    """A file as `fill` writes it under the name it is given, where `file` would write one. Raises SettingsError."""
    with _wrap_os_errors(path):
        if path.is_dir() or (path.exists() and FILE_MARK not in _file_start(path)):
            raise SettingsError(f"{path} is there already, and not by `kumi`: choose another name, or move it away")
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_name(f".{path.name}.part")
        try:
            fill(made)
            made.replace(path)
        finally:
            made.unlink(missing_ok=True)


def write_folder(path: Path, fill: Callable[[Path], None]) -> None:
    """A folder of what `fill` writes into the one it is given. Raises SettingsError where others' files are in the way.

    In a folder that we wrote before, what we wrote is replaced or taken away, and what others put there is left as it
    is. All is written elsewhere first, then moved, file by file.
    """
    with _wrap_os_errors(path):
        ours = _own_files(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        made = Path(mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            fill(made)
            new = sorted(file.relative_to(made).as_posix() for file in made.rglob("*") if file.is_file())
            strange = [name for name in new if name not in ours and (path / name).exists()]
            if strange:
                raise SettingsError(f"{path / strange[0]} is there already, and not by `kumi`: choose another --out")
            _replace_files(made, path, new, ours)
        finally:
            shutil.rmtree(made, ignore_errors=True)


def _replace_files(made: Path, path: Path, new: list[str], ours: set[str]) -> None:
    path.mkdir(exist_ok=True)
    _write_manifest(path, sorted(ours.union(new)))  # should we be stopped, all of it is ours still
    for name in new:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).replace(path / name)
    for name in sorted(ours.difference(new)):
        (path / name).unlink(missing_ok=True)
    held = {below for name in ours for below in (path / name).parents if path in below.parents}
    for below in sorted(held, reverse=True):  # the innermost first
        if below.is_dir() and not any(below.iterdir()):
            below.rmdir()
    _write_manifest(path, new)


def _write_manifest(path: Path, names: list[str]) -> None:
    part = path / f"{OWNED_FILES_LIST}.part"
    part.write_text(json.dumps({"about": FILE_MARK, "files": names}, ensure_ascii=False, indent=0), encoding="utf-8")
    part.replace(path / OWNED_FILES_LIST)


def _own_files(path: Path) -> set[str]:
    """What we wrote there before. Raises SettingsError where there is anything, and none of it by us."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return set()
    try:
        names = json.loads((path / OWNED_FILES_LIST).read_text(encoding="utf-8"))["files"]
        return {name for name in names if ".." not in Path(name).parts and not Path(name).is_absolute()}
    except (OSError, ValueError, KeyError, TypeError):
        message = f"{path} is there already, and not by `kumi`: choose another --out, or an empty folder"
        raise SettingsError(message) from None


def _file_start(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(1000).decode("utf-8", "replace")


@contextmanager
def _wrap_os_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SettingsError(f"{path} cannot be written ({error.strerror or error}): choose another place") from error
