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

from kumihimo.core.context import Answer, Context, Evidence, Ruler
from kumihimo.core.digests import digest, storable
from kumihimo.core.errors import SettingsError, Unusable, unknown
from kumihimo.core.lineage import passes, sources
from kumihimo.core.records import NOT_READ, Chunk, Document, Passage, Record, Reference
from kumihimo.core.settings import Setting, Values, resolve
from kumihimo.core.signature import Signature
from kumihimo.core.spans import Span, place
from kumihimo.core.table import Passes, Rows, Table, codec
from kumihimo.core.task import Port
from kumihimo.core.usage import Usage
from kumihimo.core.wiring import ROOT, plan
from kumihimo.generation.answer import PROMPT, answer
from kumihimo.generation.followups import suggested
from kumihimo.generation.standalone_question import alone
from kumihimo.index import STEPS, needed, scope, values
from kumihimo.llm.budget import Caps, Purse
from kumihimo.llm.cached_llm import Asking
from kumihimo.llm.local_embedder import LocalEmbedder
from kumihimo.llm.protocols import Embedder, Hear, Rerank
from kumihimo.llm.registry import RULES, SET, Connections
from kumihimo.methods import ANSWERS, METHODS
from kumihimo.search.fulltext import WordSearch
from kumihimo.search.vectors import Matrices, VectorSearch
from kumihimo.storage.sqlite.store import Db, SqlRows

if TYPE_CHECKING:
    from kumihimo.app.lazy_rows import Held

DEFAULT = "braid"
_PLAIN = "naive"  # the method of an index that was not built for the default
_QUOTED_FROM = 50  # chunks of one piece of evidence
KINDS: dict[str, type[Record]] = {ROOT: Document} | {name: s.makes for name, s in STEPS.items() if s.makes}


def method(name: str) -> Signature:
    """The method of that name. Raises SettingsError, naming the nearest."""
    if name not in METHODS:
        raise SettingsError(unknown("method", name, METHODS))
    return METHODS[name]


def lacking(models: Connections, tables: Iterable[str]) -> list[str]:
    """Of the steps that make these tables those that cannot do without a model, and have none."""
    paid = [name for name in needed(tables) if "ask" in STEPS[name].ports and "ask" not in STEPS[name].optional]
    return [name for name in STEPS if name in paid and models.chat(scope(name)) is None]


