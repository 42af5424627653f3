"""a new method inside the package: a function, a prompt, a line of the catalogue and a page of the documentation."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import kumihimo
from kumihimo.methods import METHODS

REPOSITORY = Path(__file__).parents[1]
FUNCTION = '''"""question -> chunks by the words that a model suggests."""

from pathlib import Path

from kumihimo.core.context import Context
from kumihimo.core.records import Chunk
from kumihimo.core.signature import IndexSizes, MethodSettings, QueryCost, declare
from kumihimo.core.table import Table
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM
from kumihimo.search.protocols import KeywordSearch

PROMPT = Path(__file__).with_suffix(".md")


def echo_cost(settings: MethodSettings, sizes: IndexSizes) -> QueryCost:
    """Return one call."""
    prompt = sizes.prompt_tokens(PROMPT)
    return QueryCost.for_calls((1, 1), (prompt, prompt))


@declare(best_for="words that nobody wrote", calls=echo_cost)
def echo(
    question: str, chunks: Table[Chunk], keyword_search: KeywordSearch, llm: LLM | None, *, k: int = 3
) -> Context:
    """Return chunks by the words that a model suggests (no paper)."""
    words = llm(render_prompt(PROMPT, question=question)) if llm else question
    return keyword_search(chunks, words, k=k)
'''
PROGRAM = """
import json
from kumihimo import Kumihimo
from kumihimo.app.opened.catalogue import installed_catalogue

with Kumihimo.open(".kumi") as kumi:
    kumi.index("notes", methods=["echo"])
    print(json.dumps({
        "suits": installed_catalogue().methods["echo"].declaration.best_for,
        "k": kumi.settings["echo"]["k"],
        "ids": len(kumi.retrieve("pier", "echo")),
        "plan": len(kumi.plan(methods=["echo"]).estimates),
        "cost": kumi.estimate_query_cost("echo").calls,
        "own_model": "model" in kumi.settings_registry.all["echo"],
    }))
"""


class Package:
    """A copy of the package and its documentation that counts the places it changes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.places = folder, 0
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(*kumihimo.__path__), folder / "src" / "kumihimo", ignore=ignored)
        shutil.copytree(REPOSITORY / "docs", folder / "docs", ignore=ignored)

    def write(self, path: str, text: str) -> None:
        self.places += 1
        (self.folder / path).write_text(text, encoding="utf-8")

    def replace(self, path: str, *pairs: tuple[str, str]) -> None:
        text = (self.folder / path).read_text(encoding="utf-8")
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new, 1)
        self.write(path, text)


def test_a_method_is_four_places(tmp_path: Path) -> None:
    package = Package(tmp_path)
    package.write("src/kumihimo/methods/echo.py", FUNCTION)
    package.write("src/kumihimo/methods/echo.md", "# user\nSuggest words for: {user question}\n")
    package.replace(
        "src/kumihimo/methods/__init__.py",
        ("from kumihimo.methods.global_", "from kumihimo.methods.echo import echo\nfrom kumihimo.methods.global_"),
        ("light, meta, discourse", "light, meta, discourse, echo"),
    )
    package.replace(
        "docs/methods.md", ("| `bm25` |", "| `echo` | words that nobody wrote |\n| `echo.k` | 3 | chunks |\n| `bm25` |")
    )
    assert package.places == 4
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "pier.txt").write_text("Ada built the pier.", encoding="utf-8")
    (tmp_path / "kumi.toml").write_text("[echo]\nk = 2\n", encoding="utf-8")
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout) == {
        "suits": "words that nobody wrote",
        "k": 2,
        "ids": 1,
        "plan": 0,
        "cost": [0, 0],
        "own_model": True,
    }


def test_ordinary_methods_stand_in_their_module_and_the_catalogue_alone() -> None:
    root = Path(*kumihimo.__path__)
    for name in ("hyde", "rq", "drift"):
        assert name in METHODS
        naming = {
            path.relative_to(root).as_posix()
            for path in root.rglob("*.py")
            if f'"{name}"' in (text := path.read_text(encoding="utf-8")) or f"import {name}\n" in text
        }
        assert naming <= {"methods/__init__.py", f"methods/{name}.py"}
