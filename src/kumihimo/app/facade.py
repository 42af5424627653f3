"""a folder -> Kumihimo: index, remove, ask, retrieve, trace, status, for every interface."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kumihimo.app.ask.query import Length, Query
from kumihimo.app.ask.questions import answer_from_one_build, lacking_method, open_snapshot, read_one_build
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse.sparql import run_sparql
from kumihimo.app.build import build_missing
from kumihimo.app.opened.open_index import DEFAULT_FOLDER, IndexPlace, OpenIndex, connect_index, open_index
from kumihimo.core.answer import Answer
from kumihimo.core.cancel import CancelToken
from kumihimo.core.context import Context
from kumihimo.core.records import Reference
from kumihimo.core.settings import SettingValues
from kumihimo.core.spans import Span
from kumihimo.core.task import Progress
from kumihimo.core.wiring import Catalogue
from kumihimo.llm.budget import Budget, Caps
from kumihimo.llm.concurrency import iterate_tokens
from kumihimo.llm.protocols import NamedEntityRecognizer, TokenCallback
from kumihimo.llm.registry import ModelRegistry
from kumihimo.storage.response_cache import UsageEntry
from kumihimo.text.question import ParsedQuestion

if TYPE_CHECKING:
    from kumihimo.app.opened.results import Built, CheckResult, Consent, Fields, Plan, Solutions, Status, Strings


class Kumihimo:
    """An index in a folder.

    opened: the open index behind it, with its store, models and settings.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     note = Path(folder, "note.txt")
    ...     _ = note.write_text("The ferry leaves at nine. The harbour office opens at eight.")
    ...     with Kumihimo.open(Path(folder, ".kumi")) as kumi:
    ...         built = kumi.index(note)
    ...         print(kumi.ask("When does the ferry leave?").text)
    The ferry leaves at nine. The harbour office opens at eight.
    """

    def __init__(
        self,
        place: str | Path | IndexPlace | OpenIndex,
        *settings: SettingValues,
        cache: str | Path | None = None,
        catalogue: Catalogue | None = None,
    ) -> None:
        if not isinstance(place, OpenIndex):
            place = connect_index(place, settings, cache=cache, catalogue=catalogue)
        self.opened = place
        self.place, self.folder, self.base = place.place, place.folder, place.base
        self.store, self.cache = place.store, place.cache
        self.catalogue, self.settings, self.tokenizer = place.catalogue, place.settings, place.tokenizer
        self.settings_registry = place.settings_registry

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
        chat: Any = None,
        embed: Callable[..., Any] | None = None,
        rerank: Callable[..., Any] | None = None,
    ) -> Kumihimo:
        """Open an index; the first `index` creates it.

        place: a folder, or `postgresql://HOST/DB?schema=NAME`. settings: override the environment, and kumi.toml and
        aliases.txt beside the folder; for a database, in the working directory or KUMI_CONFIG. cache: the file with
        the replies of models; by default in the index. methods, steps, readers: functions of yours, beside the
        built-in ones and those of installed plug-ins. recognizer: finds the names instead of the rules. chat, embed,
        rerank: functions as models, in place of servers: messages -> a text, texts -> vectors, question and texts ->
        scores; each may be asynchronous, and chat a model of LangChain or LlamaIndex. Raises TrustRequired if kumi.toml
        names servers or keys that the user has not trusted.
        """
        recognizers = [recognizer] if recognizer else []
        entries = {"methods": methods, "steps": steps, "readers": readers, "recognizers": recognizers}
        models = {"chat": chat, "embedding": embed, "reranking": rerank}
        return cls(open_index(place, settings=settings, cache=cache, models=models, **entries))

    def __enter__(self) -> Kumihimo:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def models(self) -> ModelRegistry:
        """Return the models of the settings; you can set others."""
        return self.opened.models

    @models.setter
    def models(self, models: ModelRegistry) -> None:
        self.opened = replace(self.opened, models=models)

    def close(self) -> None:
        """Close the files."""
        self.opened.close()

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
        paid_by: Budget | None = None,
        consent: bool | Consent = False,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
    ) -> Built:
        """Add or refresh files, folders and addresses; without paths, all sources.

        methods: the methods to build for; the index remembers them (at first: braid, bm25 and naive). wait:
        wait for a running build; without it IndexBusy is raised. reread: read files again even if size and time are the
        same. recluster: compute the communities from scratch. refresh: write the reports again that have changes since.
        rebuild: build every table again, also if an older version built the index; cached replies are kept. batch:
        submit the requests to a Batch API; the next calls collect the replies, and the last one builds. crawl: how many
        pages to fetch that a web address links to. caps: limits on what is spent. paid_by: a budget that pays too, such
        as that of a key. consent: allow paying again after a change of model, prompt or setting; a function is called
        with the plan and decides. Without consent ConsentRequired is raised, and nothing changes. cancel: stops the
        build, which raises Cancelled; the index stays as it was, and the replies that were paid stay in the cache.
        """
        from kumihimo.app.build.index_paths import index_paths

        flags: dict[str, Any] = {"reread": reread, "recluster": recluster, "refresh": refresh, "rebuild": rebuild}
        flags |= {"wait": wait, "batch": batch, "crawl": crawl, "consent": consent, "progress": progress}
        return index_paths(self.opened, paths, methods, self.models.budget(caps, paid_by, cancel), **flags)

    def index_texts(
        self,
        texts: Strings,
        *,
        ids: Strings = None,
        titles: Strings = None,
        metadata: Fields | Sequence[Fields] | None = None,
        caps: Caps | None = None,
        paid_by: Budget | None = None,
        cancel: CancelToken | None = None,
        methods: Sequence[str] = (),
        **options: Any,
    ) -> Built:
        """Add texts, or replace those with the same ids.

        No other source is read. texts: one, or several. ids, titles, metadata: one for each text. Without an id, a
        digest of the text is its id; without a title, its first heading, its id if that is a name, or its first line.
        `remove` takes an id, too. Other parameters: as for `index`.
        """
        from kumihimo.app.build.index_paths import index_paths
        from kumihimo.app.build.texts import dump_texts

        files = dump_texts(texts, ids, titles, metadata)
        budget = self.models.budget(caps, paid_by, cancel)
        return index_paths(self.opened, (), methods, budget, texts=files, **options)

    def plan(
        self,
        *paths: str | Path,
        methods: Sequence[str] = (),
        crawl: int = 0,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
    ) -> Plan:
        """Estimate the LLM calls and cost of `index`, without building."""
        from kumihimo.app.build.index_paths import plan_paths

        return plan_paths(self.opened, paths, methods, progress, cancel, crawl)

    def estimate_query_cost(
        self, method: str = "", question: str = "", *, filter: str = "", rights: str = "", **settings: Any
    ) -> Plan:
        """Estimate the minimum and maximum LLM calls and cost of `ask`.

        No model is called. Without a question, a typical one is used.
        """
        from kumihimo.app.build.estimate_query_cost import estimate_query_cost

        with self.snapshot(rights=rights) as snapshot:
            return estimate_query_cost(snapshot, question, method, filter, settings)

    def remove(
        self,
        target: str | Path = "",
        *,
        forget: bool = False,
        wait: bool = False,
        paid_by: Budget | None = None,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
    ) -> Built:
        """Remove a source (name, path), documents (uri, path) or a text (id).

        They stay out until you index them by name again. forget: also erase what is left of them in the files of the
        index folder, and the cached replies that only they needed, except in a cache outside the folder; without a
        target, what earlier removals left. Raises IndexBusy if another process uses the index; then the removal is
        done, and the erasure is not. paid_by: a budget that pays too, for what is written again of the rest. cancel:
        stops the removal, not the erasure.
        """
        from kumihimo.app.upkeep.erasure import remove_documents

        budget = self.models.budget(None, paid_by, cancel)
        return remove_documents(self.opened, target, budget, forget=forget, wait=wait, progress=progress)

    def check(self, *, repair: bool = False, consent: bool = False, wait: bool = False) -> CheckResult:
        """Search the files of the index for damage.

        repair: make again what can be made again. consent: also if that is paid again. wait: wait for a running build.
        """
        from kumihimo.app.upkeep.check import check_index

        return check_index(self.opened, repair=repair, consent=consent, wait=wait)

    def edit(self, line: str = "", *, undo: bool = False) -> dict[str, bool]:
        """Add a line to aliases.txt, and return its lines.

        The next `index` applies them to the graph. line: as `text.graph_edits` describes it. undo: remove it instead.
        Each comes with whether it matches anything. Raises SettingsError if a line contradicts another or has no match.
        """
        from kumihimo.app.build.graph_edits import edit_graph

        with self.snapshot("mentions") as snapshot:
            return edit_graph(self.opened, snapshot, line, undo=undo)

    # -- reading

    def prepare_method(self, name: str, progress: Progress | None = None) -> None:
        """Build the tables that a method lacks, if they cost nothing.

        The documents are not read again. The index remembers the method. name: empty for the default; that of a table,
        such as entities or reports, for a method that has it.
        """
        with self.store.read_transaction() as db:
            lacking = lacking_method(self.opened, db, name)
        if lacking:
            build_missing(self.opened, lacking, progress)

    @contextmanager
    def snapshot(self, method: str = "", *, rights: str = "", cancel: CancelToken | None = None) -> Iterator[Snapshot]:
        """Open a snapshot: one read transaction over one finished build.

        method: to be prepared first, as by `prepare_method`. rights: an expression over document metadata;
        documents that do not match do not exist for this snapshot. cancel: stops what reads it, which raises Cancelled.
        """
        with open_snapshot(self.opened, method, rights, cancel, build_missing) as snapshot:
            yield snapshot

    def retrieve(
        self,
        question: str,
        method: str = "",
        *,
        filter: str = "",
        rights: str = "",
        explain: bool = False,
        caps: Caps | None = None,
        paid_by: Budget | None = None,
        cancel: CancelToken | None = None,
        **settings: Any,
    ) -> Context:
        """Return the evidence that the method finds, best first.

        settings: of the method, such as k=5. filter: an expression over document metadata, such as `author = "Sabine
        Orrell" and date >= 2024`. rights: an expression, too: what the one who asks may see; a field that no document
        has is unset. explain: say of each piece why it was found, and where it is. Tables that the method lacks are
        built first, if they cost nothing. caps, paid_by, cancel: as for `ask`.
        """
        limits: dict[str, Any] = {"caps": caps, "paid_by": paid_by, "cancel": cancel}
        return self.search(Query(ParsedQuestion(question), method, filter, rights, settings, explain=explain, **limits))

    def ask(
        self,
        question: str,
        method: str = "",
        *,
        filter: str = "",
        rights: str = "",
        length: Length | None = None,
        history: Sequence[Answer] = (),
        explain: bool = False,
        caps: Caps | None = None,
        paid_by: Budget | None = None,
        on_token: TokenCallback | None = None,
        on_context: Callable[[Context], None] | None = None,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
        **settings: Any,
    ) -> Answer:
        """Return the answer with its citations.

        filter, rights, explain: as for `retrieve`. length: `brief`, `normal` or `full`, of a chat model's answer; None:
        as set. history: earlier answers; the question may refer to them if there is a chat model. caps: limits on what
        is spent. paid_by: a budget that pays too, such as that of a key. on_token: receives the text as it arrives.
        on_context: receives the evidence before that. progress: receives an event as the search and the model begin.
        cancel: stops the question, which raises Cancelled; a request in flight is still paid.
        """
        own: dict[str, Any] = {"length": length, "history": history, "explain": explain}
        own |= {"on_token": on_token, "on_context": on_context, "progress": progress}
        own |= {"caps": caps, "paid_by": paid_by, "cancel": cancel}
        return self.answer(Query(ParsedQuestion(question), method, filter, rights, settings, **own))

    def search(self, query: Query) -> Context:
        """Return the evidence for a query, as `retrieve` does."""
        return read_one_build(self.opened, query, build_missing, Snapshot.search)

    def answer(self, query: Query) -> Answer:
        """Return the answer to a query, with what all tries spent."""
        return answer_from_one_build(self.opened, query, build_missing)

    def stream(
        self, question: str, method: str = "", *, rights: str = "", **options: Any
    ) -> Generator[str, None, Answer]:
        """Yield the answer's text as it arrives; return the answer.

        options: as for `ask`. A generator that is closed cancels the question.
        """
        query = Query.of(question, method, rights=rights, **options)
        cancel = query.cancel or CancelToken()
        query = replace(query, cancel=cancel)
        return (yield from iterate_tokens(lambda on_token: self.answer(replace(query, on_token=on_token)), cancel))

    def suggest(self, answer: Answer, *, caps: Caps | None = None) -> Answer:
        """Return the answer with up to five next questions in `followups`.

        This takes one LLM call. caps: for the answer and the call together.
        """
        with self.snapshot() as snapshot:
            suggester = snapshot.followup_suggester(caps)
        return suggester(answer)

    def trace(self, reference: str | Reference, *, rights: str = "") -> list[Span]:
        """Return the source spans of a row, by id or (table, id)."""
        with self.snapshot(rights=rights) as snapshot:
            row = snapshot.find(reference).reference if isinstance(reference, str) else reference
            return list(snapshot.trace(row))

    def sparql(self, query: str, *, limit: int | None = 1000, timeout: float = 30.0) -> Solutions:
        """Run a SPARQL query on the index as RDF.

        limit: the most rows. timeout: in seconds.
        """
        return run_sparql(partial(self.snapshot, "reports"), self.folder, query, limit=limit, timeout=timeout)

    def status(self, *, levels: bool = False, rights: str = "") -> Status:
        """Return the contents, failures and size of the index.

        levels: include the figures of each community level.
        """
        from kumihimo.app.upkeep.status import read_status

        return read_status(self.opened, levels=levels, rights=rights)

    # -- the response cache

    def cache_stats(self) -> dict[str, int]:
        """Return the number of cached replies, their bytes, hits and misses."""
        return self.cache.stats()

    def spent(self) -> list[UsageEntry]:
        """Return all usage so far, spent and saved by the cache."""
        return self.cache.usage()

    def prune(self, *, wait: bool = False) -> int:
        """Delete the cached replies that a new build would not use.

        Returns their number. A dry run that answers from the cache alone finds the replies in use. Cached answers, and
        what methods asked for them, are deleted too: they may hold text of documents. Raises ConsentRequired if a model
        or a setting differs from that of the index.
        """
        from kumihimo.app.upkeep.erasure import prune_cache

        return prune_cache(self.opened, wait=wait)

    def drop_batches(self) -> int:
        """Give up all batches; return how many requests waited."""
        from kumihimo.app.build.batch import drop_batches

        return drop_batches(self.opened)
