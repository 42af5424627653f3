"""a broken engine -> a broken law: each of these faults, put into a copy of the package, is noticed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2]
SEEDS = ("0", "24")  # the first 24 histories; the engine as it is passes them all

MUTANTS = {
    "a look-up that found something is not written down": (
        "core/task.py", "            looked.add(look", "            found or looked.add(look",
    ),
    "a look-up that found nothing is not written down": (
        "core/task.py", "            looked.add(look", "            found and looked.add(look",
    ),
    "the group that a changed row has left is not made again": (
        "storage/sqlite/ledger.py", "            self._note(table, old)\n", "",
    ),
    "the group that a changed row has joined is not made again": (
        "storage/sqlite/ledger.py", "            self._note(table, new)\n", "",
    ),
    "what failed is not tried again": ("storage/sqlite/ledger.py", "        self.more(self.failed(step))\n", ""),
    "members come in the order of a set": (
        "core/task.py", "Group(map(self.decode, rows))", "Group(set(map(self.decode, rows)))",
    ),
    "equal requests in flight are each asked": (
        "storage/sqlite/response_cache.py", "asked := self._asking.get(key)", "asked := self._asking.get(b'') ",
    ),
    "waves run upside down": ("storage/sqlite/ledger.py", """f'-"{wave}"'""", """f'"{wave}"'"""),
    "a wave does not tell the next ones": ("core/engine.py", "            if step.wave:\n", "            if False:\n"),
    "the fingerprint is not transitive": ("core/engine.py", "*(prints[table] for table in step.inputs)", "*()"),
    "look-ups of an earlier run stay": (
        "storage/sqlite/ledger.py", "((step, m) for m, at in made if not at)", "((step, m) for m, at in made if False)",
    ),
    "what is taken out of a table stays findable": (
        "storage/sqlite/ledger.py", "            view.replace(old, new)", "            new and view.replace(old, new)",
    ),
}  # fmt: skip


def engine(folder: Path, mutant: tuple[str, str, str] | None) -> subprocess.CompletedProcess[str]:
    """The histories run against a copy of the package."""
    shutil.copytree(HERE / "src" / "kumihimo", folder / "kumihimo", ignore=shutil.ignore_patterns("__pycache__"))
    if mutant:
        path, old, new = folder / "kumihimo" / mutant[0], mutant[1], mutant[2]
        source = path.read_text(encoding="utf-8")
        assert source.count(old) >= 1, f"{mutant[0]} no longer says {old!r}: write this mutant anew"
        path.write_text(source.replace(old, new), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(HERE)]), "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-m", "tests.laws.histories", *SEEDS]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught(name: str, tmp_path: Path) -> None:
    ran = engine(tmp_path, MUTANTS[name])
    print(ran.stdout, ran.stderr[-300:])
    assert ran.returncode == 1, f"no law noticed that {name}"


def test_the_engine_itself_passes(tmp_path: Path) -> None:
    ran = engine(tmp_path, None)
    assert ran.returncode == 0, ran.stdout + ran.stderr
