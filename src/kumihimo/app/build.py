"""one write transaction -> Build: the tables and views that are wanted, brought up to date, or what that would cost."""

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
from kumihimo.app.results import Built, Plan
from kumihimo.app.snapshot import RECORD_TYPES, failures, row_counts, steps_without_llm
from kumihimo.core.context import Tokenizer
from kumihimo.core.digests import hash_parts
from kumihimo.core.engine import build_tables, fingerprints, watch_tables
from kumihimo.core.errors import SettingsError
from kumihimo.core.settings import SettingValues
from kumihimo.core.signature import Signature
from kumihimo.core.table import codec
from kumihimo.core.task import Pool, Port, Progress, inline
from kumihimo.core.wiring import ROOT, order_steps
from kumihimo.index import STEPS, downstream_steps, settings_for_step, settings_scope, upstream_steps
from kumihimo.llm.budget import Budget
from kumihimo.llm.cached_llm import EMBEDDING, CachedLLM
from kumihimo.llm.protocols import Embedder
from kumihimo.llm.registry import RULES, SET_MODEL_HINT, ModelRegistry
from kumihimo.methods import METHODS
from kumihimo.rdf import store
from kumihimo.search.fulltext import KeywordIndex
from kumihimo.search.maintenance import SearchIndex, maintain_indexes
from kumihimo.search.vectors import VectorIndex, remove_unused_files
from kumihimo.storage.sqlite.ledger import SqlLedger
from kumihimo.storage.sqlite.store import Db, SqlRows

if TYPE_CHECKING:
    from kumihimo.index.documents import IndexedSource


_GRAPH_METHODS = ("braid", "global", "local")  # the methods that a graph is mostly made for


