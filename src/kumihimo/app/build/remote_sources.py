"""addresses, or those of an index -> their files in its mirrors, which a build then reads like any folder."""

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from shutil import rmtree
from typing import Any, cast

from kumihimo.app.opened.open_index import OpenIndex
from kumihimo.app.settings.settings_registry import MAX_PAGES
from kumihimo.app.settings.trust import PAGES_PREFIX, TrustGrant, add_trust, require_trust
from kumihimo.core.cancel import CancelToken
from kumihimo.core.errors import SettingsError, SourceError
from kumihimo.core.network import PAGE, STORE
from kumihimo.core.task import Progress
from kumihimo.index.sources import IndexedSource, load_sources
from kumihimo.readers.limits import FetchSettings, ReadingLimits
from kumihimo.readers.reading_worker import ReadingWorker
from kumihimo.readers.remote.links import HANDLER
from kumihimo.readers.remote.mirror import MIRRORS_FOLDER, Mirror, remove_mirrored, remove_unused_mirrors
from kumihimo.readers.remote.origins import Origin, is_address, local_path, mirror_name, parse_origin
from kumihimo.readers.remote.web import WebClient
from kumihimo.storage.database import Database


def split_addresses(paths: Iterable[str | Path]) -> tuple[list[Origin], list[str | Path]]:
    """Return the addresses among the paths, and the others.

    A file:// address is a path. Raise SourceError if an address cannot be one.
    """
    local = [local_path(path) if isinstance(path, str) else path for path in paths]
    origins = [parse_origin(path) for path in local if isinstance(path, str) and is_address(path)]
    return origins, [path for path in local if not is_address(path)]


def fetch_sources(
    index: OpenIndex,
    db: Database,
    paths: Sequence[str | Path],
    crawl: int = 0,
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
) -> list[Path]:
    """Fetch the addresses among the paths; without paths, those of all sources.

    Return the paths to build. crawl: the maximum number of pages that links lead to; 0 keeps the earlier one. Raise
    TrustRequired for addresses that this user has neither named nor trusted in this index, since somebody else may have
    made it, and SourceError if there is nothing at an address in `paths`; other failures are listed by the build.
    """
    named, _ = split_addresses(paths)
    if not 0 <= crawl <= MAX_PAGES:
        raise SettingsError(f"--crawl is a number of pages up to {MAX_PAGES:,}, not {crawl:,}: name a smaller one")
    if crawl and not (named and all(origin.is_web for origin in named)):
        raise SettingsError("--crawl follows the links of a web page: name its address, https://...")
    mirrors = index.folder.resolve() / MIRRORS_FOLDER
    sources = {source.path: source for source in load_sources(db, index.base).values()}
    remove_unused_mirrors(index.folder, sources)
    wanted: defaultdict[Path, list[Origin]] = defaultdict(list)
    for origin in named:
        wanted[mirrors / origin.name].append(origin)
    for folder in () if paths else sources:
        if folder.parent == mirrors:
            wanted[folder] += _listed_origins(folder)
    decide = add_trust if named else require_trust
    decide(mirrors, _grants(chain.from_iterable(wanted.values())), os.environ)
    restored: list[Path] = []
    for folder, origins in wanted.items():
        fetch = _MirrorFetch(index, Mirror.load(folder), sources.get(folder), crawl, progress, cancel)
        restored += fetch.run(origins, are_named=bool(named))
    return restored


def is_mirrors_folder(path: Path) -> bool:
    """Return whether a path is the mirror folder of an index."""
    return path.name == MIRRORS_FOLDER and path.is_dir()


def trust_mirrors(mirrors: Path) -> Sequence[TrustGrant]:
    """Trust the addresses in the mirrors of an index; return their servers."""
    grants = _grants(chain.from_iterable(map(_listed_origins, mirrors.iterdir())))
    add_trust(mirrors, grants, os.environ)
    return grants


def _listed_origins(folder: Path) -> Iterable[Origin]:
    return map(parse_origin, Mirror.load(folder).origins)


def _grants(origins: Iterable[Origin]) -> list[TrustGrant]:
    servers = {(PAGE if origin.is_web else STORE).parse_address(origin.url).server for origin in origins}
    return [TrustGrant(f"{PAGES_PREFIX}{server}", "") for server in sorted(servers)]


