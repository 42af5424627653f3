"""kumi.toml, environment, `--set` -> layers of settings, least binding first."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from kumihimo.core.errors import SettingsError, describe_unknown
from kumihimo.core.settings import Setting, SettingValues

ENV_PREFIX = "KUMI_"
NON_SETTINGS = ("KUMI_INDEX", "KUMI_CACHE", "KUMI_OFFLINE")  # variables of that prefix that are no settings

_FIELDS_EXAMPLE = """
# What is to be known of each document, in place of the fields of the preset: as many such tables as you like.
# [fields.vessel]
# question = "Does it name vessels?"  # to be answered yes or no
# list = "The names of these vessels."  # what is listed then
# maximum = 3  # how many of them, at most
# categories = []  # the only ones there may be; none: any
"""
_ALIASES_HEADER = "# Names of one thing, a line each: the first is kept. Take a line away to undo it.\n"

KnownSettings = Mapping[str, Mapping[str, Setting]]


def read_settings_file(path: Path) -> SettingValues:
    """The tables of a kumi.toml: `[chunks]` and under it `size = 600`. No file, no settings."""
    if not path.exists():
        return {}
    try:
        read = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror}): it has to be a file in TOML") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not TOML ({error}): `kumi init` writes one to begin from") from error
    for name, table in read.items():
        if not isinstance(table, dict):
            raise SettingsError(f"{path}: {name} stands alone; settings stand under a step or method, such as [chunks]")
    return fields_to_settings(read, str(path))


def fields_to_settings(settings: SettingValues, source: str = "settings") -> SettingValues:
    """With the tables `[fields.NAME]` as the setting `metadata.fields`: a text of JSON each, in their order.

    Raises SettingsError, which begins with `where`.

    >>> asked = {"question": "Does it name vessels?", "list": "Their names.", "maximum": 2}
    >>> with_fields({"fields": {"vessel": asked}})["metadata"]["fields"][0]
    '{"name": "vessel", "question": "Does it name vessels?", "list": "Their names.", "maximum": 2}'
    """
    if "fields" not in settings:
        return settings
    tables = dict(settings)
    fields = tables.pop("fields")
    own = tables.get("metadata", {})
    if "fields" in own:
        raise SettingsError(
            f"{source}: fields stand under [fields.NAME], and again as metadata.fields: keep the tables"
        )
    said = tuple(json.dumps(_check_field(name, table, source), ensure_ascii=False) for name, table in fields.items())
    return {**tables, "metadata": {**own, "fields": said}} if said else tables


def _check_field(name: str, table: object, source: str) -> dict[str, object]:
    """The field, checked. Raises SettingsError."""
    if not isinstance(table, Mapping):
        raise SettingsError(
            f"{source}: fields.{name} is no field: write [fields.{name}], and under it question and list"
        )
    if wrong := next((key for key in table if key not in _FIELD_KEYS), ""):
        raise SettingsError(f"{source}: fields.{name} has {describe_unknown('key', wrong, _FIELD_KEYS)}")
    if not _FIELD_NAME.fullmatch(name) or name in _RESERVED_NAMES:
        raise SettingsError(
            f"{source}: {name!r} cannot be the name of a field: take one of letters, digits, _ and - that is not one of "
            + ", ".join(_RESERVED_NAMES)
        )
    for key, (kind, example) in _FIELD_KEYS.items():
        if (key in _REQUIRED_KEYS or key in table) and not kind(table.get(key)):
            raise SettingsError(f"{source}: fields.{name}.{key} is to be {example}")
    return {"name": name, **table}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


_FIELD_NAME = re.compile(r"[\w-]+")
_RESERVED_NAMES = ("uri", "file", "title", "media_type", "modified", "metadata")  # what filters know of every document
_REQUIRED_KEYS = ("question", "list")
_FIELD_KEYS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "question": (_is_text, 'a question to be answered yes or no, such as "Does it name companies?"'),
    "list": (_is_text, 'what its values are, such as "The names of these companies."'),
    "maximum": (lambda v: isinstance(v, int) and not isinstance(v, bool) and v > 0, "a whole number from 1 on"),
    "categories": (
        lambda v: isinstance(v, list | tuple) and all(map(_is_text, v)),
        "a list of the texts that are allowed",
    ),
}


def read_aliases(path: Path) -> SettingValues:
    """The lines of a file of aliases, `Bob Cratchit = Robert Cratchit`; empty ones and those after # are none."""
    if not path.exists():
        return {}
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read ({error}): it has to be a text file in UTF-8") from error
    said = tuple(line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))
    if wrong := next((line for line in said if sum(bool(part.strip()) for part in line.split("=")) < 2), ""):
        raise SettingsError(f"{path}: {wrong!r} is no alias: write `name = other name`, a line each")
    return {"mentions": {"aliases": said}} if said else {}


