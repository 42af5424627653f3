"""paths + methods -> a Build of them, over the sources that the index has."""

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from kumihimo.app.ask.questions import open_snapshot
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.build.build import Build, default_methods, models_by_scope, steps_using_llm
from kumihimo.app.build.graph_edits import find_unmatched
from kumihimo.app.build.remote_sources import split_addresses
from kumihimo.app.opened import catalogue, results
from kumihimo.app.opened.open_index import OpenIndex
from kumihimo.app.settings import settings_registry, trust
from kumihimo.core.cancel import CancelToken, locked
from kumihimo.core.engine import fingerprints
from kumihimo.core.errors import IndexBusy, IndexUnavailable, SettingsError, SourceError
from kumihimo.core.executors import BuildExecutor, inline
from kumihimo.core.task import Progress
from kumihimo.index.sources import add_source_paths, load_sources, resolve_source_path, save_sources
from kumihimo.llm.budget import Budget
from kumihimo.llm.concurrency import thread_pool
from kumihimo.storage.database import Database

log = logging.getLogger("kumihimo")
WAITING_METHODS = "waiting_methods"  # named for a batch that is under way
MAX_WAITS = 600  # for the build of another process, each of a second
_NO_SOURCES = "nothing to index yet: say which folder, `kumi index PATH`"


class RollBack(Exception):
    """A signal to leave a build and roll it back."""


def absolute_paths(
    index: OpenIndex, paths: Sequence[str | Path], methods: Sequence[str], *, has_texts: bool = False
) -> list[Path]:
    """Return the absolute paths of files and folders.

    Addresses are left out. has_texts: there is something else to index. Raise SourceError or SettingsError first.
    """

    if isinstance(methods, str):
        raise SettingsError(f"methods is a list of names: write {[methods]}")
    for name in methods:
        index.catalogue.method(name)
    if not paths and not has_texts and not index.store.exists():
        raise SourceError(_NO_SOURCES)
    return [resolve_source_path(path, index.catalogue.readers) for path in split_addresses(paths)[1]]


def prepare_build(
    index: OpenIndex,
    db: Database,
    paths: Sequence[Path] = (),
    methods: Sequence[str] = (),
    budget: Budget | None = None,
    progress: Progress | None = None,
    *,
    reread: bool = False,
    may_be_empty: bool = False,
    batch: bool = False,
) -> Build:
    """Prepare a build of these paths for these methods.

    Without paths: all known sources. Without methods: the ones the index remembers. may_be_empty: also if there is no
    source. batch: the methods that a waiting batch was started for count as named.
    """

    index = index.with_current_edits()
    sources = load_sources(db, index.base)
    named = trust.file_grants(index.folder, paths)
    try:
        trust.add_trust(index.folder, named, os.environ)
    except SettingsError as error:  # this build reads what was named just now; a later refresh asks
        log.warning("%s", error)
    source_names = add_source_paths(sources, paths, index.folder.resolve()) or set(sources)
    if not sources and not may_be_empty:
        raise SourceError(_NO_SOURCES)
    waiting_methods = db.meta(WAITING_METHODS, [])
    methods = methods or (waiting_methods if batch else [])
    if methods and (batch or waiting_methods):
        db.set_meta(WAITING_METHODS, list(methods))
    if not methods:
        _require_entries(index, db)
    previous_models, budget = models_by_scope(db, index.catalogue), budget or Budget()
    return Build(
        db,
        index.catalogue,
        index.folder,
        index.settings,
        index.models,
        index.tokenizer,
        sources,
        source_names,
        list(methods) or db.meta("methods") or default_methods(index.catalogue, index.models),
        budget,
        llm_steps=steps_using_llm(index.catalogue, index.models, db.meta("models", {}), methods_named=bool(methods)),
        llm_for=lambda step: index.models.llm(step, budget, previous_models.get(step, "")),
        embedder_for=lambda table: index.models.embedder(budget, table),
        pool=thread_pool(index.models.workers),
        progress=progress,
        reread=reread,
        named=named,
    )


def _require_entries(index: OpenIndex, db: Database) -> None:
    """Raise IndexUnavailable if methods or steps of the index are gone."""
    if missing := catalogue.missing_entries(db, index.catalogue):
        remaining = ",".join(m for m in db.meta("methods") if m not in missing) or catalogue.DEFAULT_METHOD
        raise IndexUnavailable(
            f"the index was built with {', '.join(missing)} of {', '.join(dict.fromkeys(missing.values()))}, "
            f"{catalogue.INSTALL_AGAIN}; or go on without it: `kumi index --methods {remaining}`"
        )


