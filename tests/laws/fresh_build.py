"""a folder of documents -> all that a fresh index of it holds, as JSON: run in a process of its own."""

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

HERE = Path(__file__).parents[2]


def fresh(folder: Path, methods: Iterable[str] = BUILT) -> Held:
    """What an index of `folder` holds that never held anything else, made with another hash seed."""
    command = [sys.executable, "-m", "tests.laws.fresh_build", str(folder), *methods]
    seeded = {**os.environ, "PYTHONHASHSEED": "4242"}
    ran = subprocess.run(command, cwd=HERE, env=seeded, capture_output=True, text=True, timeout=120, check=True)
    held: Held = json.loads(ran.stdout)
    return held


if __name__ == "__main__":
    with TemporaryDirectory() as home, Kumihimo.open(Path(home, ".kumi")) as kumi:
        kumi.index(sys.argv[1])
        print(json.dumps(dump(kumi, sys.argv[2:])))
