"""one write transaction -> Build: update tables and views, or estimate the cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING
from unicodedata import unidata_version

from kumihimo.app.cost import (
    DryRunModels,
    PastUsage,
    SamplingPool,
    estimate_plan,
    skip_failed,
    usage_from_sample,
    usage_history,
)
from kumihimo.app.results import Built, Consent, Plan
from kumihimo.app.snapshot import row_counts, steps_without_llm
from kumihimo.core.context import Tokenizer
from kumihimo.core.digests import hash_parts
from kumihimo.core.engine import build_tables, fingerprints, watch_tables
from kumihimo.core.errors import ConsentRequired, SettingsError
from kumihimo.core.settings import SettingValues
from kumihimo.core.signature import Signature
from kumihimo.core.table import codec
from kumihimo.core.task import Pool, Port, Progress, inline
from kumihimo.core.wiring import ROOT, order_steps
from kumihimo.index import RECORD_TYPES, STEPS, downstream_steps, settings_for_step, settings_scope, upstream_steps
from kumihimo.llm.budget import Budget
from kumihimo.llm.cached_llm import EMBEDDING, CachedLLM
from kumihimo.llm.protocols import Embedder
from kumihimo.llm.registry import RULES, SET_MODEL_HINT, ModelRegistry
from kumihimo.methods import METHODS
from kumihimo.rdf import store as rdf_store
from kumihimo.search.fulltext import KeywordIndex
from kumihimo.search.maintenance import SearchIndex, maintain_indexes
from kumihimo.search.vectors import VectorIndex, remove_unused_files
from kumihimo.storage.protocols import IndexTransaction
from kumihimo.storage.sqlite.ledger import SqlLedger
from kumihimo.storage.sqlite.store import as_db

if TYPE_CHECKING:
    from kumihimo.index.documents import IndexedSource


_GRAPH_METHODS = ("braid", "global", "local")  # the main users of the graph


@dataclass(frozen=True, slots=True)
class Build:
    """A build of one index, with the models of `llm_for` and `embedder`.

    sources: all sources of the index; source_names: the sources to read again. methods: the methods to build for.
    llm_steps: the steps that call an LLM; the others work by rule. from_scratch: whole-table steps that ignore their
    previous rows.
    """

    db: IndexTransaction
    folder: Path
    settings: SettingValues
    models: ModelRegistry
    tokenizer: Tokenizer
    sources: dict[str, IndexedSource]
    source_names: set[str]
    methods: Sequence[str]
    budget: Budget
    llm_steps: frozenset[str]
    llm_for: Callable[[str], CachedLLM]  # scope of a step -> its LLM
    embedder: Embedder
    pool: Pool
    progress: Progress | None = None
    reread: bool = False
    from_scratch: frozenset[str] = frozenset()

    def run(self, *, code: str = "", fingerprint: str = "", with_views: bool = True) -> Built:
        """Update all tables and views.

        code, fingerprint: of the steps and of the views, if not the current ones. with_views: update the views too.
        """
        from kumihimo.index.documents import refresh_documents

        start, db, steps = perf_counter(), self.db, self.steps
        code, fingerprint = code or table_code(), fingerprint or code_digest("core", "text", "search")
        rows_before = row_counts(db)
        remove_unused_files(as_db(db), self.folder)
        rdf_store.remove_old_stores(self.folder, number := db.meta(rdf_store.BUILD_KEY, 0))
        ledger = SqlLedger(as_db(db))
        watch_tables(steps, ledger)
        with maintain_indexes(ledger, self._views() if with_views else [], fingerprint, self.progress):
            sources = self.sources.values()
            refreshed = refresh_documents(
                ledger, sources, self.source_names, fingerprint=code, reread=self.reread, progress=self.progress
            )
            build_tables(
                steps,
                ledger,
                settings=self._values(),
                ports=self._ports,
                code=code,
                pool=self.pool,
                progress=self.progress,
                from_scratch=self.from_scratch,
            )
        if ledger.rows_written or row_counts(db) != rows_before:
            db.set_meta(rdf_store.BUILD_KEY, number + 1)
        db.set_meta("methods", list(self.methods))
        db.set_meta("models", self._models())
        db.set_meta("settings", {settings_scope(name): self.settings.get(settings_scope(name), {}) for name in STEPS})
        files = (refreshed.read, refreshed.unchanged, refreshed.removed, tuple(refreshed.skipped))
        partial = tuple(refreshed.partial)
        spent, saved, seconds = dict(self.budget.spent), dict(self.budget.saved), perf_counter() - start
        return Built(
            *files, rows_before, row_counts(db), ledger.rows_written, db.failures(), seconds, spent, saved, (), partial
        )

    @property
    def steps(self) -> dict[str, Signature]:
        """Return the steps behind the tables of the methods."""
        needed_steps = upstream_steps(table for name in self.methods for table in METHODS[name].tables)
        return {name: step for name, step in STEPS.items() if name in needed_steps}

    def _values(self) -> dict[str, dict[str, object]]:
        return {name: settings_for_step(name, self.settings) for name in self.steps}

    def _ports(self, step: str) -> dict[str, Port]:
        return {"tokenizer": self.tokenizer} | ({"llm": self._llm(step)} if step in self.llm_steps else {})

    def _llm(self, step: str) -> CachedLLM:
        """Return the LLM of a step.

        Raises SettingsError without a model, with the names of the steps that need one.
        """
        try:
            return self.llm_for(settings_scope(step))
        except SettingsError as error:
            blocked = " and ".join(steps_without_llm(self.models, self.steps))
            raise SettingsError(f"writing {blocked} needs a chat model: {SET_MODEL_HINT}") from error

    def _models(self) -> dict[str, str]:
        optional_llm = [name for name, step in self.steps.items() if "llm" in step.ports]
        step_models = {
            name: self.llm_for(settings_scope(name)).fingerprint if name in self.llm_steps else RULES
            for name in optional_llm
        }
        embedder = {"embedder": self.embedder.fingerprint} if self._vectors() else {}
        return embedder | {"tokenizer": self.tokenizer.fingerprint} | step_models

    def _views(self) -> list[SearchIndex]:
        """Return the search indexes of the methods."""
        db, tables = as_db(self.db), self._searched_tables("keyword_search")
        return [*(KeywordIndex(db, table, codec(RECORD_TYPES[table])) for table in tables), *self._vectors()]

    def _vectors(self) -> list[VectorIndex]:
        db, tables = as_db(self.db), self._searched_tables("vector_search")
        return [VectorIndex(db, self.folder, table, codec(RECORD_TYPES[table]), self.embedder) for table in tables]

    def _searched_tables(self, port: str) -> list[str]:
        """Return the tables that the methods search with this port."""
        methods = (METHODS[name] for name in self.methods if port in METHODS[name].ports)
        return list(dict.fromkeys(table for m in methods for table in m.tables if RECORD_TYPES[table].SEARCHABLE))

    @property
    def rule_based(self) -> tuple[str, ...]:
        """Return the methods to name for a graph made by the LLM.

        Empty if the LLM makes it already, or if the user has named methods.
        """
        rule_steps = [
            name for name, step in self.steps.items() if "llm" in step.optional_ports and name not in self.llm_steps
        ]
        llm_available = any(self.models.chat(settings_scope(name)) for name in rule_steps)
        return _GRAPH_METHODS if llm_available and list(self.methods) == free_methods(self.models) else ()

    # -- costs

    def changes(self) -> list[str]:
        """Return a description of each paid result to be made again."""
        steps, db = self.steps, self.db
        current = fingerprints(steps, settings=self._values(), ports=self._ports, code=table_code())
        stored = db.fingerprints()
        changed = {name for name in steps if name in stored and stored[name] != current[name]}
        paid_steps = downstream_steps(self.llm_steps) & downstream_steps(
            [name for name, model in db.meta("models", {}).items() if model != RULES]
        )
        remade = ", ".join(name for name in steps if name in changed & paid_steps)
        descriptions = [f"{remade} would be asked for again"] if remade else []
        if self.models.paid_embedder:
            embedded = [view.table for view in self._vectors() if view.table in changed]
            descriptions += [f"{table} would be embedded again where they change" for table in embedded]
        return descriptions + self.embedder_changes()

    def embedder_changes(self) -> list[str]:
        """Return a description of each table embedded by another model."""
        models = {view.table: (self.db.meta(view.name) or {}).get("embedder") for view in self._vectors()}
        new = self.embedder.fingerprint
        changed = {table: old for table, old in models.items() if old not in (None, new)}
        return [f"{table} were embedded by {old}, and would be by {new}" for table, old in changed.items()]

    def would_pay_again(self) -> bool:
        """Return whether it repeats paid requests that are not cached."""
        dry_models = DryRunModels(self.models, self.tokenizer, models_by_scope(self.db))
        failing = sum(step.startswith("vectors_") for step, _, _ in self.db.failures())
        with_views = self.models.paid_embedder is not None
        replace(self._with_dry_models(dry_models), source_names=set(), pool=skip_failed).dry_run(with_views=with_views)
        texts = dry_models.tallies[EMBEDDING].texts if EMBEDDING in dry_models.tallies else 0
        return texts > failing or any(tally.calls for step, tally in dry_models.tallies.items() if step != EMBEDDING)

    def plan(self, sample: int = 0) -> Plan:
        """Estimate the requests of `run` by a dry run.

        The dry run answers from the cache alone. sample: process this many chunks with real calls for a better
        estimate.
        """
        past = self._run_sample(sample) if sample else {}
        dry_models = DryRunModels(self.models, self.tokenizer, models_by_scope(self.db))
        self._with_dry_models(dry_models).dry_run()
        spent = self.models.cache().usage() if dry_models.tallies else []
        return estimate_plan(
            dry_models.tallies, self._llm_dependencies(), usage_history(spent, dry_models.tallies) | past, spent
        )

    def _with_dry_models(self, dry_models: DryRunModels) -> Build:
        return replace(
            self, llm_for=dry_models.llm, embedder=dry_models.embedder(), pool=inline, budget=Budget(), progress=None
        )

    def _run_sample(self, size: int) -> dict[str, PastUsage]:
        documents = self.db.rows(ROOT)
        sample = SamplingPool(size, self.pool, lambda id: documents.get(id) is not None)
        replace(self, pool=sample).dry_run(with_views=False)
        return usage_from_sample(sample, self.budget)

    def dry_run(self, *, code: str = "", fingerprint: str = "", with_views: bool = True) -> None:
        """Run the build and roll it back."""
        try:
            with self.db.rolled_back():
                self.run(code=code, fingerprint=fingerprint, with_views=with_views)
        finally:
            remove_unused_files(as_db(self.db), self.folder)

    def _llm_dependencies(self) -> dict[str, list[str]]:
        """Return the LLM steps that each step depends on, directly or not."""
        dependencies: dict[str, list[str]] = {}
        for step in order_steps(self.steps):
            direct = [settings_scope(name) for name in step.inputs if name in self.llm_steps]
            indirect = [upstream for name in step.inputs for upstream in dependencies.get(settings_scope(name), [])]
            dependencies[settings_scope(step.name)] = list(dict.fromkeys([*direct, *indirect]))
        llm_scopes = [settings_scope(name) for name in self.steps if name in self.llm_steps]
        embedded = [view.table for view in self._vectors()]
        dependencies[EMBEDDING] = [
            name
            for name in llm_scopes
            if any(name in (table, *dependencies[settings_scope(table)]) for table in embedded)
        ]
        return dependencies


def require_consent(build: Build, consent: bool | Consent, *, rebuild: bool = False) -> None:
    """Raise ConsentRequired if the build would pay again without consent."""
    may_cost = not build.llm_steps.isdisjoint(build.steps) or build.models.paid_embedder
    changes = build.changes() or (["every table would be built again"] if rebuild and may_cost else [])
    if not changes or consent is True:
        return
    free_replacement = build.embedder_changes() and not build.models.paid_embedder  # possibly by accident
    if not free_replacement and not rebuild and not build.would_pay_again():
        return
    plan = build.plan()
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
    raise ConsentRequired(f"{'; '.join(changes)}: {calls} calls. Nothing was changed: {remedy}")


def free_methods(models: ModelRegistry) -> list[str]:
    """Return the methods that cost nothing to build."""
    embedding_is_paid = models.paid_embedder is not None
    llm_steps = steps_using_llm(models)
    return [
        name
        for name, method in METHODS.items()
        if not (embedding_is_paid and "vector_search" in method.ports)
        and llm_steps.isdisjoint(upstream_steps(method.tables))
    ]


def skipped_methods(models: ModelRegistry, methods: Sequence[str]) -> tuple[str, ...]:
    """Return the paid methods that could be built too.

    Empty unless the build is for all free methods.
    """
    if list(methods) != free_methods(models):
        return ()
    return tuple(name for name, m in METHODS.items() if name not in methods and not steps_without_llm(models, m.tables))


def models_by_scope(db: IndexTransaction) -> dict[str, str]:
    """Return the model that made each table, by scope."""
    return {
        settings_scope(name): model for name, model in db.meta("models", {}).items() if name in STEPS and model != RULES
    }


def steps_using_llm(
    models: ModelRegistry, previous_models: Mapping[str, str] | None = None, *, methods_named: bool = False
) -> frozenset[str]:
    """Return the steps that call an LLM.

    A step with an optional LLM calls it if the user named methods and a model is set, or if a model made its table
    before. The others work by rule. previous_models: the maker of each table. methods_named: whether the user named
    methods.
    """
    previous_models = previous_models or {}

    def calls_llm(name: str) -> bool:
        if "llm" not in STEPS[name].optional_ports:
            return True
        if models.uses_rules(settings_scope(name)):
            return False
        return previous_models.get(name, RULES) != RULES or (
            methods_named and models.chat(settings_scope(name)) is not None
        )

    return frozenset(name for name, step in STEPS.items() if "llm" in step.ports and calls_llm(name))


_OUTPUT_LIBRARIES = (  # libraries with an effect on the tables
    "charset-normalizer",
    "json-repair",
    "numpy",
    "nupunkt",
    "pydantic",
    "pypdf",
    "pypdfium2",
    "python-calamine",
    "python-docx",
    "python-pptx",
    "pyyaml",
    "selectolax",
    "tokenizers",
    "trafilatura",
    "wordllama",
)


def table_code() -> str:
    """Return the hash of the code behind the tables."""
    return code_digest("core", "text", "readers", "storage", "llm", "search", "index")


@cache
def code_digest(*rooms: str) -> str:
    """Return a hash of code, prompts, word lists and libraries.

    rooms: folders of this package.
    """
    package = Path(__file__).parents[1]
    files = sorted(path for room in rooms for end in ("py", "md", "tsv") for path in (package / room).rglob(f"*.{end}"))
    libraries = [f"{name} {_version(name)}" for name in _OUTPUT_LIBRARIES] + [unidata_version]
    return hash_parts(*libraries, *(part for path in files for part in (path.name, path.read_text(encoding="utf-8"))))


def _version(library: str) -> str:
    """Return the version of a library, or "none".

    A file that needs a missing library is read once it is installed.
    """
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(library)
    except PackageNotFoundError:
        return "none"
