"""paths -> Built, or the Plan of it: one write transaction, which a plan rolls back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kumihimo.app.batch import build_or_wait
from kumihimo.app.build import skipped_methods
from kumihimo.app.build_cost import plan_build
from kumihimo.app.prepare_build import absolute_paths, prepare_build
from kumihimo.app.prune_cache import RollBack
from kumihimo.app.remote_sources import fetch_sources
from kumihimo.app.results import Built, Consent, Plan
from kumihimo.core.cancel import CancelToken
from kumihimo.core.task import Progress
from kumihimo.llm.budget import Budget
from kumihimo.storage.sqlite.cache_file import CacheFile, adopt_old_cache

if TYPE_CHECKING:
    from kumihimo.app.facade import Kumihimo


def index_paths(
    kumi: Kumihimo,
    paths: Sequence[str | Path],
    methods: Sequence[str],
    budget: Budget,
    *,
    wait: bool,
    reread: bool,
    recluster: bool,
    refresh: bool,
    rebuild: bool,
    batch: bool,
    consent: bool | Consent,
    progress: Progress | None,
    crawl: int = 0,
    fetch: bool = True,
) -> Built:
    """Build the index of these paths and its other sources.

    fetch: also ask for what is not on this machine.
    """
    absolute = absolute_paths(kumi, paths, methods)
    if rebuild and isinstance(kumi.cache.database, CacheFile):
        adopt_old_cache(kumi.cache.database.path)
    with kumi.store.write_transaction(wait=wait, rebuild=rebuild, cancel=budget.cancel) as db:
        fetched = fetch_sources(kumi, db, paths, crawl, progress, budget.cancel) if fetch else []
        build = prepare_build(kumi, db, [*absolute, *fetched], methods, budget, progress, reread=reread, batch=batch)
        from_scratch = frozenset(["communities"] * recluster + ["reports"] * refresh)
        build = replace(build, from_scratch=from_scratch, rebuild=rebuild)
        for source in build.sources.values() if rebuild else ():
            source.files()  # raises SourceError before anything is lost
        built = build_or_wait(kumi, build, consent, rebuild=rebuild, batch=batch)
    if methods:
        return built
    skipped = skipped_methods(kumi.catalogue, kumi.models, build.methods)
    return replace(built, skipped_methods=skipped, rule_based=build.rule_based)


def plan_paths(
    kumi: Kumihimo,
    paths: Sequence[str | Path],
    methods: Sequence[str],
    sample: int,
    progress: Progress | None,
    cancel: CancelToken | None,
    crawl: int = 0,
) -> Plan:
    """Estimate the calls and cost of a build, without building.

    Named addresses are fetched; those of known sources are as they were at the last build.
    """
    absolute, plan, is_new = absolute_paths(kumi, paths, methods), Plan(()), not kumi.folder.exists()
    with suppress(RollBack), kumi.store.write_transaction(cancel=cancel) as db:
        fetched = fetch_sources(kumi, db, paths, crawl, progress, cancel) if paths else []
        build = prepare_build(kumi, db, [*absolute, *fetched], methods, kumi.models.budget(cancel=cancel), progress)
        plan = replace(plan_build(build, sample), rule_based=build.rule_based)
        raise RollBack
    if is_new and not kumi.cache_stats()["replies"]:
        from shutil import rmtree

        kumi.close()
        rmtree(kumi.folder, ignore_errors=not kumi.folder.exists())
    return plan
