"""a folder -> Kumihimo: index, remove, ask, retrieve, trace, status. Every interface uses only this."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kumihimo.app import config, settings_registry
from kumihimo.app.results import Built, Plan, Solutions, Status
from kumihimo.app.snapshot import Snapshot, failures, get_method, partial_documents, row_counts
from kumihimo.core.context import Answer, Context
from kumihimo.core.errors import ConsentRequired, IndexUnavailable, SourceError
from kumihimo.core.records import Reference
from kumihimo.core.settings import SettingValues, resolve_settings
from kumihimo.core.spans import Span
from kumihimo.core.task import Progress, inline
from kumihimo.llm.budget import Budget, Caps
from kumihimo.llm.concurrency import iterate_tokens, thread_pool
from kumihimo.llm.local_embedder import LocalTokenizer
from kumihimo.llm.protocols import TokenCallback
from kumihimo.llm.registry import ModelRegistry
from kumihimo.search.vectors import MappedFiles, load_matrices
from kumihimo.storage.sqlite.response_cache import ResponseCache, UsageEntry
from kumihimo.storage.sqlite.store import Db, Store

if TYPE_CHECKING:
    from kumihimo.app.build import Build
    from kumihimo.index.documents import IndexedSource

Consent = Callable[[Plan, Sequence[str]], bool]  # a plan, and what would be paid for again -> whether to go on


class Kumihimo:
    """One index.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     note = Path(folder, "note.txt")
    ...     _ = note.write_text("The ferry leaves at nine. The harbour office opens at eight.")
    ...     with Kumihimo.open(Path(folder, ".kumi")) as kumi:
    ...         built = kumi.index(note)
    ...         print(kumi.ask("When does the ferry leave?").text)
    “The ferry leaves at nine.” [1]
    """

    def __init__(self, folder: str | Path, *settings: SettingValues, cache: str | Path | None = None) -> None:
        self.folder = Path(folder)
        values = resolve_settings(settings_registry.ALL_SETTINGS, *map(config.fields_to_settings, settings))
        self.settings = settings_registry.own_settings(values)
        self.models = ModelRegistry(settings_registry.model_settings(values), lambda: self.cache)
        self.store = Store(self.folder)
        self.tokenizer = LocalTokenizer()
        self._cache_path = Path(cache) if cache else self.folder / "cache.db"
        self._files: MappedFiles = {}

    @classmethod
    def open(
        cls, folder: str | Path = ".kumi", *, settings: SettingValues | None = None, cache: str | Path | None = None
    ) -> Kumihimo:
        """The index in that folder, made when first indexed into.

        settings: over those of kumi.toml and aliases.txt beside it, and of the environment. memo: the file of what
        models have said, if not cache.db in the folder.
        """
        beside = Path(folder).resolve().parent / "kumi.toml"
        environment = config.read_environment(settings_registry.ALL_SETTINGS, os.environ)
        cache = cache or os.environ.get("KUMI_CACHE") or None
        merged = config.read_aliases(beside.with_name("aliases.txt"))
        return cls(folder, config.read_settings_file(beside), merged, environment, settings or {}, cache=cache)

    def __enter__(self) -> Kumihimo:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.store.close()
        if memo := self.__dict__.pop("remembered", None):
            memo.close()

    # -- building

    def index(
        self,
        *paths: str | Path,
        methods: Sequence[str] = (),
        wait: bool = False,
        reread: bool = False,
        recluster: bool = False,
        caps: Caps | None = None,
        consent: bool | Consent = False,
        progress: Progress | None = None,
    ) -> Built:
        """Add or refresh these files and folders; with none, refresh all that the index remembers.

        methods: those to build for, remembered (first: all that cost nothing). wait: for another build to end, else
        Busy is raised. check: read files again even where size and time are the same. regroup: find the communities
        anew, whatever they were. caps: what may be spent.
        consent: to pay again for what was paid before, where a model, a prompt or a setting has changed; asked with the
        plan if it is a function. Without it NeedsConsent is raised, and nothing changes.
        """
        from kumihimo.app.build import skipped_methods

        places, purse = self._absolute_paths(paths, methods), self.models.budget(caps)
        with self.store.write_transaction(wait=wait) as db:
            build = self._build(db, places, methods, purse, progress, reread=reread)
            build = replace(build, from_scratch=frozenset({"communities"} if recluster else ()))
            self._require_consent(build, consent)
            built = self._run_build(build)
        return (
            built
            if methods
            else replace(
                built, skipped_methods=skipped_methods(self.models, build.methods), rule_based=build.rule_based
            )
        )

    def plan(
        self, *paths: str | Path, methods: Sequence[str] = (), sample: int = 0, progress: Progress | None = None
    ) -> Plan:
        """What `index` with the same paths and methods would ask of models, and cost. Nothing is built.

        sample: ask about so many chunks in earnest, to say more about the rest; what is paid for is remembered.
        """
        places, plan, new = self._absolute_paths(paths, methods), Plan(()), not self.folder.exists()
        with suppress(_RollBack), self.store.write_transaction() as db:
            build = self._build(db, places, methods, self.models.budget(), progress)
            plan = replace(build.plan(sample), rule_based=build.rule_based)
            raise _RollBack
        if new and not self.cache_stats()["replies"]:
            from shutil import rmtree

            self.close()
            rmtree(self.folder)
        return plan

    def estimate_query_cost(self, method: str = "", question: str = "", *, filter: str = "", **settings: Any) -> Plan:
        """What `ask` would ask of models, and cost, from the least to the most; nobody is asked. A question of some
        kind is taken where there is none."""
        from kumihimo.app.estimate_query_cost import estimate_query_cost

        with self.snapshot() as reading:
            return estimate_query_cost(reading, question, method, filter=filter, **settings)

    def remove(
        self, target: str | Path, *, forget: bool = False, wait: bool = False, progress: Progress | None = None
    ) -> Built:
        """Take out a source (by name or path), or documents (by uri or path), until they are indexed by name again.

        forget: also erase from the memo what only they needed.
        """
        from kumihimo.index.documents import remove_source

        with self.store.read_transaction():
            pass  # where there is no index, nothing is made
        with self.store.write_transaction(wait=wait) as db:
            build = self._build(db, (), (), self.models.budget(), progress)
            build = replace(build, source_names=remove_source(db, build.sources, str(target)))
            self._require_consent(build, False)
            built = self._run_build(build)
        if forget:
            self.prune(wait=wait)
        return built

    def _absolute_paths(self, paths: Sequence[str | Path], methods: Sequence[str]) -> list[Path]:
        """The paths, whole. Raises SourceError, SettingsError, before anything is made."""
        from kumihimo.index.documents import resolve_source_path

        for name in methods:
            get_method(name)
        if not paths and not self.store.path.exists():
            raise SourceError("nothing to index yet: say which folder, `kumi index PATH`")
        return [resolve_source_path(path) for path in paths]

    def _build(
        self,
        db: Db,
        paths: Sequence[Path],
        methods: Sequence[str],
        budget: Budget,
        progress: Progress | None = None,
        *,
        reread: bool = False,
    ) -> Build:
        """The build of these paths, or of all that is known, for these methods, or those that are remembered."""
        from kumihimo.app.build import Build, free_methods, models_by_scope, steps_using_llm
        from kumihimo.index.documents import add_source_paths

        known = self._sources(db)
        names = add_source_paths(known, paths) or set(known)
        if not known:
            raise SourceError("nothing to index yet: say which folder, `kumi index PATH`")
        made_by = models_by_scope(db)
        wanted = list(methods) or db.meta("methods") or free_methods(self.models)
        return Build(
            db,
            self.folder,
            self.settings,
            self.models,
            self.tokenizer,
            known,
            names,
            wanted,
            budget,
            llm_steps=steps_using_llm(self.models, db.meta("models", {}), methods_named=bool(methods)),
            llm_for=lambda step: self.models.llm(step, budget, made_by.get(step, "")),
            embedder=self.models.embedder(budget),
            pool=thread_pool(self.models.workers),
            progress=progress,
            reread=reread,
        )

    def _require_consent(self, build: Build, consent: bool | Consent) -> None:
        """Raises NeedsConsent where the build would pay again for what was paid before, and nobody has agreed."""
        changes = build.changes()
        if not changes or consent is True:
            return
        replaced = build.embedder_changes() and not self.models.paid_embedder  # nobody need have meant that
        if not replaced and not build.would_pay_again():
            return
        plan = build.plan()
        if consent and consent(plan, changes):
            return
        low, high = (f"{calls:,.0f}" for calls in plan.calls)
        raise ConsentRequired(
            f"{'; '.join(changes)}: {low if low == high else f'{low} to {high}'} calls. Nothing was changed: "
            "`kumi plan` says what it costs, `kumi index --yes` does it, the settings as they were avoid it"
        )

    def _run_build(self, build: Build) -> Built:
        """Run it, and remember what it was made from."""
        built = build.run()
        sources = {s.name: [self._relative(s.path), list(s.rules)] for s in build.sources.values()}
        build.db.set_meta("sources", sources)
        return built

    def _sources(self, db: Db) -> dict[str, IndexedSource]:
        from kumihimo.index.documents import IndexedSource

        base = self.folder.resolve().parent
        held = db.meta("sources", {})
        return {name: IndexedSource(name, base / path, tuple(rules)) for name, (path, rules) in held.items()}

    def _relative(self, path: Path) -> str:
        """The path as it is remembered: relative where it lies beside the index, so that both can be moved."""
        with suppress(ValueError):
            return path.relative_to(self.folder.resolve().parent).as_posix()
        return str(path)

    # -- reading

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """One read transaction: all that is asked within sees the same finished build."""
        for _ in range(5):
            with self.store.read_transaction() as db:
                try:
                    vectors = load_matrices(db, self.folder, self._files)
                except FileNotFoundError:  # a build has just replaced them: begin again, and see what it made
                    continue
                yield Snapshot(db, self.settings, self.models, self.tokenizer, vectors)
                return
        raise IndexUnavailable(f"the vectors of {self.folder} are missing: `kumi index` makes them again")

    def retrieve(self, question: str, method: str = "", *, filter: str = "", **settings: Any) -> Context:
        """What the method finds, best first; settings are the method's own, such as k=5.

        where: in which documents, by their metadata, such as `author = "Sabine Orrell" and date >= 2024`.
        """
        with self.snapshot() as reading:
            return reading.retrieve(question, method, filter=filter, **settings)

    def ask(
        self,
        question: str,
        method: str = "",
        *,
        filter: str = "",
        history: Sequence[Answer] = (),
        caps: Caps | None = None,
        on_token: TokenCallback | None = None,
        **settings: Any,
    ) -> Answer:
        """The answer, and where each part of it stands.

        where: in which documents, as for `retrieve`. after: earlier answers, to which the question may point back if
        there is a chat model. caps: what may be spent. hear: is told the text as it comes.
        """
        with self.snapshot() as reading:
            return reading.ask(
                question, method, filter=filter, history=history, caps=caps, on_token=on_token, **settings
            )

    def stream(self, question: str, method: str = "", **options: Any) -> Generator[str, None, Answer]:
        """The answer's text in pieces, as they come; the generator's value is the answer itself. Options: of `ask`."""
        with self.snapshot() as reading:
            return (yield from iterate_tokens(lambda hear: reading.ask(question, method, on_token=hear, **options)))

    def suggest(self, answer: Answer, *, caps: Caps | None = None) -> Answer:
        """The answer with up to five questions to ask next, in `suggested`, by one call. caps: for both together."""
        with self.snapshot() as reading:
            return reading.followup_suggester(caps)(answer)

    def trace(self, reference: str | Reference) -> list[Span]:
        """Where a row stands in the documents: by id, or by (table, id)."""
        with self.snapshot() as reading:
            found = reading.find(reference).reference if isinstance(reference, str) else reference
            return list(reading.trace(found))

    def sparql(self, query: str, *, limit: int | None = 1000, timeout: float = 30.0) -> Solutions:
        """What a SPARQL query finds in the index as RDF: so many rows at most, within so many seconds."""
        from kumihimo.app.sparql import run_sparql

        return run_sparql(self.snapshot, self.folder, query, limit=limit, timeout=timeout)

    def status(self, *, levels: bool = False) -> Status:
        """What the index holds, what failed, how large it is. levels: and what each level of its communities does."""
        from kumihimo.app.community_stats import index_levels, index_modularity

        with self.store.read_transaction() as db:
            known = self._sources(db)
            size = sum(_file_size(path) for path in self.folder.rglob("*"))
            return Status(
                folder=str(self.folder),
                sources={source.name: str(source.path) for source in known.values()},
                removed=tuple(rule for source in known.values() for rule in source.rules if not rule.startswith("!")),
                rows=row_counts(db),
                methods=tuple(db.meta("methods", [])),
                models=db.meta("models", {}),
                settings=settings_registry.non_default_settings(db.meta("settings", {})),
                failed=failures(db),
                partial=partial_documents(db),
                bytes=size,
                cache=self.cache_stats(),
                spent=tuple(self.spent()),
                modularity=index_modularity(db),
                levels=index_levels(db) if levels else (),
            )

    # -- the memo

    @cached_property
    def cache(self) -> ResponseCache:
        """What models have said, to this index or to all that share the memo."""
        return ResponseCache(self._cache_path)

    def cache_stats(self) -> dict[str, int]:
        """How many replies are remembered, their bytes, and how often they could answer."""
        if not self._cache_path.exists():
            return {"replies": 0, "bytes": 0, "hits": 0, "misses": 0}
        replies, size = self.cache.size()
        return {"replies": replies, "bytes": size, **self.cache.totals()}

    def spent(self) -> list[UsageEntry]:
        """What was spent of all time, and what the memo has saved."""
        return self.cache.usage() if self._cache_path.exists() else []

    def prune(self, *, wait: bool = False) -> int:
        """Erase the replies that building this index anew would not use; gives how many.

        It is built anew to find out, by models that answer from the memo alone, and what that made is thrown away.
        Answers and what methods asked for them are erased, too: they may hold what documents said. Raises NeedsConsent
        where a model or a setting is another than that of the index.
        """
        from kumihimo.app.cost import DryRunModels

        if self._cache_path != self.folder / "cache.db":
            raise IndexUnavailable(f"{self._cache_path} may be shared with other indexes: nothing of it is erased")
        if not self._cache_path.exists():
            return 0
        used: set[bytes] = set()
        tally = DryRunModels(self.models, self.tokenizer)
        with suppress(_RollBack), self.store.write_transaction(wait=wait) as db:
            build = self._build(db, (), (), Budget())
            if changes := build.changes():
                raise ConsentRequired(
                    f"{'; '.join(changes)}: what is needed cannot be told before `kumi index` has done that"
                )
            self.cache.used_keys = used
            try:
                silent = replace(build, source_names=set(), llm_for=tally.llm, embedder=tally.embedder(), pool=inline)
                silent.dry_run(code="prune", fingerprint="prune")
            finally:
                self.cache.used_keys = None
            raise _RollBack
        return self.cache.prune(used)


class _RollBack(Exception):
    """Leaves a build without keeping it."""


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:  # a build has just removed it
        return 0