def append_aliases(path: Path, lines: Iterable[str]) -> None:
    """Put lines to the end of a file of aliases, which is made where there is none; what it holds stays."""
    said = "".join(f"{line}\n" for line in lines)
    held = _read_text(path) if path.exists() else ""
    if said:
        before = _ALIASES_HEADER if not held else "" if held.endswith("\n") else "\n"
        _write_text(path, held + before + said)


def _read_text(path: Path) -> str:
    """The text with the line ends that it has."""
    return path.read_bytes().decode("utf-8")


def _write_text(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise SettingsError(f"{path} cannot be written ({error.strerror}): it has to be a file of yours") from error


def read_environment(known: KnownSettings, environment: Mapping[str, str]) -> SettingValues:
    """`KUMI_CHUNKS_SIZE=600` is `chunks.size = 600`."""
    names = {f"{ENV_PREFIX}{scope}_{name}".upper(): (scope, name) for scope in known for name in known[scope]}
    layer: dict[str, dict[str, object]] = {}
    for variable, value in sorted(environment.items()):
        if variable.startswith(ENV_PREFIX) and variable not in NON_SETTINGS:
            if variable not in names:
                raise SettingsError(f"environment: {describe_unknown('setting', variable, [*names, *NON_SETTINGS])}")
            scope, name = names[variable]
            layer.setdefault(scope, {})[name] = value
    return layer


def parse_options(options: Iterable[str]) -> SettingValues:
    """`--set chunks.size=600`.

    >>> from_options(["chunks.size=300", "naive.k=5"])
    {'chunks': {'size': '300'}, 'naive': {'k': '5'}}
    """
    layer: dict[str, dict[str, object]] = {}
    for option in options:
        where, equals, value = option.partition("=")
        scope, dot, name = where.strip().partition(".")
        if not (equals and dot and scope and name):
            raise SettingsError(f"--set {option}: write it as step.setting=value, such as chunks.size=300")
        layer.setdefault(scope, {})[name] = value.strip()
    return layer


def render_default_config(known: KnownSettings, summaries: Mapping[str, str]) -> str:
    """A kumi.toml that sets nothing and shows everything."""
    lines = ["# Settings of this index. Take the # away from a line and change it."]
    for scope, settings in known.items():
        if settings:
            lines += ["", f"# {summaries[scope]}", f"[{scope}]"]
            lines += [f"# {s.name} = {_to_toml(s.default)}  # {s.type_description}" for s in settings.values()]
            lines += _FIELDS_EXAMPLE.splitlines() if "fields" in settings else []
    return "\n".join(lines) + "\n"


def render_section(scope: str, values: Mapping[str, object]) -> str:
    """A table of a kumi.toml, texts of several lines written as such.

    >>> section("mentions", {"types": ("person", "vessel"), "domain": "Harbours."}).splitlines()
    ['[mentions]', 'types = ["person", "vessel"]', 'domain = "Harbours."']
    """
    return f"[{scope}]\n" + "".join(f"{name} = {_to_toml(value)}\n" for name, value in values.items())


def add_settings(path: Path, settings: SettingValues) -> list[str]:
    """Put settings into a kumi.toml, which is made where there is none; gives the scopes that were left as they are."""
    held = _read_text(path) if path.exists() else ""
    text, left = merge_settings(held, settings)
    _write_text(path, text)
    return left


def merge_settings(text: str, settings: SettingValues) -> tuple[str, list[str]]:
    """The text of a kumi.toml with these settings, too; and the scopes that are left out of it.

    What stands there stays, word for word: a scope of which it sets one of them already is left as it is.
    """
    left: list[str] = []
    for scope, values in settings.items():
        made = _insert_settings(text, scope, values)
        left += [scope] if made is None else []
        text = text if made is None else made
    return text, left


def _insert_settings(text: str, scope: str, values: Mapping[str, object]) -> str | None:
    held = tomllib.loads(text).get(scope)
    if held is None:
        return f"{text.rstrip()}\n\n{render_section(scope, values)}".lstrip()
    heading = re.search(rf"^\[{re.escape(scope)}\][ \t\r]*(?:#.*)?$", text, re.M)
    if heading is None or held.keys() & values.keys():
        return None
    _, _, lines = render_section(scope, values).partition("\n")
    made = f"{text[: heading.end()]}\n{lines.rstrip()}{text[heading.end() :]}"
    return made if _sets_exactly(made, scope, held.keys() | values.keys()) else None


def _sets_exactly(text: str, scope: str, names: set[str]) -> bool:
    """Whether it is TOML that sets these and no others: a heading may have been part of a text."""
    try:
        return set(tomllib.loads(text)[scope]) == names
    except tomllib.TOMLDecodeError:
        return False


def _to_toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_to_toml, value)) + "]"
    if value is None:
        return '"none"'
    if not isinstance(value, str):
        return str(value)
    lines = [json.dumps(line, ensure_ascii=False)[1:-1].replace("\x7f", "\\u007f") for line in value.split("\n")]
    return f'"{lines[0]}"' if len(lines) == 1 else '"""\n' + "\n".join(lines) + '"""'
