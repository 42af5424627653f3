"""one read transaction -> Snapshot: retrieve, ask and trace in one finished build."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Any, Self, cast

from kumihimo.app.ask.answers_without_model import add_history, answer_without_model, find_result
from kumihimo.app.ask.further_queries import search_queries
from kumihimo.app.ask.query import Query
from kumihimo.app.ask.visible_tables import VisibleTables
from kumihimo.app.evidence import explanations, source_tracer
from kumihimo.app.opened.catalogue import (
    AUTO,
    INSTALL_AGAIN,
    WIDE_CALL_BYTES,
    WIDE_CALLS,
    WIDE_METHOD,
    default_method,
    missing_entries,
    missing_tables,
    searching_method,
    uses_llm,
)
from kumihimo.core.answer import Answer
from kumihimo.core.context import Context, Evidence
from kumihimo.core.errors import SettingsError
from kumihimo.core.records import Reference
from kumihimo.core.settings import override_settings
from kumihimo.core.signature import Signature
from kumihimo.core.spans import Span
from kumihimo.core.usage import Usage
from kumihimo.generation import phrases, search_again, source_packing
from kumihimo.generation.answer import PROMPT, Length, announce, answer, suggest_questions
from kumihimo.generation.quoting.requested import add_result, asks_for_documents
from kumihimo.generation.quoting.requests import put_cited_first
from kumihimo.llm import protocols
from kumihimo.llm.budget import Account, Budget, Caps
from kumihimo.llm.cached_llm import StructuredLLM
from kumihimo.llm.registry import ModelRegistry
from kumihimo.llm.telemetry import span
from kumihimo.search import fulltext, vectors
from kumihimo.search.protocols import KeywordSearch, Matrices, VectorSearch
from kumihimo.text.question import ParsedQuestion
from kumihimo.text.word_variants import rewrite_question

BoundMethod = Callable[[ParsedQuestion], Context]
_PASSAGE_SHARE = 0.9  # of the tokens of an answer, for the passages of one document


@dataclass(frozen=True)
class Snapshot(VisibleTables):
    """A finished build, readable as long as its transaction lasts.

    Its searches and traces know only the documents that its tables show.
    """

    models: ModelRegistry
    matrices: Matrices
    generation: int = 0  # number of the run, for several answers to one question
    budget: Budget | None = None  # for all questions together; None: one for each question

    def method(self, name: str) -> Signature:
        """Return a method. Raise SettingsError if it does not exist."""
        if name not in self.catalogue.methods and (origin := missing_entries(self.db, self.catalogue).get(name)):
            raise SettingsError(f"{name} comes from {origin}, {INSTALL_AGAIN}")
        return self.catalogue.method(name)

    def default_method(self) -> str:
        """Return the method for a search without one."""
        return default_method(self.db, self.catalogue)

    @property
    def can_read_widely(self) -> bool:
        """Return whether the models and the tables for that are there."""
        has_models = self.models.chat("answer") and self.models.chat(WIDE_METHOD)
        return bool(has_models) and not missing_tables(self.db, self.catalogue, WIDE_METHOD)

    def answering_method(self, question: ParsedQuestion) -> str:
        """Return the method for an answer to a question without one.

        With a chat model, a question on all documents is read widely; a list of documents, or one document, is not.
        """
        is_wide = question.is_on_all and self.can_read_widely
        return WIDE_METHOD if is_wide and not asks_for_documents(question, self.tracer) else self.default_method()

    def retrieve(self, question: str, name: str = "", **options: Any) -> Context:
        """Return the evidence for the question, best first.

        name: of the method. options: as for `Kumihimo.retrieve`.
        """
        return self.search(Query.of_search(question, **{"method": name, **options}))

    def ask(self, question: str, name: str = "", **options: Any) -> Answer:
        """Return the answer with its citations.

        name: of the method. options: as for `Kumihimo.ask`.
        """
        return self.answer(Query.of(question, **{"method": name, **options}))

    def validate_method(
        self, name: str, settings: Mapping[str, object] = MappingProxyType({}), *, filter: str = ""
    ) -> None:
        """Validate the method and its settings.

        Raises every error that does not depend on the question.
        """
        name = self.default_method() if name == AUTO else name
        self.narrowed(filter)._bind_method(name, settings, Budget())

    def settings_with(self, name: str, given: Mapping[str, object], *, is_remote: bool = False) -> dict[str, object]:
        """Return the settings of a method, with given ones over them.

        is_remote: as for a query. Raises SettingsError.
        """
        own = self.settings.get(name, {})
        return override_settings(name, self.method(name).settings, own, given, is_remote=is_remote)

    def _bind_method(
        self, name: str, settings: Mapping[str, object], budget: Budget, *, is_remote: bool = False
    ) -> BoundMethod:
        """Return the method as a function of the question alone.

        Raises errors before anything is paid.
        """
        signature, values = self.method(name), self.settings_with(name, settings, is_remote=is_remote)
        if missing := missing_tables(self.db, self.catalogue, name):
            raise self.lacking_error(self.models, name, signature, missing)
        if self.uses_llm(signature):
            self.check_level(signature, values)
        reranker = self.models.candidate_reranker(name, budget, self.generation)
        if (judge := cast(protocols.RerankerName, values.get("reranker", "none"))) != "none":
            reranker.check_available(judge)
        ports: dict[str, Callable[[], object]] = {
            "llm": lambda: self._llm(name, budget) if self.uses_llm(signature) else None,
            "keyword_search": self.keyword_search,
            "vector_search": lambda: self.vector_search(budget),
            "tokenizer": lambda: self.tokenizer,
            "rerank": lambda: reranker,
        }
        lacking = missing_tables(self.db, self.catalogue, name, optional=True)
        available = (table for table in signature.optional_tables if table not in lacking)
        tables = {table: self.table(table) for table in (*signature.tables, *available)}
        arguments = {
            **dict.fromkeys(signature.optional_tables),
            **tables,
            **{port: ports[port]() for port in signature.ports},
            **signature.keyword_arguments(values),
        }
        if signature.takes_text:
            return lambda question: signature.function(question.text, **arguments)
        return lambda question: signature.function(question, **arguments)

    def keyword_search(self) -> KeywordSearch:
        """Return the keyword search, for use without a method."""
        return fulltext.Bm25Search(self.db)

    def vector_search(self, budget: Budget) -> VectorSearch:
        """Return the vector search, with the embedders of the index."""
        return vectors.CosineSearch(self.db, partial(self.models.query_embedder, budget), self.matrices)

    def uses_llm(self, signature: Signature) -> bool:
        """Return whether the method may call a chat model."""
        return uses_llm(self.models, signature)

    def search(self, query: Query, budget: Budget | None = None) -> Context:
        """Return the evidence for a query, as `retrieve` does.

        budget: of the query, if it is open already.
        """
        snapshot = self._narrowed_for(query)
        method = query.method or self.default_method()
        budget = budget or self.models.budget(query.caps, query.paid_by or self.budget, query.cancel)
        bound = snapshot._bind_method(method, query.settings, budget, is_remote=query.is_remote)
        return snapshot._find(method, bound, query.question, explain=query.explain)[0]

    def answer(self, query: Query, budget: Budget | None = None) -> Answer:
        """Return the answer to a query, as `ask` does.

        A chat model writes it; without one, it consists of sentences of the documents, and with the default method
        requests such as lists are answered. Without a model, the question takes over the words of the last one in the
        history, and the documents that it cites come first. budget: of the query, if it is open already.
        """
        start, default = perf_counter(), self.default_method()
        method = query.method or default
        budget = budget or self.models.budget(query.caps, query.paid_by or self.budget, query.cancel)
        snapshot = self._narrowed_for(query)
        chat, asked = self.models.chat("answer"), query.question
        # raises errors before anything is paid
        bound = snapshot._bind_method(method, query.settings, budget, is_remote=query.is_remote)
        query.report("search")
        asked, note = add_history(asked, query.history, self._llm("answer", budget) if chat and query.history else None)
        method, bound, is_capped = snapshot._choose_method(query, asked, method, bound, budget)
        context, searched = snapshot._find(method, bound, asked, explain=query.explain)
        if note:
            context = put_cited_first(context, query.history[-1])
        quote = partial(
            answer_without_model,
            asked,
            searched,
            tracer=snapshot.tracer,
            words=snapshot.indexed_words(),
            embedder=self.embedder_of("chunks"),
            note=note,
            is_default=method == default,
        )
        if chat:
            query.report("answer", chat.fingerprint.partition(" ")[0])
            result = snapshot._write(query, asked, searched, context, quote, budget, is_default=method == default)
            result = replace(result, approach="capped") if is_capped else result
        else:
            result = announce(quote(context), query.on_token, query.on_context)
        usage, saved = replace(budget.total, seconds=perf_counter() - start), sum(budget.saved.values(), Usage())
        return replace(result.located(snapshot.tracer.locate), usage=usage, saved=saved)

    def _choose_method(
        self, query: Query, asked: ParsedQuestion, default: str, bound: BoundMethod, budget: Budget
    ) -> tuple[str, BoundMethod, bool]:
        """Return the method that the question chooses, and whether caps forbid it.

        It has a choice where the query names neither a method nor settings.
        """
        chosen = default if query.method or query.settings else self.answering_method(asked)
        if chosen == default:
            return default, bound, False
        chat = self.models.required_chat(chosen)
        if budget.has_room_below(WIDE_CALLS, Account(chosen, chat.fingerprint, chat.prices), WIDE_CALL_BYTES):
            return default, bound, True
        return chosen, self._bind_method(chosen, {}, budget, is_remote=query.is_remote), False

    def _narrowed_for(self, query: Query) -> Self:
        """Return the part of the snapshot that a query asks.

        Raises SettingsError for rights, Cancelled if the query is.
        """
        if query.cancel:
            query.cancel.check()
        if query.rights:
            raise SettingsError("a snapshot has the rights that it was opened with: use `kumi.snapshot(rights=…)`")
        return self.narrowed(query.filter) if query.filter else self

    def _find(
        self, method: str, bound: BoundMethod, asked: ParsedQuestion, *, explain: bool
    ) -> tuple[Context, ParsedQuestion]:
        """Return the evidence, and the question as it was searched."""
        # a model corrects by itself, and its replies are stored by the question as it was asked
        words = None if uses_llm(self.models, self.method(method)) else self.indexed_words()
        written, replaced = rewrite_question(asked, words)
        with span(f"retrieve {method}", {"kumihimo.method": method}) as set_attributes:
            context = bound(written)
            set_attributes({"kumihimo.results": len(context)})
        queries = (written.text, *context.queries) if replaced else context.queries
        rounds = (tuple(dict.fromkeys((asked.text, *queries))),)
        context = replace(context, queries=queries, replaced=replaced, rounds=rounds, method=method)
        return self._complete(asked, context, explain=explain), written

    def _complete(self, asked: ParsedQuestion, context: Context, *, explain: bool) -> Context:
        """Return the evidence with its places, and why it was found."""
        context = self.tracer.locate_evidence(context)
        return explanations.explain_context(self.tracer, asked.text, context) if explain else context

    def explained(self, answer: Answer) -> Answer:
        """Return an answer whose evidence is explained."""
        return replace(answer, context=explanations.explain_context(self.tracer, answer.question, answer.context))

    def _write(
        self,
        query: Query,
        asked: ParsedQuestion,
        searched: ParsedQuestion,
        context: Context,
        quote: Callable[[Context], Answer],
        budget: Budget,
        *,
        is_default: bool,
    ) -> Answer:
        """Return the answer of a chat model.

        It may search again, unless the method has a prompt of its own: that one reads points, not passages. is_default:
        it reads what rules find over documents and tables, or else what a model wrote of the things that are named.
        """
        settings, method = self._answer_settings(query.length, query.max_tokens), context.method
        found = find_result(asked, searched, context, self.tracer) if is_default else None
        if found:
            more = add_result(*found, context, self.tracer, self.tokenizer, int(_PASSAGE_SHARE * settings["budget"]))
        else:
            more = context + self.describe_names(asked.text) if is_default else context
        if more != context:
            context = self._complete(asked, replace(context, evidence=more.evidence), explain=query.explain)
        own_prompt = self.method(method).declaration.answer_prompt
        may_widen = not (found or query.method or query.settings)
        result = answer(
            asked.text,
            context,
            self.tracer.spans_to_cite,
            self.tracer.describe_document,
            self._llm("answer", budget),
            self.tokenizer,
            own_prompt or PROMPT,
            query.on_token,
            query.on_context,
            None if own_prompt else self._search_again(query, asked, method, budget, may_widen=may_widen),
            quote,
            **settings,
        )
        return replace(result, approach=found[0]) if found and result.model else result

    def _search_again(
        self, query: Query, asked: ParsedQuestion, method: str, budget: Budget, *, may_widen: bool
    ) -> search_again.SearchAgain | None:
        """Return how the answer to a query may search again.

        may_widen: whether it may have many documents read. All its prompts together stay within the bound of these.
        """
        chat, name = self.models.required_chat("answer"), searching_method(self.db, self.catalogue, self.models, method)
        if not name:
            return None
        settings = {**query.settings} if name == method else {}
        settings |= {"reranker": "none"} if "reranker" in self.method(name).settings else {}  # it would be more calls
        find = partial(self._find, name, self._bind_method(name, settings, budget), explain=query.explain)

        def search(context: Context, queries: Sequence[str]) -> dict[str, Context]:
            with query.report_search(model):
                return search_queries(asked, context, queries, self.indexed_words(), lambda text: find(text)[0])

        def read_widely(prompt: protocols.Messages) -> search_again.WideReading | None:
            used = sum(len(self.tokenizer(message["content"])) for message in prompt)
            reads = int(str(self.settings_with(WIDE_METHOD, {})["reads"])) - used
            if reads < used or budget.has_room_below(1 + WIDE_CALLS, account, WIDE_CALL_BYTES):
                return None
            bound = self._bind_method(WIDE_METHOD, {"reads": reads}, budget)
            path = self.method(WIDE_METHOD).declaration.answer_prompt or PROMPT

            def read() -> tuple[Context, Path]:
                with query.report_search(model):
                    return self._find(WIDE_METHOD, bound, asked, explain=query.explain)[0], path

            return read

        account, model = Account("answer", chat.fingerprint, chat.prices), chat.fingerprint.partition(" ")[0]
        return search_again.SearchAgain(
            search,
            lambda prompt: not budget.has_room_below(2, account, protocols.ChatRequest(prompt).size),
            read_widely if may_widen and self.can_read_widely else lambda _: None,
        )

    def _answer_settings(self, length: Length | None = None, max_tokens: int | None = None) -> dict[str, Any]:
        """Return the settings of the answer, with this length and limit."""
        settings: dict[str, Any] = {**self.settings["answer"]}
        limit = settings["max_tokens"] if max_tokens is None else min(max_tokens, settings["max_tokens"])
        return settings | {"max_tokens": limit} | ({} if length is None else {"length": length})

    def prompt_sources(self, question: str, context: Context) -> list[source_packing.PackedSource]:
        """Return the sources that the prompt of an answer holds."""
        values = self._answer_settings()
        limits = {"budget": values["budget"], "limit": values["sources"], "score_share": values["score_share"]}
        return source_packing.pack_sources(question, context, self.tokenizer, **limits)

    def describe_search(self, context: Context) -> str:
        """Return the note on replaced words, or empty."""
        return phrases.replaced_text(context)

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

    @cached_property
    def tracer(self) -> source_tracer.SourceTracer:
        """Return what finds the source spans of rows."""
        return source_tracer.SourceTracer(self.db, self.catalogue, cache(self.table), (self.rights, self.filter))

    def trace(self, item: Reference | Evidence) -> Iterator[Span]:
        """Yield the source spans of a row or evidence, cited first."""
        return self.tracer.trace(item)

    def trace_part(self, item: Evidence, start: int, end: int) -> Iterator[Span]:
        """Yield the source spans of a part of the text of evidence.

        That is the part itself where the text is a passage of a document, else all sources.
        """
        return self.tracer.trace_part(item, start, end)
