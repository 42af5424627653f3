"""kumi.toml, environment, `--set` -> layers of settings, least binding first."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from kumihimo.core.errors import SettingsError, unknown
from kumihimo.core.settings import Setting, Values

PREFIX = "KUMI_"
OTHERS = ("KUMI_INDEX", "KUMI_MEMO", "KUMI_OFFLINE")  # variables of that prefix that are no settings

_EXAMPLE = """
# What is to be known of each document, in place of the fields of the preset: as many such tables as you like.
# [fields.vessel]
# question = "Does it name vessels?"  # to be answered yes or no
# list = "The names of these vessels."  # what is listed then
# maximum = 3  # how many of them, at most
# categories = []  # the only ones there may be; none: any
"""
_ALIASES = "# Names of one thing, a line each: the first is kept. Take a line away to undo it.\n"

Known = Mapping[str, Mapping[str, Setting]]


def from_file(path: Path) -> Values:
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
    return with_fields(read, str(path))


def with_fields(settings: Values, where: str = "settings") -> Values:
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
        raise SettingsError(f"{where}: fields stand under [fields.NAME], and again as metadata.fields: keep the tables")
    said = tuple(json.dumps(_field(name, table, where), ensure_ascii=False) for name, table in fields.items())
    return {**tables, "metadata": {**own, "fields": said}} if said else tables


def _field(name: str, table: object, where: str) -> dict[str, object]:
    """The field, checked. Raises SettingsError."""
    if not isinstance(table, Mapping):
        raise SettingsError(
            f"{where}: fields.{name} is no field: write [fields.{name}], and under it question and list"
        )
    if wrong := next((key for key in table if key not in _FIELD), ""):
        raise SettingsError(f"{where}: fields.{name} has {unknown('key', wrong, _FIELD)}")
    if not _NAME.fullmatch(name) or name in _TAKEN:
        raise SettingsError(
            f"{where}: {name!r} cannot be the name of a field: take one of letters, digits, _ and - that is not one of "
            + ", ".join(_TAKEN)
        )
    for key, (kind, example) in _FIELD.items():
        if (key in _NEEDED or key in table) and not kind(table.get(key)):
            raise SettingsError(f"{where}: fields.{name}.{key} is to be {example}")
    return {"name": name, **table}


def _said(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


_NAME = re.compile(r"[\w-]+")
_TAKEN = ("uri", "file", "title", "media_type", "modified", "metadata")  # what filters know of every document
_NEEDED = ("question", "list")
_FIELD: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "question": (_said, 'a question to be answered yes or no, such as "Does it name companies?"'),
    "list": (_said, 'what its values are, such as "The names of these companies."'),
    "maximum": (lambda v: isinstance(v, int) and not isinstance(v, bool) and v > 0, "a whole number from 1 on"),
    "categories": (
        lambda v: isinstance(v, list | tuple) and all(map(_said, v)),
        "a list of the texts that are allowed",
    ),
}


def aliases(path: Path) -> Values:
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


def add_aliases(path: Path, lines: Iterable[str]) -> None:
    """Put lines to the end of a file of aliases, which is made where there is none; what it holds stays."""
    said = "".join(f"{line}\n" for line in lines)
    held = _held(path) if path.exists() else ""
    if said:
        before = _ALIASES if not held else "" if held.endswith("\n") else "\n"
        _write(path, held + before + said)


def _held(path: Path) -> str:
    """The text with the line ends that it has."""
    return path.read_bytes().decode("utf-8")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise SettingsError(f"{path} cannot be written ({error.strerror}): it has to be a file of yours") from error


def from_environment(known: Known, environment: Mapping[str, str]) -> Values:
    """`KUMI_CHUNKS_SIZE=600` is `chunks.size = 600`."""
    names = {f"{PREFIX}{scope}_{name}".upper(): (scope, name) for scope in known for name in known[scope]}
    layer: dict[str, dict[str, object]] = {}
    for variable, value in sorted(environment.items()):
        if variable.startswith(PREFIX) and variable not in OTHERS:
            if variable not in names:
                raise SettingsError(f"environment: {unknown('setting', variable, [*names, *OTHERS])}")
            scope, name = names[variable]
            layer.setdefault(scope, {})[name] = value
    return layer


def from_options(options: Iterable[str]) -> Values:
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


def written(known: Known, summaries: Mapping[str, str]) -> str:
    """A kumi.toml that sets nothing and shows everything."""
    lines = ["# Settings of this index. Take the # away from a line and change it."]
    for scope, settings in known.items():
        if settings:
            lines += ["", f"# {summaries[scope]}", f"[{scope}]"]
            lines += [f"# {s.name} = {_toml(s.default)}  # {s.kind}" for s in settings.values()]
            lines += _EXAMPLE.splitlines() if "fields" in settings else []
    return "\n".join(lines) + "\n"


def section(scope: str, values: Mapping[str, object]) -> str:
    """A table of a kumi.toml, texts of several lines written as such.

    >>> section("mentions", {"types": ("person", "vessel"), "domain": "Harbours."}).splitlines()
    ['[mentions]', 'types = ["person", "vessel"]', 'domain = "Harbours."']
    """
    return f"[{scope}]\n" + "".join(f"{name} = {_toml(value)}\n" for name, value in values.items())


def add(path: Path, settings: Values) -> list[str]:
    """Put settings into a kumi.toml, which is made where there is none; gives the scopes that were left as they are."""
    held = _held(path) if path.exists() else ""
    text, left = added(held, settings)
    _write(path, text)
    return left


def added(text: str, settings: Values) -> tuple[str, list[str]]:
    """The text of a kumi.toml with these settings, too; and the scopes that are left out of it.

    What stands there stays, word for word: a scope of which it sets one of them already is left as it is.
    """
    left: list[str] = []
    for scope, values in settings.items():
        made = _with(text, scope, values)
        left += [scope] if made is None else []
        text = text if made is None else made
    return text, left


def _with(text: str, scope: str, values: Mapping[str, object]) -> str | None:
    held = tomllib.loads(text).get(scope)
    if held is None:
        return f"{text.rstrip()}\n\n{section(scope, values)}".lstrip()
    heading = re.search(rf"^\[{re.escape(scope)}\][ \t\r]*(?:#.*)?$", text, re.M)
    if heading is None or held.keys() & values.keys():
        return None
    _, _, lines = section(scope, values).partition("\n")
    made = f"{text[: heading.end()]}\n{lines.rstrip()}{text[heading.end() :]}"
    return made if _sets(made, scope, held.keys() | values.keys()) else None


def _sets(text: str, scope: str, names: set[str]) -> bool:
    """Whether it is TOML that sets these and no others: a heading may have been part of a text."""
    try:
        return set(tomllib.loads(text)[scope]) == names
    except tomllib.TOMLDecodeError:
        return False


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if value is None:
        return '"none"'
    if not isinstance(value, str):
        return str(value)
    lines = [json.dumps(line, ensure_ascii=False)[1:-1].replace("\x7f", "\\u007f") for line in value.split("\n")]
    return f'"{lines[0]}"' if len(lines) == 1 else '"""\n' + "\n".join(lines) + '"""'
