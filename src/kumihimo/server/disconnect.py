"""a request and the work for it -> its result, or the end of the work as soon as the client leaves."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

from kumihimo.core.errors import Cancelled

T = TypeVar("T")


async def cancel_on_disconnect(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine; cancel it when the client leaves.

    The body of the request has been read. Raises Cancelled for a client that has left.
    """
    task, left = asyncio.create_task(work), asyncio.create_task(_wait_for_disconnect(request))
    try:
        await asyncio.wait([task, left], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Cancelled("the client has left before the answer: ask again")
        return await task
    finally:
        task.cancel()
        left.cancel()
        await asyncio.wait([task, left])


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