def run_and_save(index: OpenIndex, build: Build) -> results.Built:
    """Run the build and store its sources.

    The methods that waited for a batch wait no more once they are built.
    """
    settings = settings_registry.BuildingSettings(**cast(dict[str, Any], index.settings["building"]))
    if build.db.meta(WAITING_METHODS, []) == build.methods:
        build.db.set_meta(WAITING_METHODS, [])
    with open_executor(index, settings, build.budget.cancel) as executor:
        built = replace(build, executor=executor).run()
    save_sources(build.db, build.sources, index.base)
    snapshot = Snapshot(build.db, index.catalogue, index.settings, index.tokenizer, index.models, {})
    return replace(built, unmatched=find_unmatched(snapshot))


def open_executor(
    index: OpenIndex, settings: settings_registry.BuildingSettings, cancel: CancelToken | None
) -> BuildExecutor:
    """Return the executor of a build.

    An index with steps or readers passed to `Kumihimo.open` is built in this process: another one cannot have them.
    Models are asked here in any case. Raises SettingsError if Ray is not installed.
    """
    if settings.executor == "inline" or index.catalogue is not catalogue.installed_catalogue():
        return inline
    from kumihimo.app.build.ray_executor import RayExecutor

    return RayExecutor("" if settings.executor == "ray" else settings.executor, settings.workers, cancel)


def build_method(
    index: OpenIndex,
    name: str,
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
    is_needed: bool = True,
) -> None:
    """Build the tables that a method lacks, from the stored documents.

    Nothing is done if that may cost money, or if the index cannot be written: then a question names the remedy. It
    waits for another build, with a line that says so. Raises IndexBusy if that build takes longer than `MAX_WAITS`,
    and IndexUnavailable if other tables would change too. is_needed: False for tables that whoever asks can do
    without; then it neither waits for another process nor raises these, but says why they are missing.
    """
    if index.store.is_read_only():
        return
    for attempt in range(MAX_WAITS):
        try:
            with (
                locked(index.build_lock, cancel.check if cancel else None),
                index.store.write_transaction(cancel=cancel) as db,
            ):
                _build_missing(index, db, name, progress, cancel)
            return
        except IndexBusy:
            if not is_needed:
                log.warning("%s needs tables that are not built yet; another process builds: going on without", name)
                return
            if attempt == 0:
                log.warning("%s needs tables that are not built yet; another process builds: waiting for it", name)
        except IndexUnavailable as error:
            if is_needed:
                raise
            log.warning("%s", error)
            return
    raise IndexBusy(
        f"{name} needs tables that are not built yet, and another build is still running: ask again when it is done"
    )


def _build_missing(
    index: OpenIndex, db: Database, name: str, progress: Progress | None, cancel: CancelToken | None = None
) -> None:
    """Build the tables that a method lacks, if they cost nothing."""
    missing = catalogue.missing_tables(db, index.catalogue, name)
    build = free_build(index, db, name, missing, progress, cancel)
    if not missing or build is None:
        return
    _require_unchanged(build, name)
    log.warning("%s needs %s: building them", name, ", ".join(missing))
    build.run()


def free_build(
    index: OpenIndex,
    db: Database,
    name: str,
    missing: Sequence[str],
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
) -> Build | None:
    """Return the build of the tables a method lacks, if free."""
    build = prepare_build(index, db, budget=Budget(cancel=cancel), may_be_empty=True)
    models_made_tables = bool(models_by_scope(db, index.catalogue))
    build = replace(
        build,
        source_names=set(),
        methods=list(dict.fromkeys([*build.methods, name])),
        llm_steps=steps_using_llm(index.catalogue, index.models, methods_named=models_made_tables),
        progress=progress,
    )
    return None if build.may_cost or catalogue.steps_without_llm(index.catalogue, index.models, missing) else build


def _require_unchanged(build: Build, name: str) -> None:
    """Raise IndexUnavailable if the build would change existing tables."""
    current = fingerprints(build.steps, settings=build.step_settings(), ports=build.ports, code=build.code)
    changed = [step for step, stored in build.db.fingerprints().items() if current.get(step, stored) != stored]
    if changed:
        raise IndexUnavailable(
            f"{name} needs tables that are not built yet, and {', '.join(changed)} would change too, because the "
            f"settings or the version have changed: `kumi index --methods {','.join(build.methods)}` builds all of them"
        )


def usable_methods(index: OpenIndex) -> list[str]:
    """Return the methods that are built, or free to build.

    Methods that need a chat model are left out if none is set.
    """
    with open_snapshot(index) as snapshot:
        return [name for name in index.catalogue.methods if _is_usable(index, snapshot.db, name)]


def _is_usable(index: OpenIndex, db: Database, name: str) -> bool:
    signature = index.catalogue.methods[name]
    if "llm" in signature.ports and "llm" not in signature.optional_ports and index.models.chat(name) is None:
        return False
    missing = catalogue.missing_tables(db, index.catalogue, name)
    return not missing or (not index.store.is_read_only() and free_build(index, db, name, missing) is not None)
