"""a folder of documents -> the contents of a fresh index, as JSON, from another process."""

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


def build_fresh(folder: Path, methods: Iterable[str] = BUILT) -> Held:
    """Return the contents of a new index, with another hash seed."""
    command = [sys.executable, "-m", "tests.laws.fresh_build", str(folder), *methods]
    environment = {**os.environ, "PYTHONHASHSEED": "4242"}
    process = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    rows: Held = json.loads(process.stdout)
    return rows


if __name__ == "__main__":
    with TemporaryDirectory() as home, Kumihimo.open(Path(home, ".kumi")) as kumi:
        kumi.index(sys.argv[1])
        print(json.dumps(dump(kumi, sys.argv[2:])))
