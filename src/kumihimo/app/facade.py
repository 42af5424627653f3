"""a folder -> Kumihimo: index, remove, ask, retrieve, trace, status, for every interface."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from kumihimo.app import catalogue as catalogues
from kumihimo.app import config
from kumihimo.app.batch import check_no_batch, drop_batches
from kumihimo.app.check import CheckResult, check_index
from kumihimo.app.erasure import erase_files, remove_documents, warn_of_unpruned_caches
from kumihimo.app.estimate_query_cost import estimate_query_cost
from kumihimo.app.index_address import IndexAddress
from kumihimo.app.index_paths import index_paths, plan_paths
from kumihimo.app.missing import missing_tables, without_missing_scopes
from kumihimo.app.prepare_build import build_method
from kumihimo.app.prune_cache import prune_cache
from kumihimo.app.questions import Questions
from kumihimo.app.results import Built, Consent, Plan, Solutions, Status
from kumihimo.app.settings_registry import SettingsRegistry
from kumihimo.app.snapshot import Snapshot
from kumihimo.app.trust import read_trusted_layers
from kumihimo.core.cancel import CancelToken
from kumihimo.core.catalogue import Catalogue
from kumihimo.core.errors import IndexUnavailable
from kumihimo.core.settings import SettingValues, resolve_settings
from kumihimo.core.task import Progress
from kumihimo.llm.budget import Caps
from kumihimo.llm.concurrency import acquire_lock
from kumihimo.llm.local_embedder import LocalTokenizer
from kumihimo.llm.protocols import NamedEntityRecognizer
from kumihimo.llm.registry import ModelRegistry
from kumihimo.search.stores import load_matrices
from kumihimo.search.vector_files import MappedFiles
from kumihimo.storage import StorageError as StorageError
from kumihimo.storage.database import as_database
from kumihimo.storage.place import DEFAULT_FOLDER, IndexPlace
from kumihimo.storage.response_cache import ResponseCache, UsageEntry

log = logging.getLogger("kumihimo")


class Kumihimo(Questions):
    """An index in a folder.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     note = Path(folder, "note.txt")
    ...     _ = note.write_text("The ferry leaves at nine. The harbour office opens at eight.")
    ...     with Kumihimo.open(Path(folder, ".kumi")) as kumi:
    ...         built = kumi.index(note)
    ...         print(kumi.ask("When does the ferry leave?").text)
    The ferry leaves at nine. The harbour office opens at eight. [1]
    """

    def __init__(
        self,
        place: str | Path | IndexPlace,
        *settings: SettingValues,
        cache: str | Path | None = None,
        catalogue: Catalogue | None = None,
    ) -> None:
        self.place = IndexPlace.at(place, cache)
        self.catalogue = catalogue or catalogues.installed_catalogue()
        self.folder, self.base = self.place.folder, self.place.base  # of files; of kumi.toml and relative paths
        self.settings_registry = SettingsRegistry(self.catalogue)
        self.store = self.place.open_store()
        layers = [config.fields_to_settings(layer) for layer in settings]
        if {scope for layer in layers for scope in layer} - self.settings_registry.all.keys():
            layers = without_missing_scopes(self.store, self.catalogue, layers)
        values = resolve_settings(self.settings_registry.all, *layers)
        self.settings = self.settings_registry.own_values(values)
        self.models = ModelRegistry(self.settings_registry.model_values(values), lambda: self.cache, self.base)
        self.cache = ResponseCache(self.place.open_cache())  # of replies, which several indexes may share
        cache_file = self.place.cache_file
        self.address = IndexAddress(self.place.address, str(cache_file.absolute()) if cache_file else "", layers)
        self._files: MappedFiles = {}
        self.tokenizer, self._build_lock = LocalTokenizer(), Lock()

    @classmethod
    def open(
        cls,
        place: str | Path | IndexPlace = DEFAULT_FOLDER,
        *,
        settings: SettingValues | None = None,
        cache: str | Path | None = None,
        methods: Sequence[Callable[..., Any]] = (),
        steps: Sequence[Callable[..., Any]] = (),
        readers: Sequence[Callable[..., Any]] = (),
        recognizer: NamedEntityRecognizer | None = None,
    ) -> Kumihimo:
        """Open an index; the first `index` creates it.

        place: a folder, or `postgresql://HOST/DB?schema=NAME`. settings: override the environment, and kumi.toml and
        aliases.txt beside the folder; for a database, in the working directory or KUMI_CONFIG. cache: the file with
        the replies of models; by default in the index. methods, steps, readers: functions of yours, beside the
        built-in ones and those of installed plug-ins. recognizer: finds the names instead of the rules. Raises
        TrustRequired if kumi.toml names servers or keys that the user has not trusted.
        """
        catalogue = catalogues.installed_catalogue()
        if methods or steps or readers or recognizer:
            recognizers = [recognizer] if recognizer else []
            catalogue = catalogues.extend_catalogue(
                catalogue, methods=methods, steps=steps, readers=readers, recognizers=recognizers
            )
        place = IndexPlace.at(place)
        layers = read_trusted_layers(place.base, SettingsRegistry(catalogue).all, os.environ)
        cache = cache or os.environ.get("KUMI_CACHE") or None
        return cls(place, *layers, settings or {}, cache=cache, catalogue=catalogue)

    def __enter__(self) -> Kumihimo:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.store.close()
        cache, self.cache = self.cache, ResponseCache(self.place.open_cache())
        cache.close()

    # -- building

    def index(
        self,
        *paths: str | Path,
        methods: Sequence[str] = (),
        wait: bool = False,
        reread: bool = False,
        recluster: bool = False,
        refresh: bool = False,
        rebuild: bool = False,
        batch: bool = False,
        crawl: int = 0,
        caps: Caps | None = None,
        consent: bool | Consent = False,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
    ) -> Built:
        """Add or refresh files, folders and addresses; without paths, all sources.

        methods: the methods to build for; the index remembers them (at first: braid, bm25, naive and global). wait:
        wait for a running build; without it IndexBusy is raised. reread: read files again even if size and time are
        the same. recluster: compute the communities from scratch. refresh: write the reports again that have changes
        since. rebuild: build every table again, also if an older version built the index; cached replies are kept.
        batch: submit the requests to a Batch API; the next calls collect the replies, and the last one builds. crawl:
        how many pages to fetch that a web address links to. caps: limits on what is spent. consent: allow paying again
        after a change of model, prompt or setting; a function is called with the plan and decides. Without consent
        ConsentRequired is raised, and nothing changes. cancel: stops the build, which raises Cancelled; the index
        stays as it was, and the replies that were paid stay in the cache.
        """
        flags = {"reread": reread, "recluster": recluster, "refresh": refresh, "rebuild": rebuild}
        flags |= {"wait": wait, "batch": batch}
        budget = self.models.budget(caps, cancel=cancel)
        return index_paths(self, paths, methods, budget, crawl=crawl, consent=consent, progress=progress, **flags)

    def plan(
        self,
        *paths: str | Path,
        methods: Sequence[str] = (),
        sample: int = 0,
        crawl: int = 0,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
    ) -> Plan:
        """Estimate the LLM calls and cost of `index`, without building.

        sample: process this many chunks with real calls for a better estimate; the replies stay in the cache.
        """
        return plan_paths(self, paths, methods, sample, progress, cancel, crawl)

    def estimate_query_cost(
        self, method: str = "", question: str = "", *, filter: str = "", rights: str = "", **settings: Any
    ) -> Plan:
        """Estimate the minimum and maximum LLM calls and cost of `ask`.

        No model is called. Without a question, a typical one is used.
        """
        with self.snapshot(rights=rights) as snapshot:
            return estimate_query_cost(snapshot, question, method, filter=filter, **settings)

    def remove(
        self,
        target: str | Path = "",
        *,
        forget: bool = False,
        wait: bool = False,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
    ) -> Built:
        """Remove a source (name or path) or documents (uri or path).

        They stay out until you index them by name again. forget: also erase what is left of them in the files of the
        index folder, and the cached replies that only they needed, except in a cache outside the folder; without a
        target, what earlier removals left. Raises IndexBusy if another process uses the index; then the removal is
        done, and the erasure is not. cancel: stops the removal, not the erasure.
        """
        built = remove_documents(self, target, forget=forget, wait=wait, progress=progress, cancel=cancel)
        if forget:
            self._files.clear()  # a mapped file stays on the disk
            erase_files(self, wait=wait)
            if self.place.owns_cache:
                self.prune(wait=wait)
            else:
                warn_of_unpruned_caches(self.cache.database, self.folder)
        return built

    def check(self, *, repair: bool = False, consent: bool = False, wait: bool = False) -> CheckResult:
        """Search the files of the index for damage.

        repair: make again what can be made again. consent: also if that is paid again. wait: wait for a running build.
        """
        return check_index(self, repair=repair, consent=consent, wait=wait)

    # -- reading

    def prepare_method(self, name: str, progress: Progress | None = None, *, cancel: CancelToken | None = None) -> None:
        """Build the tables that a method lacks, if they cost nothing.

        The documents are not read again. The index remembers the method.
        """
        if name not in self.catalogue.methods:
            return  # the question names the error
        with self.store.read_transaction() as db:
            if not missing_tables(db, self.catalogue, name):
                return
        with acquire_lock(self._build_lock, cancel):
            build_method(self, name, progress, cancel)

    @contextmanager
    def snapshot(self, method: str = "", *, rights: str = "", cancel: CancelToken | None = None) -> Iterator[Snapshot]:
        """Open a snapshot: one read transaction over one finished build.

        method: to be prepared first. rights: an expression over document metadata; documents that do not match do not
        exist for this snapshot. cancel: stops what reads it, which raises Cancelled.
        """
        self.prepare_method(method, cancel=cancel)
        missing = ""
        for _ in range(5):
            with self.store.read_transaction(cancel) as db:
                try:
                    vectors = load_matrices(as_database(db), self.folder, self._files)
                except FileNotFoundError as error:  # a build has just replaced them: open the new ones
                    missing = error.filename
                    continue
                values = db, self.catalogue, self.settings, self.models, self.tokenizer, vectors
                yield Snapshot(*values, rights=rights.strip())
                return
        raise IndexUnavailable(f"the vectors in {missing} are missing: `kumi index` makes them again")

    def sparql(self, query: str, *, limit: int | None = 1000, timeout: float = 30.0) -> Solutions:
        """Run a SPARQL query on the index as RDF.

        limit: the most rows. timeout: in seconds.
        """
        from kumihimo.app.sparql import run_sparql

        return run_sparql(self.snapshot, self.folder, query, limit=limit, timeout=timeout)

    def status(self, *, levels: bool = False, rights: str = "") -> Status:
        """Return the contents, failures and size of the index.

        levels: include the figures of each community level.
        """
        from kumihimo.app.status import read_status

        return read_status(self, levels=levels, rights=rights)

    # -- the response cache

    def cache_stats(self) -> dict[str, int]:
        """Return the number of cached replies, their bytes, hits and misses."""
        return self.cache.stats() if self.cache.exists() else {"replies": 0, "bytes": 0, "hits": 0, "misses": 0}

    def spent(self) -> list[UsageEntry]:
        """Return all usage so far, spent and saved by the cache."""
        return self.cache.usage() if self.cache.exists() else []

    def prune(self, *, wait: bool = False) -> int:
        """Delete the cached replies that a new build would not use.

        Returns their number. A dry run that answers from the cache alone finds the replies in use. Cached answers, and
        what methods asked for them, are deleted too: they may hold text of documents. Raises ConsentRequired if a model
        or a setting differs from that of the index.
        """
        if not self.place.owns_cache:
            location = self.cache.database.location
            raise IndexUnavailable(f"{location} may be shared with other indexes: nothing in it is deleted")
        check_no_batch(self)
        return prune_cache(self, wait=wait) if self.cache.exists() else 0

    def drop_batches(self) -> int:
        """Give up all batches; return how many requests waited."""
        return drop_batches(self)
