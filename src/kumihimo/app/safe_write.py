"""content -> a complete file or folder; only files that Kumihimo wrote are replaced."""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from kumihimo.core.errors import SettingsError

FILE_MARK = "written by kumihimo"  # near the start of each file of ours
OWNED_FILES_LIST = ".kumihimo.json"  # in a folder of ours: the names of our files


def write_file(path: Path, parts: Iterable[str]) -> None:
    """Write texts to a file, replacing only a file of ours.

    Raises SettingsError if another file is there, or writing fails.
    """

    def fill(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8", newline="\n") as out:
            out.writelines(parts)

    write_file_with(path, fill)


def write_file_with(path: Path, fill: Callable[[Path], None]) -> None:
    """Write a file with `fill`, replacing only a file of ours.

    fill: writes to the path that it gets. Raises SettingsError if another file is there, or writing fails.
    """
    with _wrap_os_errors(path):
        if path.is_dir() or (path.exists() and FILE_MARK not in _file_start(path)):
            raise SettingsError(f"{path} is there already, not written by `kumi`: choose another name, or move it away")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.part")
        try:
            fill(temporary)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def write_folder(path: Path, fill: Callable[[Path], None]) -> None:
    """Write a folder with `fill`, replacing only files of ours.

    fill: writes into the folder that it gets. Our earlier files are replaced or removed; others stay. Everything is
    written to a temporary folder first, then moved file by file. Raises SettingsError if other files are in the way.
    """
    with _wrap_os_errors(path):
        ours = _own_files(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            fill(temporary)
            new = sorted(file.relative_to(temporary).as_posix() for file in temporary.rglob("*") if file.is_file())
            foreign = [name for name in new if name not in ours and (path / name).exists()]
            if foreign:
                raise SettingsError(
                    f"{path / foreign[0]} is there already, not written by `kumi`: choose another --out"
                )
            _replace_files(temporary, path, new, ours)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _replace_files(temporary: Path, path: Path, new: list[str], ours: set[str]) -> None:
    path.mkdir(exist_ok=True)
    _write_manifest(path, sorted(ours.union(new)))  # if we are interrupted, all files are still listed as ours
    for name in new:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (temporary / name).replace(path / name)
    for name in sorted(ours.difference(new)):
        (path / name).unlink(missing_ok=True)
    folders = {subfolder for name in ours for subfolder in (path / name).parents if path in subfolder.parents}
    for subfolder in sorted(folders, reverse=True):  # inner folders first
        if subfolder.is_dir() and not any(subfolder.iterdir()):
            subfolder.rmdir()
    _write_manifest(path, new)


def _write_manifest(path: Path, names: list[str]) -> None:
    temporary = path / f"{OWNED_FILES_LIST}.part"
    temporary.write_text(
        json.dumps({"about": FILE_MARK, "files": names}, ensure_ascii=False, indent=0), encoding="utf-8"
    )
    temporary.replace(path / OWNED_FILES_LIST)


def _own_files(path: Path) -> set[str]:
    """Return the files that we wrote there before.

    Raises SettingsError if the path exists without our list of files.
    """
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return set()
    try:
        names = json.loads((path / OWNED_FILES_LIST).read_text(encoding="utf-8"))["files"]
        return {name for name in names if ".." not in Path(name).parts and not Path(name).is_absolute()}
    except (OSError, ValueError, KeyError, TypeError):
        message = f"{path} is there already, not written by `kumi`: choose another --out, or an empty folder"
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
