"""an index -> the same index, without what removed documents left in its files.

A deleted row leaves its words in the postings of the keyword index, its vector in the vector file, its triples in the
store of the earlier build, and pages of text in index.db and its log.
"""

import logging
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

from kumihimo.app.build import batch, build_cost, import_store, remote_sources
from kumihimo.app.build.prepare_build import RollBack, prepare_build, run_and_save
from kumihimo.app.opened.open_index import OpenIndex
from kumihimo.app.opened.results import Built
from kumihimo.core.errors import ConsentRequired, IndexBusy, IndexUnavailable
from kumihimo.core.task import Progress
from kumihimo.llm.budget import Budget
from kumihimo.rdf import store as rdf_store
from kumihimo.search.vectors import remove_unused_files
from kumihimo.storage.cache_database import CacheDatabase
from kumihimo.storage.ledger import drop_retired_tables
from kumihimo.storage.sqlite.cache_file import damaged_copy, delete_database
from kumihimo.text.safe_write import is_link


def prune_cache(index: OpenIndex, *, wait: bool) -> int:
    """Delete cached replies without a use; return their number.

    Raises ConsentRequired if a model or a setting differs from that of the index.
    """
    if not index.place.owns_cache:
        location = index.cache.database.location
        raise IndexUnavailable(f"{location} may be shared with other indexes: nothing in it is deleted")
    batch.check_no_batch(index)
    if not index.cache.exists():
        return 0
    used_keys: set[bytes] = set()
    with suppress(RollBack), index.store.write_transaction(wait=wait) as db:
        build = prepare_build(index, db, may_be_empty=True)
        if changes := build_cost.paid_changes(build):
            raise ConsentRequired(f"{'; '.join(changes)}: run `kumi index` first, so that the replies in use are known")
        used_keys = build_cost.used_cache_keys(build, index.cache)
        raise RollBack
    return index.cache.prune(used_keys)


log = logging.getLogger("kumihimo")


def remove_documents(
    index: OpenIndex,
    target: str | Path,
    budget: Budget,
    *,
    forget: bool,
    wait: bool,
    progress: Progress | None,
) -> Built:
    """Remove a source or documents from every table and search index.

    forget: also from the files of the index and from its cache. Raises IndexUnavailable without an index.
    """
    from kumihimo.index.sources import remove_source

    with index.store.read_transaction():
        pass  # fails without an index, before anything is created
    with ExitStack() as files, index.store.write_transaction(wait=wait, cancel=budget.cancel) as db:
        build = prepare_build(index, db, (), (), budget, progress, may_be_empty=True)
        names = set[str]()
        if target or not forget:
            names = remove_source(db, build.sources, str(target), index.folder.resolve(), files)
        build = replace(build, source_names=names)
        build_cost.require_consent(build, False)
        built = run_and_save(index, build)
        if forget:
            drop_retired_tables(build.db, [step.name for step in build.steps])
            for vectors in build.vector_indexes():  # removed words are in no block
                vectors.vectors.finish(erase=True)
    remote_sources.prune_mirrors(index, build.sources.values())
    import_store.remove_unused_folders(index.folder, {source.path for source in build.sources.values()})
    if forget:
        index.files.clear()  # a mapped file stays on the disk
        erase_files(index, wait=wait)
        if index.place.owns_cache:
            prune_cache(index, wait=wait)
        else:
            warn_of_unpruned_caches(index.cache.database, index.folder)
    return built


def erase_files(index: OpenIndex, *, wait: bool) -> None:
    """Erase what earlier builds left in the files of the index folder.

    Raises IndexBusy if another process uses them.
    """
    index.store.rewrite(wait=wait)  # then no reader of an earlier build is left, who may need other files
    with index.store.write_transaction(wait=wait) as db:
        if remove_unused_files(db, index.folder):
            raise IndexBusy(
                f"another process uses {index.folder}, so its files still hold what you removed: "
                "end that process, then run `kumi remove --forget`"
            )
        delete_database(damaged_copy(index.folder / "cache.db"))
        rdf_store.erase_old_stores(index.folder, db.meta(rdf_store.BUILD_KEY, 0))


def warn_of_unpruned_caches(cache: CacheDatabase, folder: Path) -> None:
    """Warn of a shared cache, and of an unused one."""
    if cache.exists():
        log.warning("%s was not pruned, since other indexes may share it", cache.location)
    unused_path = folder / "cache.db"
    if unused_path.is_file() and not is_link(unused_path):
        remedy = "run `kumi remove --forget` without KUMI_CACHE and --cache"
        log.warning("%s was not pruned, since another cache is used: %s", unused_path, remedy)
