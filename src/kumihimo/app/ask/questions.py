"""a query of a facade -> what a snapshot returns, within a budget that the caller may cancel."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any, TypeVar

from kumihimo.app.ask.query import Query
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.opened.catalogue import missing_tables
from kumihimo.app.opened.open_index import OpenIndex
from kumihimo.core.answer import Answer
from kumihimo.core.cancel import CancelToken
from kumihimo.core.context import Context
from kumihimo.core.errors import IndexChanged, IndexUnavailable
from kumihimo.core.records import Reference
from kumihimo.core.spans import Span
from kumihimo.core.task import Progress
from kumihimo.core.usage import Usage
from kumihimo.generation.answer import Length
from kumihimo.llm.budget import Budget, Caps
from kumihimo.llm.concurrency import iterate_tokens
from kumihimo.llm.local_embedder import create_local_embedder, is_local
from kumihimo.llm.protocols import TokenCallback, Vectors
from kumihimo.llm.registry import ModelRegistry
from kumihimo.llm.telemetry import span
from kumihimo.search.stores import load_matrices
from kumihimo.storage.database import as_database
from kumihimo.text.question import ParsedQuestion

T = TypeVar("T")
MAX_RESTARTS = 2  # of a question, because of other builds
MAX_REOPENED = 5  # times that a snapshot is opened again, because a build has just replaced its vectors
BuildMethod = Callable[[OpenIndex, str, Progress | None, CancelToken | None], None]


@contextmanager
def open_snapshot(
    index: OpenIndex,
    method: str = "",
    rights: str = "",
    cancel: CancelToken | None = None,
    build: BuildMethod | None = None,
) -> Iterator[Snapshot]:
    """Open a snapshot: one read transaction over one finished build.

    build: builds the tables that the method lacks, if they cost nothing. Other parameters: as for `Kumihimo.snapshot`.
    """
    missing, is_prepared = "", build is None or method not in index.catalogue.methods
    for _ in range(MAX_REOPENED):
        with index.store.read_transaction(cancel) as db:
            if is_prepared or not missing_tables(db, index.catalogue, method):
                try:
                    vectors = load_matrices(as_database(db), index.place.folder, index.files)
                except FileNotFoundError as error:  # a build has just replaced them: open the new ones
                    missing = error.filename
                    continue
                parts = index.catalogue, index.settings, index.tokenizer, index.models, vectors
                yield Snapshot(db, *parts, rights=rights.strip())
                return
        if build:
            build(index, method, None, cancel)
        is_prepared = True
    raise IndexUnavailable(f"the vectors in {missing} are missing: `kumi index` makes them again")


class Questions(ABC):
    """An index, or several, that answers questions."""

    models: ModelRegistry
    settings: dict[str, dict[str, object]]

    @abstractmethod
    def prepare_method(self, name: str, progress: Progress | None = None, *, cancel: CancelToken | None = None) -> None:
        """Build the tables that a method lacks, if they cost nothing."""

    @abstractmethod
    def snapshot(
        self, method: str = "", *, rights: str = "", cancel: CancelToken | None = None
    ) -> AbstractContextManager[Snapshot]:
        """Open a snapshot of finished builds."""

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
        asked = ParsedQuestion(question)
        return self.search(Query(asked, method, filter, rights, settings, explain=explain, **limits))

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
        return self._read_one_build(query, Snapshot.search)

    def answer(self, query: Query) -> Answer:
        """Return the answer to a query, as `ask` does.

        With what all tries spent.
        """
        with span("ask", {}) as set_attributes:
            answer = self._read_one_build(query, Snapshot.answer)
            set_attributes(
                {
                    "kumihimo.method": answer.method,
                    "kumihimo.citations": len(answer.citations),
                    "kumihimo.calls": answer.usage.calls,
                    "kumihimo.cost": answer.usage.cost,
                }
            )
        return answer

    def _read_one_build(self, query: Query, read: Callable[[Snapshot, Query, Budget], T]) -> T:
        """Return what a query reads in one finished build.

        It holds no transaction during an LLM call. If another build ends meanwhile, the query begins again on that
        one, and the cache has the replies to the requests that stay the same; the last try holds its transaction. So
        the query may tell its caller nothing before its last read. The caps and the token of the budget count for
        every model that is asked.
        """
        budget = self.models.budget(query.caps, query.paid_by, query.cancel)
        for restarts_left in reversed(range(MAX_RESTARTS + 1)):
            opened = self.snapshot(query.method, rights=query.rights, cancel=query.cancel)
            with suppress(IndexChanged), opened as snapshot:
                budget.released = snapshot.released if restarts_left else nullcontext
                return read(snapshot, replace(query, rights=""), budget)  # the snapshot has them
        raise AssertionError("a transaction that is never released sees no other build")

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


def embed_texts(
    index: OpenIndex,
    texts: Sequence[str],
    *,
    table: str = "chunks",
    as_questions: bool = False,
    budget: Budget | None = None,
) -> tuple[Vectors, Usage]:
    """Return the vectors of texts, and what they cost.

    They can be compared with those of a table. as_questions: as searches embed them. budget: one that pays too.
    """
    own_budget = index.models.budget(None, budget)
    with open_snapshot(index) as snapshot:
        stored = snapshot.embedder_of(table)
    if is_local(stored):
        embedder = create_local_embedder(stored, is_query=as_questions)
    elif as_questions:
        embedder = index.models.query_embedder(own_budget, table, stored)
    else:
        embedder = index.models.embedder(own_budget, table)
    if stored not in ("", embedder.fingerprint):
        raise IndexUnavailable(
            f"the {table} of this index were embedded by {stored}: set that as `model` under [embedding] in "
            f"kumi.toml, or `kumi index --yes` embeds them by {embedder.fingerprint}"
        )
    return embedder(list(texts)), own_budget.total
