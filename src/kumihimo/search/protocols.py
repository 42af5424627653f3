"""table + text -> Context: the two searches that methods use."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kumihimo.core.context import Context
from kumihimo.core.table import Table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class RowTokens:
    """The tokens of a row in the forward index.

    words: the hashes of its index tokens, in order. subwords: the distinct subwords of the built-in tokenizer, sorted.
    """

    words: NDArray[np.uint32]
    subwords: NDArray[np.uint16]


class KeywordSearch(Protocol):
    """Keyword search in a table: the best `k` rows, best first.

    text: or its index tokens without stopwords. tokens: the tokens of these rows, by id, if the table has a forward
    index; a row without text is left out.
    """

    def __call__(self, table: Table[Any], text: str | Sequence[str], *, k: int) -> Context: ...
    def tokens(self, table: Table[Any], ids: Sequence[str]) -> Mapping[str, RowTokens]: ...


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
