"""A log of events is bounded, and a client reads on from the last event that it has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

from kumihimo.server.responses import HEARTBEAT, EventLog, ServerEvent, with_heartbeat


async def collect(log: EventLog, after: int = 0) -> list[int]:
    return [event.id async for event in log.subscribe(after)]


def test_a_subscriber_gets_what_was_there_and_what_comes() -> None:
    async def play() -> list[int]:
        log = EventLog()
        log.append("state", {})
        reader = asyncio.create_task(collect(log))
        await asyncio.sleep(0)
        log.append("progress", {})
        await asyncio.sleep(0)
        log.append("state", {})
        log.close()
        return await reader

    assert asyncio.run(play()) == [1, 2, 3]


def test_a_client_resumes_after_its_last_event_or_at_the_oldest_that_is_kept() -> None:
    async def play() -> list[list[int]]:
        log = EventLog(limit=3)
        for _ in range(5):
            log.append("progress", {})
        log.close()
        return [await collect(log, after) for after in (0, 1, 3, 5, 9)]

    assert asyncio.run(play()) == [[3, 4, 5], [3, 4, 5], [4, 5], [], []]


def test_events_that_come_while_a_slow_client_reads_are_not_lost() -> None:
    async def play() -> list[int]:
        log = EventLog()
        log.append("progress", {})
        seen = []
        async for event in log.subscribe():
            seen.append(event.id)
            if event.id < 3:
                log.append("progress", {})
            else:
                log.close()
        return seen

    assert asyncio.run(play()) == [1, 2, 3]


def test_an_event_is_one_block_of_lines_whatever_its_text() -> None:
    block = ServerEvent("token", {"text": "a\r\nb\u2028\n\ndata: x\ud800"}, 3).encode()
    head, name, data, *rest = block.split(b"\n")
    assert (head, name, rest) == (b"id: 3", b"event: token", [b"", b""])
    assert json.loads(data.removeprefix(b"data: "))["text"] == "a\r\nb\u2028\n\ndata: x?"
    assert b"id:" not in ServerEvent("token", {}).encode()


async def encoded(log: EventLog) -> AsyncGenerator[bytes, None]:
    async for event in log.subscribe():
        yield event.encode()


def test_silence_is_filled_with_comments_and_nothing_is_lost() -> None:
    async def play() -> list[bytes]:
        log, seen = EventLog(), list[bytes]()
        async for block in with_heartbeat(encoded(log), heartbeat=0):
            seen.append(block)
            if seen.count(HEARTBEAT) == 2 and not log.events:
                log.append("state", {"n": 1})
            elif block != HEARTBEAT:
                log.close()
        return seen

    seen = asyncio.run(play())
    assert [block for block in seen if block != HEARTBEAT] == [ServerEvent("state", {"n": 1}, 1).encode()]
    assert seen[:2] == [HEARTBEAT, HEARTBEAT]


def test_a_client_that_leaves_closes_what_it_reads() -> None:
    closed = list[str]()

    async def endless() -> AsyncGenerator[bytes, None]:
        try:
            yield ServerEvent("token", {}).encode()
            await asyncio.Event().wait()
        finally:
            closed.append("closed")

    async def play() -> None:
        blocks = with_heartbeat(endless(), heartbeat=0)
        await anext(blocks)
        assert await anext(blocks) == HEARTBEAT
        await blocks.aclose()

    asyncio.run(play())
    assert closed == ["closed"]
