"""a page with commands -> the same page with what they print. As a program: writes both README and the docs anew."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from tests import cli_runner

HERE = Path(__file__).parents[1]
DOCS = HERE / "docs"
GALLERY = sorted((HERE / "gallery").glob("*/README.md"))  # each runs in a copy of its folder
WRITTEN = [page for page in DOCS.rglob("*.md") if "examples-source" not in page.parts]
PAGES = sorted([HERE / "README.md", *HERE.glob("README.??.md"), HERE / "CONTRIBUTING.md", *WRITTEN])
BLOCK = re.compile(r"^```console\n(.*?)^```", re.S | re.M)
SECONDS = re.compile(r"\d+\.\d (?:s\b|秒)")


def rendered(page: str, home: Path | None = None) -> str:
    """Every `$ kumi ...` of a console block, with its output below it.

    home: whose copy they run in; without one, a folder that holds examples/ and examples-zh/.
    """
    with TemporaryDirectory() as folder:
        if home:
            shutil.copytree(home, folder, dirs_exist_ok=True)
        else:
            for name in ("examples", "examples-zh"):
                shutil.copytree(HERE / name, Path(folder, name))
        return BLOCK.sub(lambda block: f"```console\n{_run(block[1], Path(folder))}```", page)


def _run(block: str, folder: Path) -> str:
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"{command}\n{_output(shlex.split(command[2:]), folder)}" for command in commands)


def _output(command: list[str], folder: Path) -> str:
    assert command[0] == "kumi"
    ran = cli_runner.kumi(folder, *command[1:], COLUMNS="100", NO_COLOR="1")
    assert ran.returncode == 0, ran.stderr
    lines = [line.rstrip() for line in ran.stdout.replace(str(folder), "/home/you").splitlines()]
    return "\n".join(lines).rstrip() + "\n"


def steady(page: str) -> str:
    """The page without what differs from run to run."""
    return SECONDS.sub("_ s", page)


def main() -> None:
    for path in (*PAGES, *GALLERY):
        told = path.read_text(encoding="utf-8")
        if steady(now := rendered(told, path.parent if path in GALLERY else None)) != steady(told):
            path.write_text(now, encoding="utf-8")


if __name__ == "__main__":
    main()
