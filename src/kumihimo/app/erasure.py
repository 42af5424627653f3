"""an index -> the same index, without what removed documents left in its files.

A deleted row leaves its words in the postings of the keyword index, its vector in the vector file, its triples in the
store of the earlier build, and pages of text in index.db and its log.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kumihimo.app.build import Build
from kumihimo.app.build_cost import require_consent
from kumihimo.app.import_store import remove_unused_imports
from kumihimo.app.prepare_build import prepare_build, run_and_save
from kumihimo.app.remote_sources import prune_mirrors
from kumihimo.app.results import Built
from kumihimo.core.cancel import CancelToken
from kumihimo.core.errors import IndexBusy
from kumihimo.core.task import Progress
from kumihimo.rdf import store as rdf_store
from kumihimo.readers.folder import is_link
from kumihimo.search.stores import remove_unused_files
from kumihimo.storage.cache_database import CacheDatabase
from kumihimo.storage.database import as_database
from kumihimo.storage.ledger import drop_retired_tables
from kumihimo.storage.sqlite.cache_file import damaged_copy, delete_database

if TYPE_CHECKING:
    from kumihimo.app.facade import Kumihimo

log = logging.getLogger("kumihimo")


def remove_documents(
    kumi: Kumihimo,
    target: str | Path,
    *,
    forget: bool,
    wait: bool,
    progress: Progress | None,
    cancel: CancelToken | None,
) -> Built:
    """Remove a source or documents from every table and search index.

    forget: also from the free pages of the search indexes. Raises IndexUnavailable without an index.
    """
    from kumihimo.index.sources import remove_source

    with kumi.store.read_transaction():
        pass  # fails without an index, before anything is created
    with kumi.store.write_transaction(wait=wait, cancel=cancel) as db:
        build = prepare_build(kumi, db, (), (), kumi.models.budget(cancel=cancel), progress, may_be_empty=True)
        names = set() if forget and not target else remove_source(db, build.sources, str(target), kumi.folder.resolve())
        build = replace(build, source_names=names)
        require_consent(build, False)
        built = run_and_save(kumi, build)
        if forget:
            _erase_rows(build)
    prune_mirrors(kumi, build.sources.values())
    remove_unused_imports(kumi.folder, {source.path for source in build.sources.values()})
    return built


def _erase_rows(build: Build) -> None:
    """Erase what deleted rows left in the search indexes and retired tables."""
    drop_retired_tables(as_database(build.db), [step.name for step in build.steps])
    for index in build.search_indexes():
        index.erase()


def erase_files(kumi: Kumihimo, *, wait: bool) -> None:
    """Erase what earlier builds left in the files of the index folder.

    Raises IndexBusy if another process uses them.
    """
    kumi.store.rewrite(wait=wait)  # then no reader of an earlier build is left, who may need other files
    with kumi.store.write_transaction(wait=wait) as db:
        if remove_unused_files(as_database(db), kumi.folder):
            raise IndexBusy(
                f"another process uses {kumi.folder}, so its files still hold what you removed: "
                "end that process, then run `kumi remove --forget`"
            )
        delete_database(damaged_copy(kumi.folder / "cache.db"))
        rdf_store.erase_old_stores(kumi.folder, db.meta(rdf_store.BUILD_KEY, 0))


def warn_of_unpruned_caches(cache: CacheDatabase, folder: Path) -> None:
    """Warn of a shared cache, and of an unused one."""
    if cache.exists():
        log.warning("%s was not pruned, since other indexes may share it", cache.location)
    unused_path = folder / "cache.db"
    if unused_path.is_file() and not is_link(unused_path):
        remedy = "run `kumi remove --forget` without KUMI_CACHE and --cache"
        log.warning("%s was not pruned, since another cache is used: %s", unused_path, remedy)
