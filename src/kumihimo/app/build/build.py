"""one write transaction -> Build: update tables and views, or estimate the cost."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import cast

from kumihimo.app.build.progress import add_shares, stop_when_cancelled
from kumihimo.app.opened.catalogue import row_counts, steps_without_llm
from kumihimo.app.opened.results import Built
from kumihimo.app.settings.trust import TrustGrant, file_grants, require_trust
from kumihimo.core import context, digests, signature
from kumihimo.core.code_fingerprint import code_fingerprint
from kumihimo.core.engine import CodeFingerprint, build_tables, watch_tables
from kumihimo.core.errors import SettingsError, describe_unknown
from kumihimo.core.executors import BuildExecutor, inline
from kumihimo.core.settings import SettingValues
from kumihimo.core.table import codec
from kumihimo.core.task import Pool, Progress
from kumihimo.core.wiring import ROOT, Catalogue, Port, Step
from kumihimo.index.documents import RefreshResult, refresh_documents
from kumihimo.index.sources import IndexedSource
from kumihimo.llm import cached_llm, protocols, telemetry
from kumihimo.llm.budget import Budget
from kumihimo.llm.registry import RULES, SET_MODEL_HINT, ModelRegistry
from kumihimo.rdf import store as rdf_store
from kumihimo.readers.documents import read_documents
from kumihimo.readers.limits import ReadingLimits
from kumihimo.search.fulltext import KeywordIndex, SearchIndex, maintain_indexes
from kumihimo.search.vectors import VectorIndex, remove_unused_files
from kumihimo.storage.database import Database
from kumihimo.storage.ledger import SqlLedger

_GRAPH_METHODS = ("braid", "global", "local")  # the main users of the graph
_DEFAULT_METHODS = ("braid", "bm25", "naive")  # the others build their tables when first used


@dataclass(frozen=True)
class Build:
    """A build of one index, with the models of `llm_for` and `embedder_for`.

    sources: all sources of the index; source_names: the sources to read again. methods: the methods to build for.
    llm_steps: the steps that call an LLM; the others work by rule. from_scratch: steps that ignore their previous rows.
    """

    db: Database
    catalogue: Catalogue
    folder: Path
    settings: SettingValues
    models: ModelRegistry
    tokenizer: context.Tokenizer
    sources: dict[str, IndexedSource]
    source_names: set[str]
    methods: Sequence[str]
    budget: Budget
    llm_steps: frozenset[str]
    llm_for: Callable[[str], cached_llm.StructuredLLM]  # scope of a step -> its LLM
    embedder_for: Callable[[str], protocols.Embedder]  # table -> the embedder of its rows
    pool: Pool
    executor: BuildExecutor = inline
    progress: Progress | None = None
    reread: bool = False
    from_scratch: frozenset[str] = frozenset()
    rebuild: bool = False
    named: Sequence[TrustGrant] = ()  # what the paths of this build need: its user has just named them

    def run(self, *, code: CodeFingerprint | None = None, fingerprint: str = "", with_views: bool = True) -> Built:
        """Update all tables and views.

        code, fingerprint: of the steps and of the views, if not the current ones. with_views: update the views too.
        """
        start, db, catalogue = perf_counter(), self.db, self.catalogue
        code, fingerprint = code or self.code, fingerprint or view_code()
        rows_before = row_counts(db, catalogue)
        self._remove_unused_files()
        rdf_store.remove_old_stores(self.folder, number := db.meta(rdf_store.BUILD_KEY, 0))
        ledger = SqlLedger(db)
        watch_tables(self.steps, ledger)
        views = self.search_indexes() if with_views else []
        with (
            telemetry.build_span(self._progress_of_whole(views)) as progress,
            maintain_indexes(ledger, views, fingerprint, progress, self.executor),
        ):
            refreshed = self._refresh_documents(ledger, code, progress)
            build_tables(
                self.steps,
                ledger,
                settings=self.step_settings(),
                ports=self.ports,
                code=code,
                pool=self.pool,
                executor=self.executor,
                progress=progress,
                from_scratch=self.from_scratch,
                cancel=self.budget.cancel,
            )
        if ledger.rows_written or row_counts(db, catalogue) != rows_before:
            db.set_meta(rdf_store.BUILD_KEY, number + 1)
        self._save_meta()
        return Built(
            read=refreshed.read,
            new=refreshed.new,
            changed=refreshed.changed,
            unchanged=refreshed.unchanged,
            removed=refreshed.removed,
            skipped=tuple(refreshed.skipped),
            partial=tuple(refreshed.partial),
            empty=tuple(refreshed.empty),
            before=rows_before,
            rows=row_counts(db, catalogue),
            written=ledger.rows_written,
            failed=db.failures(),
            seconds=perf_counter() - start,
            spent=dict(self.budget.spent),
            saved=dict(self.budget.saved),
        )

    def _refresh_documents(self, ledger: SqlLedger, code: CodeFingerprint, progress: Progress | None) -> RefreshResult:
        return refresh_documents(
            ledger,
            self.sources.values(),
            self.source_names,
            require_trust=self._require_trust,
            readers=self.catalogue.readers,
            code=code,
            limits=ReadingLimits(**cast(dict[str, int], self.settings["reading"])),
            reread=self.reread,
            progress=progress,
            executor=self.executor,
        )

    def _require_trust(self, paths: Iterable[Path]) -> None:
        """Raise TrustRequired for paths that the user never named."""
        grants = [grant for grant in file_grants(self.folder, paths) if grant not in self.named]
        require_trust(self.folder, grants, os.environ)

    def _progress_of_whole(self, views: Sequence[SearchIndex]) -> Progress | None:
        """Return the receiver of progress, with the shares of the whole build."""
        steps = [ROOT, *(step.name for step in self.steps), *(f"{view.kind} of {view.table}" for view in views)]
        return stop_when_cancelled(add_shares(self.progress, steps, self.llm_steps), self.budget.cancel)

    def _save_meta(self) -> None:
        """Store the methods, models, settings and plug-ins of this build."""
        used = [*self.methods, *(step.name for step in self.steps)]
        origins = self.catalogue.origins
        scopes = dict.fromkeys(step.scope for step in self.catalogue.steps.values())
        self.db.set_meta("methods", list(self.methods))
        self.db.set_meta("models", self._models())
        self.db.set_meta("settings", {scope: self.settings.get(scope, {}) for scope in scopes})
        self.db.set_meta("origins", {name: origins[name] for name in used if name in origins})

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Return the steps behind the tables, in the order they run.

        An optional table is built too if all its inputs are. A step whose setting is off is left out.
        """
        methods = [self.catalogue.methods[name] for name in self.methods]
        needed = self.catalogue.upstream_steps(table for method in methods for table in method.tables)
        optional = {table for method in methods for table in method.optional_tables}
        return tuple(
            step
            for step in self.catalogue.order
            if step.name in needed or (step.name in optional and needed.issuperset(step.inputs))
        )

    @property
    def may_cost(self) -> bool:
        """Return whether it may call an LLM or a paid embedder."""
        calls_llm = not self.llm_steps.isdisjoint(step.name for step in self.steps)
        return calls_llm or (self.models.paid_embedder is not None and bool(self.vector_indexes()))

    def code(self, name: str) -> str:
        """Return a hash of the code behind a table or a suffix.

        Prompts and libraries count too. A reader that changed makes its files read again, and the difference drives the
        steps, so the code of the readers does not count for the table of documents.
        """
        if name == ROOT:
            return ""
        if name in self.catalogue.steps:
            return code_fingerprint(self.catalogue.steps[name].function)
        file_type = self.catalogue.readers[name]
        file_types = self.catalogue.readers.values() if file_type.has_attachments else [file_type]
        return digests.hash_parts(
            code_fingerprint(read_documents), *(code_fingerprint(each.read) for each in file_types)
        )

    def step_settings(self) -> dict[str, dict[str, object]]:
        return {step.name: self.catalogue.settings_for_step(step.name, self.settings) for step in self.steps}

    def ports(self, step: str) -> dict[str, Port]:
        ports: dict[str, Port] = {"tokenizer": self.tokenizer}
        ports |= {"llm": self._llm(step)} if step in self.llm_steps else {}
        return ports | ({"recognizer": self.catalogue.recognizer} if self.catalogue.recognizer else {})

    def _llm(self, step: str) -> cached_llm.StructuredLLM:
        """Return the LLM of a step.

        Raises SettingsError without a model, with the names of the steps that need one.
        """
        try:
            return self.llm_for(self.catalogue.scope(step))
        except SettingsError as error:
            blocked = " and ".join(steps_without_llm(self.catalogue, self.models, [s.name for s in self.steps]))
            raise SettingsError(f"writing {blocked} needs a chat model: {SET_MODEL_HINT}") from error

    def _models(self) -> dict[str, str]:
        step_models = {
            step.name: self.llm_for(step.scope).fingerprint if step.name in self.llm_steps else RULES
            for step in self.steps
            if "llm" in step.signature.ports
        }
        embedders = ", ".join(dict.fromkeys(view.embedder.fingerprint for view in self.vector_indexes()))
        embedder = {"embedder": embedders} if embedders else {}
        recognizer = self.catalogue.recognizer
        step_models |= (
            {"names": recognizer.fingerprint} if recognizer and "names" in {s.name for s in self.steps} else {}
        )
        return embedder | {"tokenizer": self.tokenizer.fingerprint} | step_models

    def search_indexes(self) -> list[SearchIndex]:
        """Return the search indexes of the methods."""
        db, tables = self.db, self._searched_tables("keyword_search", "words")
        return [
            *(KeywordIndex(db, table, codec(self.catalogue.record_types[table])) for table in tables),
            *self.vector_indexes(),
        ]

    def vector_indexes(self) -> list[VectorIndex]:
        db, tables = self.db, self._searched_tables("vector_search", "vectors")
        kinds = self.catalogue.record_types
        known = [name for name, kind in kinds.items() if "vectors" in kind.SEARCHED_BY]
        for name in self.models.embedding_tables:
            if name not in known:
                raise SettingsError(f"embedding.tables: {describe_unknown('searchable table', name, known)}")
        return [
            VectorIndex(db, self.folder, table, codec(kinds[table]), self.embedder_for(table), self.executor)
            for table in tables
        ]

    def _searched_tables(self, port: str, index: str) -> list[str]:
        """Return the tables that the methods search with this port."""
        methods = [self.catalogue.methods[name] for name in self.methods]
        tables = dict.fromkeys(table for method in methods if port in method.ports for table in method.tables)
        return [table for table in tables if index in self.catalogue.record_types[table].SEARCHED_BY]

    @property
    def rule_based(self) -> tuple[str, ...]:
        """Return the methods to name for a graph made by the LLM.

        Empty if the LLM makes it already, or if the user has named methods.
        """
        llm_available = any(
            "llm" in step.signature.optional_ports
            and step.name not in self.llm_steps
            and self.models.chat(step.scope) is not None
            for step in self.steps
        )
        by_default = list(self.methods) == default_methods(self.catalogue, self.models)
        return _GRAPH_METHODS if llm_available and by_default else ()

    def dry_run(
        self,
        *,
        code: CodeFingerprint | None = None,
        fingerprint: str = "",
        with_views: bool = True,
    ) -> None:
        """Run the build and roll it back."""
        try:
            with self.db.rolled_back():
                self.run(code=code, fingerprint=fingerprint, with_views=with_views)
        finally:
            self._remove_unused_files()

    def _remove_unused_files(self) -> None:
        """Remove the files of earlier builds.

        A rebuild leaves them to the next build: readers need them until it is done.
        """
        if not self.rebuild:
            remove_unused_files(self.db, self.folder)


