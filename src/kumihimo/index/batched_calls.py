"""items -> the rows of all their batches, a call for each batch; one that fails leaves the others."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import Record

T = TypeVar("T")
R = TypeVar("R", bound=Record)


def collect_rows(ask: Callable[[Sequence[T]], Iterable[R]], items: Sequence[T], size: int) -> list[R]:
    """Return the rows of all batches of at most `size` items.

    Raise ItemFailed if a batch fails. The error carries the rows of the other batches, to be stored instead.
    """
    rows: list[R] = []
    failure: ItemFailed | None = None
    for start in range(0, len(items), size):
        try:
            rows += ask(items[start : start + size])
        except ItemFailed as error:
            failure = failure or error
    return rows_or_failure(rows, failure)


def rows_or_failure(rows: Iterable[R], failure: ItemFailed | None) -> list[R]:
    """Return the rows. Raise the failure, if any, with these rows.

    The engine stores them in place of the complete set.
    """
    result = list(rows)
    if failure:
        failure.fallback = tuple(result)
        raise failure
    return result
