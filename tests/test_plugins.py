"""a distribution of its own -> methods, tables and readers of an index: installed, used, checked, removed."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import sysconfig
import typing
import venv
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import kumihimo
from kumihimo import ext
from kumihimo.app.opened import results
from kumihimo.core.errors import KumiError
from kumihimo.core.records import Chunk, Record
from kumihimo.testing import check_laws

REPOSITORY = Path(__file__).parents[1]
PLUGIN = REPOSITORY / "examples" / "plugin"
CALENDAR = """BEGIN:VCALENDAR
BEGIN:VEVENT
UID:hull
SUMMARY:Inspection of the ferry
DTSTART:20260104
DESCRIPTION:The hull is 31 metres long.
END:VEVENT
END:VCALENDAR
"""
LAWS = """
from kumihimo.testing import check_laws
check_laws("notes", ["How long is the hull?"], methods=["longest", "measured"], settings={"longest": {"k": 2}})
"""


COMMANDS = """
import json, sys
from pathlib import Path
from tests.cli_runner import kumi
for line in sys.stdin:
    print(json.dumps(kumi(Path.cwd(), *json.loads(line))), flush=True)
"""


class Environment:
    """A virtual environment that sees the packages of this one."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.process: subprocess.Popen[str] | None = None  # runs commands, until another set of packages is installed
        venv.create(folder / "venv", system_site_packages=True)
        self.python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
        packages = Path(self.run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
        lines = [sysconfig.get_path("purelib"), str(Path(*kumihimo.__path__).parent)]
        (packages / "outer.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def run(self, *arguments: str, check: bool = True) -> str:
        """Return what a command of this Python prints."""
        self.home.mkdir(exist_ok=True)
        process = subprocess.run(
            [self.python, *arguments], cwd=self.home, env=variables(), capture_output=True, text=True, check=False
        )
        assert not check or process.returncode == 0, process.stdout + process.stderr
        return process.stdout + (process.stderr if not check else "")

    def kumi(self, *arguments: str, check: bool = True) -> str:
        """Return what `kumi` prints; one process of this Python runs all commands."""
        if not self.process:
            program, environment = [str(self.python), "-c", COMMANDS], variables() | {"PYTHONPATH": str(REPOSITORY)}
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(
                program, cwd=self.home, env=environment, stdin=pipe, stdout=pipe, text=True, encoding="utf-8"
            )
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{json.dumps(arguments)}\n")
        self.process.stdin.flush()
        code, out, err = json.loads(self.process.stdout.readline())
        assert not check or code == 0, out + err
        return f"{out}{err}" if not check else str(out)

    def close(self) -> None:
        if self.process:
            self.process.communicate()
            self.process = None

    def pip(self, *arguments: str) -> None:
        self.close()
        command = [sys.executable, "-m", "pip", "--python", str(self.python), "-q", *arguments]
        subprocess.run(command, check=True, capture_output=True)


def variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("KUMI_")}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    """Install the plug-in, index three notes with it, and ask."""
    environment = Environment(tmp_path_factory.mktemp("plugin"))
    environment.pip("install", "--no-deps", "--no-build-isolation", "--no-index", str(PLUGIN))
    notes = environment.home / "notes"
    notes.mkdir()
    (notes / "year.ics").write_text(CALENDAR, encoding="utf-8")
    (notes / "arm.txt").write_text("The arm is 1,870 metres long. It was raised in 1954, after the flood.", "utf-8")
    (notes / "gate.txt").write_text("The gate weighs two tonnes.", "utf-8")
    (environment.home / "kumi.toml").write_text("[longest]\nk = 2\n", encoding="utf-8")
    environment.run("-m", "kumihimo.cli.entry", "index", "notes", "--methods", "longest,measured,bm25")
    yield environment
    environment.close()


def test_it_is_listed_and_set(installed: Environment) -> None:
    methods = json.loads(installed.kumi("methods", "--json"))
    assert methods["longest"]["summary"] == "Return the longest chunks, whatever the question."
    assert methods["longest"]["settings"]["k"]["default"] == 5
    assert methods["measured"]["suits"] == "how long, how heavy, how far"
    status = json.loads(installed.kumi("status", "--json"))
    assert status["rows"]["measures"] == 3
    assert status["rows"]["documents"] == 3  # with the calendar


def test_it_retrieves_and_answers(installed: Environment) -> None:
    evidence = json.loads(installed.kumi("retrieve", "anything", "-m", "longest", "--json"))["evidence"]
    assert [row["score"] for row in evidence] == [69.0, 52.0]  # two of them, as kumi.toml says
    answer = json.loads(installed.kumi("ask", "How long is the hull?", "-m", "measured", "--json"))
    assert "31 metres" in answer["text"]
    assert answer["citations"][0]["uri"] == "notes/year.ics#hull"


def test_plan_and_eval_know_it(installed: Environment) -> None:
    assert json.loads(installed.kumi("plan", "--ask", "longest", "--json"))["estimates"] == []
    assert installed.kumi("plan", "--methods", "longest,measured")
    question = {"question": "How long is the hull?", "gold": [{"uri": "notes/year.ics#hull", "start": 0, "end": 52}]}
    (installed.home / "gold.jsonl").write_text(json.dumps(question) + "\n", encoding="utf-8")
    installed.kumi("eval", "import", "gold.jsonl")
    scores = installed.kumi("eval", "retrieval", "--methods", "measured,longest:k=1", "--json")
    assert {"measured", "longest:k=1"} <= {name for name in json.dumps(json.loads(scores)).split('"')}


def test_it_keeps_the_laws(installed: Environment) -> None:
    installed.run("-c", LAWS)


def test_two_lines_of_a_user_are_typed(tmp_path: Path) -> None:
    code = (
        "from kumihimo import Kumihimo\nfrom kumihimo.ext import Chunk\n\n"
        'reveal_type(Kumihimo.open(".kumi").ask("Who?"))\n'
        'for item in Kumihimo.open(".kumi").retrieve("Who?"):\n'
        "    if isinstance(item.record, Chunk):\n        print(item.record.start + item.record.tokens)\n"
    )
    (tmp_path / "two.py").write_text(code, encoding="utf-8")
    cache = REPOSITORY / ".mypy_cache"  # that of `make checks`, which takes most of the time
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), "two.py"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert 'Revealed type is "kumihimo.core.answer.Answer"' in process.stdout
    assert "Success" in process.stdout


