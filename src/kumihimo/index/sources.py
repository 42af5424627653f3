"""paths -> sources: folders and files in the index, and the uris of their files."""

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Self
from unicodedata import normalize

from kumihimo.core.digests import replace_surrogates
from kumihimo.core.errors import SourceError, describe_unknown
from kumihimo.core.wiring import ROOT, FileType
from kumihimo.readers.documents import has_reader, no_reader_error
from kumihimo.readers.folder import walk
from kumihimo.readers.remote.mirror import changed_files, find_mirrored_uri
from kumihimo.readers.remote.origins import text_file_name
from kumihimo.storage.database import Database

IMPORTS_FOLDER = "imports"  # in the index folder: a folder for each import
TEXTS_FOLDER = "texts"  # in the index folder: a file for each text of a program


@dataclass(frozen=True, slots=True)
class IndexedSource:
    """A folder or file in the index.

    name: the start of its uris. rules: excluded uris; with a leading !, uris restored later.
    """

    name: str
    path: Path
    rules: tuple[str, ...] = ()

    def contains_uri(self, uri: str) -> bool:
        """Return whether this source contains the uri."""
        return is_within(uri, self.name)

    def excludes_uri(self, uri: str) -> bool:
        """Return whether a rule excludes this document, its file or its folder.

        The last matching rule decides.
        """
        last_rule = [rule for rule in self.rules if is_within(uri, rule.removeprefix("!"))][-1:]
        return bool(last_rule) and not last_rule[0].startswith("!")

    def exclude_uri(self, uri: str) -> Self:
        """Return this source with the uri excluded."""
        return replace(self, rules=(*self._other_rules(uri), uri))

    def restore_uri(self, uri: str) -> Self:
        """Return this source with the uri included again."""
        rules = self._other_rules(uri)
        without_rules = replace(self, rules=rules)
        return replace(self, rules=(*rules, f"!{uri}")) if without_rules.excludes_uri(uri) else without_rules

    def _other_rules(self, uri: str) -> tuple[str, ...]:
        """Return the rules for other uris."""
        return tuple(rule for rule in self.rules if not is_within(rule.removeprefix("!"), uri))

    def uri(self, path: Path) -> str:
        """Return the uri of a path within this source.

        The uri is composed (NFC) and percent-encodes % and #, as a URL does.
        """
        return "/".join([self.name, *map(encode_uri_part, path.relative_to(self.path).parts)])

    def files(self) -> dict[str, Path]:
        """Return the files of this source by uri, sorted.

        Raise SourceError if the source does not exist or cannot be read.
        """
        try:
            if not self.path.exists():
                raise SourceError(f"{self.path} does not exist: put it back, or `kumi remove {self.name}` removes it")
            if self.path.is_file():
                return {self.name: self.path}
        except OSError as error:
            raise SourceError(f"{self.path}: {error.strerror}; allow reading it") from error
        uris = ((f"{self.name}/{encode_uri_part(name)}", path) for path, name in walk(self.path))
        return {uri: path for uri, path in uris if not (self.rules and self.excludes_uri(uri))}


def resolve_source_path(path: str | Path, readers: Mapping[str, FileType]) -> Path:
    """Return the absolute path with links resolved.

    Raise SourceError if it cannot be a source.
    """
    if not str(path):
        raise SourceError("the path is empty: name a file or folder")
    try:
        exists = Path(path).exists()
    except OSError as error:
        raise SourceError(f"{str(path)[:200]}: {error.strerror}: check the path") from error
    if not exists:
        raise SourceError(f"{path} does not exist: check the path")
    if Path(path).is_file() and not has_reader(Path(path), readers):
        raise no_reader_error(Path(path), str(path), readers)
    return Path(path).resolve()


def add_source_paths(sources: dict[str, IndexedSource], paths: Iterable[Path], index: Path | None = None) -> set[str]:
    """Return the names of the sources of these paths, adding missing sources.

    Restore a path that was excluded from its source. If a new folder contains existing sources, merge them into it.
    index: the index folder; a source in it is no part of a folder around it.
    """
    names_by_path = {source.path: source.name for source in sources.values()}
    names: set[str] = set()
    for path in paths:
        folders = [path, *path.parents]
        if index is not None and index in path.parents:
            folders = [folder for folder in folders if index in folder.parents]
        name = next((names_by_path[folder] for folder in folders if folder in names_by_path), None)
        if name is None:
            name = _create_source(sources, path, index)
            if path.is_dir():  # it may have replaced other sources
                names_by_path = {source.path: source.name for source in sources.values()}
            names_by_path[path] = name
        else:
            sources[name] = sources[name].restore_uri(sources[name].uri(path))
        names.add(name)
    return names & sources.keys()


