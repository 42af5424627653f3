"""a broken engine -> a broken law: the laws detect each of these mutations."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
SEEDS = ("0", "8")  # the first 8 histories; the unchanged engine passes them all

MUTANTS = {
    "a lookup that found something is not recorded": (
        "core/task.py", "            dependencies.add(lookup", "            exists or dependencies.add(lookup",
    ),
    "a lookup that found nothing is not recorded": (
        "core/task.py", "            dependencies.add(lookup", "            exists and dependencies.add(lookup",
    ),
    "the old group of a changed row is not updated": (
        "storage/ledger.py", "            self._record_changes(table, old)\n", "",
    ),
    "the new group of a changed row is not updated": (
        "storage/ledger.py", "            self._record_changes(table, new)\n", "",
    ),
    "failed items are not tried again": (
        "storage/ledger.py", "        self.add_keys(self.failures(step))\n", "",
    ),
    "the members of a group have a random order": (
        "core/task.py", "Group(map(self.decode, rows))", "Group(set(map(self.decode, rows)))",
    ),
    "replies are not cached": ("storage/response_cache.py", "            self._unwritten += replies\n", ""),
    "waves run in reverse order": ("storage/ledger.py", """f'-"{wave}"'""", """f'"{wave}"'"""),
    "a wave does not notify the next ones": (
        "core/engine.py", "            if step.wave_column:\n", "            if False:\n",
    ),
    "the fingerprint is not transitive": (
        "core/engine.py", "*(step_fingerprints[table] for table in step.inputs if table in step_fingerprints)", "*()",
    ),
    "lookups of an earlier run remain": (
        "storage/ledger.py", "lookups in dependencies if not lookups)", "lookups in dependencies if False)",
    ),
    "removed rows remain searchable": (
        "storage/ledger.py", "            view.replace(old, new)", "            new and view.replace(old, new)",
    ),
}  # fmt: skip


def run_engine(folder: Path, mutant: tuple[str, str, str] | None) -> subprocess.CompletedProcess[str]:
    """Run the histories against a copy of the package with its compiled modules."""
    shutil.copytree(REPOSITORY / "src" / "kumihimo", folder / "kumihimo")
    if mutant:
        path, old, new = folder / "kumihimo" / mutant[0], mutant[1], mutant[2]
        source = path.read_text(encoding="utf-8")
        assert source.count(old) == 1, f"{mutant[0]} no longer contains {old!r} once: update this mutant"
        path.write_text(source.replace(old, new), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(REPOSITORY)]), "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-m", "tests.laws.histories", *SEEDS]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught(name: str, tmp_path: Path) -> None:
    process = run_engine(tmp_path, MUTANTS[name])
    assert process.returncode == 1, f"no law noticed that {name}"
    assert process.stdout.startswith("seed "), f"it fails outside of the histories: {process.stderr[-300:]}"


def test_the_engine_itself_passes(tmp_path: Path) -> None:
    process = run_engine(tmp_path, None)
    assert process.returncode == 0, process.stdout + process.stderr
