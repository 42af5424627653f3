"""path -> text; content -> a complete file or folder; files that Kumihimo did not write are replaced only by force."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from stat import S_ISLNK
from tempfile import mkdtemp
from unicodedata import normalize

from kumihimo.core.errors import SettingsError

_JUNCTION = 0xA0000003  # IO_REPARSE_TAG_MOUNT_POINT
FILE_MARK = "written by kumihimo"  # at the start of each file of ours, as a comment
OWNED_FILES_LIST = ".kumihimo.json"  # in a folder of ours: the digests and names of our files
_OWNED_FILE = re.compile(r"[0-9a-f]{32} ([^\0\ud800-\udfff]+)")
_OUR_START = re.compile(  # of RDF; of XML and HTML, where only tags come before; of the manifest of a study
    rf'# {FILE_MARK}\r?\n|\s*(?:<[^>]*>\s*)*<!-- {FILE_MARK} -->\s|\{{\s*"note": "{FILE_MARK}",\s'.encode()
)
_SHELL_PIPES = ("/dev/fd/", "/dev/stdin")  # `kumi retrieve --questions <(command)`


def check_ordinary_file(path: Path) -> None:
    """Raise SettingsError for a device or a pipe.

    Reading one may never end.
    """
    if path.exists() and not path.is_file() and not path.is_dir() and not str(path).startswith(_SHELL_PIPES):
        raise SettingsError(f"{path} is no ordinary file: name one, or move it away")


def read_text_file(path: Path, remedy: str) -> str:
    """Return the text of a file. Raises SettingsError with the remedy."""
    check_ordinary_file(path)
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read ({error}): {remedy}") from error


def resolve_link(path: Path) -> Path:
    """Return the path of the file, with links followed.

    Raises SettingsError if a link leads out of its folder: anyone may have put it there.
    """
    target, folder = Path(os.path.realpath(path)), Path(os.path.realpath(path.parent))
    if folder not in target.parents:
        raise SettingsError(f"{path} is a link to {target}, in another folder: replace the link with a file")
    return target


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
    return f"{path} already exists, and `kumi` did not write it: choose another name, or replace it with --force"


def _changed(path: Path) -> str:
    return f"{path} has changed since `kumi` wrote it: move it away to keep it, or replace it with --force"


def write_folder(path: Path, fill: Callable[[Path], None], *, force: bool = False) -> None:
    """Write a folder with `fill`, replacing only files of ours.

    fill: writes into the folder that it gets. force: replace any file of the same name. Our earlier files are replaced
    or removed; others stay, and so do files of ours with other content than we wrote. Everything is written to a
    temporary folder first, then moved file by file. Raises SettingsError if other files or links are in the way.
    """
    with _wrap_os_errors(path):
        earlier = _read_manifest(path, force=force)
        with _temporary_folder(path) as temporary:
            fill(temporary)
            new = sorted(file.relative_to(temporary).as_posix() for file in temporary.rglob("*") if file.is_file())
            listed = set(map(_owned_name, earlier))
            ours = {name for name in listed if _is_unchanged(path, name, earlier)}
            for name in new:
                _check_no_link(path, name)
                if not force and os.path.lexists(path / name) and not _same_file(path, name, ours):
                    raise SettingsError((_changed if name in listed else _in_the_way)(path / name))
            _replace_files(temporary, path, new, ours, earlier)


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


def _replace_files(temporary: Path, path: Path, new: list[str], ours: set[str], earlier: set[str]) -> None:
    manifest = {_describe_file(temporary, name) for name in new}
    path.mkdir(exist_ok=True)
    _write_manifest(path, earlier | manifest)  # if we are interrupted, all files are still listed as ours
    outdated, folded = sorted(ours.difference(new)), set(map(_fold_name, new))
    for name in outdated:
        if _fold_name(name) in folded:  # on some systems the new file: it must not be removed afterwards
            (path / name).unlink(missing_ok=True)
    for name in new:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (temporary / name).replace(path / name)
    for name in outdated:
        if _fold_name(name) not in folded:
            (path / name).unlink(missing_ok=True)
    folders = {subfolder for name in ours for subfolder in (path / name).parents if path in subfolder.parents}
    for subfolder in sorted(folders, reverse=True):  # inner folders first
        if subfolder.is_dir() and not any(subfolder.iterdir()):
            subfolder.rmdir()
    _write_manifest(path, manifest)


def _write_manifest(path: Path, files: set[str]) -> None:
    text = json.dumps({"about": FILE_MARK, "files": sorted(files)}, ensure_ascii=False, indent=0)
    write_file(path / OWNED_FILES_LIST, [text], force=True)


def _read_manifest(path: Path, *, force: bool) -> set[str]:
    """Return the entries of our list of files in the folder.

    Raises SettingsError if the path exists without our list of files, unless it is a folder and we may use force.
    """
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return set()
    _check_no_link(path, OWNED_FILES_LIST)
    check_ordinary_file(path / OWNED_FILES_LIST)
    try:
        files = json.loads((path / OWNED_FILES_LIST).read_text(encoding="utf-8"))["files"]
        if all(map(_owned_name, files)):
            return set(files)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    if force and path.is_dir():
        return set()
    raise SettingsError(_in_the_way(path))


def _owned_name(file: str) -> str:
    """Return the name in an entry; empty if it is not ours."""
    match = _OWNED_FILE.fullmatch(file)
    name = match[1] if match else ""
    return "" if Path(name).anchor or ".." in Path(name).parts else name


def _fold_name(name: str) -> str:
    return normalize("NFC", normalize("NFC", name).casefold())


def _same_file(folder: Path, name: str, ours: Iterable[str]) -> bool:
    """Return whether a file is ours, whatever the case of its name."""
    alike = [other for other in ours if _fold_name(other) == _fold_name(name)]
    return name in alike or any((folder / other).samefile(folder / name) for other in alike)


def _describe_file(folder: Path, name: str) -> str:
    """Return the entry of a file: its digest and name."""
    with (folder / name).open("rb") as file:
        return f"{hashlib.file_digest(file, partial(hashlib.blake2b, digest_size=16)).hexdigest()} {name}"


def _is_unchanged(folder: Path, name: str, files: set[str]) -> bool:
    """Return whether the file has the content that we wrote."""
    is_file = _find_link(folder, name) is None and (folder / name).is_file()
    return is_file and _describe_file(folder, name) in files


def _find_link(folder: Path, name: str) -> Path | None:
    """Return the first link between the folder and the file."""
    inside = [part for part in (folder / name, *(folder / name).parents) if folder in part.parents]
    return next((part for part in reversed(inside) if is_link(part)), None)


def _check_no_link(folder: Path, name: str) -> None:
    if link := _find_link(folder, name):
        raise SettingsError(f"{link} is a link: remove it, or choose another folder")


def _has_mark(path: Path) -> bool:
    with path.open("rb") as file:
        return bool(_OUR_START.match(file.read(1000)))


@contextmanager
def _wrap_os_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SettingsError(f"{path} cannot be written ({error.strerror or error}): choose another place") from error


def is_link(path: Path) -> bool:
    """Return whether a path is a symbolic link or a junction.

    A junction is a folder for `Path.is_symlink`, but may lead out of the folder that it is in, or back to it. It needs
    no rights to make one. A path that cannot be read is no link.
    """
    try:
        status = path.lstat()
    except (OSError, ValueError):
        return False
    return S_ISLNK(status.st_mode) or getattr(status, "st_reparse_tag", 0) == _JUNCTION
