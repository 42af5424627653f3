"""a prepared build -> what it would ask of models, whether it needs consent, and the cached replies it uses."""

from dataclasses import replace

from kumihimo.app import cost
from kumihimo.app.build import Build, models_by_scope
from kumihimo.app.results import Consent, Plan
from kumihimo.core.engine import fingerprints
from kumihimo.core.errors import ConsentRequired
from kumihimo.core.task import inline
from kumihimo.core.wiring import ROOT
from kumihimo.llm.budget import Budget
from kumihimo.llm.cached_llm import EMBEDDING
from kumihimo.llm.local_embedder import LOCAL_MODEL, is_local
from kumihimo.llm.registry import RULES
from kumihimo.storage.sqlite.response_cache import ResponseCache


def paid_changes(build: Build) -> list[str]:
    """Return a description of each paid result to be made again."""
    names, downstream = [step.name for step in build.steps], build.catalogue.downstream_steps
    current = fingerprints(build.steps, settings=build.step_settings(), ports=build.ports, code=build.code)
    stored = build.db.fingerprints()
    changed = {name for name in names if name in stored and stored[name] != current[name]}
    paid_steps = downstream(build.llm_steps) & downstream(
        [name for name, model in build.db.meta("models", {}).items() if model != RULES]
    )
    remade = ", ".join(name for name in names if name in changed & paid_steps)
    descriptions = [f"{remade} would be asked for again"] if remade else []
    embedded = [table for table in _paid_tables(build) if table in changed]
    descriptions += [f"{table} would be embedded again where they change" for table in embedded]
    return descriptions + _embedder_changes(build)


def _paid_tables(build: Build) -> list[str]:
    """Return the tables that a paid model embeds."""
    return [view.table for view in build.vector_indexes() if not is_local(view.embedder.fingerprint)]


def _embedder_changes(build: Build) -> list[str]:
    """Return a description of each table embedded by another model.

    The built-in model costs nothing, so that one of this process replaces it without a question.
    """
    views = [(view, (build.db.meta(view.name) or {}).get("embedder")) for view in build.vector_indexes()]
    return [
        f"{view.table} were embedded by {old}, and would be by {view.embedder.fingerprint}"
        for view, old in views
        if old not in (None, view.embedder.fingerprint)
        and not (old == LOCAL_MODEL and is_local(view.embedder.fingerprint))
    ]


def _would_pay_again(build: Build) -> bool:
    """Return whether it repeats paid requests that are not cached."""
    dry_models = cost.DryRunModels(build.models, build.tokenizer, models_by_scope(build.db, build.catalogue))
    failing = sum(step.startswith("vectors_") for step, _, _ in build.db.failures())
    with_views = build.models.paid_embedder is not None
    replace(_with_dry_models(build, dry_models), source_names=set(), pool=cost.skip_failed).dry_run(
        with_views=with_views
    )
    texts = dry_models.tallies[EMBEDDING].texts if EMBEDDING in dry_models.tallies else 0
    return texts > failing or any(tally.calls for step, tally in dry_models.tallies.items() if step != EMBEDDING)


def plan_build(build: Build, sample: int = 0) -> Plan:
    """Estimate the requests of `run` by a dry run.

    The dry run answers from the cache alone. sample: process this many chunks with real calls for a better
    estimate.
    """
    past = _run_sample(build, sample) if sample else {}
    dry_models = cost.DryRunModels(build.models, build.tokenizer, models_by_scope(build.db, build.catalogue))
    _with_dry_models(build, dry_models).dry_run()
    spent = build.models.cache().usage() if dry_models.tallies else []
    plan = cost.estimate_plan(
        dry_models.tallies, _llm_dependencies(build), cost.usage_history(spent, dry_models.tallies) | past, spent
    )
    return replace(plan, local_work=cost.estimate_local_work(build.models.local_embedder, dry_models.local_texts))


def _with_dry_models(build: Build, dry_models: cost.DryRunModels) -> Build:
    return replace(
        build, llm_for=dry_models.llm, embedder_for=dry_models.embedder, pool=inline, budget=Budget(), progress=None
    )


def _run_sample(build: Build, size: int) -> dict[str, cost.PastUsage]:
    documents = build.db.rows(ROOT)
    sample = cost.SamplingPool(size, build.pool, lambda id: documents.get(id) is not None)
    replace(build, pool=sample).dry_run(with_views=False)
    return cost.usage_from_sample(sample, build.budget)


def _llm_dependencies(build: Build) -> dict[str, list[str]]:
    """Return the LLM steps that each step depends on, directly or not."""
    scope, dependencies = build.catalogue.scope, dict[str, list[str]]()
    for step in build.steps:
        direct = [scope(name) for name in step.inputs if name in build.llm_steps]
        indirect = [upstream for name in step.inputs for upstream in dependencies.get(scope(name), [])]
        dependencies[step.scope] = list(dict.fromkeys([*direct, *indirect]))
    llm_scopes = [step.scope for step in build.steps if step.name in build.llm_steps]
    embedded = [scope(table) for table in _paid_tables(build)]
    dependencies[EMBEDDING] = [
        name for name in llm_scopes if any(name in (table, *dependencies.get(table, ())) for table in embedded)
    ]
    return dependencies


def require_consent(build: Build, consent: bool | Consent, *, rebuild: bool = False) -> None:
    """Raise ConsentRequired if the build would pay again without consent."""
    changes = paid_changes(build) or (["every table would be built again"] if rebuild and build.may_cost else [])
    if not changes or consent is True:
        return
    free_replacement = _embedder_changes(build) and not build.models.paid_embedder  # possibly by accident
    if not free_replacement and not rebuild and not _would_pay_again(build):
        return
    plan = plan_build(build)
    if rebuild and not free_replacement and not any(plan.calls):
        return
    if consent and consent(plan, changes):
        return
    low, high = (f"{calls:,.0f}" for calls in plan.calls)
    remedy = (
        "`kumi index --rebuild --yes` does it"
        if rebuild
        else "`kumi plan` says what it costs, `kumi index --yes` does it, the previous settings avoid it"
    )
    calls = low if low == high else f"{low} to {high}"
    raise ConsentRequired(f"{'; '.join(changes)}: {calls} calls. The index was not changed: {remedy}")


def used_cache_keys(build: Build, cache: ResponseCache) -> set[bytes]:
    """Return the keys of the cached replies that a new build uses.

    A dry run that answers from the cache alone finds them.
    """
    used_keys: set[bytes] = set()
    cache.used_keys = used_keys
    try:
        dry_build = replace(
            _with_dry_models(build, cost.DryRunModels(build.models, build.tokenizer)),
            source_names=set(),
            from_scratch=frozenset(step.name for step in build.steps if step.keyed and step.remembers),
        )
        dry_build.dry_run(code=lambda _: "prune", fingerprint="prune")
    finally:
        cache.used_keys = None
    return used_keys
