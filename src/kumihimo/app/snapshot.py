"""one read transaction -> Reading: retrieve, ask, trace, as of one finished build."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

from kumihimo.core.context import Answer, Context, Evidence, Tokenizer
from kumihimo.core.digests import hash_parts, replace_surrogates
from kumihimo.core.errors import IndexUnavailable, SettingsError, describe_unknown
from kumihimo.core.lineage import trace_sources, visibility_filters
from kumihimo.core.records import NOT_READ, Chunk, Document, Passage, Record, Reference
from kumihimo.core.settings import Setting, SettingValues, resolve_settings
from kumihimo.core.signature import Signature
from kumihimo.core.spans import Span, describe_place
from kumihimo.core.table import RowFilter, Rows, Table, codec
from kumihimo.core.task import Port
from kumihimo.core.usage import Usage
from kumihimo.core.wiring import ROOT, order_steps
from kumihimo.generation.answer import PROMPT, answer
from kumihimo.generation.followups import suggest_questions
from kumihimo.generation.standalone_question import rewrite_standalone
from kumihimo.index import STEPS, settings_for_step, settings_scope, upstream_steps
from kumihimo.llm.budget import Budget, Caps
from kumihimo.llm.cached_llm import CachedLLM
from kumihimo.llm.local_embedder import LocalEmbedder
from kumihimo.llm.protocols import Embedder, RerankerName, TokenCallback
from kumihimo.llm.registry import RULES, SET_MODEL_HINT, ModelRegistry
from kumihimo.methods import ANSWER_PROMPTS, METHODS
from kumihimo.search.fulltext import SqliteKeywordSearch
from kumihimo.search.vectors import Matrices, SqliteVectorSearch
from kumihimo.storage.sqlite.store import Db, SqlRows

if TYPE_CHECKING:
    from kumihimo.app.lazy_rows import RowFutures

DEFAULT_METHOD = "braid"
_FALLBACK_METHOD = "naive"  # the method of an index that was not built for the default
_MAX_SPANS = 50  # chunks of one piece of evidence
RECORD_TYPES: dict[str, type[Record]] = {ROOT: Document} | {
    name: s.output_type for name, s in STEPS.items() if s.output_type
}


def get_method(name: str) -> Signature:
    """The method of that name. Raises SettingsError, naming the nearest."""
    if name not in METHODS:
        raise SettingsError(describe_unknown("method", name, METHODS))
    return METHODS[name]


def steps_without_llm(models: ModelRegistry, tables: Iterable[str]) -> list[str]:
    """Of the steps that make these tables those that cannot do without a model, and have none."""
    paid = [
        name
        for name in upstream_steps(tables)
        if "llm" in STEPS[name].ports and "llm" not in STEPS[name].optional_ports
    ]
    return [name for name in STEPS if name in paid and models.chat(settings_scope(name)) is None]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The index as one finished build left it, for as long as its transaction lasts."""

    db: Db
    settings: SettingValues
    models: ModelRegistry
    tokenizer: Tokenizer
    matrices: Matrices
    line_ends: dict[str, list[int] | None] = field(
        default_factory=dict
    )  # by uri, where the lines end that were asked for
    lazy_rows: dict[str, RowFutures] = field(
        default_factory=dict
    )  # by table, the rows that were made when they were asked for
    generation: int = 0  # which of several answers to the same question is meant
    budget: Budget | None = None  # what all that is asked is paid from; none: each question has one of its own

    def table(self, name: str) -> Table[Any]:
        """A table of the index. Raises Unusable where it has not been built."""
        if name not in RECORD_TYPES:
            raise SettingsError(describe_unknown("table", name, RECORD_TYPES))
        if not self.db.has(name):
            raise IndexUnavailable(f"the index has no table {name} yet: `kumi index` builds it")
        return Table(name, codec(RECORD_TYPES[name]), self._rows(name))

    def _rows(self, name: str, budget: Budget | None = None, visible: RowFilter = lambda _: True) -> Rows:
        """The rows of a table; where they are made when they are asked for, those too that the purse pays for.

        Without one: those that cost nothing, or were paid for before.
        """
        rows = SqlRows(self.db, name)
        settings = self._lazy_settings(name)
        if settings is None:
            return rows
        from kumihimo.app.lazy_rows import LazyRows, RowMaker, cache_only

        ports: dict[str, Port] = {"tokenizer": self.tokenizer}
        ruled = self.db.meta("models", {}).get(name) == RULES
        if not ruled and self.models.chat(settings_scope(name)):
            asking = self.models.llm(settings_scope(name), budget or Budget())
            ports["llm"] = asking if budget else cache_only(asking)
        step = next(step for step in order_steps(STEPS) if step.name == name)
        held = self.lazy_rows.setdefault(name, {})
        made = RowMaker(
            step, settings, ports, partial(SqlRows, self.db), held if budget else {**held}, strict=not budget
        )
        return LazyRows(rows, made, visible, lenient=not budget)

    def _lazy_settings(self, name: str) -> dict[str, object] | None:
        """The settings by which a table's rows are made when they are asked for, if the index was built so."""
        if name not in STEPS or "when" not in STEPS[name].settings:
            return None
        settings = settings_for_step(name, self.db.meta("settings", {}))
        return {**settings, "when": "built"} if settings.get("when") == "asked" else None

    def default_method(self) -> str:
        """The method of a question that names none: the default, or what the index was built for."""
        built = self.db.meta("methods", [DEFAULT_METHOD])
        return next((name for name in (DEFAULT_METHOD, _FALLBACK_METHOD) if name in built), str(built[0]))

    def retrieve(
        self, question: str, name: str = "", *, filter: str = "", caps: Caps | None = None, **settings: Any
    ) -> Context:
        """What the method finds for the question, best first, in the documents that pass `where`."""
        purse = self.models.budget(caps, self.budget)
        return self._prepare_search(name or self.default_method(), filter, settings, purse)(
            replace_surrogates(question)
        )

    def validate_method(self, name: str, **settings: Any) -> None:
        """Raises what is wrong with asking by that method, so far as it can be told before a question is there."""
        self._prepare_search(name, "", settings, Budget())

    def _prepare_search(
        self, name: str, filter_expression: str, settings: Mapping[str, object], budget: Budget
    ) -> Callable[[str], Context]:
        """The method, ready to be asked: what is wrong is said before anything is paid."""
        asked = get_method(name)
        known: dict[str, Mapping[str, Setting]] = {name: asked.settings}
        values = resolve_settings(known, {name: self.settings.get(name, {})}, {name: settings})[name]
        self._require_indexed(name, asked)
        ranking = self.models.candidate_reranker(name, budget, self.generation)
        ranking.check_available(cast(RerankerName, values.get("reranker", "none")))
        ports: dict[str, Callable[[], object]] = {
            "llm": lambda: None if self._runs_without_llm(asked) else self._llm(name, budget),
            "keyword_search": self.keyword_search,
            "vector_search": lambda: self.vector_search(budget),
            "tokenizer": lambda: self.tokenizer,
            "rerank": lambda: ranking,
        }
        there = list(filter(self.db.has, asked.optional_tables))  # of these, what is there: nothing is paid for them
        tables = {
            **self._tables(asked.tables, filter_expression, budget),
            **self._tables(there, filter_expression, None),
        }
        given = {
            **dict.fromkeys(asked.optional_tables),
            **tables,
            **{port: ports[port]() for port in asked.ports},
            **values,
        }

        def search(question: str) -> Context:
            if not question.strip():
                raise SettingsError("the question is empty: write what you want to know")
            found: Context = asked.function(question, **given)
            return found

        return search

    def keyword_search(self) -> SqliteKeywordSearch:
        """`Match`, for whoever searches without a method."""
        return SqliteKeywordSearch(self.db)

    def vector_search(self, budget: Budget) -> SqliteVectorSearch:
        """`Near`, by the embedder that the index was made with."""
        return SqliteVectorSearch(self.db, self._embedder(budget), self.matrices)

    def _runs_without_llm(self, asked: Signature) -> bool:
        """Whether the method can do without a model, and has to."""
        return "llm" in asked.optional_ports and self.models.chat(asked.name) is None

    def _tables(self, names: Iterable[str], filter_expression: str, budget: Budget | None) -> dict[str, Table[Any]]:
        """As a method reads them: of rows made of several documents, only those of which all pass."""
        kinds = {name: codec(RECORD_TYPES[name]) for name in names}
        if not filter_expression.strip():
            return {name: Table(name, kind, self._rows(name, budget)) for name, kind in kinds.items()}
        of = visibility_filters(STEPS, self.table, self.matching_documents(filter_expression))
        return {
            name: Table(name, kind, self._rows(name, budget, of(name))).filtered(of(name))
            for name, kind in kinds.items()
        }

    def matching_documents(self, filter: str) -> frozenset[str]:
        """The ids of the documents of which the expression holds. Raises SettingsError."""
        from kumihimo.search.metadata_filter import matching_documents  # here: few questions have a filter

        by = self.db.meta("models", {}).get("metadata", RULES)
        return matching_documents(
            filter, self.table(ROOT), self.table("metadata") if by != RULES else None
        )  # by rule: their own

    def _require_indexed(self, name: str, asked: Signature) -> None:
        """Raises Unusable where a table is not indexed as the method needs it, with the command that does it."""
        missing = [table for table in asked.tables if not self.db.has(table)]
        for port, view in (("keyword_search", "words"), ("vector_search", "vectors")):
            if port in asked.ports:
                found = [table for table in asked.tables if RECORD_TYPES[table].SEARCHABLE]
                missing += [table for table in found if self.db.meta(f"{view}_{table}") is None]
        if missing:
            wanted = ",".join(dict.fromkeys([*self.db.meta("methods", []), name]))
            steps = [step for step in upstream_steps(missing) if "llm" in STEPS[step].ports]
            if without := steps_without_llm(self.models, missing):
                raise IndexUnavailable(
                    f"{name} needs a chat model, which writes {' and '.join(without)}: {SET_MODEL_HINT}; "
                    f"then `kumi index --methods {wanted}` builds them"
                )
            asks = any(self.models.chat(settings_scope(step)) for step in steps)
            dear = asks or ("vector_search" in asked.ports and self.models.paid_embedder)
            cost = f", and `kumi plan --methods {wanted}` says what it costs" if dear else ""
            raise IndexUnavailable(
                f"the index was not built for {name}: `kumi index --methods {wanted}` does that{cost}"
            )

    def _embedder(self, budget: Budget) -> Embedder:
        """The one that the index was made with, as far as it can be had: settings may have changed since."""
        states = [json.loads(state) for (state,) in self.db.all("SELECT value FROM meta WHERE name GLOB 'vectors_*'")]
        local = all(state["embedder"] == LocalEmbedder().fingerprint for state in states)
        return LocalEmbedder() if local else self.models.embedder(budget)

    def ask(
        self,
        question: str,
        name: str = "",
        *,
        filter: str = "",
        history: Sequence[Answer] = (),
        caps: Caps | None = None,
        on_token: TokenCallback | None = None,
        **settings: Any,
    ) -> Answer:
        """The answer with its citations, in the words of the model that is set, or else of the documents.

        where: which documents may speak. after: earlier answers, to which the question may point back if there is a
        model. caps: what may be spent on it. hear: is told the text as it comes.
        """
        name = name or self.default_method()
        began, question, purse = perf_counter(), replace_surrogates(question), self.models.budget(caps, self.budget)
        search = self._prepare_search(name, filter, settings, purse)
        if history and question.strip() and self.models.chat("answer"):
            question = rewrite_standalone(question, history, self._llm("answer", purse))
        context = search(question)
        if self.models.chat("answer"):
            ask, own = self._llm("answer", purse), cast(dict[str, Any], self.settings["answer"])
            made = answer(
                question,
                name,
                context,
                self._quotable_spans,
                ask,
                self.tokenizer,
                ANSWER_PROMPTS.get(name, PROMPT),
                on_token,
                **own,
            )
        else:
            from kumihimo.generation.extractive_answer import quote_answer  # here: who builds an index quotes nothing

            made = quote_answer(question, name, context, self._quotable_spans, LocalEmbedder())
            if on_token:
                on_token(made.text)
        citations = tuple(replace(citation, span=self.locate(citation.span)) for citation in made.citations)
        usage, saved = replace(purse.total, seconds=perf_counter() - began), sum(purse.saved.values(), Usage())
        return replace(made, citations=citations, usage=usage, saved=saved)

    def _llm(self, scope: str, budget: Budget) -> CachedLLM:
        return self.models.llm(scope, budget, generation=self.generation)

    def followup_suggester(self, caps: Caps | None = None) -> Callable[[Answer], Answer]:
        """What adds to an answer the questions one may want to ask next, and their cost to its own.

        caps: what the answer and they may cost together. Raises SettingsError where there is no model to ask.
        """
        purse = self.models.budget(caps)
        ask = self.models.llm("answer", purse)

        def suggest(given: Answer) -> Answer:
            purse.total = given.usage
            questions = suggest_questions(given, ask, self.tokenizer)
            return replace(given, followups=questions, usage=purse.total)

        return suggest

    def trace(self, item: Reference | Evidence) -> Iterator[Span]:
        """Where a row, or what a method made of rows, stands: in these chunks, or in this document.

        First those of what its text refers to, then those of all that it was made of; each is read when it is wanted.
        """
        return map(self.locate, self._source_spans(item))

    def _quotable_spans(self, item: Evidence) -> Iterator[Span]:
        """What an answer quotes from: the first of where it stands; only what it quotes is placed."""
        return islice(self._source_spans(item), _MAX_SPANS)

    def _source_spans(self, item: Reference | Evidence) -> Iterator[Span]:
        seen: set[Reference] = set()
        for table, id in self.sources(item):
            if (table, id) in seen:
                continue
            seen.add((table, id))
            record = self.table(table)[id]
            if isinstance(record, Chunk | Passage):
                ((uri,),) = self.db.all("SELECT uri FROM documents WHERE id = ?", id.partition(".")[0])
                chunk = id if isinstance(record, Chunk) else record.chunk
                yield Span(chunk, uri, record.start, record.end, record.text)
            else:
                yield Span("", record.uri, 0, len(record.text), record.text)

    def sources(self, item: Reference | Evidence) -> Iterator[Reference]:
        """The chunks and documents that it was made of, or the passage that it is; one may come again."""
        made_up = isinstance(item, Evidence) and item.table not in RECORD_TYPES  # it stands in no table
        if isinstance(item, Evidence) and item.duplicates:
            for part in item.parts:
                yield from self.sources(part)
            return
        record = item.record if isinstance(item, Evidence) else self.table(item[0]).get(item[1])
        reference = item.reference if isinstance(item, Evidence) else item
        for row in record.parents() if made_up and record else record.citations() if record else ():
            yield from self.sources(row)
        if isinstance(record, Passage):
            yield reference
        elif not made_up:
            yield from trace_sources(STEPS, self.table, reference)

    def locate(self, span: Span) -> Span:
        """With its page, slide or sheet; or its line, where the document's text is its file, line by line."""
        ((places,),) = self.db.all("SELECT places FROM documents WHERE id = ?", hash_parts(span.uri))
        if named := json.loads(places):
            return replace(span, place=describe_place(named, span.start, span.end))
        if (ends := self._line_ends(span.uri)) is None:
            return span
        return replace(span, place=f"line {bisect_left(ends, span.start) + 1}")

    def _line_ends(self, uri: str) -> list[int] | None:
        """Where the lines of a document end whose text is its file, line by line; read once."""
        if uri not in self.line_ends:
            verbatim = "file = uri AND media_type IN ('text/plain', 'text/markdown')"
            found = self.db.one(f"SELECT text FROM documents WHERE id = ? AND {verbatim}", hash_parts(uri))
            self.line_ends[uri] = [match.start() for match in re.finditer("\n", found[0])] if found else None
        return self.line_ends[uri]

    def find(self, id: str) -> Evidence:
        """The row of that id (`chunks:0f8c….00003`, or without its table), or the document of that uri."""
        table, colon, rest = replace_surrogates(id).partition(":")
        tables = [table] if colon and table in RECORD_TYPES else list(RECORD_TYPES)
        wanted = rest if colon and table in RECORD_TYPES else replace_surrogates(id)
        for name in tables:
            if self.db.has(name) and (record := self.table(name).get(wanted)):
                return Evidence(name, record, 1.0)
        if document := self.table(ROOT).get(hash_parts(replace_surrogates(id))):
            return Evidence(ROOT, document, 1.0)
        raise SettingsError(f"nothing in the index has the id {id!r}: `kumi retrieve QUESTION` shows ids")


def row_counts(db: Db) -> dict[str, int]:
    """How many rows each table has."""
    return {table: SqlRows(db, table).count() for table in RECORD_TYPES if db.has(table)}


def failures(db: Db) -> tuple[tuple[str, str, str], ...]:
    """What failed: (step, item, why)."""
    return tuple(db.all("SELECT step, maker, error FROM failed ORDER BY step, maker"))


def partial_documents(db: Db) -> tuple[str, ...]:
    """The documents of which something could not be read, and what."""
    if not db.has(ROOT):
        return ()
    rows = db.all(f"""SELECT uri, metadata FROM {ROOT} WHERE metadata LIKE '%"{NOT_READ}"%' ORDER BY uri""")
    found = ((uri, json.loads(metadata).get(NOT_READ)) for uri, metadata in rows)
    return tuple(f"{uri}: {'; '.join(map(str, said))}" for uri, said in found if isinstance(said, list))
