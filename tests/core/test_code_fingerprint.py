"""a function -> the modules, data and libraries behind its fingerprint."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core import code_fingerprint as fingerprints
from kumihimo.core.code_fingerprint import code_fingerprint, reach_modules

FILES = {
    "__init__.py": "from toybox.names import NAME\n",
    "steps.py": "from toybox import NAME\nfrom toybox.parser import parse\n\ndef step(text):\n    return parse(text)\n",
    "names.py": 'NAME = "toy"\n',
    "parser.py": 'import json\nPROMPT = "ask.md"\n\ndef parse(text):\n    import numpy\n    return numpy, json\n',
    "other.py": "from toybox.retry import TRIES\n",
    "retry.py": "TRIES = 5\n",
    "typed.py": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from toybox.retry import TRIES\n\n"
        "def typed(text):\n    return text\n"
    ),
    "ask.md": "What is it?\n",
    "other.md": "And that?\n",
    "stray.tsv": "a\tb\n",
}


@pytest.fixture
def toybox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of a package with one step."""
    folder = tmp_path / "toybox"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_text(content, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "toybox"]:
        del sys.modules[name]
    forget()


def forget() -> None:
    """Read all files again."""
    for cached in vars(fingerprints).values():
        if hasattr(cached, "cache_clear"):
            cached.cache_clear()


def step_fingerprint(name: str = "steps.step") -> str:
    forget()
    module, _, function = name.rpartition(".")
    return code_fingerprint(getattr(import_module(f"toybox.{module}"), function))


def test_the_modules_that_a_function_reaches(toybox: Path) -> None:
    step_fingerprint()
    modules = reach_modules("toybox.steps")[0]
    assert modules == {"toybox.steps", "toybox.names", "toybox.parser"}


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("steps.py", True),
        ("parser.py", True),  # a parser that the step imports
        ("names.py", True),  # through the package
        ("ask.md", True),  # a prompt that a module names
        ("stray.tsv", True),  # a file that no module names counts for all beside it
        ("__init__.py", False),
        ("retry.py", False),
        ("other.py", False),
        ("other.md", False),  # the prompt of a module that the step does not reach
    ],
)
def test_a_change_counts_where_the_function_reaches_it(toybox: Path, file: str, counts: bool) -> None:
    before = step_fingerprint()
    path = toybox / file
    path.write_text(path.read_text(encoding="utf-8") + "# a change\n", encoding="utf-8")
    assert (step_fingerprint() != before) is counts


def test_an_import_for_types_alone_does_not_count(toybox: Path) -> None:
    before = step_fingerprint("typed.typed")
    (toybox / "retry.py").write_text("TRIES = 6\n", encoding="utf-8")
    assert step_fingerprint("typed.typed") == before


def test_a_library_counts_with_its_version(toybox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = step_fingerprint()
    monkeypatch.setattr(fingerprints, "version", lambda library: "99" if library == "numpy" else "1")
    assert step_fingerprint() != before


def test_a_module_beside_a_script_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toyscript.py").write_text("from toyhelper import K\n\ndef step(text):\n    return K\n", "utf-8")
    (tmp_path / "toyhelper.py").write_text("K = 1\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    step = import_module("toyscript").step
    before = code_fingerprint(step)
    (tmp_path / "toyhelper.py").write_text("K = 2\n", encoding="utf-8")
    forget()
    assert code_fingerprint(step) != before


def test_a_function_without_a_file_counts_by_its_code() -> None:
    functions: list[dict[str, Any]] = [{"__name__": "notebook"}, {"__name__": "notebook"}]
    for number, namespace in enumerate(functions):
        exec(f"def step(text):\n    return text{' * 2' * number}\n", namespace)
    first, second = (code_fingerprint(namespace["step"]) for namespace in functions)
    assert first != second


def test_no_step_reaches_the_network() -> None:
    from kumihimo.index import STEPS

    for step in STEPS.values():
        reached = reach_modules(step.function.__module__)[0]
        assert not [m for m in reached if m.startswith(("kumihimo.storage", "kumihimo.app", "kumihimo.search"))]
        assert not [m for m in reached if m.rpartition(".")[2] in ("transport", "openai", "retry", "registry")], (
            step.name
        )
