"""the source -> the fences: lengths, first lines, dependencies, what is imported when."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from functools import cache
from importlib.metadata import requires
from pathlib import Path
from statistics import median
from typing import NamedTuple

from packaging.requirements import Requirement

import kumihimo
from kumihimo.index import STEPS
from kumihimo.methods import METHODS
from tests.conftest import COSTS, NIGHTLY, TESTS

HOUSE = Path(kumihimo.__file__).parent
MODULES = sorted(HOUSE.rglob("*.py"))
HEAVY = [
    "httpx2",
    "jinja2",
    "json_repair",
    "lark",
    "numpy",
    "nupunkt",
    "pydantic",
    "pyoxigraph",
    "rich",
    "safetensors",
    "selectolax",
    "tokenizers",
    "typer",
]


def named(path: Path) -> str:
    return path.relative_to(HOUSE).as_posix()


class Function(NamedTuple):
    """What the rules are about."""

    name: str
    lines: int
    docstring: str


class Module(NamedTuple):
    """What the rules are about."""

    docstring: str
    functions: list[Function]


@cache
def parse(path: Path) -> Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    functions = [Function(f.name, (f.end_lineno or 0) - f.lineno + 1, ast.get_docstring(f) or "") for f in nodes]
    return Module(ast.get_docstring(tree) or "", functions)


def test_a_file_is_one_idea() -> None:
    assert [named(path) for path in MODULES if len(path.read_text(encoding="utf-8").splitlines()) > 400] == []
    assert [f"{named(path)} {f.name}" for path in MODULES for f in parse(path).functions if f.lines > 60] == []


def test_the_first_line_says_what_goes_in_and_comes_out() -> None:
    modules = [path for path in MODULES if path.stat().st_size and path != HOUSE / "core" / "__init__.py"]
    assert [named(path) for path in modules if " -> " not in parse(path).docstring.partition("\n")[0]] == []


NO_VERBS = frozenset(
    """a an the this these that those it its what which who whom whose where when why how whether whatever whoever
    of for from by with in on at to such as only so if once none nothing nobody each every all any some another
    other others one two""".split()  # noqa: SIM905
)


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    """The first line has at most 12 words and one clause, and ends with a period."""
    wrong = []
    for module, function in ((each, function) for each in MODULES for function in parse(each).functions):
        first = function.docstring.partition("\n")[0]
        words = first.split()
        if not words or first.startswith(">>>"):
            continue
        clauses = re.findall(r"\b(?:which|that|who|whom|whose|those|where|what|whatever|whoever)\b", first)
        opens_well = words[0][0].isupper() and words[0].lower().strip(".,:;") not in NO_VERBS
        if not opens_well or len(words) > 12 or len(clauses) > 1 or not first.endswith((".", ":")):
            wrong.append(f"{named(module)} {function.name}: {first}")
    assert wrong == []


def test_functions_are_short() -> None:
    assert median(f.lines for path in MODULES for f in parse(path).functions) < 10


def test_the_catalogues_hold_what_we_think() -> None:
    graph = [
        "names",
        "merges",
        "mentions",
        "ties",
        "assertions",
        "entities",
        "relations",
        "claims",
        "communities",
        "members",
        "reports",
    ]
    imported = ["imported_units", "imported_descriptions", "imported_communities"]
    meta = ["metadata", "questions", "tags", "summaries"]
    pieces = ["passages", "frames", "links"]
    assert list(STEPS) == ["chunks", "descriptions", *graph[:2], *imported, *graph[2:], *meta, *pieces]
    old = ["braid", "wide", "bm25", "naive", "hyde", "rq", "mapreduce", "global", "local", "drift", "light"]
    assert list(METHODS) == [*old, "meta", "discourse"]
    assert not STEPS.keys() & METHODS.keys()


def test_the_public_names_are_sorted_and_there() -> None:
    assert kumihimo.__all__ == sorted(kumihimo.__all__)
    assert all(hasattr(kumihimo, name) for name in kumihimo.__all__)


def test_few_distributions_are_installed() -> None:
    found: set[str] = set()
    waiting = ["kumihimo"]
    while waiting:
        for text in requires(waiting.pop()) or []:
            needed = Requirement(text)
            name = needed.name.lower().replace("_", "-")
            if (needed.marker is None or needed.marker.evaluate({"extra": ""})) and name not in found:
                found.add(name)
                waiting.append(name)
    print(f"{len(found)} distributions: {', '.join(sorted(found))}")
    assert len(found) <= 50


def test_importing_is_light() -> None:
    said = f"from kumihimo import Kumihimo; import sys; print([m for m in {HEAVY} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_the_tests_keep_to_their_budget() -> None:
    """CPU seconds of `make test`: `make costs` measures them again."""
    costs: dict[str, float] = json.loads(COSTS.read_text("utf-8"))
    files = [path.relative_to(TESTS.parent).as_posix() for path in TESTS.rglob("test_*.py")]
    in_gate = [
        name for name in files if NIGHTLY.get(name) != 0 and name.split("/")[1] not in ("integrations", "real_server")
    ]
    assert [name for name in in_gate if name not in costs] == [], "measure new files"
    assert [name for name, seconds in costs.items() if seconds > 30] == [], "leave a part to `make nightly`"
    assert sum(costs.values()) <= 440
