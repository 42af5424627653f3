"""the head of a Markdown file -> its front matter, and where the text begins."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Hashable
from datetime import date, datetime
from functools import cache
from typing import Any

from kumihimo.core.records import NOT_READ

YAML_SCALARS = (  # types of plain values besides text; YAML 1.1 would turn times and postal codes into numbers
    ("bool", r"^(?:true|false|True|False)$", "tfTF"),
    ("null", r"^(?:~|null|Null|)$", ("~", "n", "N", "")),
    ("int", r"^[-+]?(?:0|[1-9]\d*)$", "-+0123456789"),
    ("float", r"^[-+]?(?:0|[1-9]\d*)\.\d*[1-9]$", "-+0123456789"),
    ("timestamp", r"^\d{4}-\d\d-\d\d(?:[Tt ]\d\d?:\d\d:\d\d(?:\.\d+)?(?:Z|[-+]\d\d?(?::\d\d)?)?)?$", "0123456789"),
)
MAX_CHARS = 64_000  # longer text is not front matter
MAX_BRACKETS = 500  # parsing nested brackets takes quadratic time
FIELD = re.compile(r"\s*[\w-]{1,40}\s*[:=]")
YAML = re.compile(r"\A---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
TOML = re.compile(r"\A\+\+\+[ \t]*\r?\n(.*?)^\+\+\+[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


def parse_front_matter(text: str) -> tuple[dict[str, object], int]:
    r"""Return the values of the front matter, and its length.

    Dates become ISO 8601. Without front matter, return an empty dict and 0. Front matter that cannot be parsed stays in
    the text, and is reported as not read.

    >>> parse_front_matter("---\ntitle: Tides\ndate: 2024-05-01\n---\nThe sea.")
    ({'title': 'Tides', 'date': '2024-05-01'}, 38)
    >>> parse_front_matter("---\nA rule above, another below.\n---\n")
    ({}, 0)
    """
    for pattern, parse in ((YAML, _parse_yaml), (TOML, _parse_toml)):
        match = pattern.match(text)
        if match and len(match[1]) < MAX_CHARS and sum(map(match[1].count, "[{")) < MAX_BRACKETS:
            values = parse(match[1])
            if isinstance(values, dict):
                return {str(key): _to_json_value(value) for key, value in values.items()}, match.end()
        if match and FIELD.match(match[1]):
            return {NOT_READ: ["its front matter, which is neither YAML nor TOML"]}, 0
    return {}, 0


def _parse_yaml(text: str) -> object:
    """Parse YAML; return None if it is invalid or uses aliases.

    With aliases a short text may expand without end.
    """
    import yaml

    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            return None
        return yaml.load(text, _yaml_loader())
    except (yaml.YAMLError, ValueError, RecursionError):  # for example, 2024-13-45 is no date
        return None


@cache
def _yaml_loader() -> Any:
    """Return YAML's safe loader, with `no`, `12:30` and `01234` kept as text."""
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = True) -> dict[Hashable, Any]:
            """Keep the keys as written: YAML would turn `yes` into True.

            True would be the same key as `1`.
            """
            return {str(key.value): self.construct_object(value, deep=deep) for key, value in node.value}

    Loader.yaml_implicit_resolvers = {}
    for tag, pattern, initials in YAML_SCALARS:
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(initials))
    return Loader


def _parse_toml(text: str) -> object:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def _to_json_value(value: object) -> object:
    """Convert a value to a form that JSON can hold."""
    if isinstance(value, dict):
        return {str(key): _to_json_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set):
        return [_to_json_value(inner) for inner in value]
    if isinstance(value, date | datetime):
        return value.isoformat()
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
