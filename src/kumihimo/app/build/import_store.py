"""the store of another system -> a source of this index: what that system has made is taken as it is."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any, Protocol
from unicodedata import normalize

from kumihimo.app.build.index_paths import index_paths
from kumihimo.app.opened.open_index import OpenIndex
from kumihimo.app.opened.results import Built
from kumihimo.core.errors import SourceError, describe_unknown
from kumihimo.index.sources import IMPORTS_FOLDER, TEXTS_FOLDER
from kumihimo.llm.budget import Caps
from kumihimo.readers.remote.mirror import changed_files
from kumihimo.text.file_names import file_name, is_reserved

_NAME = re.compile(r"[^\W_][\w. -]{0,99}")
_OUTPUT_FOLDERS = ("output", "artifacts")  # of graphrag; the project has the name


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import.

    name: of the source. counts: what the other store holds, by table. notes: what was not kept, as sentences. built:
    the build of the index.
    """

    name: str
    counts: Mapping[str, int]
    notes: tuple[str, ...]
    built: Built


class HasOpenIndex(Protocol):
    """An open `Kumihimo`."""

    opened: OpenIndex


def import_store(
    kumi: HasOpenIndex,
    kind: str,
    path: str | Path,
    *,
    name: str = "",
    methods: Sequence[str] = (),
    wait: bool = False,
    caps: Caps | None = None,
    **options: Any,
) -> Imported:
    """Add the store of another system to an index as a source.

    kind: graphrag, lightrag or nano. name: of the source; by default that of the folder or file. The
    same name again updates the source: rows that did not change are not touched. Its text units become chunks, and its
    entities, relations, claims, communities and reports become rows, as if a model of this index had made them. So no
    model is called for them. methods, wait, caps, options: as for `Kumihimo.index`. Raises SourceError if the store
    cannot be read; then nothing changes.
    """
    from kumihimo.importers import IMPORTERS, read_store
    from kumihimo.importers.convert import convert_store
    from kumihimo.text.text_units import dump_text_units

    index = kumi.opened
    if kind not in IMPORTERS:
        raise SourceError(describe_unknown("kind of import", kind, IMPORTERS))
    origin = Path(path)
    if not origin.exists():
        raise SourceError(f"{path} does not exist: check the path")
    converted = convert_store(read_store(kind, origin))
    if not converted.files:
        raise SourceError(f"{path}: it holds no text: finish its index first")
    source = name or _default_name(origin)
    if not _NAME.fullmatch(source) or file_name(source) != source:
        raise SourceError(f"{source[:100]!r} cannot name a source: use letters, digits, dots, dashes and spaces")
    _check_unlike(index.folder.resolve() / IMPORTS_FOLDER, source)
    folder = index.folder.resolve() / IMPORTS_FOLDER / source
    folder.mkdir(parents=True, exist_ok=True)
    files = {file: dump_text_units(content) for file, content in converted.files.items()}
    with changed_files(_list_changes(folder, files)):
        built = index_paths(index, [folder], methods, index.models.budget(caps), wait=wait, **options)
    return Imported(source, converted.counts, converted.notes, built)


def remove_unused_folders(index: Path, sources: Collection[Path]) -> None:
    """Delete imports and texts that are no sources any more."""
    index = index.resolve()
    for child in [*index.glob(f"{IMPORTS_FOLDER}/*"), *index.glob(TEXTS_FOLDER)]:
        if child not in sources:
            rmtree(child)


def _default_name(origin: Path) -> str:
    path = origin.resolve()
    name = path.parent.name if path.name in _OUTPUT_FOLDERS else path.stem if path.is_file() else path.name
    name = re.sub(r"[^\w. -]+", "-", normalize("NFC", name)).strip("-_. ") or "import"
    return f"import {name}" if is_reserved(name) else file_name(name)


def _check_unlike(folder: Path, name: str) -> None:
    """Raise SourceError if an earlier import differs in case only.

    On some systems the two would have one folder.
    """
    names = [normalize("NFC", child.name) for child in folder.iterdir()] if folder.is_dir() else []
    alike = [each for each in names if each.casefold() == name.casefold()]
    if alike and name not in alike:
        raise SourceError(f"{name!r} and the import {alike[0]!r} differ in case only: choose another name")


def _list_changes(folder: Path, files: Mapping[str, bytes]) -> dict[Path, bytes | None]:
    """Return the deletions of all other files, then the new files.

    In this order: on some systems, names that differ in case only are one file.
    """
    others = [path for path in folder.iterdir() if normalize("NFC", path.name) not in files]  # it may be decomposed
    return dict.fromkeys(others) | {folder / name: data for name, data in files.items()}
