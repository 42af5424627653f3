"""values -> JSON in a response, made in a thread: what grows with a document never holds up other requests."""

import json
from collections.abc import Callable
from typing import Any

from fastapi import Response
from starlette.concurrency import run_in_threadpool

_DEPTH = 3  # of the parts that are written one by one


class JsonResponse(Response):
    """A response whose JSON has been written."""

    media_type = "application/json"


def encode_json(value: object, depth: int = _DEPTH) -> bytes:
    """Return a value as JSON.

    Its parts are written one by one, since a thread that writes JSON lets no other run.

    >>> encode_json({"evidence": [{"text": "七"}, None], "more": {}}).decode()
    '{"evidence":[{"text":"七"},null],"more":{}}'
    """
    if depth and isinstance(value, dict):
        items = (encode_json(str(name)) + b":" + encode_json(item, depth - 1) for name, item in value.items())
        return b"{" + b",".join(items) + b"}"
    if depth and isinstance(value, list | tuple):
        return b"[" + b",".join(encode_json(item, depth - 1) for item in value) + b"]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


async def json_response(make: Callable[[], Any], status: int = 200) -> JsonResponse:
    """Return the response with the values that a function makes."""
    return JsonResponse(await run_in_threadpool(lambda: encode_json(make())), status)