@dataclass(frozen=True, slots=True)
class Build:
    """A build of one index, by whichever models answer `ask` and `embedder`.

    known: all sources of the index; names: those to read again. wanted: the methods it is for. asked: the steps that
    ask a model; others that could do without. afresh: table steps that are to forget what they had made.
    """

    db: Db
    folder: Path
    settings: SettingValues
    models: ModelRegistry
    tokenizer: Tokenizer
    sources: dict[str, IndexedSource]
    source_names: set[str]
    methods: Sequence[str]
    budget: Budget
    llm_steps: frozenset[str]
    llm_for: Callable[[str], CachedLLM]  # of a step's scope
    embedder: Embedder
    pool: Pool
    progress: Progress | None = None
    reread: bool = False
    from_scratch: frozenset[str] = frozenset()

    def run(self, *, code: str = "", fingerprint: str = "", with_views: bool = True) -> Built:
        """Bring everything up to date. code, mark: of the steps and views, if not as they are; searched: views too."""
        from kumihimo.index.documents import refresh_documents

        began, db, steps = perf_counter(), self.db, self.steps
        code, fingerprint = code or table_code(), fingerprint or code_digest("core", "text", "search")
        before = row_counts(db)
        remove_unused_files(db, self.folder)
        store.remove_old_stores(self.folder, number := db.meta(store.BUILD_KEY, 0))
        ledger = SqlLedger(db)
        watch_tables(steps, ledger)
        with maintain_indexes(ledger, self._views() if with_views else [], fingerprint, self.progress):
            sources = self.sources.values()
            found = refresh_documents(
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
        if ledger.rows_written or row_counts(db) != before:
            db.set_meta(store.BUILD_KEY, number + 1)
        db.set_meta("methods", list(self.methods))
        db.set_meta("models", self._models())
        db.set_meta("settings", {settings_scope(name): self.settings.get(settings_scope(name), {}) for name in STEPS})
        files, partly = (found.read, found.unchanged, found.removed, tuple(found.skipped)), tuple(found.partial)
        spent, saved, seconds = dict(self.budget.spent), dict(self.budget.saved), perf_counter() - began
        return Built(
            *files, before, row_counts(db), ledger.rows_written, failures(db), seconds, spent, saved, (), partly
        )

    @property
    def steps(self) -> dict[str, Signature]:
        """Those whose tables the wanted methods read, or that make what those are made of."""
        wanted = upstream_steps(table for name in self.methods for table in METHODS[name].tables)
        return {name: step for name, step in STEPS.items() if name in wanted}

    def _values(self) -> dict[str, dict[str, object]]:
        return {name: settings_for_step(name, self.settings) for name in self.steps}

    def _ports(self, step: str) -> dict[str, Port]:
        return {"tokenizer": self.tokenizer} | ({"llm": self._llm(step)} if step in self.llm_steps else {})

    def _llm(self, step: str) -> CachedLLM:
        """Raises SettingsError where no model is set, naming all that need one."""
        try:
            return self.llm_for(settings_scope(step))
        except SettingsError as error:
            needy = " and ".join(steps_without_llm(self.models, self.steps))
            raise SettingsError(f"writing {needy} needs a chat model: {SET_MODEL_HINT}") from error

    def _models(self) -> dict[str, str]:
        could = [name for name, step in self.steps.items() if "llm" in step.ports]
        asking = {
            name: self.llm_for(settings_scope(name)).fingerprint if name in self.llm_steps else RULES for name in could
        }
        embedder = {"embedder": self.embedder.fingerprint} if self._vectors() else {}
        return embedder | {"tokenizer": self.tokenizer.fingerprint} | asking

    def _views(self) -> list[SearchIndex]:
        """What the wanted methods search."""
        asked = [METHODS[name] for name in self.methods]
        words = dict.fromkeys(
            table for s in asked if "keyword_search" in s.ports for table in s.tables if RECORD_TYPES[table].SEARCHABLE
        )
        return [*(KeywordIndex(self.db, table, codec(RECORD_TYPES[table])) for table in words), *self._vectors()]

    def _vectors(self) -> list[VectorIndex]:
        asked = [METHODS[name] for name in self.methods]
        tables = dict.fromkeys(
            table for s in asked if "vector_search" in s.ports for table in s.tables if RECORD_TYPES[table].SEARCHABLE
        )
        return [VectorIndex(self.db, self.folder, table, codec(RECORD_TYPES[table]), self.embedder) for table in tables]

    @property
    def rule_based(self) -> tuple[str, ...]:
        """The methods to name for the chat model to make the graph; none where it does, or somebody has named some."""
        could = [
            name for name, step in self.steps.items() if "llm" in step.optional_ports and name not in self.llm_steps
        ]
        asks = any(self.models.chat(settings_scope(name)) for name in could)
        return _GRAPH_METHODS if asks and list(self.methods) == free_methods(self.models) else ()

    # -- what it would cost

    def changes(self) -> list[str]:
        """What was paid for, and would be made by something else now."""
        steps, db = self.steps, self.db
        prints = fingerprints(steps, settings=self._values(), ports=self._ports, code=table_code())
        held: dict[str, str] = dict(db.all("SELECT step, fingerprint FROM steps WHERE fingerprint IS NOT NULL"))
        other = {name for name in steps if name in held and held[name] != prints[name]}
        paid = downstream_steps(self.llm_steps) & downstream_steps(
            [name for name, mark in db.meta("models", {}).items() if mark != RULES]
        )
        again = ", ".join(name for name in steps if name in other & paid)
        said = [f"{again} would be asked for again"] if again else []
        if self.models.paid_embedder:
            viewed = [view.table for view in self._vectors() if view.table in other]
            said += [f"{table} would be embedded again where they change" for table in viewed]
        return said + self.embedder_changes()

    def embedder_changes(self) -> list[str]:
        """What another model has embedded: all of it would be embedded anew."""
        made_with = {view.table: (self.db.meta(view.name) or {}).get("embedder") for view in self._vectors()}
        now = self.embedder.fingerprint
        others = {table: mark for table, mark in made_with.items() if mark not in (None, now)}
        return [f"{table} were embedded by {mark}, and would be by {now}" for table, mark in others.items()]

    def would_pay_again(self) -> bool:
        """Whether anything that was asked before would be asked again, and not be remembered."""
        tally = DryRunModels(self.models, self.tokenizer, models_by_scope(self.db))
        failing = sum(step.startswith("vectors_") for step, _, _ in failures(self.db))
        searched = self.models.paid_embedder is not None
        replace(self._with_dry_models(tally), source_names=set(), pool=skip_failed).dry_run(with_views=searched)
        texts = tally.tallies[EMBEDDING].texts if EMBEDDING in tally.tallies else 0
        return texts > failing or any(asked.calls for step, asked in tally.tallies.items() if step != EMBEDDING)

    def plan(self, sample: int = 0) -> Plan:
        """What `run` would ask, found by running it with models that answer from the memo alone; all is undone.

        sample: ask about so many chunks in earnest, to say more about the rest.
        """
        past = self._run_sample(sample) if sample else {}
        tally = DryRunModels(self.models, self.tokenizer, models_by_scope(self.db))
        self._with_dry_models(tally).dry_run()
        spent = self.models.cache().usage() if tally.tallies else []
        return estimate_plan(tally.tallies, self._llm_dependencies(), usage_history(spent, tally.tallies) | past, spent)

    def _with_dry_models(self, tally: DryRunModels) -> Build:
        return replace(self, llm_for=tally.llm, embedder=tally.embedder(), pool=inline, budget=Budget(), progress=None)

    def _run_sample(self, size: int) -> dict[str, PastUsage]:
        documents = SqlRows(self.db, ROOT)
        sample = SamplingPool(size, self.pool, lambda id: documents.get(id) is not None)
        replace(self, pool=sample).dry_run(with_views=False)
        return usage_from_sample(sample, self.budget)

    def dry_run(self, *, code: str = "", fingerprint: str = "", with_views: bool = True) -> None:
        """Run it, and take back all that it did."""
        self.db.run("SAVEPOINT dry")
        try:
            self.run(code=code, fingerprint=fingerprint, with_views=with_views)
        finally:
            self.db.run("ROLLBACK TO dry")
            self.db.run("RELEASE dry")
            remove_unused_files(self.db, self.folder)

    def _llm_dependencies(self) -> dict[str, list[str]]:
        """Of each step the steps that ask, among those it is made of, however far back."""
        reads: dict[str, list[str]] = {}
        for step in order_steps(self.steps):
            near = [settings_scope(name) for name in step.inputs if name in self.llm_steps]
            far = [r for name in step.inputs for r in reads.get(settings_scope(name), [])]
            reads[settings_scope(step.name)] = list(dict.fromkeys([*near, *far]))
        asks = [settings_scope(name) for name in self.steps if name in self.llm_steps]
        viewed = [view.table for view in self._vectors()]
        reads[EMBEDDING] = [name for name in asks if any(name in (table, *reads[table]) for table in viewed)]
        return reads


def free_methods(models: ModelRegistry) -> list[str]:
    """The methods whose tables and views cost nothing to build."""
    embeds = models.paid_embedder is not None
    asked = steps_using_llm(models)
    return [
        name
        for name, method in METHODS.items()
        if not (embeds and "vector_search" in method.ports) and asked.isdisjoint(upstream_steps(method.tables))
    ]


def skipped_methods(models: ModelRegistry, methods: Sequence[str]) -> tuple[str, ...]:
    """The methods that are not among those that cost nothing, and could be built for."""
    if list(methods) != free_methods(models):
        return ()
    return tuple(name for name, m in METHODS.items() if name not in methods and not steps_without_llm(models, m.tables))


def models_by_scope(db: Db) -> dict[str, str]:
    """Of each scope whose table a model has made, the mark of that model."""
    return {
        settings_scope(name): mark for name, mark in db.meta("models", {}).items() if name in STEPS and mark != RULES
    }


def steps_using_llm(
    models: ModelRegistry, previous_models: Mapping[str, str] | None = None, *, methods_named: bool = False
) -> frozenset[str]:
    """The steps that ask a model: of those that can do without, the ones that have one where methods are named, and
    those that were made by one before. The others make their tables by rule.

    before: by what each was made. named: somebody has said for which methods this build is.
    """
    previous_models = previous_models or {}

    def asks(name: str) -> bool:
        if "llm" not in STEPS[name].optional_ports:
            return True
        if models.uses_rules(settings_scope(name)):
            return False
        return previous_models.get(name, RULES) != RULES or (
            methods_named and models.chat(settings_scope(name)) is not None
        )

    return frozenset(name for name, step in STEPS.items() if "llm" in step.ports and asks(name))


_OUTPUT_LIBRARIES = (  # what is in a table, too
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
    """The digest of what makes tables."""
    return code_digest("core", "text", "readers", "storage", "llm", "search", "index")


@cache
def code_digest(*rooms: str) -> str:
    """The digest of the code, prompts and lists in these rooms, and of the libraries that decide what they make."""
    house = Path(__file__).parents[1]
    files = sorted(path for room in rooms for end in ("py", "md", "tsv") for path in (house / room).rglob(f"*.{end}"))
    libraries = [f"{name} {_version(name)}" for name in _OUTPUT_LIBRARIES] + [unidata_version]
    return hash_parts(*libraries, *(part for path in files for part in (path.name, path.read_text(encoding="utf-8"))))


def _version(library: str) -> str:
    """None where it is not installed: what only it can read is read once it is."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(library)
    except PackageNotFoundError:
        return "none"