def test_without_it_the_index_opens_and_says_what_is_missing(installed: Environment) -> None:
    installed.pip("uninstall", "-y", "kumi-example")
    try:
        status = installed.kumi("status")
        assert "longest" in status
        assert "the plug-in kumi-example" in " ".join(status.split())
        assert "1,870 metres" in installed.kumi("ask", "How long is the arm?", "-m", "bm25")
        for command in (["ask", "Who?", "-m", "longest"], ["index"], ["index", "--rebuild"]):
            refused = " ".join(installed.kumi(*command, check=False).split())
            assert "the plug-in kumi-example, which is not installed: install it again" in refused
    finally:
        installed.pip("install", "--no-deps", "--no-build-isolation", "--no-index", str(PLUGIN))
    assert json.loads(installed.kumi("status", "--json"))["rows"]["measures"] == 3  # nothing is lost


# -- the laws notice what breaks them


class Invented(Record):
    """A row that no document holds."""


def unsteady(question: str, chunks: ext.Table[Chunk], *, k: int = 5) -> ext.Context:
    """Return the chunks in another order each time."""
    rows = sorted(chunks, key=lambda chunk: chunk.id)
    Random().shuffle(rows)
    return ext.Context(tuple(ext.Evidence("chunks", row, float(i)) for i, row in enumerate(rows[:k])))


def invented(question: str, chunks: ext.Table[Chunk]) -> ext.Context:
    """Return evidence without a source."""
    return ext.Context((ext.Evidence("inventions", Invented(id="x", text="It rained."), 1.0),))


@pytest.mark.parametrize(
    ("method", "complaint"),
    [(unsteady, "gives other evidence|another process gives"), (invented, "leads to no document")],
)
def test_a_broken_method_breaks_a_law(method: Any, complaint: str, tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / f"{number}.txt").write_text(f"Note {number} tells of the ferry.", encoding="utf-8")
    with pytest.raises(AssertionError, match=complaint):
        check_laws(tmp_path, ["Which ferry?"], methods=[method])


