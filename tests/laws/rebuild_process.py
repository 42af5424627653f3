"""a line of JSON -> a line of JSON: fresh builds in another process, with another hash seed."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from kumihimo.core.settings import SettingValues
from tests.laws.factories_history import Documents, Tables, World


class RebuildProcess:
    """A second process, started on first use.

    It returns the tables of a fresh build of documents in their order.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = {**environment, "PYTHONHASHSEED": "4242"}
        self.started = False

    @cached_property
    def process(self) -> subprocess.Popen[str]:
        self.started = True
        return subprocess.Popen(
            [sys.executable, "-m", "tests.laws.rebuild_process"],
            cwd=Path(__file__).parents[2], env=self.environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def fresh(self, documents: Documents, settings: SettingValues) -> Tables:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps([list(documents.items()), settings]) + "\n")
        self.process.stdin.flush()
        tables: Tables = json.loads(self.process.stdout.readline())
        return tables

    def close(self) -> None:
        if self.started:
            self.process.communicate()


def main() -> None:
    for line in sys.stdin:
        documents, settings = json.loads(line)
        with TemporaryDirectory() as folder:
            world = World(Path(folder), settings=settings)
            world.build(dict(documents))
            print(json.dumps(world.tables()), flush=True)
            world.close()


if __name__ == "__main__":
    main()
