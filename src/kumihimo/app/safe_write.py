"""content -> a complete file or folder; files that Kumihimo did not write are replaced only by force."""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from kumihimo.core.errors import SettingsError

FILE_MARK = "written by kumihimo"  # near the start of each file of ours
OWNED_FILES_LIST = ".kumihimo.json"  # in a folder of ours: the names of our files
_SHELL_PIPES = ("/dev/fd/", "/dev/stdin")  # `kumi retrieve --questions <(command)`


def check_ordinary_file(path: Path) -> None:
    """Raise SettingsError for a device or a pipe.

    Reading one may never end.
    """
    if path.exists() and not path.is_file() and not path.is_dir() and not str(path).startswith(_SHELL_PIPES):
        raise SettingsError(f"{path} is no ordinary file: name one, or move it away")


def write_file(
    path: Path, parts: Iterable[str], *, force: bool = False, is_ours: Callable[[Path], bool] | None = None
) -> None:
    """Write texts to a file, replacing only a file of ours.

    force: replace any file. is_ours: whether we wrote a file; by default, whether it has our mark. Raises SettingsError
    if another file is there, or writing fails.
    """

    def fill(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8", newline="\n") as out:
            out.writelines(parts)

    write_file_with(path, fill, force=force, is_ours=is_ours)


def write_file_with(
    path: Path,
    fill: Callable[[Path], None],
    *,
    force: bool = False,
    is_ours: Callable[[Path], bool] | None = None,
) -> None:
    """Write a file with `fill`, replacing only a file of ours.

    fill: writes to the path that it gets. The rest is as for `write_file`.
    """
    with _wrap_os_errors(path):
        check_replaceable(path, force=force, is_ours=is_ours)
        with _temporary_folder(path) as folder:
            fill(folder / path.name)
            if path.exists():
                shutil.copymode(path, folder / path.name)
            (folder / path.name).replace(path)


def check_replaceable(path: Path, *, force: bool = False, is_ours: Callable[[Path], bool] | None = None) -> None:
    """Raise SettingsError if the file there is not ours to replace.

    An empty file is replaced: nothing is lost. The arguments are those of `write_file`.
    """
    check_ordinary_file(path)
    if path.is_dir():
        raise SettingsError(f"{path} is a folder: name a file")
    if path.exists() and not force and path.stat().st_size and not (is_ours or _has_mark)(path):
        raise SettingsError(_in_the_way(path))


def _in_the_way(path: Path) -> str:
    return f"{path} is there already, not written by `kumi`: choose another name, or replace it with --force"


def write_folder(path: Path, fill: Callable[[Path], None], *, force: bool = False) -> None:
    """Write a folder with `fill`, replacing only files of ours.

    fill: writes into the folder that it gets. force: replace any file of the same name. Our earlier files are replaced
    or removed; others stay. Everything is written to a temporary folder first, then moved file by file. Raises
    SettingsError if other files are in the way.
    """
    with _wrap_os_errors(path):
        ours = _own_files(path, force=force)
        with _temporary_folder(path) as temporary:
            fill(temporary)
            new = sorted(file.relative_to(temporary).as_posix() for file in temporary.rglob("*") if file.is_file())
            foreign = [name for name in new if name not in ours and (path / name).exists()]
            if foreign and not force:
                raise SettingsError(_in_the_way(path / foreign[0]))
            _replace_files(temporary, path, new, ours)


@contextmanager
def _temporary_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder beside the path.

    No file there can be in its way.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield temporary
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
    text = json.dumps({"about": FILE_MARK, "files": names}, ensure_ascii=False, indent=0)
    write_file(path / OWNED_FILES_LIST, [text], force=True)


def _own_files(path: Path, *, force: bool) -> set[str]:
    """Return the files that we wrote there before.

    Raises SettingsError if the path exists without our list of files, unless it is a folder and we may use force.
    """
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return set()
    try:
        names = json.loads((path / OWNED_FILES_LIST).read_text(encoding="utf-8"))["files"]
        return {name for name in names if ".." not in Path(name).parts and not Path(name).is_absolute()}
    except (OSError, ValueError, KeyError, TypeError):
        if force and path.is_dir():
            return set()
        raise SettingsError(_in_the_way(path)) from None


def _has_mark(path: Path) -> bool:
    with path.open("rb") as file:
        return FILE_MARK.encode() in file.read(1000)


@contextmanager
def _wrap_os_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SettingsError(f"{path} cannot be written ({error.strerror or error}): choose another place") from error
