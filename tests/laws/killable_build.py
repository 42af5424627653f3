"""a folder and a count -> a build that may be killed; each call is logged first."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from kumihimo.llm.concurrency import thread_pool
from tests.laws.factories_history import World
from tests.laws.histories import LINES

WORKERS = 8


def documents(count: int) -> dict[str, str]:
    """Return the first `count` of a fixed list of documents."""
    lines = [[f"{LINES[(n + 3 * i) % len(LINES)]} on day {n}{i}" for i in range(4)] for n in range(count)]
    return {f"d{n:03}": "\n".join(texts) for n, texts in enumerate(lines)}


def main(folder: Path, count: int) -> None:
    world = World(folder, pool=thread_pool(WORKERS))
    log = os.open(folder / "calls.log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    answer = world.chat.answer

    def log_and_answer(prompt: str) -> str:
        os.write(log, f"{prompt!r}\n".encode())
        time.sleep(0.02)
        return answer(prompt)

    world.chat.answer = log_and_answer
    world.build(documents(count))
    world.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
