"""a function -> its run in a process of its own, which may be killed."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

from tests.stores import USE_POSTGRES, postgres_server

PATIENCE = 120  # seconds
IMPORTED = ("tests.stores", "tests.laws.factories_town", "tests.laws.killable_build")


def exit_code(function: Callable[..., None], *arguments: Any) -> int:
    """Run the function in a new process and return its exit code; -9: killed.

    The process is a copy of one with these modules, since their import takes longer than a small build.
    """
    if USE_POSTGRES:
        postgres_server()  # of this process; its address is in the environment of the next ones
    context = get_context("forkserver")
    context.set_forkserver_preload(list(IMPORTED))
    process = context.Process(target=function, args=arguments)
    process.start()
    process.join(PATIENCE)
    code = process.exitcode
    process.kill()
    assert code is not None, f"it has not ended after {PATIENCE} s"
    return code
