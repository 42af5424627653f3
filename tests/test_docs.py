"""the documentation -> what it says of commands, settings, methods and tables is all there, is so, and runs."""

from __future__ import annotations

import ast
import re
import shlex
import sys
import tomllib
from collections.abc import Iterable
from contextvars import copy_context
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_origin
from xml.etree import ElementTree

import pytest
import typer.main
from docs import api, draw

import kumihimo
from kumihimo.app.facade import Kumihimo
from kumihimo.app.opened.catalogue import BUILT_IN
from kumihimo.app.settings.settings_registry import SettingsRegistry
from kumihimo.cli.main import COMMANDS, app
from kumihimo.core.settings import LINE, Setting, TextForm
from kumihimo.core.signature import Signature, collect_signatures
from kumihimo.core.table import codec
from kumihimo.core.wiring import order_steps
from kumihimo.index import STEPS
from kumihimo.methods import METHODS
from kumihimo.methods.braid import published_weights
from kumihimo.readers import PICTURES, READERS
from tests import docs_transcripts, screens
from tests.docs_console import DOCS, HERE, PAGES, rendered, steady
from tests.fake_server import FakeServer
from tests.message_texts import SOURCE
from tests.toy_steps import gists, themes, told


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(path: Path, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", path.read_text(encoding="utf-8"), re.S | re.M)


def with_blocks(kind: str, pages: Iterable[Path] = PAGES) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", [path for path in pages if blocks(path, kind)], ids=named)


def named(path: Path) -> str:
    return path.relative_to(HERE).as_posix()


@cache
def commands() -> dict[str, Any]:
    group: Any = typer.main.get_command(app)
    found = {name: group.get_command(None, name) for name in group.list_commands(None)}
    groups = {name: found.pop(name) for name in ("key", "eval")}
    return found | {f"{name} {n}": each.get_command(None, n) for name, each in groups.items() for n in each.commands}


def command_of(words: list[str]) -> tuple[str, list[str]]:
    """The name of a command, `eval run`, and what it is given."""
    size = 2 if words[0] in ("eval", "key") else 1
    return " ".join(words[:size]), words[size:]


def options(command: str) -> list[str]:
    return [o for parameter in commands()[command].params for o in parameter.opts if o.startswith("-")]


# -- everything is described


@pytest.mark.parametrize("name", commands())
def test_every_command_and_option_is_described(name: str) -> None:
    on = "evaluation.md" if name.startswith("eval ") else "commands.md"
    _, _, section = page(on).partition(f"## kumi {name}")
    assert section, f"docs/{on} has no section on kumi {name}"
    everywhere, _, _ = page(on).partition("\n## ")
    section = everywhere + section.partition("\n## ")[0]
    assert [option for option in options(name) if f"`{option}" not in section] == []


def test_every_setting_is_described_with_its_default_and_range() -> None:
    said = page("settings.md") + page("methods.md")  # a new method may describe its settings beside itself
    for scope, settings in SettingsRegistry(BUILT_IN).own.items():
        for setting in settings.values():
            plain = setting.default is None or isinstance(setting.default, bool)
            default = str(setting.default).lower() if plain else setting.default
            assert f"| `{scope}.{setting.name}` | {default} | {in_words(setting)} |" in said


def in_words(setting: Setting) -> str:
    if bounds := setting.bounds:
        asked = f"; asked: {bounds.asked[0]:,} to {bounds.asked[1]:,}" if bounds.asked else ""
        return f"{bounds.least:,} to {bounds.most:,}{asked}"
    is_list = get_origin(setting.type) is tuple
    item = Setting.of("", get_args(setting.type)[0], "") if is_list else setting
    words = []
    if setting.size:
        kind = "items" if is_list else "characters"
        words.append(f"{f'{setting.size.least:,}' if setting.size.least else 'up'} to {setting.size.most:,} {kind}")
    if isinstance(item.form, TextForm):
        form = "one line" if item.form is LINE else item.form.description.replace("|", r"\|")
        words.append(f"each {form}" if is_list else form)
    if item.bounds:
        words.append(f"each {item.bounds.least:,} to {item.bounds.most:,}")
    return "; ".join(words)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_described(name: str) -> None:
    assert f"| `{name}` |" in page("methods.md")


def test_the_weights_of_braid_are_those_that_are_published() -> None:
    said = re.findall(r"^\| `([a-z ]+)` \| ([-.\d]*) *\| ([-.\d]*) *\|$", page("research/braid.md"), re.M)
    for i, name in enumerate(("first", "second"), 1):
        assert {row[0]: float(row[i]) for row in said if row[i]} == published_weights()[name]


@pytest.mark.parametrize("name", BUILT_IN.record_types)
def test_every_table_is_described(name: str) -> None:
    _, _, section = page("tables.md").partition(f"## {name}\n")
    columns = codec(BUILT_IN.record_types[name]).columns
    assert [column for column in columns if f"`{column}`" not in section.partition("\n## ")[0]] == []


def test_every_public_name_is_described() -> None:
    described = " ".join(names for _, module, names in api.SECTIONS.values() if module == "kumihimo").split()
    assert sorted(name.partition(":")[0] for name in described) == kumihimo.__all__
    assert page("api.md") == api.write_page(), "run `python -m docs.api`"


SERVER_SECTIONS = [
    "What you need",
    "kumi.toml",
    "Context window",
    "Requests at the same time",
    "What it costs",
    "What to expect",
    "When something goes wrong",
]


@pytest.mark.parametrize("path", sorted((DOCS / "models").glob("*.md")), ids=named)
def test_every_server_is_described_in_the_same_order(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.M)[: len(SERVER_SECTIONS)] == SERVER_SECTIONS
    assert f"](models/{path.name})" in page("models.md")
    _, _, connection = text.partition("\n## kumi.toml\n")
    settings = tomllib.loads(re.findall(r"^```toml\n(.*?)^```", connection, re.S | re.M)[0])
    assert {"chat", "embedding"} <= settings.keys()


def test_the_windows_are_the_defaults() -> None:
    _, _, section = page("models.md").partition("### Context windows")
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \| (\d+) \|$", section.partition("\n### ")[0], re.M)
    own = SettingsRegistry(BUILT_IN).own
    defaults = [(*name.split("."), int(value)) for names, value in rows for name in re.findall(r"`(.+?)`", names)]
    assert len(defaults) == 10
    assert [d for d in defaults if own[d[0]][d[1]].default != d[2]] == []


# -- what is described is so


@with_blocks("console")
def test_commands_print_what_a_page_says(path: Path) -> None:
    said = path.read_text(encoding="utf-8")
    assert steady(rendered(said)) == steady(said), "run `python -m tests.docs_console` and look at what changed"


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that holds the examples."""
    for name in ("examples", "examples-zh"):
        (tmp_path / name).symlink_to(HERE / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@with_blocks("python", [path for path in PAGES if path not in docs_transcripts.PAGES])  # those need a server
@pytest.mark.usefixtures("sandbox")
def test_python_runs(path: Path, server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    shared: dict[str, Any] = {"__name__": "page"}
    for block in blocks(path, "python"):
        if block.startswith("# needs a model"):
            block = re.sub(r"http://localhost:\d+/v1", server.url, block)
        exec(compile(block, named(path), "exec", dont_inherit=True), shared)
    printed = capsys.readouterr().out
    assert "How many sailings" not in path.read_text(encoding="utf-8") or "61 sailings" in printed


def test_each_promise_of_security_names_tests_that_attack_it() -> None:
    promised = (HERE / "SECURITY.md").read_text("utf-8").partition("## What we promise")[2].partition("\n## ")[0]
    promises = promised.split("\n* ")[1:]
    assert len(promises) >= 15
    for promise in promises:
        named_tests = re.findall(r"`([\w/]+\.py)::(test_\w+)`", promise.partition("Test")[2])
        assert named_tests, promise
        for file, name in named_tests:
            assert f"def {name}(" in (HERE / "tests" / file).read_text("utf-8"), f"{file}::{name}"


@with_blocks("toml")
def test_settings_exist(path: Path, tmp_path: Path) -> None:
    for block in blocks(path, "toml"):
        with Kumihimo(tmp_path / ".kumi", tomllib.loads(block)) as kumi:
            named = [kumi.models.chat("answer"), kumi.models.paid_embedder, kumi.models.paid_reranker]
            is_local = str(kumi.models.settings["embedding"]["model"]).startswith("local:")
            assert any(named) or is_local or "model" not in block


@with_blocks("sh")
def test_shell_lines_can_be_given(path: Path) -> None:
    for line in "".join(blocks(path, "sh")).splitlines():
        name, *arguments = shlex.split(line, comments=True) or [""]
        if name == "kumi":
            command, given = command_of(arguments)
            copy_context().run(commands()[command].make_context, command, given)


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_commands_that_are_mentioned_exist(path: Path) -> None:
    for line in re.findall(r"`kumi ([a-z][^`]*)`", path.read_text(encoding="utf-8")):
        command, arguments = command_of(line.split())
        assert command in commands() or command == "eval", line
        if command == "eval":
            continue
        given = [argument.partition("=")[0] for argument in arguments if argument.startswith("-")]
        assert set(given) <= {*options(command), "--help"}, line


@cache
def messages() -> tuple[tuple[str, ...], ...]:
    """Every text of the source that may be a message, in parts: an empty one where a value stands."""
    texts = [n for tree in SOURCE.trees.values() for n in ast.walk(tree) if isinstance(n, ast.JoinedStr | ast.Constant)]
    parts = [text.values if isinstance(text, ast.JoinedStr) else [text] for text in texts]
    known = {tuple(str((isinstance(p, ast.Constant) and p.value) or "") for p in listed) for listed in parts}
    return tuple(listed for listed in known if sum(map(len, listed)) > 15)


def is_made_of(said: str, parts: tuple[str, ...]) -> bool:
    """Return whether these parts are the text, with anything where a value stands."""
    pattern = ".*".join(map(re.escape, parts))
    return all(part in said for part in parts) and bool(re.fullmatch(pattern, said, re.S))


def test_messages_are_those_of_the_source() -> None:
    _, _, section = page("troubleshooting.md").partition("## Messages")
    rows = re.findall(r"^\| (`+)(.+?)\1 \|", section, re.M)
    assert [said for fence, said in rows if re.search(f"(?<!`){fence}(?!`)", said)] == []
    shown = [said.strip() for _, said in rows]
    assert len(shown) > 10
    assert [said for said in shown if not any(is_made_of(said, parts) for parts in messages())] == []


# -- links and pictures


def anchors(path: Path) -> set[str]:
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", path.read_text(encoding="utf-8")):
        file, _, anchor = target.partition("#")
        there = path.parent / file if file else path
        assert target.startswith("http") or there.exists(), target
        assert target.startswith("http") or not anchor or anchor in anchors(there), target


def test_every_page_is_reachable_from_the_first_one() -> None:
    """Links of a table of contents that nobody sees, and those of the changelog, do not count."""
    reached, waiting = set[Path](), [DOCS / "index.md"]
    while waiting:
        path = waiting.pop().resolve()
        if path not in reached:
            reached.add(path)
            links = re.findall(r"\]\(([^)#]+\.md)", path.read_text(encoding="utf-8"))
            waiting += [path.parent / link for link in links if not link.startswith("http")]
    pages = [path for path in DOCS.rglob("*.md") if "examples-source" not in path.parts]
    assert [named(path) for path in pages if path.resolve() not in reached] == []


def test_the_layers_are_those_that_are_checked() -> None:
    contracts = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    checked = [
        [set(re.findall(r"\w+", row.replace("kumihimo.", ""))) for row in each["layers"]] for each in contracts[:2]
    ]
    lists = [block for block in blocks(DOCS / "how-it-works.md", "text") if "facade" in block]
    shown = [
        [set(row.partition("  ")[0].replace(".py", "").split(" | ")) for row in each.splitlines()] for each in lists
    ]
    assert shown == checked


PACKAGE = Path(kumihimo.__file__).parent
LIVES = [f"The life of a {noun}" for noun in ("document", "model call", "question")]


@pytest.mark.parametrize("life", LIVES)
def test_a_life_names_what_is_in_the_code(life: str) -> None:
    """Each name of a paragraph stands in one of the files that the paragraph names."""
    section = page("how-it-works.md").partition(f"## {life}\n")[2].partition("\n## ")[0]
    paragraphs = re.findall(r"^\d+\. (.*?)(?=^\d+\. |\Z)", section, re.M | re.S)
    assert len(paragraphs) > 5
    for paragraph in paragraphs:
        names = re.findall(r"`([^`]+)`", paragraph)
        paths = [PACKAGE / name for name in names if name.endswith((".py", "/"))]
        files = [file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
        code = "\n".join(file.read_text(encoding="utf-8") for file in files)
        words = [re.sub(r".*\.|\(\)$", "", name) for name in names if not name.endswith((".py", "/"))]
        assert [word for word in words if files and not re.search(rf"\b{word}\b", code)] == []


@pytest.mark.parametrize("name", draw.pictures())
def test_pictures_are_of_the_catalogues(name: str) -> None:
    drawn = (draw.FOLDER / name).read_text(encoding="utf-8")
    assert drawn == draw.pictures()[name], "run `python -m docs.draw` and look at what changed"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no terminals of this kind")
def test_screens_are_what_a_person_sees() -> None:
    held = {path.stem: path.read_text(encoding="utf-8") for path in screens.SCREENS.glob("*.svg")}
    told = {name: screens.words(svg) for name, svg in screens.all_drawn().items()}
    assert {name: screens.words(svg) for name, svg in held.items()} == told, "run `python -m tests.screens` and look"


def test_filters_that_are_shown_find_something(tmp_path: Path) -> None:
    shown = {path.name: path.read_text(encoding="utf-8") for path in PAGES}
    shown["help"] = "\n".join(line for panel in COMMANDS.values() for lines in panel.values() for line in lines)
    asked = {said for text in shown.values() for said in re.findall(r"--filter '([^'\n]+)'", text)}
    assert len(asked) >= 3
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(HERE / "examples", methods=["bm25"])
        with kumi.snapshot() as reading:
            assert [said for said in asked if not reading.matching_documents(said)] == []


def test_every_format_is_described() -> None:
    said = re.findall(r"`((?:\.\w+ ?)+)`", page("formats.md").partition("## What is refused")[0])
    assert {suffix for suffixes in said for suffix in suffixes.split()} == (READERS.keys() | PICTURES.keys()) - {""}


def test_pictures_tell_what_is_paid() -> None:
    steps = {**STEPS, **collect_signatures(gists, themes)}
    drawn = [draw.tables(steps), draw.methods({**METHODS, **collect_signatures(told)}, steps)]
    assert all(ElementTree.fromstring(picture).tag.endswith("svg") for picture in drawn)
    assert drawn[0].count('<rect class="asks" x') == sum("llm" in step.ports for step in steps.values())
    assert draw.tables(collect_signatures(STEPS["chunks"].function, gists, themes)).count('<rect class="asks" x') == 2
    assert (
        drawn[1].count("<circle")
        == sum(map(len, (held for m in METHODS.values() for held in (m.tables, m.optional_tables, m.ports)))) + 4 + 1
    )


@pytest.mark.parametrize(
    ("steps", "sizes"),
    [
        (collect_signatures(STEPS["chunks"].function, gists, themes), [1, 2, 2, 1]),
        ({**STEPS, **collect_signatures(gists, themes)}, [1, 6, 24, 23, 11, 8, 8, 2]),
    ],
)
def test_tables_stand_apart(steps: dict[str, Signature], sizes: list[int]) -> None:
    order = order_steps(steps)
    edges = [(source, step.name) for step in order for source in step.inputs] + [("documents", "themes")]
    layers = draw._layered(order, edges)
    x = draw._spread(layers, edges)
    assert [len(layer) for layer in layers] == sizes
    for layer in layers:
        at = [x[node] for node in layer]
        assert at == sorted(at)
        room = [(draw._wide(one) + draw._wide(other)) / 2 for one, other in pairwise(layer)]
        assert all(b - a >= wide - 0.1 for (a, b), wide in zip(pairwise(at), room, strict=True))  # rounded
