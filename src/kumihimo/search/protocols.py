"""table + text -> Context: the two searches that methods use."""

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from kumihimo.core.context import Context
from kumihimo.core.table import Table


class KeywordSearch(Protocol):
    """Keyword search in a table: the best `k` rows, best first."""

    def __call__(self, table: Table[Any], text: str, *, k: int) -> Context: ...


class VectorSearch(Protocol):
    """Vector search in a table: the `k` rows with the highest cosine.

    The nearest come first. Several texts are searched by the mean of their vectors.
    candidate_ids: search only these rows; for a small number of rows.
    search_many: one search for each text; many texts cost little more than one.
    """

    def __call__(
        self, table: Table[Any], text: str | Sequence[str], *, k: int, candidate_ids: Collection[str] | None = None
    ) -> Context: ...
    def search_many(
        self, table: Table[Any], texts: Sequence[str], *, k: int, candidate_ids: Collection[str] | None = None
    ) -> list[Context]: ...