SCRIPT = """
from kumihimo.ext import Chunk, Context, Evidence, Table
from kumihimo.testing import check_laws

def first(question: str, chunks: Table[Chunk]) -> Context:
    row = min(chunks, key=lambda chunk: chunk.id)
    return Context((Evidence("chunks", row, 1.0),))

def inner() -> None:
    def hidden(question: str, chunks: Table[Chunk]) -> Context:
        return Context(())
    check_laws("notes", ["Which ferry?"], methods=[hidden])

print("checking")
check_laws("notes", ["Which ferry?"], methods=[first])
print("checked")
try:
    inner()
except Exception as problem:
    print(problem)
"""


def test_a_script_checks_its_own_functions(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for number in range(2):
        (tmp_path / "notes" / f"{number}.txt").write_text(f"Note {number} tells of the ferry.", encoding="utf-8")
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    process = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=variables(), capture_output=True, text=True, check=False
    )
    problem = "another process has to load inner.<locals>.hidden: write it at the top level of a file\n"
    assert process.stdout == f"checking\nchecked\n{problem}", process.stdout + process.stderr


# -- the public names

LISTED: dict[type, tuple[str, ...]] = {  # as docs/api.md lists their members; the rest is for the package
    kumihimo.Kumihimo: tuple(vars(kumihimo.Kumihimo).keys() - {"cache", "models"}),
    kumihimo.AsyncKumihimo: tuple(vars(kumihimo.AsyncKumihimo).keys() - {"pids", "embed"}),
    kumihimo.Snapshot: ("table", "retrieve", "ask", "trace", "find"),
    kumihimo.Budget: (),
    kumihimo.IndexPlace: ("at", "name", "base"),
}


def named_types(hint: object) -> Iterator[type]:
    """Yield the classes of this package in a type."""
    if isinstance(hint, type) and hint.__module__.startswith("kumihimo"):
        yield hint
    for part in typing.get_args(hint):
        yield from named_types(part) if not isinstance(part, list) else (t for p in part for t in named_types(p))


def test_every_type_of_a_public_signature_is_exported() -> None:
    public = {getattr(module, name) for module in (kumihimo, ext) for name in module.__all__ if name != "Reference"}
    missing = set()
    for owner in [value for value in public if isinstance(value, type) and not issubclass(value, KumiError)]:
        names = LISTED.get(owner, (*vars(owner), "open"))
        members = [vars(owner)[name] for name in names if not name.startswith("_") and name in vars(owner)]
        for member in members:
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if inspect.isfunction(function):
                hints = typing.get_type_hints(
                    function, localns=vars(results)
                )  # which the facade imports for types alone
                missing |= {t.__name__ for hint in hints.values() for t in named_types(hint) if t not in public}
    assert not missing


@pytest.mark.parametrize(
    ("code", "reason"), [(None, "ModuleNotFoundError"), ("1 / 0", "ZeroDivisionError"), ("def", "SyntaxError")]
)
def test_a_plugin_that_does_not_load_is_named(
    code: str | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.metadata import EntryPoint

    from kumihimo.app.opened import catalogue

    if code:
        (tmp_path / f"broken_{reason}.py").write_text(code, encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))
    entry = EntryPoint("gone", f"broken_{reason}:gone", "kumihimo.methods")
    with pytest.raises(KumiError, match=rf"kumihimo\.methods: gone = broken_{reason}:gone\): {reason}"):
        catalogue._add_plugin(catalogue.BUILT_IN, entry)


# -- the docs


@pytest.mark.parametrize(
    ("page", "module"), [("add-a-method", "longest"), ("add-a-table", "measures"), ("add-a-reader", "calendar")]
)
def test_the_docs_show_the_plugin(page: str, module: str) -> None:
    code = (PLUGIN / "src" / "kumi_example" / f"{module}.py").read_text(encoding="utf-8")
    assert f"```python\n{code}```" in (REPOSITORY / "docs" / f"{page}.md").read_text(encoding="utf-8")