def _create_source(sources: dict[str, IndexedSource], path: Path, index: Path | None) -> str:
    """Add a source for this path and return its name."""
    nested = [source for source in sources.values() if path in source.path.parents] if path.is_dir() else []
    nested = [source for source in nested if index is None or index not in source.path.parents]
    for source in nested:  # they become parts of the new source
        del sources[source.name]
    base = encode_uri_part(path.name) or "root"
    name = next(name for n in count(1) if (name := base if n == 1 else f"{base}-{n}") not in sources)
    added = IndexedSource(name, path)
    rules = [rule.replace(old.name, added.uri(old.path), 1) for old in nested for rule in old.rules]
    sources[name] = replace(added, rules=tuple(rules))
    return name


def load_sources(db: Database, base: Path) -> dict[str, IndexedSource]:
    """Return the sources of an index; stored paths are relative to `base`."""
    stored = db.meta("sources", {})
    return {name: IndexedSource(name, base / path, tuple(rules)) for name, (path, rules) in stored.items()}


def save_sources(db: Database, sources: Mapping[str, IndexedSource], base: Path) -> None:
    """Store the sources, with paths relative to `base` where possible."""

    def stored_path(path: Path) -> str:
        return path.relative_to(base).as_posix() if path.is_relative_to(base) else str(path)

    db.set_meta("sources", {s.name: [stored_path(s.path), list(s.rules)] for s in sources.values()})


def remove_source(
    db: Database, sources: dict[str, IndexedSource], target: str, index: Path, files: ExitStack
) -> set[str]:
    """Remove a source, or exclude a part of one, from `sources`.

    Return the names of the sources to scan again. index: the index folder, whose imports have no parts: their rows rest
    on several documents. files: deletes the file of a text, and puts it back where it ends with an error. Raise
    SourceError if nothing matches `target`: a source's name or path, a document's uri, the id of a text, or a path
    within a source.
    """
    if not target:
        raise SourceError("nothing to remove: name a source or a document")
    path = _resolve_target(target)
    matches = {source.name: source.path for source in sources.values() if target == source.name or path == source.path}
    text = _find_text(sources.values(), target, path, index)
    places = [*matches.values(), *([text] if text else [])]
    if len(places) > 1:
        paths = ", ".join(map(str, places))
        raise SourceError(f"{target!r} matches several sources: name one by its full path, {paths}")
    if matches:
        del sources[next(iter(matches))]
        return set()
    if text:
        files.enter_context(changed_files({text: None}))
        return {source.name for source in sources.values() if source.path == text.parent}
    target = find_mirrored_uri({source.name: source.path for source in sources.values()}, target)
    nested_uris = [source.uri(path) for source in sources.values() if source.path in path.parents]
    uris = sorted(uri for page in db.rows(ROOT).pages("uri") for (uri,) in page) if db.has(ROOT) else []
    uris += [item for step, item, _ in db.failures() if step == ROOT]
    target = target.rstrip("/")
    for uri in [target, encode_uri_part(target), *nested_uris]:
        source = next((candidate for candidate in sources.values() if candidate.contains_uri(uri)), None)
        if source and source.path.parent == index / IMPORTS_FOLDER:
            raise SourceError(
                f"{uri} is a part of the import {source.name}: remove it in the system that it comes from, and import "
                f"again; or `kumi remove {source.name}` removes the whole import"
            )
        if source and (source.excludes_uri(uri) or any(is_within(document_uri, uri) for document_uri in uris)):
            sources[source.name] = source.exclude_uri(uri)
            return {source.name}
    candidates = [*sources, *uris[:20]]
    raise SourceError(
        f"the index holds {describe_unknown('source or document', target[:200], candidates)}; see `kumi status`"
    )


def _resolve_target(target: str) -> Path:
    try:
        return Path(target).resolve()
    except (OSError, RuntimeError, ValueError):  # too long, a link loop, or an id with a zero byte: no path of a source
        return Path("/")


def _find_text(sources: Iterable[IndexedSource], target: str, path: Path, index: Path) -> Path | None:
    """Return the file of a text by its id, uri or path.

    A part of a long text stands for the whole.
    """
    folder = index / TEXTS_FOLDER
    name = next((source.name for source in sources if source.path == folder), None)
    if name is None:
        return None
    of_uri = folder / target.removeprefix(f"{name}/").partition("#")[0] if target.startswith(f"{name}/") else path
    files = {*folder.glob("*.json")}
    return next(
        (each for each in (folder / text_file_name(replace_surrogates(target)), of_uri, path) if each in files), None
    )


def encode_uri_part(name: str) -> str:
    """Return the name as a part of a uri.

    It is composed (NFC), and # is encoded, so that the # before a row's id is the only one.
    """
    if not name.isascii():
        name = normalize("NFC", os.fsencode(name).decode("utf-8", "replace"))
    return name.replace("%", "%25").replace("#", "%23")


def is_within(uri: str, name: str) -> bool:
    """Return whether the uri is `name` or lies inside it."""
    if "#" in name:  # a row; its id may contain any character
        return uri == name
    return uri == name or uri.startswith((f"{name}/", f"{name}#"))
