"""one read transaction -> Snapshot: retrieve, ask and trace in one finished build."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from time import perf_counter
from typing import Any, Self, cast

from kumihimo.app import data_frames
from kumihimo.app.missing import missing_entries, missing_tables, steps_without_llm
from kumihimo.app.question_limits import check_question
from kumihimo.app.source_tracer import DocumentPlaces, SourceTracer
from kumihimo.app.visible_tables import visible_documents, visible_table
from kumihimo.core.catalogue import Catalogue
from kumihimo.core.context import Answer, Context, Evidence, Tokenizer
from kumihimo.core.digests import hash_parts, replace_surrogates
from kumihimo.core.errors import IndexUnavailable, SettingsError, describe_unknown
from kumihimo.core.records import Record, Reference
from kumihimo.core.settings import SettingValues, override_settings
from kumihimo.core.signature import Signature, settings_of
from kumihimo.core.spans import Span
from kumihimo.core.table import Table, codec
from kumihimo.core.task import Progress, ProgressEvent, ignore_progress
from kumihimo.core.usage import Usage
from kumihimo.core.wiring import ROOT
from kumihimo.generation.answer import LENGTHS as LENGTHS
from kumihimo.generation.answer import PROMPT, announce, answer, rewrite_standalone, suggest_questions
from kumihimo.generation.answer import Length as Length
from kumihimo.generation.phrases import replaced_text
from kumihimo.generation.quoting import quote_answer
from kumihimo.generation.quoting.requests import carry_names
from kumihimo.generation.source_packing import PackedSource, pack_sources
from kumihimo.llm.budget import Budget, Caps
from kumihimo.llm.cached_llm import StructuredLLM
from kumihimo.llm.local_embedder import LocalEmbedder, is_local
from kumihimo.llm.protocols import RerankerName, TokenCallback
from kumihimo.llm.registry import SET_MODEL_HINT, ModelRegistry
from kumihimo.llm.telemetry import span
from kumihimo.search.fulltext import Bm25Search
from kumihimo.search.indexed_words import IndexedWords
from kumihimo.search.protocols import KeywordSearch, VectorSearch
from kumihimo.search.vector_store import Matrices
from kumihimo.search.vectors import CosineSearch
from kumihimo.storage import IndexTransaction
from kumihimo.storage.database import as_database
from kumihimo.text.word_variants import WordIndex, rewrite_question

DEFAULT_METHOD = "braid"
FALLBACK_METHOD = "naive"  # for an index not built for the default method
INSTALL_AGAIN = "which is not installed: install it again, or pass its functions to Kumihimo.open"


def check_length(name: str) -> Length:
    """Return the length with this name. Raise SettingsError for others."""
    return cast(Length, settings_of(answer)["length"].parse("answer", name))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A finished build, readable as long as its transaction lasts.

    rights, filter: expressions over metadata; only documents that match both exist for its tables, searches and
    traces. A field that no document has is unset for `rights`, and an error in `filter`.
    """

    db: IndexTransaction
    catalogue: Catalogue
    settings: SettingValues
    models: ModelRegistry
    tokenizer: Tokenizer
    matrices: Matrices
    places: dict[str, DocumentPlaces] = field(default_factory=dict)  # by uri
    generation: int = 0  # number of the run, for several answers to one question
    budget: Budget | None = None  # for all questions together; None: one for each question
    rights: str = ""
    filter: str = ""
    tables: dict[tuple[str, str, str], Table[Any]] = field(default_factory=dict)  # those that were read

    def table(self, name: str) -> Table[Any]:
        """Return the visible rows of a table of the index.

        Raises IndexUnavailable if it has not been built.
        """
        key = self.rights, self.filter, name
        if key not in self.tables:
            self.tables[key] = visible_table(self, self.stored_table(name))
        return self.tables[key]

    def to_arrow(self, name: str) -> Any:
        """Return the visible rows of a table for Arrow."""
        return data_frames.to_arrow(self.table(name))

    def to_pandas(self, name: str) -> Any:
        """Return the visible rows of a table for pandas."""
        return data_frames.to_pandas(self.table(name))

    def narrowed(self, filter: str) -> Self:
        """Return the snapshot of the documents that match, too; blank: all."""
        if not (filter := filter.strip()):
            return self
        return replace(self, filter=f"({self.filter}) and ({filter})" if self.filter else filter, places={})

    def stored_table(self, name: str) -> Table[Any]:
        """Return a table with all its rows, visible or not.

        Raises IndexUnavailable if it has not been built.
        """
        if name not in self.record_types:
            raise SettingsError(describe_unknown("table", name, self.record_types))
        if not self.db.has(name):
            raise IndexUnavailable(f"the index has no table {name} yet: `kumi index` builds it")
        return Table(name, codec(self.record_types[name]), self.db.rows(name))

    @property
    def record_types(self) -> Mapping[str, type[Record]]:
        """Return the record class of each table."""
        return self.catalogue.record_types

    def method(self, name: str) -> Signature:
        """Return a method. Raise SettingsError if it does not exist."""
        if name not in self.catalogue.methods and (origin := missing_entries(self.db, self.catalogue).get(name)):
            raise SettingsError(f"{name} comes from {origin}, {INSTALL_AGAIN}")
        return self.catalogue.method(name)

    def default_method(self) -> str:
        """Return the method for a question without one.

        This is the default, or a method that the index was built for.
        """
        built_methods = [m for m in self.db.meta("methods", []) if m in self.catalogue.methods] or [DEFAULT_METHOD]
        return next(
            (name for name in (DEFAULT_METHOD, FALLBACK_METHOD) if name in built_methods), str(built_methods[0])
        )

    def retrieve(
        self, question: str, name: str = "", *, filter: str = "", caps: Caps | None = None, **settings: Any
    ) -> Context:
        """Return the evidence for the question, best first.

        filter: limits the documents.
        """
        snapshot, budget = self.narrowed(filter), self.models.budget(caps, self.budget)
        return snapshot._prepare_search(name or self.default_method(), settings, budget)(replace_surrogates(question))

    def validate_method(self, name: str, *, filter: str = "", **settings: Any) -> None:
        """Validate the method and its settings.

        Raises every error that does not depend on the question.
        """
        self.narrowed(filter)._prepare_search(name, settings, Budget())

    def _bind_method(self, name: str, settings: Mapping[str, object], budget: Budget) -> Callable[[str], Context]:
        """Return the method as a function of the question alone."""
        signature = self.method(name)
        values = override_settings(name, signature.settings, self.settings.get(name, {}), settings)
        self._require_indexed(name, signature)
        reranker = self.models.candidate_reranker(name, budget, self.generation)
        reranker.check_available(cast(RerankerName, values.get("reranker", "none")))
        ports: dict[str, Callable[[], object]] = {
            "llm": lambda: self._llm(name, budget) if self.uses_llm(signature) else None,
            "keyword_search": self.keyword_search,
            "vector_search": lambda: self.vector_search(budget),
            "tokenizer": lambda: self.tokenizer,
            "rerank": lambda: reranker,
        }
        available = filter(self.db.has, signature.optional_tables)
        tables = {table: self.table(table) for table in (*signature.tables, *available)}
        arguments = {
            **dict.fromkeys(signature.optional_tables),
            **tables,
            **{port: ports[port]() for port in signature.ports},
            **signature.keyword_arguments(values),
        }

        return lambda question: signature.function(question, **arguments)

    def _prepare_search(self, name: str, settings: Mapping[str, object], budget: Budget) -> Callable[[str], Context]:
        """Return the method as a function of the question.

        Raises errors before anything is paid.
        """
        bound = self._bind_method(name, settings, budget)
        # a model corrects by itself, and its replies are stored by the question as it was asked
        words = None if self.uses_llm(self.method(name)) else self.indexed_words()

        def search(question: str) -> Context:
            check_question(question)
            written, replaced = rewrite_question(question, words)
            with span(f"retrieve {name}", {"kumihimo.method": name}) as set_attributes:
                context = bound(written)
                set_attributes({"kumihimo.results": len(context)})
            return replace(context, queries=(written, *context.queries), replaced=replaced) if replaced else context

        return search

    def indexed_words(self) -> WordIndex | None:
        """Return the words of the chunks, if they have a full-text index."""
        if not self.db.has("words_chunks"):
            return None
        return IndexedWords(as_database(self.db), self.table("chunks"))

    def released(self) -> AbstractContextManager[object]:
        """Hold no transaction inside the context, while a model speaks."""
        return self.db.released()

    def embedder_of(self, table: str) -> str:
        """Return the fingerprint of the model that embedded a table, or empty."""
        return str((self.db.meta(f"vectors_{table}") or {}).get("embedder", ""))

    def keyword_search(self) -> KeywordSearch:
        """Return the keyword search, for use without a method."""
        return Bm25Search(as_database(self.db))

    def vector_search(self, budget: Budget) -> VectorSearch:
        """Return the vector search, with the embedders of the index."""
        return CosineSearch(as_database(self.db), partial(self.models.query_embedder, budget), self.matrices)

    def uses_llm(self, signature: Signature) -> bool:
        """Return whether the method may call a chat model."""
        optional = "llm" in signature.optional_ports and self.models.chat(signature.name) is None
        return "llm" in signature.ports and not optional

    def matching_documents(self, filter: str) -> frozenset[str]:
        """Return the ids of the documents that match the filter.

        Raises SettingsError.
        """
        return visible_documents(self.narrowed(filter))

    def _require_indexed(self, name: str, signature: Signature) -> None:
        """Raise IndexUnavailable if the method lacks tables or views.

        The message names the command that builds them.
        """
        if missing := missing_tables(self.db, self.catalogue, name):
            built = [method for method in self.db.meta("methods", []) if method in self.catalogue.methods]
            methods = ",".join(dict.fromkeys([*built, name]))
            steps = [self.catalogue.steps[name] for name in self.catalogue.upstream_steps(missing)]
            if blocked := steps_without_llm(self.catalogue, self.models, missing):
                raise IndexUnavailable(
                    f"{name} needs a chat model, which writes {' and '.join(blocked)}: {SET_MODEL_HINT}; "
                    f"then `kumi index --methods {methods}` builds them"
                )
            llm_available = any("llm" in step.ports and self.models.chat(step.scope) for step in steps)
            paid = llm_available or ("vector_search" in signature.ports and self.models.paid_embedder)
            cost = f", and `kumi plan --methods {methods}` says what it costs" if paid else ""
            raise IndexUnavailable(
                f"the index was not built for {name}: `kumi index --methods {methods}` does that{cost}"
            )

    def uses_local_embedders(self) -> bool:
        """Return whether models inside this process made the vectors."""
        return all(is_local(state["embedder"]) for state in self.db.view_states("vectors"))

    def ask(
        self,
        question: str,
        name: str = "",
        *,
        filter: str = "",
        length: Length | None = None,
        max_tokens: int | None = None,
        history: Sequence[Answer] = (),
        caps: Caps | None = None,
        on_token: TokenCallback | None = None,
        on_context: Callable[[Context], None] | None = None,
        progress: Progress | None = None,
        **settings: Any,
    ) -> Answer:
        """Return the answer with its citations.

        A chat model writes it; without one, it consists of sentences of the documents, and with the default method
        requests such as lists are answered. filter: limits the documents. length, max_tokens: of a model's answer; None
        or more tokens: as set. history: earlier answers; the question may refer to them. Without a model, it takes over
        the names of the last. caps: limits on what is spent. on_token: receives the text as it arrives. on_context:
        receives the evidence before that. progress: receives an event as the search and the model begin.
        """
        name, progress = name or self.default_method(), progress or ignore_progress
        start, question, budget = perf_counter(), replace_surrogates(question), self.models.budget(caps, self.budget)
        snapshot = self.narrowed(filter)
        search, tracer = snapshot._prepare_search(name, settings, budget), snapshot.tracer
        check_question(question)
        answer_settings = self._answer_settings(length, max_tokens)
        note = ""
        if history and self.models.chat("answer"):
            question = rewrite_standalone(question, history, self._llm("answer", budget))
        elif history:
            question, note = carry_names(question, history)
        progress(ProgressEvent("search"))
        context = search(question)
        if chat := self.models.chat("answer"):
            progress(ProgressEvent("answer", model=chat.fingerprint.partition(" ")[0]))
            result = answer(
                question,
                name,
                context,
                tracer.spans_to_cite,
                tracer.describe_document,
                self._llm("answer", budget),
                self.tokenizer,
                self.method(name).declaration.answer_prompt or PROMPT,
                on_token,
                on_context,
                **answer_settings,
            )
        else:
            result = announce(snapshot._quote(question, name, context, note), on_token, on_context)
        citations = tuple(replace(citation, span=tracer.locate(citation.span)) for citation in result.citations)
        return add_usage(replace(result, citations=citations), budget, perf_counter() - start)

    def _quote(self, question: str, name: str, context: Context, note: str) -> Answer:
        """Return an answer of sentences of the documents, after a note."""
        searched, requests = context.searched(question), name == self.default_method()
        quoted = quote_answer(searched, name, context, self.tracer, LocalEmbedder(), requests=requests)
        return replace(quoted, question=question, text=f"{note}\n\n{quoted.text}" if note else quoted.text)

    def _answer_settings(self, length: Length | None = None, max_tokens: int | None = None) -> dict[str, Any]:
        """Return the settings of the answer, with this length and limit."""
        settings: dict[str, Any] = {**self.settings["answer"]}
        limit = settings["max_tokens"] if max_tokens is None else min(max_tokens, settings["max_tokens"])
        return settings | {"max_tokens": limit} | ({} if length is None else {"length": check_length(length)})

    def prompt_sources(self, question: str, context: Context) -> list[PackedSource]:
        """Return the sources that the prompt of an answer holds."""
        values = self._answer_settings()
        limits = {"budget": values["budget"], "limit": values["sources"], "score_share": values["score_share"]}
        return pack_sources(question, context, self.tokenizer, **limits)

    def describe_search(self, context: Context) -> str:
        """Return the note on replaced words, or empty."""
        return replaced_text(context)

    def _llm(self, scope: str, budget: Budget) -> StructuredLLM:
        return self.models.llm(scope, budget, generation=self.generation)

    def followup_suggester(self, caps: Caps | None = None) -> Callable[[Answer], Answer]:
        """Return a function that adds next questions to an answer.

        It adds their cost too. caps: for the answer and the questions together. Raises SettingsError without a chat
        model.
        """
        budget = self.models.budget(caps, self.budget)
        llm = self.models.llm("answer", budget)

        def add_followups(current: Answer) -> Answer:
            budget.total = current.usage
            questions = suggest_questions(current, llm, self.tokenizer)
            return replace(current, followups=questions, usage=budget.total)

        return add_followups

    @property
    def tracer(self) -> SourceTracer:
        """Return what finds the source spans of rows."""
        return SourceTracer(self.db, self.catalogue, cache(self.table), self.places)

    def trace(self, item: Reference | Evidence) -> Iterator[Span]:
        """Yield the source spans of a row or evidence, cited first."""
        return self.tracer.trace(item)

    def trace_part(self, item: Evidence, start: int, end: int) -> Iterator[Span]:
        """Yield the source spans of a part of the text of evidence.

        That is the part itself where the text is a passage of a document, else all sources.
        """
        return self.tracer.trace_part(item, start, end)

    def find(self, id: str) -> Evidence:
        """Return the row with this id, or the document with this uri.

        The id may name its table: `chunks:0f8c….00003`.
        """
        table, colon, rest = replace_surrogates(id).partition(":")
        tables = [table] if colon and table in self.record_types else list(self.record_types)
        row_id = rest if colon and table in self.record_types else replace_surrogates(id)
        for name in tables:
            if self.db.has(name) and (record := self.table(name).get(row_id)):
                return Evidence(name, record, 1.0)
        if document := self.table(ROOT).get(hash_parts(replace_surrogates(id))):
            return Evidence(ROOT, document, 1.0)
        raise SettingsError(f"nothing in the index has the id {id!r}: `kumi retrieve QUESTION` shows ids")

    def row_counts(self) -> dict[str, int]:
        """Return the number of visible rows of each table."""
        return {name: len(self.table(name)) for name in self.record_types if self.db.has(name)}


def add_usage(answer: Answer, budget: Budget, seconds: float) -> Answer:
    """Return the answer with what its budget spent and saved."""
    usage, saved = replace(budget.total, seconds=seconds), sum(budget.saved.values(), Usage())
    return replace(answer, usage=usage, saved=saved)


def row_counts(db: IndexTransaction, catalogue: Catalogue) -> dict[str, int]:
    """Return the number of rows of each table."""
    return {table: db.count(table) for table in catalogue.record_types if db.has(table)}
