"""a prepared build -> what it would ask of models; whether it needs consent; the replies it uses."""

from collections import Counter
from dataclasses import replace

from kumihimo.app.build import cost
from kumihimo.app.build.build import Build, models_by_scope
from kumihimo.app.opened.catalogue import row_counts
from kumihimo.app.opened.results import Consent, Plan, Total
from kumihimo.core.engine import fingerprints
from kumihimo.core.errors import ConsentRequired
from kumihimo.llm.budget import Budget
from kumihimo.llm.local_embedder import LOCAL_MODEL, is_local_model
from kumihimo.llm.registry import RULES
from kumihimo.storage.response_cache import ResponseCache


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
    return [view.table for view in build.vector_indexes() if not is_local_model(view.embedder.fingerprint)]


def _embedder_changes(build: Build) -> list[str]:
    """Return a description of each table embedded by another model.

    The built-in model costs nothing, so that one of this process replaces it without a question.
    """
    views = [(view, (build.db.meta(view.name) or {}).get("embedder")) for view in build.vector_indexes()]
    return [
        f"{view.table} were embedded by {old}, and would be by {view.embedder.fingerprint}"
        for view, old in views
        if old not in (None, view.embedder.fingerprint)
        and not (old == LOCAL_MODEL and is_local_model(view.embedder.fingerprint))
    ]


def _would_pay_again(build: Build) -> bool:
    """Return whether it repeats paid requests that are not cached."""
    dry_models = cost.DryRunModels(build.models, build.tokenizer, models_by_scope(build.db, build.catalogue))
    failing = sum(step.startswith("vectors_") for step, _, _ in build.db.failures())
    with_views = build.models.paid_embedder is not None
    replace(_with_dry_models(build, dry_models), source_names=set(), pool=cost.skip_failed).dry_run(
        with_views=with_views
    )
    texts = sum(tally.texts for tally in dry_models.embedded.values())
    return texts > failing or any(tally.calls for tally in dry_models.tallies.values())


def plan_build(build: Build) -> Plan:
    """Estimate the requests of `run` by a dry run.

    The dry run answers from the cache alone.
    """
    dry_models = cost.DryRunModels(build.models, build.tokenizer, models_by_scope(build.db, build.catalogue))
    _with_dry_models(build, dry_models).dry_run()
    spent = build.models.cache().usage() if dry_models.tallies or dry_models.embedded else []
    scopes, tables = model_dependencies(build)
    past = cost.usage_history(spent, dry_models.tallies)
    estimator = cost.PlanEstimator(
        dry_models.tallies, scopes, past, spent, dry_models.embedded, tables, count_built_keys(build)
    )
    alone = {name: model_dependencies(replace(build, methods=[name])) for name in build.methods}
    totals = [Total.of(name, estimator.estimates(*steps)) for name, steps in alone.items()]
    local_work = cost.estimate_local_work(build.models.local_embedder, dry_models.local_texts)
    return Plan(tuple(estimator.estimates()), tuple(each for each in totals if each.calls[1]), local_work=local_work)


def count_built_keys(build: Build) -> dict[str, int]:
    """Return by scope for how many keys its model steps were built."""
    rows, failed = row_counts(build.db, build.catalogue), Counter(step for step, _, _ in build.db.failures())
    keys = [(step.scope, rows.get(step.source, 0) - failed[step.name]) for step in build.steps]
    return {scope: min(count for name, count in keys if name == scope) for scope, _ in keys}


def _with_dry_models(build: Build, dry_models: cost.DryRunModels) -> Build:
    budget = Budget(cancel=build.budget.cancel)
    return replace(
        build, llm_for=dry_models.llm, embedder_for=dry_models.embedder, pool=map, budget=budget, progress=None
    )


def model_dependencies(build: Build) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the model steps before each step, by scope.

    Indirect ones too. The second value: the same for each table that a paid model embeds.
    """
    scope, by_scope, by_table = build.catalogue.scope, dict[str, list[str]](), dict[str, list[str]]()
    for step in build.steps:
        direct = [scope(name) for name in step.inputs if name in build.llm_steps]
        indirect = [upstream for name in step.inputs for upstream in by_table.get(name, [])]
        own = [step.scope] if step.name in build.llm_steps else []
        upstream = dict.fromkeys([*by_scope.get(step.scope, []), *direct, *indirect])
        by_scope[step.scope] = [name for name in upstream if name != step.scope]
        by_table[step.name] = list(dict.fromkeys([*upstream, *own]))
    return by_scope, {table: by_table.get(table, []) for table in _paid_tables(build)}


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
