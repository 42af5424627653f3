"""interpreters -> does the built package install into an empty environment of each, and answer there?

python -m tests.clean_install python3.11 python3.12 python3.13

It builds the wheel and the source distribution of this checkout. It installs the wheel with [docs] for each
interpreter, and the source distribution for the first. Each environment indexes a copy of the examples and answers two
questions.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
QUESTIONS = {  # question -> a word of the answer
    "What did Mr Kerrow promise about the first stone, and did he keep it?": "11 September 2023",
    "最初の「潮返し」の紐は、長さが何センチですか。": "百三十八センチ",
}


def run(*words: str | Path, folder: Path) -> str:
    """Run a command in a folder; return what it printed. Raise RuntimeError with its errors if it fails."""
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def build(folder: Path) -> tuple[Path, Path]:
    """Build the wheel and the source distribution; return their paths."""
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, folder=ROOT)
    [wheel], [source] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


def check_install(python: str, package: Path, home: Path) -> str:
    """Install a package for an interpreter, and ask there; return a line on it."""
    environment = home / "venv"
    run(python, "-m", "venv", environment, folder=home)
    tools = environment / ("Scripts" if sys.platform == "win32" else "bin")
    run(tools / "python", "-m", "pip", "install", "-q", f"{package}[docs]", folder=home)
    version = run(tools / "python", "--version", folder=home).strip()
    shutil.copytree(ROOT / "examples", home / "examples", ignore=shutil.ignore_patterns("plugin", ".*"))
    built = json.loads(run(tools / "kumi", "index", "examples", "--json", folder=home))
    assert built["rows"]["documents"] == 30, built["rows"]
    assert not built["failed"], built["failed"]
    for question, word in QUESTIONS.items():
        answer = json.loads(run(tools / "kumi", "ask", question, "--json", folder=home))
        assert word in answer["text"], answer["text"]
        assert answer["citations"], answer
    packages = len(json.loads(run(tools / "python", "-m", "pip", "list", "--format", "json", folder=home)))
    return f"{version}: {package.name} installs with {packages} packages, indexes 30 documents and answers"


def main(pythons: list[str]) -> None:
    with TemporaryDirectory() as folder:
        built = Path(folder, "dist")
        wheel, source = build(built)
        installs = [(python, wheel) for python in pythons] + [(pythons[0], source)]
        for number, (python, package) in enumerate(installs):
            home = Path(folder, str(number))
            home.mkdir()
            print(check_install(python, package, home), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or [sys.executable])
