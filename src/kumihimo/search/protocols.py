"""table + text -> Context: the two searches that methods use."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from kumihimo.core.context import Context
from kumihimo.core.table import Table


class KeywordSearch(Protocol):
    """Search a table by words: the best `k`, best first."""

    def __call__(self, table: Table[Any], text: str, *, k: int) -> Context: ...


class VectorSearch(Protocol):
    """Search a table by meaning: the nearest `k`, nearest first; scores are cosines. Of several texts: their mean.

    among: the ids of the rows to choose from, where they are few. each: a search for each of the texts, of which many
    cost little more than one.
    """

    def __call__(
        self, table: Table[Any], text: str | Sequence[str], *, k: int, candidate_ids: Collection[str] | None = None
    ) -> Context: ...
    def search_many(
        self, table: Table[Any], texts: Sequence[str], *, k: int, candidate_ids: Collection[str] | None = None
    ) -> list[Context]: ...
