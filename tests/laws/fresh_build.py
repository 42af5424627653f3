"""a folder of documents -> the contents of a fresh index, as JSON, from another process.

As a program: for each line, a JSON list of a folder and names of methods.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from kumihimo import Kumihimo
from tests.fixtures_index import BUILT, Held, dump

REPOSITORY = Path(__file__).parents[2]


class FreshBuilder:
    """A second process with another hash seed, for fresh indexes."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONHASHSEED": "4242"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.laws.fresh_build"],
            cwd=REPOSITORY, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def build(self, folder: Path, methods: Iterable[str] = BUILT) -> Held:
        """Return the contents of a new index of this folder."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps([str(folder), *methods]) + "\n")
        self.process.stdin.flush()
        rows: Held = json.loads(self.process.stdout.readline())
        return rows

    def close(self) -> None:
        self.process.communicate()


def main() -> None:
    for request in sys.stdin:
        folder, *methods = json.loads(request)
        with TemporaryDirectory() as home, Kumihimo.open(Path(home, ".kumi")) as kumi:
            kumi.index(folder, methods=BUILT)
            print(json.dumps(dump(kumi, methods)), flush=True)


if __name__ == "__main__":
    main()
