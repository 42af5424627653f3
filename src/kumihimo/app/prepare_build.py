"""paths + methods -> a Build of them, over the sources that the index has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kumihimo.app.build import Build, free_methods, models_by_scope, steps_using_llm
from kumihimo.app.results import Built
from kumihimo.app.snapshot import DEFAULT_METHOD, INSTALL_AGAIN, missing_entries
from kumihimo.core.errors import IndexUnavailable, SourceError
from kumihimo.core.task import Progress
from kumihimo.llm.budget import Budget
from kumihimo.llm.concurrency import thread_pool
from kumihimo.storage import IndexTransaction

if TYPE_CHECKING:
    from kumihimo.app.facade import Kumihimo

_NO_SOURCES = "nothing to index yet: say which folder, `kumi index PATH`"


def absolute_paths(kumi: Kumihimo, paths: Sequence[str | Path], methods: Sequence[str]) -> list[Path]:
    """Return absolute paths; raise SourceError or SettingsError first."""
    from kumihimo.index.documents import resolve_source_path

    for name in methods:
        kumi.catalogue.method(name)
    if not paths and not kumi.store.path.exists():
        raise SourceError(_NO_SOURCES)
    return [resolve_source_path(path, kumi.catalogue.readers) for path in paths]


def prepare_build(
    kumi: Kumihimo,
    db: IndexTransaction,
    paths: Sequence[Path] = (),
    methods: Sequence[str] = (),
    budget: Budget | None = None,
    progress: Progress | None = None,
    *,
    reread: bool = False,
    may_be_empty: bool = False,
) -> Build:
    """Prepare a build of these paths for these methods.

    Without paths: all known sources. Without methods: the ones the index remembers. may_be_empty: also if there is no
    source.
    """
    from kumihimo.index.documents import add_source_paths, load_sources

    sources = load_sources(db, kumi.base)
    source_names = add_source_paths(sources, paths) or set(sources)
    if not sources and not may_be_empty:
        raise SourceError(_NO_SOURCES)
    if not methods:
        _require_entries(kumi, db)
    previous_models, budget = models_by_scope(db, kumi.catalogue), budget or Budget()
    return Build(
        db,
        kumi.catalogue,
        kumi.folder,
        kumi.settings,
        kumi.models,
        kumi.tokenizer,
        sources,
        source_names,
        list(methods) or db.meta("methods") or free_methods(kumi.catalogue, kumi.models),
        budget,
        llm_steps=steps_using_llm(kumi.catalogue, kumi.models, db.meta("models", {}), methods_named=bool(methods)),
        llm_for=lambda step: kumi.models.llm(step, budget, previous_models.get(step, "")),
        embedder_for=lambda table: kumi.models.embedder(budget, table),
        pool=thread_pool(kumi.models.workers),
        progress=progress,
        reread=reread,
    )


def _require_entries(kumi: Kumihimo, db: IndexTransaction) -> None:
    """Raise IndexUnavailable if methods or steps of the index are gone."""
    if missing := missing_entries(db, kumi.catalogue):
        remaining = ",".join(m for m in db.meta("methods") if m not in missing) or DEFAULT_METHOD
        raise IndexUnavailable(
            f"the index was built with {', '.join(missing)} of {', '.join(dict.fromkeys(missing.values()))}, "
            f"{INSTALL_AGAIN}; or go on without it: `kumi index --methods {remaining}`"
        )


def run_and_save(kumi: Kumihimo, build: Build) -> Built:
    """Run the build and store its sources."""
    from kumihimo.index.documents import save_sources

    built = build.run()
    save_sources(build.db, build.sources, kumi.base)
    return built
