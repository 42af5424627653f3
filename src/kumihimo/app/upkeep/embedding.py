"""texts -> their vectors, by the embedding model of an index."""

from collections.abc import Sequence

from kumihimo.app.ask.questions import open_snapshot
from kumihimo.app.opened.open_index import OpenIndex
from kumihimo.core.errors import IndexUnavailable
from kumihimo.core.usage import Usage
from kumihimo.llm.budget import Budget
from kumihimo.llm.local_embedder import create_local_embedder, is_local
from kumihimo.llm.protocols import Vectors


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
        stored = str((snapshot.db.meta(f"vectors_{table}") or {}).get("embedder", ""))
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
