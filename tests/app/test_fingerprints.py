"""a change of code -> the tables that the next build makes again."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import kumihimo

BUILD = """
import json
from kumihimo import Kumihimo

with Kumihimo.open(".kumi") as kumi:
    read = kumi.index("notes", methods=["local", "discourse"]).read
    with kumi.store.read_transaction() as db:
        print(json.dumps(db.fingerprints() | {"read": read}))
"""


class PackageCopy:
    """A copy of the package that a test may change, and an index built by it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.package = folder, folder / "src" / "kumihimo"
        shutil.copytree(Path(*kumihimo.__path__), self.package)  # with its compiled modules
        (folder / "notes").mkdir()
        (folder / "notes" / "pier.txt").write_text("Ada Vane built the pier. Bea Orrell paid for it.", "utf-8")
        self.before = self._build()

    def changed_by(self, *modules: str) -> set[str]:
        """Return the tables with other fingerprints after a constant was added to each module.

        `read` stands for files that were read again.
        """
        for module in modules:
            path = self.package / module
            path.write_text(path.read_text(encoding="utf-8") + "\nADDED = 1\n", encoding="utf-8")
        before, self.before = self.before, self._build()
        changed = {name for name in before if name != "read" and before[name] != self.before[name]}
        return changed | ({"read"} if self.before["read"] else set())

    def _build(self) -> dict[str, object]:
        process = subprocess.run(
            [sys.executable, "-c", BUILD],
            cwd=self.folder,
            env={"PYTHONPATH": str(self.package.parent)},
            capture_output=True,
            text=True,
            check=True,
        )
        fingerprints: dict[str, object] = json.loads(process.stdout)
        return fingerprints


def test_what_a_change_of_code_makes_again(tmp_path: Path) -> None:
    package = PackageCopy(tmp_path)
    harmless = ("llm/retry.py", "llm/cached_llm.py", "llm/transport.py", "app/facade.py", "readers/pdf.py")
    assert package.changed_by(*harmless, "storage/sqlite/store.py", "core/engine.py", "evaluate/study.py") == set()
    assert package.changed_by("index/rules/ner.py") >= {"mentions", "ties", "entities", "relations"}
    assert "chunks" not in package.changed_by("index/rules/ner_cjk.py")
    assert package.changed_by("readers/text.py") == {"read"}
    changed = package.changed_by("text/chunker.py")
    assert changed >= {"chunks", "mentions", "entities", "communities", "passages", "frames"}
    assert "read" not in changed
