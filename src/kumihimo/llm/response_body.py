"""pieces of a response body -> JSON, or lines: within limits of size and time."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any

from kumihimo.core.digests import replace_surrogates
from kumihimo.llm.protocols import FailedTry

MEGABYTE = 2**20
_MAX_STREAM_BYTES = 64 * MEGABYTE  # of events with a token each, some hundred bytes of it
_MAX_LINE_BYTES = MEGABYTE


class LateReply(FailedTry):
    """A request without its whole answer in time."""


def read_json_body(pieces: Iterable[bytes], timeout: float, max_bytes: int = 8 * MEGABYTE) -> Any:
    """Return the JSON of a response body.

    A body that is no object, such as a bare list, becomes the `data` of one. Raises FailedTry if the body takes
    longer than `timeout`, is too long, or is no JSON.
    """
    deadline, body = monotonic() + timeout, bytearray()
    for piece in _limit_bytes(pieces, max_bytes):
        body += piece
        if monotonic() > deadline:
            raise LateReply(f"the answer did not come within {timeout:g} s", paid=True)
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise garbled_error() from error
    return value if isinstance(value, dict) else {"data": value}


def split_lines(
    pieces: Iterable[bytes], max_bytes: int | None = None, max_line_bytes: int | None = None
) -> Iterator[str]:
    """Yield the lines of a stream of events, or of a file.

    A piece without a line end gives an empty line, so that the caller can look at the clock. Raises FailedTry if a
    line or the whole stream is too long.
    """
    rest, max_line_bytes = b"", max_line_bytes or _MAX_LINE_BYTES
    for piece in _limit_bytes(pieces, max_bytes or _MAX_STREAM_BYTES):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines or [b""]:
            yield line.decode(errors="replace").rstrip("\r")
        if len(rest) > max_line_bytes:
            raise _too_long_error(max_line_bytes)
    if rest:
        yield rest.decode(errors="replace")


def _limit_bytes(pieces: Iterable[bytes], max_bytes: int) -> Iterator[bytes]:
    total = 0
    for piece in pieces:
        total += len(piece)
        if total > max_bytes:
            raise _too_long_error(max_bytes)
        yield piece


def error_reason(body: Any) -> str:
    """Return the reason in the body of an error, in one line.

    Empty: it names none.

    >>> [error_reason(body) for body in ({"message": "No."}, {"error": "No."}, "No.", {"code": 5}, None)]
    ['No.', 'No.', 'No.', '', '']
    """
    while isinstance(body, Mapping):
        body = body.get("message") or body.get("detail") or body.get("error")
    with suppress(RecursionError):  # lists in lists in lists
        return replace_surrogates(" ".join(str(body or "").split()))
    return ""


def get_count(body: Any, *names: str, guess: int) -> int:
    """Return the server's count if it is plausible, else the guess.

    names: the way to the count in the body.
    """
    for name in names:
        body = body.get(name) if isinstance(body, Mapping) else None
    return body if type(body) is int and 0 <= body < 10**9 else guess


def garbled_error() -> FailedTry:
    return FailedTry("the answer does not have the form of a model server's answer: is base_url right?", paid=True)


def _too_long_error(max_bytes: int) -> FailedTry:
    return FailedTry(f"the answer is longer than {max_bytes / MEGABYTE:g} MB: is base_url right?", paid=True)
