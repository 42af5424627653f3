"""Where the package came from -> the command in messages that installs an extra."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.installation import fit_commands, install_command, may_show_paths
from kumihimo.text.translation import translate

HINT = "a.png: to read the text of pictures, run `pip install 'kumihimo[ocr]'`"


@pytest.fixture(autouse=True)
def active(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The environment is that of `pip`."""
    monkeypatch.setattr("shutil.which", lambda _: str(Path(sys.executable).with_name("pip")))
    install_command.cache_clear()
    yield
    install_command.cache_clear()


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'kumihimo[ocr]'"),  # from a registry
        ({"url": "file://{folder}", "dir_info": {"editable": True}}, "pip install -e '{folder}[ocr]'"),
        ({"url": "file://{folder}", "dir_info": {}}, "pip install '{folder}[ocr]'"),
        ({"url": "file://{folder}/is%20gone", "dir_info": {}}, "pip install 'kumihimo[ocr]'"),
        ({"url": "file://{folder}/k.whl", "archive_info": {}}, "pip install '{folder}/k.whl[ocr]'"),
        (
            {"url": "https://a.example/k.whl", "archive_info": {}},
            "pip install 'kumihimo[ocr] @ https://a.example/k.whl'",
        ),
        (
            {"url": "https://a.example/k", "vcs_info": {"vcs": "git", "commit_id": "1f"}},
            "pip install 'kumihimo[ocr] @ git+https://a.example/k@1f'",
        ),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="quotes and addresses of files differ there")
def test_a_hint_installs_from_where_the_package_came(
    origin: dict[str, Any] | None, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "k.whl").touch()
    told = json.dumps(origin).replace("{folder}", str(tmp_path)) if origin else None
    monkeypatch.setattr(PathDistribution, "read_text", lambda *_: told)
    command = command.replace("{folder}", str(tmp_path))
    assert translate(HINT) == f"a.png: to read the text of pictures, run `{command}`"
    assert f"`{command}`" in translate(HINT, "ja")
    option = command.replace("install ", "install --force-reinstall ").replace("ocr", "docs")
    assert fit_commands("`pip install --force-reinstall 'kumihimo[docs]'`") == f"`{option}`"


def test_the_command_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/pip")  # of another one
    monkeypatch.setattr("sys.executable", "/home/a b/bin/python")
    assert install_command("[ocr]").startswith("'/home/a b/bin/python' -m pip install ")
    monkeypatch.setattr("kumihimo.core.installation.find_spec", lambda _: None)
    install_command.cache_clear()
    assert install_command("[ocr]").startswith("uv pip install --python '/home/a b/bin/python' ")
    monkeypatch.setattr("sys.executable", "/home/o'brien/bin/python")
    install_command.cache_clear()
    assert shlex.split(install_command("[ocr]"))[4] == "/home/o'brien/bin/python"


def test_others_see_no_path_of_this_machine() -> None:
    token = may_show_paths.set(False)
    try:
        assert translate(HINT) == HINT
    finally:
        may_show_paths.reset(token)