@dataclass(frozen=True, slots=True)
class Reading:
    """The index as one finished build left it, for as long as its transaction lasts."""

    db: Db
    settings: Values
    models: Connections
    ruler: Ruler
    matrices: Matrices
    lines: dict[str, list[int] | None] = field(default_factory=dict)  # by uri, where the lines end that were asked for
    held: dict[str, Held] = field(default_factory=dict)  # by table, the rows that were made when they were asked for
    generation: int = 0  # which of several answers to the same question is meant
    purse: Purse | None = None  # what all that is asked is paid from; none: each question has one of its own

    def table(self, name: str) -> Table[Any]:
        """A table of the index. Raises Unusable where it has not been built."""
        if name not in KINDS:
            raise SettingsError(unknown("table", name, KINDS))
        if not self.db.has(name):
            raise Unusable(f"the index has no table {name} yet: `kumi index` builds it")
        return Table(name, codec(KINDS[name]), self._rows(name))

    def _rows(self, name: str, purse: Purse | None = None, passes: Passes = lambda _: True) -> Rows:
        """The rows of a table; where they are made when they are asked for, those too that the purse pays for.

        Without one: those that cost nothing, or were paid for before.
        """
        rows = SqlRows(self.db, name)
        settings = self._when_asked(name)
        if settings is None:
            return rows
        from kumihimo.app.lazy_rows import Maker, WhenAsked, remembering

        ports: dict[str, Port] = {"ruler": self.ruler}
        ruled = self.db.meta("models", {}).get(name) == RULES
        if not ruled and self.models.chat(scope(name)):
            asking = self.models.asking(scope(name), purse or Purse())
            ports["ask"] = asking if purse else remembering(asking)
        step = next(step for step in plan(STEPS) if step.name == name)
        held = self.held.setdefault(name, {})
        made = Maker(step, settings, ports, partial(SqlRows, self.db), held if purse else {**held}, strict=not purse)
        return WhenAsked(rows, made, passes, lenient=not purse)

    def _when_asked(self, name: str) -> dict[str, object] | None:
        """The settings by which a table's rows are made when they are asked for, if the index was built so."""
        if name not in STEPS or "when" not in STEPS[name].settings:
            return None
        settings = values(name, self.db.meta("settings", {}))
        return {**settings, "when": "built"} if settings.get("when") == "asked" else None

    def usual(self) -> str:
        """The method of a question that names none: the default, or what the index was built for."""
        built = self.db.meta("methods", [DEFAULT])
        return next((name for name in (DEFAULT, _PLAIN) if name in built), str(built[0]))

    def retrieve(
        self, question: str, name: str = "", *, where: str = "", caps: Caps | None = None, **settings: Any
    ) -> Context:
        """What the method finds for the question, best first, in the documents that pass `where`."""
        purse = self.models.purse(caps, self.purse)
        return self._search(name or self.usual(), where, settings, purse)(storable(question))

    def ready(self, name: str, **settings: Any) -> None:
        """Raises what is wrong with asking by that method, so far as it can be told before a question is there."""
        self._search(name, "", settings, Purse())

    def _search(self, name: str, where: str, settings: Mapping[str, object], purse: Purse) -> Callable[[str], Context]:
        """The method, ready to be asked: what is wrong is said before anything is paid."""
        asked = method(name)
        known: dict[str, Mapping[str, Setting]] = {name: asked.settings}
        values = resolve(known, {name: self.settings.get(name, {})}, {name: settings})[name]
        self._check(name, asked)
        ranking = self.models.ranking(name, purse, self.generation)
        ranking.ready(cast(Rerank, values.get("rerank", "none")))
        ports: dict[str, Callable[[], object]] = {
            "ask": lambda: None if self._without(asked) else self._asking(name, purse),
            "match": self.match,
            "near": lambda: self.near(purse),
            "ruler": lambda: self.ruler,
            "rank": lambda: ranking,
        }
        there = list(filter(self.db.has, asked.may))  # of these, what is there: nothing is paid for them
        tables = {**self._tables(asked.tables, where, purse), **self._tables(there, where, None)}
        given = {**dict.fromkeys(asked.may), **tables, **{port: ports[port]() for port in asked.ports}, **values}

        def search(question: str) -> Context:
            if not question.strip():
                raise SettingsError("the question is empty: write what you want to know")
            found: Context = asked.function(question, **given)
            return found

        return search

    def match(self) -> WordSearch:
        """`Match`, for whoever searches without a method."""
        return WordSearch(self.db)

    def near(self, purse: Purse) -> VectorSearch:
        """`Near`, by the embedder that the index was made with."""
        return VectorSearch(self.db, self._embedder(purse), self.matrices)

    def _without(self, asked: Signature) -> bool:
        """Whether the method can do without a model, and has to."""
        return "ask" in asked.optional and self.models.chat(asked.name) is None

    def _tables(self, names: Iterable[str], where: str, purse: Purse | None) -> dict[str, Table[Any]]:
        """As a method reads them: of rows made of several documents, only those of which all pass."""
        kinds = {name: codec(KINDS[name]) for name in names}
        if not where.strip():
            return {name: Table(name, kind, self._rows(name, purse)) for name, kind in kinds.items()}
        of = passes(STEPS, self.table, self.passing(where))
        return {
            name: Table(name, kind, self._rows(name, purse, of(name))).only(of(name)) for name, kind in kinds.items()
        }

    def passing(self, where: str) -> frozenset[str]:
        """The ids of the documents of which the expression holds. Raises SettingsError."""
        from kumihimo.search.metadata_filter import passing  # here: few questions have a filter

        by = self.db.meta("models", {}).get("metadata", RULES)
        return passing(where, self.table(ROOT), self.table("metadata") if by != RULES else None)  # by rule: their own

    def _check(self, name: str, asked: Signature) -> None:
        """Raises Unusable where a table is not indexed as the method needs it, with the command that does it."""
        missing = [table for table in asked.tables if not self.db.has(table)]
        for port, view in (("match", "words"), ("near", "vectors")):
            if port in asked.ports:
                found = [table for table in asked.tables if KINDS[table].FOUND]
                missing += [table for table in found if self.db.meta(f"{view}_{table}") is None]
        if missing:
            wanted = ",".join(dict.fromkeys([*self.db.meta("methods", []), name]))
            steps = [step for step in needed(missing) if "ask" in STEPS[step].ports]
            if without := lacking(self.models, missing):
                raise Unusable(
                    f"{name} needs a chat model, which writes {' and '.join(without)}: {SET}; "
                    f"then `kumi index --methods {wanted}` builds them"
                )
            asks = any(self.models.chat(scope(step)) for step in steps)
            dear = asks or ("near" in asked.ports and self.models.paid_embedder)
            cost = f", and `kumi plan --methods {wanted}` says what it costs" if dear else ""
            raise Unusable(f"the index was not built for {name}: `kumi index --methods {wanted}` does that{cost}")

    def _embedder(self, purse: Purse) -> Embedder:
        """The one that the index was made with, as far as it can be had: settings may have changed since."""
        states = [json.loads(state) for (state,) in self.db.all("SELECT value FROM meta WHERE name GLOB 'vectors_*'")]
        local = all(state["embedder"] == LocalEmbedder().mark for state in states)
        return LocalEmbedder() if local else self.models.embedder(purse)

    def ask(
        self,
        question: str,
        name: str = "",
        *,
        where: str = "",
        after: Sequence[Answer] = (),
        caps: Caps | None = None,
        hear: Hear | None = None,
        **settings: Any,
    ) -> Answer:
        """The answer with its citations, in the words of the model that is set, or else of the documents.

        where: which documents may speak. after: earlier answers, to which the question may point back if there is a
        model. caps: what may be spent on it. hear: is told the text as it comes.
        """
        name = name or self.usual()
        began, question, purse = perf_counter(), storable(question), self.models.purse(caps, self.purse)
        search = self._search(name, where, settings, purse)
        if after and question.strip() and self.models.chat("answer"):
            question = alone(question, after, self._asking("answer", purse))
        context = search(question)
        if self.models.chat("answer"):
            ask, own = self._asking("answer", purse), cast(dict[str, Any], self.settings["answer"])
            made = answer(question, name, context, self._spans, ask, self.ruler, ANSWERS.get(name, PROMPT), hear, **own)
        else:
            from kumihimo.generation.extractive_answer import quoted  # here: who builds an index quotes nothing

            made = quoted(question, name, context, self._spans, LocalEmbedder())
            if hear:
                hear(made.text)
        citations = tuple(replace(citation, span=self.placed(citation.span)) for citation in made.citations)
        usage, saved = replace(purse.total, seconds=perf_counter() - began), sum(purse.saved.values(), Usage())
        return replace(made, citations=citations, usage=usage, saved=saved)

    def _asking(self, scope: str, purse: Purse) -> Asking:
        return self.models.asking(scope, purse, generation=self.generation)

    def suggester(self, caps: Caps | None = None) -> Callable[[Answer], Answer]:
        """What adds to an answer the questions one may want to ask next, and their cost to its own.

        caps: what the answer and they may cost together. Raises SettingsError where there is no model to ask.
        """
        purse = self.models.purse(caps)
        ask = self.models.asking("answer", purse)

        def suggest(given: Answer) -> Answer:
            purse.total = given.usage
            questions = suggested(given, ask, self.ruler)
            return replace(given, suggested=questions, usage=purse.total)

        return suggest

    def trace(self, item: Reference | Evidence) -> Iterator[Span]:
        """Where a row, or what a method made of rows, stands: in these chunks, or in this document.

        First those of what its text refers to, then those of all that it was made of; each is read when it is wanted.
        """
        return map(self.placed, self._stands(item))

    def _spans(self, item: Evidence) -> Iterator[Span]:
        """What an answer quotes from: the first of where it stands; only what it quotes is placed."""
        return islice(self._stands(item), _QUOTED_FROM)

    def _stands(self, item: Reference | Evidence) -> Iterator[Span]:
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
        made_up = isinstance(item, Evidence) and item.table not in KINDS  # it stands in no table
        if isinstance(item, Evidence) and item.also:
            for part in item.parts:
                yield from self.sources(part)
            return
        record = item.record if isinstance(item, Evidence) else self.table(item[0]).get(item[1])
        reference = item.reference if isinstance(item, Evidence) else item
        for row in record.made_of() if made_up and record else record.cites() if record else ():
            yield from self.sources(row)
        if isinstance(record, Passage):
            yield reference
        elif not made_up:
            yield from sources(STEPS, self.table, reference)

    def placed(self, span: Span) -> Span:
        """With its page, slide or sheet; or its line, where the document's text is its file, line by line."""
        ((places,),) = self.db.all("SELECT places FROM documents WHERE id = ?", digest(span.uri))
        if named := json.loads(places):
            return replace(span, place=place(named, span.start, span.end))
        if (ends := self._line_ends(span.uri)) is None:
            return span
        return replace(span, place=f"line {bisect_left(ends, span.start) + 1}")

    def _line_ends(self, uri: str) -> list[int] | None:
        """Where the lines of a document end whose text is its file, line by line; read once."""
        if uri not in self.lines:
            verbatim = "file = uri AND media_type IN ('text/plain', 'text/markdown')"
            found = self.db.one(f"SELECT text FROM documents WHERE id = ? AND {verbatim}", digest(uri))
            self.lines[uri] = [match.start() for match in re.finditer("\n", found[0])] if found else None
        return self.lines[uri]

    def find(self, id: str) -> Evidence:
        """The row of that id (`chunks:0f8c….00003`, or without its table), or the document of that uri."""
        table, colon, rest = storable(id).partition(":")
        tables = [table] if colon and table in KINDS else list(KINDS)
        wanted = rest if colon and table in KINDS else storable(id)
        for name in tables:
            if self.db.has(name) and (record := self.table(name).get(wanted)):
                return Evidence(name, record, 1.0)
        if document := self.table(ROOT).get(digest(storable(id))):
            return Evidence(ROOT, document, 1.0)
        raise SettingsError(f"nothing in the index has the id {id!r}: `kumi retrieve QUESTION` shows ids")


def counts(db: Db) -> dict[str, int]:
    """How many rows each table has."""
    return {table: SqlRows(db, table).count() for table in KINDS if db.has(table)}


def failures(db: Db) -> tuple[tuple[str, str, str], ...]:
    """What failed: (step, item, why)."""
    return tuple(db.all("SELECT step, maker, error FROM failed ORDER BY step, maker"))


def partly(db: Db) -> tuple[str, ...]:
    """The documents of which something could not be read, and what."""
    if not db.has(ROOT):
        return ()
    rows = db.all(f"""SELECT uri, metadata FROM {ROOT} WHERE metadata LIKE '%"{NOT_READ}"%' ORDER BY uri""")
    found = ((uri, json.loads(metadata).get(NOT_READ)) for uri, metadata in rows)
    return tuple(f"{uri}: {'; '.join(map(str, said))}" for uri, said in found if isinstance(said, list))
