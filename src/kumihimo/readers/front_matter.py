"""the head of a Markdown file -> what it says of the file, and where the text begins."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Hashable
from datetime import date, datetime
from functools import cache
from typing import Any

from kumihimo.core.records import NOT_READ

YAML_SCALARS = (  # what a plain value may be besides text: the rules of YAML 1.1 make numbers of times and of postal codes
    ("bool", r"^(?:true|false|True|False)$", "tfTF"),
    ("null", r"^(?:~|null|Null|)$", ("~", "n", "N", "")),
    ("int", r"^[-+]?(?:0|[1-9]\d*)$", "-+0123456789"),
    ("float", r"^[-+]?(?:0|[1-9]\d*)\.\d*[1-9]$", "-+0123456789"),
    ("timestamp", r"^\d{4}-\d\d-\d\d(?:[Tt ]\d\d?:\d\d:\d\d(?:\.\d+)?(?:Z|[-+]\d\d?(?::\d\d)?)?)?$", "0123456789"),
)
MAX_CHARS = 64_000  # characters; what is longer is no front matter
MAX_BRACKETS = 500  # nested brackets take the square of their number to read
FIELD = re.compile(r"\s*[\w-]{1,40}\s*[:=]")
YAML = re.compile(r"\A---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
TOML = re.compile(r"\A\+\+\+[ \t]*\r?\n(.*?)^\+\+\+[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


def parse_front_matter(text: str) -> tuple[dict[str, object], int]:
    """Its values by name, dates as ISO 8601, and its length: nothing and 0 where there is none.

    One that begins like it but cannot be read stays in the text, and is named as not read.

    >>> front_matter("---\\ntitle: Tides\\ndate: 2024-05-01\\n---\\nThe sea.")
    ({'title': 'Tides', 'date': '2024-05-01'}, 38)
    >>> front_matter("---\\nA rule above, another below.\\n---\\n")
    ({}, 0)
    """
    for pattern, parsed in ((YAML, _parse_yaml), (TOML, _parse_toml)):
        found = pattern.match(text)
        if found and len(found[1]) < MAX_CHARS and sum(map(found[1].count, "[{")) < MAX_BRACKETS:
            values = parsed(found[1])
            if isinstance(values, dict):
                return {str(key): _to_json_value(value) for key, value in values.items()}, found.end()
        if found and FIELD.match(found[1]):
            return {NOT_READ: ["its front matter, which is neither YAML nor TOML"]}, 0
    return {}, 0


def _parse_yaml(text: str) -> object:
    """None where it is not YAML, or where names in it stand for more, which a short text may make without end."""
    import yaml

    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            return None
        return yaml.load(text, _yaml_loader())
    except (yaml.YAMLError, ValueError, RecursionError):  # 2024-13-45 is no date
        return None


@cache
def _yaml_loader() -> Any:
    """YAML's safe loader, but `no`, `12:30` and `01234` are what they are."""
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = True) -> dict[Hashable, Any]:
            """With keys as they are written: `yes` would be True, and so the same as `1`."""
            return {str(key.value): self.construct_object(value, deep=deep) for key, value in node.value}

    Loader.yaml_implicit_resolvers = {}
    for tag, pattern, first in YAML_SCALARS:
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(first))
    return Loader


def _parse_toml(text: str) -> object:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def _to_json_value(value: object) -> object:
    """As JSON can hold it."""
    if isinstance(value, dict):
        return {str(key): _to_json_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set):
        return [_to_json_value(inner) for inner in value]
    if isinstance(value, date | datetime):
        return value.isoformat()
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
