"""a function -> a hash of the code, prompts, word lists and libraries that it reaches through imports."""

import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unicodedata import unidata_version

from kumihimo.core.digests import hash_parts

_TYPE_CHECKING = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t].*\n|\n)+", re.M)  # never imported
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n#]+)|import[ \t]+([^\n#]+))", re.M)
_DATA_SUFFIXES = (".md", ".tsv", ".toml", ".json", ".txt", ".csv")
# saves a search of all installed libraries, 0.3 s
_DISTRIBUTIONS = {"yaml": "pyyaml", "docx": "python-docx", "pptx": "python-pptx", "PIL": "pillow"}


@cache
def code_fingerprint(function: Callable[..., Any], services: tuple[str, ...] = ()) -> str:
    """Return a hash of the code and data behind a function.

    It covers the module of the function, the modules of the same distribution and of Kumihimo that it imports, directly
    or not, their prompts and data files, and the versions of the libraries that they import. The standard library does
    not count; the version of Unicode does. services: rooms that the function only uses as a service, such as a store.
    """
    modules, libraries = reach_modules(function.__module__, services)
    contents = [_hash_module(module) for module in sorted(modules)]
    if _source_file(function.__module__) is None:  # typed at a prompt or in a notebook
        contents.append(function.__code__.co_code.hex())
    versions = [f"{library} {_library_version(library)}" for library in sorted(libraries)]
    return hash_parts(unidata_version, *versions, *contents)


def reach_modules(start: str, services: tuple[str, ...] = ()) -> tuple[set[str], set[str]]:
    """Return the modules and the libraries that a module reaches."""
    start_root = start.partition(".")[0]
    roots = {start_root, __name__.partition(".")[0]}
    modules, libraries, pending = set[str](), set[str](), [start]
    while pending:
        module = pending.pop()
        if module in modules or any(f"{module}.".startswith(f"{room}.") for room in services):
            continue
        modules.add(module)
        for source, name in _imports(module):
            root = source.partition(".")[0]
            if root in roots or _stands_beside(root, start_root):
                pending.append(_defining_module(source, name))
            elif root not in sys.stdlib_module_names:
                libraries.add(root)
    return modules, libraries


def _stands_beside(root: str, start_root: str) -> bool:
    """Return whether a module stands in the folder of a program."""
    file, start = _source_file(root), _source_file(start_root)
    if file is None or start is None:
        return False
    folder, start_folder = (each.parents[1 if each.name == "__init__.py" else 0] for each in (file, start))
    return folder == start_folder and folder.name not in ("site-packages", "dist-packages")


@cache
def _imports(module: str) -> tuple[tuple[str, str], ...]:
    """Return the imports of a module, each as (module, name in it)."""
    return tuple(_parse_imports(module, _source_file(module)))


def _parse_imports(module: str, file: Path | None) -> Iterator[tuple[str, str]]:
    if file is None:
        return
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for source, names, plain in _IMPORT.findall(_TYPE_CHECKING.sub("", file.read_text(encoding="utf-8"))):
        for part in re.sub(r"#[^\n]*|[()]", "", names or plain).split(","):
            name = part.split(" as ")[0].strip()
            if name:
                yield (_absolute(source, package), name) if source else (name, "")


def _absolute(source: str, package: str) -> str:
    """Return the absolute name of an imported module."""
    dots = len(source) - len(source.lstrip("."))
    if not dots:
        return source
    parents = package.split(".")
    return ".".join([*parents[: len(parents) - dots + 1], *filter(None, [source[dots:]])])


def _defining_module(source: str, name: str) -> str:
    """Return the module behind `from source import name`.

    A package, or a module such as `kumihimo.ext`, may only pass on the name of another module.
    """
    if name and _source_file(f"{source}.{name}"):
        return f"{source}.{name}"
    root = source.partition(".")[0]
    for inner_source, inner_name in _imports(source) if name else ():
        if inner_name == name and inner_source != source and inner_source.partition(".")[0] == root:
            return _defining_module(inner_source, inner_name)
    return source


@cache
def _source_file(module: str) -> Path | None:
    """Return the file of a module, without importing it."""
    root, *names = module.split(".")
    file = getattr(sys.modules.get(root), "__file__", None)
    if file is None:
        return None
    path = Path(file)
    if names and path.name != "__init__.py":
        return None
    path = path.parent.joinpath(*names) if names else path
    return next((file for file in (path, path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


@cache
def _hash_module(module: str) -> str:
    """Return a hash of a module and its data files.

    A file counts for the modules that have its name or mention it, else for all modules beside it.
    """
    file = _source_file(module)
    if file is None:
        return module
    source = file.read_text(encoding="utf-8")
    own_files = [path for path in _data_files(file.parent) if _mentions(file, source, path) or _is_unclaimed(path)]
    data = (part for path in own_files for part in (path.name, path.read_text(encoding="utf-8")))
    return hash_parts(module, source, *data)


@cache
def _data_files(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(path for path in folder.iterdir() if path.suffix in _DATA_SUFFIXES))


@cache
def _is_unclaimed(data_file: Path) -> bool:
    """Return whether no module beside the file mentions it."""
    modules = data_file.parent.glob("*.py")
    return not any(_mentions(module, module.read_text(encoding="utf-8"), data_file) for module in modules)


def _mentions(module: Path, source: str, data_file: Path) -> bool:
    return module.stem == data_file.stem or f'"{data_file.name}"' in source or f'"{data_file.stem}"' in source


@cache
def _library_version(library: str) -> str:
    """Return the version of an imported library, or "none".

    A file that needs a missing library is read once it is installed.
    """
    try:
        return version(_DISTRIBUTIONS.get(library, library))
    except PackageNotFoundError:
        names = packages_distributions().get(library, []) if library in sys.modules or find_spec(library) else []
        return " ".join(f"{name} {version(name)}" for name in sorted(set(names))) or "none"
