"""a query to an index -> what a snapshot returns, within a budget that the caller may cancel."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import TypeVar

from kumihimo.app.ask.query import Query
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.opened.catalogue import method_with, missing_tables
from kumihimo.app.opened.open_index import OpenIndex
from kumihimo.core.answer import Answer
from kumihimo.core.cancel import CancelToken
from kumihimo.core.errors import IndexChanged, IndexUnavailable
from kumihimo.core.task import Progress
from kumihimo.core.usage import Usage
from kumihimo.llm import local_embedder, protocols, telemetry
from kumihimo.llm.budget import Budget
from kumihimo.search.vectors import load_matrices
from kumihimo.storage.database import Database

T = TypeVar("T")
MAX_RESTARTS = 2  # of a question, because of other builds
MAX_REOPENED = 5  # times that a snapshot is opened again, because a build has just replaced its vectors
BuildMethod = Callable[[OpenIndex, str, Progress | None, CancelToken | None], None]


def lacking_method(index: OpenIndex, db: Database, name: str) -> str:
    """Return the method to build before a read, or empty.

    name: the method, or the table, to read.
    """
    catalogue = index.catalogue
    if name in catalogue.methods:
        return name if missing_tables(db, catalogue, name) else ""
    return method_with(catalogue, name) if name in catalogue.steps and not db.has(name) else ""


@contextmanager
def open_snapshot(
    index: OpenIndex,
    name: str = "",
    rights: str = "",
    cancel: CancelToken | None = None,
    build: BuildMethod | None = None,
) -> Iterator[Snapshot]:
    """Open a snapshot: one read transaction over one finished build.

    name: as for `lacking_method`. build: builds what it lacks, if that costs nothing. Other parameters: as for
    `Kumihimo.snapshot`.
    """
    missing, is_prepared, lacking = "", build is None, ""
    for _ in range(MAX_REOPENED):
        with index.store.read_transaction(cancel) as db:
            lacking = "" if is_prepared else lacking_method(index, db, name)
            if not lacking:
                try:
                    vectors = load_matrices(db, index.place.folder, index.files)
                except FileNotFoundError as error:  # a build has just replaced them: open the new ones
                    missing = error.filename
                    continue
                parts = index.catalogue, index.settings, index.tokenizer, index.models, vectors
                yield Snapshot(db, *parts, rights=rights.strip())
                return
        assert build
        build(index, lacking, None, cancel)
        is_prepared = True
    raise IndexUnavailable(f"the vectors in {missing} are missing: `kumi index` makes them again")


def read_one_build(
    index: OpenIndex, query: Query, build: BuildMethod, read: Callable[[Snapshot, Query, Budget], T]
) -> T:
    """Return what a query reads in one finished build.

    It holds no transaction during an LLM call. If another build ends meanwhile, the query begins again on that one, and
    the cache has the replies to the requests that stay the same; the last try holds its transaction. So the query may
    tell its caller nothing before its last read. The caps and the token of the budget count for every model that is
    asked. build: as for `open_snapshot`.
    """
    budget = index.models.budget(query.caps, query.paid_by, query.cancel)
    for restarts_left in reversed(range(MAX_RESTARTS + 1)):
        opened = open_snapshot(index, query.method, query.rights, query.cancel, build)
        with suppress(IndexChanged), opened as snapshot:
            budget.released = snapshot.db.released if restarts_left else nullcontext
            return read(snapshot, replace(query, rights=""), budget)  # the snapshot has them
    raise AssertionError("a transaction that is never released sees no other build")


def answer_from_one_build(index: OpenIndex, query: Query, build: BuildMethod) -> Answer:
    """Return the answer to a query, with what all tries spent.

    build: as for `open_snapshot`.
    """
    with telemetry.span("ask", {}) as set_attributes:
        answer = read_one_build(index, query, build, Snapshot.answer)
        set_attributes(
            {
                "kumihimo.method": answer.method,
                "kumihimo.citations": len(answer.citations),
                "kumihimo.calls": answer.usage.calls,
                "kumihimo.cost": answer.usage.cost,
            }
        )
    return answer


def embed_texts(
    index: OpenIndex,
    texts: Sequence[str],
    *,
    table: str = "chunks",
    as_questions: bool = False,
    budget: Budget | None = None,
    cancel: CancelToken | None = None,
) -> tuple[protocols.Vectors, Usage]:
    """Return the vectors of texts, and what they cost.

    They can be compared with those of a table. as_questions: as searches embed them. budget: one that pays too. cancel:
    as for `ask`.
    """
    own_budget = index.models.budget(None, budget, cancel)
    with open_snapshot(index) as snapshot:
        stored = snapshot.embedder_of(table)
    if local_embedder.is_local_model(stored):
        embedder = local_embedder.create_local_embedder(stored, is_query=as_questions)
    elif as_questions:
        embedder = index.models.query_embedder(own_budget, table, stored)
    else:
        embedder = index.models.embedder(own_budget, table)
    if stored not in ("", embedder.fingerprint):
        raise protocols.embedder_mismatch(table, stored, embedder.fingerprint)
    return embedder(list(texts)), own_budget.total
