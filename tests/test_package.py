"""the checkout -> a wheel and a source distribution that hold all they need, and nothing else."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tarfile
import tomllib
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.clean_install import ROOT, build, run
from tests.message_texts import expected


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    pytest.importorskip("hatchling")
    return build(tmp_path_factory.mktemp("dist"))


def source_files() -> set[str]:
    """Return the files of the package."""
    paths = (path for path in (ROOT / "src/kumihimo").rglob("*") if path.is_file())
    return {path.relative_to(ROOT / "src").as_posix() for path in paths if "__pycache__" not in path.parts}


def test_the_wheel_holds_the_package(packages: tuple[Path, Path]) -> None:
    with ZipFile(packages[0]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        metadata = Parser().parsestr(wheel.read(next(n for n in wheel.namelist() if n.endswith("/METADATA"))).decode())
        commands = wheel.read(next(n for n in wheel.namelist() if n.endswith("/entry_points.txt"))).decode()
    assert names == source_files()
    used = {".css", ".html", ".js", ".json", ".md", ".py", ".svg", ".toml", ".tsv", ".typed"}
    assert {Path(name).suffix for name in names} == used
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (metadata["Name"], metadata["Version"]) == (project["name"], project["version"])
    assert set(metadata.get_all("Provides-Extra") or ()) == set(project["optional-dependencies"])
    assert "kumi = kumihimo.cli.entry:run_kumi" in commands
    assert "kumihimo = kumihimo.cli.entry:run_kumi" in commands


def test_the_source_distribution_holds_what_builds_it(packages: tuple[Path, Path]) -> None:
    with tarfile.open(packages[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        sizes = {member.name: member.size for member in archive.getmembers()}
    assert {f"src/{name}" for name in source_files()} <= names
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "tests/conftest.py"} <= names
    assert not [name for name in names if name.endswith((".db", ".pyc")) or "/.kumi/" in name]
    assert max(sizes.values()) < 5 << 20
    assert packages[1].stat().st_size < 20 << 20


def test_the_source_distribution_builds_the_same_wheel(packages: tuple[Path, Path], tmp_path: Path) -> None:
    with tarfile.open(packages[1]) as archive:
        archive.extractall(tmp_path, filter="data")
    [unpacked] = tmp_path.iterdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist", folder=unpacked)
    [wheel] = (tmp_path / "dist").iterdir()
    assert wheel.name == packages[0].name
    contents = []
    for path in (packages[0], wheel):
        with ZipFile(path) as file:
            contents.append({name: file.read(name) for name in file.namelist()})
    assert contents[0] == contents[1]


@pytest.mark.parametrize("kind", ["editable", "folder", "wheel"])
def test_each_hint_runs_where_the_package_was_installed(
    kind: str, packages: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What pip builds with comes from this environment: nothing is fetched."""
    if kind == "editable":
        pytest.importorskip("editables", reason="hatchling needs it: pip install editables")
    with tarfile.open(packages[1]) as archive:
        archive.extractall(tmp_path, filter="data")
    clone = next(path for path in tmp_path.iterdir() if path.is_dir()).rename(tmp_path / "a clone")
    run(sys.executable, "-m", "venv", "venv", folder=tmp_path)
    tools = tmp_path / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    what = {"editable": ("-e", clone), "folder": (clone,), "wheel": (packages[0],)}[kind]
    builders = os.pathsep.join(path for path in sys.path if "site-packages" in path)
    offline = ("--no-index", "--no-deps", "--no-build-isolation")
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", builders)
        run(tools / "python", "-m", "pip", "install", "-q", "--ignore-installed", *offline, *what, folder=tmp_path)
    hints = {hint for text in expected() for hint in re.findall(r"`pip install [^`]*kumihimo\[\w+\]'`", text)}
    assert {"`pip install 'kumihimo[ocr]'`", "`pip install 'kumihimo[server]'`"} <= hints
    hints.add("`pip install --force-reinstall 'kumihimo[docs]'`")
    fit = "import sys; from kumihimo.core.installation import fit_commands; print(fit_commands(sys.argv[1]))"
    for hint in hints:
        command = shlex.split(run(tools / "python", "-c", fit, hint, folder=tmp_path).strip("`\n"))
        assert str(packages[0] if kind == "wheel" else clone) in command[-1]
        with monkeypatch.context() as patch:
            patch.setenv("PYTHONPATH", builders)
            run(*command, "--dry-run", *offline, folder=tmp_path)
