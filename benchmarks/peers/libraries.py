"""the libraries that are compared, and their environments: what is pinned, stands here only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOKENIZERS = "litellm==1.110.2"  # its wheel holds the files that tiktoken would download
OPENAI = "openai==3.57.0"


@dataclass(frozen=True, slots=True)
class Library:
    """One library under one configuration.

    environment: libraries of one environment share it. requirements: the first is the library itself. modes: of
    questions; those in `reading` hand whole passages to the model, those in `unordered` in an order without meaning.
    """

    name: str
    driver: str
    environment: str
    requirements: tuple[str, ...]
    licence: str
    modes: tuple[str, ...]
    reading: tuple[str, ...] = ()
    unordered: tuple[str, ...] = ()

    @property
    def package(self) -> str:
        return self.requirements[0].partition("==")[0]


_GRAPHRAG = ("graphrag==3.3.0",)
_KUMIHIMO = (".",)
LIBRARIES = (
    Library(
        "Kumihimo, no model",
        "kumihimo",
        "kumihimo",
        _KUMIHIMO,
        "MIT",
        ("braid", "naive", "local", "global"),
        ("braid", "naive", "local"),
    ),
    Library(
        "Kumihimo",
        "kumihimo_model",
        "kumihimo",
        _KUMIHIMO,
        "MIT",
        ("braid", "naive", "local", "global", "light"),
        ("braid", "naive", "local", "light"),
    ),
    Library(
        "LightRAG",
        "lightrag",
        "lightrag",
        ("lightrag-hku==1.5.7", OPENAI),
        "MIT",
        ("mix", "naive", "local", "global", "hybrid"),
        ("mix", "naive", "local", "hybrid"),
    ),
    Library(
        "nano-graphrag",
        "nano",
        "nano",
        ("nano-graphrag==0.0.8.2",),
        "MIT",
        ("local", "naive", "global"),
        ("local", "naive"),
    ),
    Library(
        "fast-graphrag",
        "fast",
        "fast",
        ("fast-graphrag==0.0.5", "sentencepiece==0.2.0"),
        "MIT",
        ("pagerank",),
        ("pagerank",),
    ),
    Library(
        "graphrag, tracer off",
        "graphrag_untraced",
        "graphrag",
        _GRAPHRAG,
        "MIT",
        ("local", "basic", "global", "drift"),
        ("local", "basic"),
        ("basic",),
    ),
    Library("graphrag", "graphrag", "graphrag", _GRAPHRAG, "MIT", ()),
)


@dataclass(frozen=True, slots=True)
class Environments:
    """The virtual environments in a folder; they are kept for the next run."""

    folder: Path

    def prepare(self, library: Library) -> Path:
        """Return the interpreter of a library; install the library if need be.

        Raises CalledProcessError if pip fails; its output says why.
        """
        home = self.folder / library.environment
        python, stamp = home / "bin/python", home / "requirements.json"
        wanted = json.dumps(library.requirements)
        if not (stamp.exists() and stamp.read_text(encoding="utf-8") == wanted):
            subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
            self._pip(python, "install", "--upgrade", "pip")
            self._pip(python, "install", *library.requirements)
            stamp.write_text(wanted, encoding="utf-8")
        return python

    def tokenizers(self) -> Path:
        """Return the folder of the tokenizers of OpenAI; take them from a wheel if need be."""
        target = self.folder / "tokenizers"
        if not target.exists():
            self._pip(Path(sys.executable), "install", "--no-deps", "--target", str(target), TOKENIZERS)
        return target / "litellm/litellm_core_utils/tokenizers"

    def describe(self, library: Library) -> dict[str, object]:
        """Return the version of a library, its distributions and their size."""
        python = self.folder / library.environment / "bin/python"
        listed = {row["name"].lower(): row["version"] for row in json.loads(self._pip(python, "list", "--format=json"))}
        name = "kumihimo" if library.package == "." else library.package
        site = next((self.folder / library.environment / "lib").glob("python*/site-packages"))
        files = (path for path in site.rglob("*") if path.is_file() and path.suffix != ".pyc")
        size = sum(path.stat().st_size for path in files) / 1e6
        return {"version": listed[name], "distributions": len(listed) - 1, "size": size}  # without pip

    def _pip(self, python: Path, *arguments: str) -> str:
        command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=dict(os.environ))
        if ran.returncode:
            raise RuntimeError(f"{' '.join(arguments)}: {ran.stderr.strip()[-400:]}")
        return ran.stdout
