"""the documentation -> what is said of commands, settings, methods and tables is all there, and is so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from kumihimo.core.table import codec
from kumihimo.interfaces.cli import app
from kumihimo.methods import METHODS
from kumihimo.reading import KINDS
from kumihimo.session import SETTINGS
from tests.readme import HERE, README, rendered, steady

DOCS = HERE / "docs"
PAGES = sorted([README, HERE / "CONTRIBUTING.md", *DOCS.rglob("*.md")])


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def commands() -> dict[str, Any]:
    group: Any = typer.main.get_command(app)
    return dict(group.commands)


@pytest.mark.parametrize("name", commands())
def test_every_command_and_option_is_described(name: str) -> None:
    _, _, section = page("commands.md").partition(f"## kumi {name}")
    assert section, f"docs/commands.md has no section on kumi {name}"
    everywhere, _, _ = page("commands.md").partition("\n## ")
    section = everywhere + section.partition("\n## ")[0]
    options = [option for parameter in commands()[name].params for option in parameter.opts if option.startswith("-")]
    assert [option for option in options if f"`{option}" not in section] == []


def test_every_setting_is_described_with_its_default() -> None:
    said = page("settings.md")
    for scope, settings in SETTINGS.items():
        for setting in settings.values():
            plain = setting.default is None or isinstance(setting.default, bool)
            default = str(setting.default).lower() if plain else setting.default
            assert f"| `{scope}.{setting.name}` | {default} |" in said


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_described(name: str) -> None:
    assert f"| `{name}` |" in page("methods.md")


@pytest.mark.parametrize("name", KINDS)
def test_every_table_is_described(name: str) -> None:
    _, _, section = page("tables.md").partition(f"## {name}\n")
    columns = codec(KINDS[name]).columns
    assert [column for column in columns if f"`{column}`" not in section.partition("\n## ")[0]] == []


def test_the_readme_prints_what_it_says() -> None:
    told = README.read_text(encoding="utf-8")
    assert steady(rendered(told)) == steady(told), "run `python -m tests.readme` and look at what changed"


def test_the_readme_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "examples").symlink_to(HERE / "examples")
    monkeypatch.chdir(tmp_path)
    for block in re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S):
        exec(compile(block, "README.md", "exec"), {})
    assert "61 sailings" in capsys.readouterr().out


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(HERE).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    broken = [t for t in targets if not t.startswith("http") and not (path.parent / t).exists()]
    assert broken == []
