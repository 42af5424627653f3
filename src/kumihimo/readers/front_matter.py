"""the front matter of a text -> its values, and where the text begins."""

import json
import re
import tomllib
from collections.abc import Hashable
from contextlib import suppress
from datetime import date
from math import isfinite
from typing import Any

from kumihimo.core.records import NOT_READ
from kumihimo.readers.page import add_unread

YAML_SCALARS = (  # types of plain values besides text; YAML 1.1 would turn times and postal codes into numbers
    ("bool", r"^(?:true|false|True|False)$", "tfTF"),
    ("null", r"^(?:~|null|Null|)$", ("~", "n", "N", "")),
    ("int", r"^[-+]?(?:0|[1-9]\d*)$", "-+0123456789"),
    ("float", r"^[-+]?(?:0|[1-9]\d*)\.\d*[1-9]$", "-+0123456789"),
    ("timestamp", r"^\d{4}-\d\d-\d\d(?:[Tt ]\d\d?:\d\d:\d\d(?:\.\d+)?(?:Z|[-+]\d\d?(?::\d\d)?)?)?$", "0123456789"),
)
TAB_WIDTH = 4
MAX_CHARS = 64_000  # longer text is not front matter
MAX_BRACKETS = 500  # parsing nested brackets takes quadratic time
FIELD = re.compile(r"\s*[\w-]{1,40}\s*[:=]")
YAML = re.compile(r"\A---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
TOML = re.compile(r"\A\+\+\+[ \t]*\r?\n(.*?)^\+\+\+[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


def parse_front_matter(text: str) -> tuple[dict[str, object], int]:
    r"""Return the values of the front matter, and its length.

    Dates become ISO 8601. Without front matter, return an empty dict and 0. Front matter that cannot be parsed stays in
    the text, and is reported as not read. So is a YAML value that is no date or number: `2024-13-45`; it stays a text.
    An infinite number is a text, since JSON has none.

    >>> parse_front_matter("---\ntitle: Tides\ndate: 2024-05-01\n---\nThe sea.")
    ({'title': 'Tides', 'date': '2024-05-01'}, 38)
    >>> parse_front_matter("---\nA rule above, another below.\n---\n")
    ({}, 0)
    """
    for pattern, parse in ((YAML, _parse_yaml), (TOML, tomllib.loads)):
        match = pattern.match(text)
        if match and len(match[1]) < MAX_CHARS and sum(map(match[1].count, "[{")) < MAX_BRACKETS:
            with suppress(ValueError, RecursionError):
                values = parse(match[1])
                if isinstance(values, dict):
                    return json.loads(json.dumps(values, default=to_json_value), parse_constant=str), match.end()
        if match and FIELD.match(match[1]):
            return {NOT_READ: ["its front matter, which is neither YAML nor TOML"]}, 0
    return {}, 0


def _parse_yaml(text: str) -> object:
    """Parse YAML; return None if it is invalid or uses aliases.

    With aliases a short text may expand without end. Tabs are no spaces in YAML, and editors write them all the same.
    """
    import yaml

    odd_values = list[str]()

    class Loader(yaml.SafeLoader):  # keeps `no`, `12:30` and `01234` as text
        def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
            try:
                value = super().construct_object(node, deep)
                return node.value if isinstance(value, float) and not isfinite(value) else value
            except (ValueError, OverflowError, LookupError, AttributeError):  # what PyYAML raises for odd scalars
                kind = node.tag.rpartition(":")[2].replace("timestamp", "date")
                odd_values.append(f"{node.value[:40]!r} in its front matter, which is no {kind}")
                return node.value

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = True) -> dict[Hashable, Any]:
            """Keep the keys as written: YAML would turn `yes` into True.

            True would be the same key as `1`.
            """
            return {str(key.value): self.construct_object(value, deep=deep) for key, value in node.value}

    Loader.yaml_implicit_resolvers = {}
    for tag, pattern, initials in YAML_SCALARS:
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(initials))
    try:
        has_alias = any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader))
        values = None if has_alias else yaml.load(text, Loader)
    except yaml.YAMLError:
        return _parse_yaml(text.expandtabs(TAB_WIDTH)) if "\t" in text else None
    return add_unread(values, odd_values) if isinstance(values, dict) else values


def to_json_value(value: object) -> object:
    """Convert a value to a form that JSON can hold."""
    if isinstance(value, set):
        return list(value)
    return value.isoformat() if isinstance(value, date) else str(value)
