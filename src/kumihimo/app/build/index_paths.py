"""paths -> Built, or the Plan of it: one write transaction, which a plan rolls back."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

from kumihimo.app.build import build_cost, remote_sources
from kumihimo.app.build.batch import build_or_wait, count_waiting
from kumihimo.app.build.build import skipped_methods
from kumihimo.app.build.prepare_build import RollBack, absolute_paths, prepare_build, run_and_save
from kumihimo.app.build.texts import stored_texts
from kumihimo.app.opened.open_index import OpenIndex
from kumihimo.app.opened.results import Built, Consent, Plan
from kumihimo.core.cancel import CancelToken
from kumihimo.core.task import Progress
from kumihimo.llm.budget import Budget


def index_paths(
    index: OpenIndex,
    paths: Sequence[str | Path],
    methods: Sequence[str],
    budget: Budget,
    *,
    wait: bool = False,
    reread: bool = False,
    recluster: bool = False,
    refresh: bool = False,
    rebuild: bool = False,
    batch: bool = False,
    consent: bool | Consent = False,
    progress: Progress | None = None,
    crawl: int = 0,
    fetch: bool = True,
    texts: Mapping[str, bytes] | None = None,
) -> Built:
    """Build the index of these paths and its other sources.

    fetch: also ask for what is not on this machine. texts: files, as `dump_texts` returns them; then nothing else is
    read. Other parameters: as for `Kumihimo.index`.
    """
    absolute = absolute_paths(index, paths, methods, has_texts=texts is not None)
    transaction = index.store.write_transaction(wait=wait, rebuild=rebuild, cancel=budget.cancel)
    with ExitStack() as files, transaction as db:
        if texts is not None:
            absolute = [files.enter_context(stored_texts(index.folder, texts))]
        elif fetch:
            absolute += remote_sources.fetch_sources(index, db, paths, crawl, progress, budget.cancel)
        build = prepare_build(index, db, absolute, methods, budget, progress, reread=reread, batch=batch)
        from_scratch = frozenset(["communities"] * recluster + ["reports"] * refresh)
        build = replace(build, from_scratch=from_scratch, rebuild=rebuild)
        for source in build.sources.values() if rebuild else ():
            source.files()  # raises SourceError before anything is lost
        if batch or count_waiting(index):
            built = build_or_wait(index, build, consent, rebuild=rebuild, batch=batch)
        else:
            build_cost.require_consent(build, consent, rebuild=rebuild)
            built = run_and_save(index, build)
    if methods:
        return built
    skipped = skipped_methods(index.catalogue, index.models, build.methods)
    return replace(built, skipped_methods=skipped, rule_based=build.rule_based)


def plan_paths(
    index: OpenIndex,
    paths: Sequence[str | Path],
    methods: Sequence[str],
    progress: Progress | None,
    cancel: CancelToken | None,
    crawl: int = 0,
) -> Plan:
    """Estimate the calls and cost of a build, without building.

    Named addresses are fetched; those of known sources are as they were at the last build.
    """
    absolute, plan, is_new = absolute_paths(index, paths, methods), Plan(()), not index.folder.exists()
    with suppress(RollBack), index.store.write_transaction(cancel=cancel) as db:
        fetched = remote_sources.fetch_sources(index, db, paths, crawl, progress, cancel) if paths else []
        build = prepare_build(index, db, [*absolute, *fetched], methods, index.models.budget(cancel=cancel), progress)
        plan = replace(build_cost.plan_build(build), rule_based=build.rule_based)
        raise RollBack
    if is_new and not index.cache.stats()["replies"]:
        from shutil import rmtree

        index.store.close()
        index.cache.database.close()
        rmtree(index.folder, ignore_errors=not index.folder.exists())
    return plan