def default_methods(catalogue: Catalogue, models: ModelRegistry) -> list[str]:
    """Return the methods that an index is built for at first."""
    return [name for name in free_methods(catalogue, models) if name in _DEFAULT_METHODS]


def free_methods(catalogue: Catalogue, models: ModelRegistry) -> list[str]:
    """Return the methods that cost nothing to build."""
    embedding_is_paid = models.paid_embedder is not None
    llm_steps = steps_using_llm(catalogue, models)
    return [
        name
        for name, method in catalogue.methods.items()
        if not (embedding_is_paid and "vector_search" in method.ports)
        and llm_steps.isdisjoint(catalogue.upstream_steps(method.tables))
    ]


def skipped_methods(catalogue: Catalogue, models: ModelRegistry, methods: Sequence[str]) -> tuple[str, ...]:
    """Return the paid methods that could be built too.

    Empty unless the build is for the default methods.
    """
    if list(methods) != default_methods(catalogue, models):
        return ()
    free = free_methods(catalogue, models)
    return tuple(
        name
        for name, method in catalogue.methods.items()
        if name not in free and not steps_without_llm(catalogue, models, method.tables)
    )


def models_by_scope(db: Database, catalogue: Catalogue) -> dict[str, str]:
    """Return the model that made each table, by scope."""
    models: dict[str, str] = db.meta("models", {})
    return {catalogue.scope(name): m for name, m in models.items() if name in catalogue.steps and m != RULES}


def steps_using_llm(
    catalogue: Catalogue,
    models: ModelRegistry,
    previous_models: Mapping[str, str] | None = None,
    *,
    methods_named: bool = False,
) -> frozenset[str]:
    """Return the steps that call an LLM.

    A step with an optional LLM calls it if the user named methods and a model is set, or if a model made a table of its
    scope before, or of the scope whose setting switches it on. The others work by rule. previous_models: the maker of
    each table. methods_named: whether the user named methods.
    """
    made_by_model = {catalogue.scope(name) for name, model in (previous_models or {}).items() if model != RULES}

    def calls_llm(step: signature.Signature) -> bool:
        if "llm" not in step.optional_ports:
            return True
        if models.uses_rules(step.scope):
            return False
        return step.scope in made_by_model or (methods_named and models.chat(step.scope) is not None)

    return frozenset(name for name, step in catalogue.steps.items() if "llm" in step.ports and calls_llm(step))


def view_code() -> str:
    """Return a hash of the code behind the search indexes."""
    services = ("kumihimo.storage", "kumihimo.llm")
    return digests.hash_parts(*(code_fingerprint(view, services) for view in (KeywordIndex, VectorIndex)))
