"""the installed packages -> each is in the table of licences, and may be used."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from docs import licences

ROOT = Path(__file__).parents[1]
FOR_US = {"dev", "integration-tests", "model-tests", "site"}  # extras of this checkout
TABLE = licences.read_table()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_every_extra_is_listed() -> None:
    assert {"", *PROJECT["optional-dependencies"]} - FOR_US == set(licences.USED)


def test_every_direct_requirement_is_in_the_table() -> None:
    lines = [*PROJECT["dependencies"]]
    for extra, required in PROJECT["optional-dependencies"].items():
        lines += [] if extra in FOR_US else required
    names = {re.split(r"[\[<>=!~; ]", line)[0].lower().replace("_", "-") for line in lines} - {"kumihimo"}
    assert names <= TABLE.keys()


def test_every_licence_is_allowed() -> None:
    assert [name for name, (text, _) in TABLE.items() if not licences.is_allowed(text)] == []


def test_what_is_installed_may_be_used() -> None:
    """Newer versions may have other licences, and other packages, than the table."""
    installed = licences.installed_packages()
    assert {"httpx2", "numpy", "pydantic"} <= installed.keys()
    assert {name: text for name, (text, _) in installed.items() if not licences.is_allowed(text)} == {}


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("Apache-2.0 AND (MIT OR BSD-3-Clause)", True),
        ("MPL-1.1 OR GPL-2.0-only", True),
        ("LGPL-3.0-only", True),
        ("GPL-3.0-or-later", False),
        ("MIT AND AGPL-3.0-only", False),
        ("GPL-3.0-only AND (MIT OR BSD-3-Clause)", False),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("MIT BSD-3-Clause", False),
        ("", False),
    ],
)
def test_which_expressions_are_allowed(expression: str, allowed: bool) -> None:
    assert licences.is_allowed(expression) is allowed
