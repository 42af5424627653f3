"""an error of psycopg -> an error of ours that names the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kumihimo.core.errors import IndexChanged, IndexUnavailable, KumiError


def interruption() -> type[Exception]:
    """Return the error of a statement that was interrupted."""
    from psycopg import OperationalError

    return OperationalError


@contextmanager
def explain_errors(location: str, *, is_reading: bool = False) -> Iterator[None]:
    """Raise IndexUnavailable with a remedy where the server fails.

    is_reading: a missing table is one of a build that has ended. Errors of our own SQL stay as they are.
    """
    import psycopg
    from psycopg import errors

    try:
        yield
    except errors.UndefinedTable as error:
        if is_reading:
            raise IndexChanged("another build has ended in the middle of the question: ask again") from error
        raise
    except errors.InsufficientPrivilege as error:
        reason = str(error).splitlines()[0]
        raise IndexUnavailable(
            f"{location}: {reason}: connect as a role that may, or GRANT it (see the page on PostgreSQL)"
        ) from error
    except psycopg.OperationalError as error:
        raise _explain(location, error) from error


def _explain(location: str, error: Exception) -> KumiError:
    from psycopg import errors

    reason = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, errors.DiskFull):
        return IndexUnavailable(f"the disk of {location} is full: make room, and run the same command again")
    if isinstance(error, errors.QueryCanceled):
        return IndexUnavailable(f"{location} stopped a statement ({reason}): raise its statement_timeout")
    return IndexUnavailable(f"{location} failed ({reason}): run the same command again when the server is well")