@dataclass(slots=True)
class _MirrorFetch:
    """The refresh of one mirror."""

    index: OpenIndex
    mirror: Mirror
    source: IndexedSource | None  # None for a new one
    crawl: int
    progress: Progress | None
    cancel: CancelToken | None
    done: set[str] = field(default_factory=set)

    def run(self, origins: Sequence[Origin], *, are_named: bool) -> list[Path]:
        """Fetch these origins; return the paths that a person has named."""
        self.mirror.delete_unlisted()
        is_new, restored, client = self.source is None, list[Path](), self._client(origins)
        links = ReadingWorker(HANDLER, client.limits)
        try:
            for origin in origins:
                if are_named:
                    restored.append(self._name(origin))
                self._fetch(origin, client, links, is_required=are_named)
        except BaseException:
            if is_new:
                rmtree(self.mirror.folder, ignore_errors=True)
            raise
        finally:
            client.close()
            links.close()
            if not is_new:
                self.mirror.save()
        self.mirror.save()
        return [self.mirror.folder] if is_new else restored

    def _name(self, origin: Origin) -> Path:
        """Add an origin, restored if it was removed; return its path."""
        pages = self.mirror.origins[origin.url] = self.crawl or self.mirror.origins.get(origin.url, 0)
        wanted = mirror_name(origin.url)  # without the suffix that its type gives it
        removed = (rule.partition("/")[2] for rule in (self.source.rules if self.source else ()))
        name = next((rule for rule in removed if rule.rpartition(".")[0] == wanted), wanted)
        path = self.mirror.folder / (self.mirror.name_of(origin.url) or name)
        path = path.parent if pages else path
        if self.source:
            self.source = self.source.restore_uri(self.source.uri(path))
        return path

    def _fetch(self, origin: Origin, client: WebClient, links: ReadingWorker, *, is_required: bool) -> None:
        """Fetch one origin; list its failure unless it is required."""
        from kumihimo.readers.remote.crawl import OriginFetch
        from kumihimo.readers.remote.stores import StoreFetch

        mirror, readers = self.mirror, self.index.catalogue.readers
        others = {name for name, file in mirror.files.items() if file.origin != origin.url}
        mirror.failed = {name: error for name, error in mirror.failed.items() if name in others}
        options: dict[str, Any] = {
            "is_excluded": self._is_excluded,
            "is_required": is_required,
            "progress": self.progress,
        }
        try:
            if origin.is_web:
                pages = mirror.origins[origin.url]
                OriginFetch(mirror, client, links, readers, origin.url, pages, done=self.done, **options).run()
            else:
                StoreFetch(mirror, origin, readers, client.limits, cancel=self.cancel, **options).run()
        except SourceError as error:
            if is_required:
                raise
            mirror.failed[""] = str(error)

    def _is_excluded(self, name: str) -> bool:
        return self.source is not None and self.source.excludes_uri(f"{self.source.name}/{name}")

    def _client(self, origins: Sequence[Origin]) -> WebClient:
        settings: Mapping[str, Mapping[str, Any]] = self.index.settings
        sites = {PAGE.parse_address(origin.url).server for origin in origins if origin.is_web}
        limits = ReadingLimits(**cast(dict[str, int], settings["reading"]))
        client = WebClient(FetchSettings(**settings["fetching"]), limits, frozenset(sites))
        return replace(client, cancel=self.cancel, wait=self.cancel.wait) if self.cancel else client


def prune_mirrors(index: OpenIndex, sources: Iterable[IndexedSource]) -> None:
    """Delete fetched files outside the index."""
    kept = list(sources)
    remove_unused_mirrors(index.folder, {source.path for source in kept})
    for source in kept:
        names = [name for name in Mirror.load(source.path).files if source.excludes_uri(f"{source.name}/{name}")]
        if names:
            remove_mirrored(source.path, names)


def describe_source(source: IndexedSource) -> str:
    """Return the path of a source, or its addresses."""
    return ", ".join(Mirror.load(source.path).origins) or str(source.path)
