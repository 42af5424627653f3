"""kumi.toml, environment, `--set` -> layers of settings, weakest first."""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from kumihimo.core.errors import MAX_SHOWN, SettingsError, describe_unknown
from kumihimo.core.settings import Setting, SettingValues
from kumihimo.index import metadata_fields
from kumihimo.text import graph_edits, safe_write

ENV_PREFIX = "KUMI_"
# variables that are no settings
NON_SETTINGS = (
    "KUMI_INDEX", "KUMI_CACHE", "KUMI_CONFIG", "KUMI_LANG", "KUMI_OFFLINE", "KUMI_STUDY", "KUMI_TRUST",
)  # fmt: skip

_FIELDS_EXAMPLE = """
# Fields to extract from each document, in place of those of the preset: as many tables as you like.
# [fields.vessel]
# question = "Does it name vessels?"  # with yes or no as its answer
# list = "The names of these vessels."  # the values, if yes
# maximum = 3  # of values
# categories = []  # the allowed values; none: any value
"""
_ALIASES_HEADER = "# A line each: A = B are one entity, shown as A; A != B are two. Delete a line to undo it.\n"
ALIASES = "aliases.txt"  # beside kumi.toml
KnownSettings = Mapping[str, Mapping[str, Setting]]


def read_settings_file(path: Path) -> SettingValues:
    """Return the tables of a kumi.toml; none without a file."""
    safe_write.check_ordinary_file(path)
    if not path.exists():
        return {}
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror}): it has to be a TOML file") from error
    except (ValueError, RecursionError) as error:  # TOMLDecodeError is a ValueError, and so is a number too long
        raise SettingsError(f"{path} is not TOML ({error}): `kumi init` writes one to start from") from error
    return fields_to_settings(tables, str(path))


def fields_to_settings(settings: SettingValues, source: str = "settings") -> SettingValues:
    """Return the settings, with `[fields.NAME]` tables as the setting `metadata.fields`.

    Each field becomes a JSON text, in the order of the tables. Raises SettingsError, which begins with `source`.

    >>> field = {"question": "Does it name vessels?", "list": "Their names.", "maximum": 2}
    >>> fields_to_settings({"fields": {"vessel": field}})["metadata"]["fields"][0]
    '{"name": "vessel", "question": "Does it name vessels?", "list": "Their names.", "maximum": 2}'
    """
    for name, table in settings.items():
        if not isinstance(table, Mapping):
            raise SettingsError(
                f"{source}: {name} is in no table: settings go under a step or method, such as [chunks]"
            )
    if "fields" not in settings:
        return settings
    tables = dict(settings)
    fields = tables.pop("fields")
    metadata = tables.get("metadata", {})
    if "fields" in metadata:
        raise SettingsError(
            f"{source}: fields are set under [fields.NAME] and again as metadata.fields: keep the tables"
        )
    try:
        texts = tuple(metadata_fields.field_to_json(name, table) for name, table in fields.items())
    except SettingsError as error:
        raise SettingsError(f"{source}: {error}") from error
    return {**tables, "metadata": {**metadata, "fields": texts}} if texts else tables


def read_aliases(path: Path) -> SettingValues:
    """Return the lines of an alias file, as a setting.

    `text.graph_edits` describes the lines. Empty ones and those that begin with # are skipped. Raises SettingsError for
    a line that is no edit, or that contradicts another.
    """
    safe_write.check_ordinary_file(path)
    if not path.exists():
        return {}
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read ({error}): it has to be a text file in UTF-8") from error
    numbered = {
        n: line.strip() for n, line in enumerate(lines, 1) if line.strip() and not line.lstrip().startswith("#")
    }
    if fault := graph_edits.find_edit_fault(numbered):
        raise SettingsError(f"{path}: {fault}")
    return {"mentions": {"aliases": tuple(dict.fromkeys(numbered.values()))}} if numbered else {}


def append_aliases(path: Path, lines: Iterable[str]) -> None:
    """Append lines to an alias file, and create it if needed."""
    addition = "".join(f"{line}\n" for line in lines)
    path = safe_write.resolve_link(path)
    text = _read_text(path) if path.exists() else ""
    if addition:
        prefix = _ALIASES_HEADER if not text else "" if text.endswith("\n") else "\n"
        safe_write.write_file(path, [text + prefix + addition], force=True)


def remove_edit_line(path: Path, line: str) -> None:
    """Remove a line from an alias file, however it is spaced.

    line: with single spaces.
    """
    path = safe_write.resolve_link(path)
    lines = _read_text(path).splitlines(keepends=True)
    kept = [each for each in lines if " ".join(each.removeprefix("\ufeff").split()) != line]
    safe_write.write_file(path, ["".join(kept)], force=True)


def _read_text(path: Path) -> str:
    """Return the text of a file with its own line ends."""
    safe_write.check_ordinary_file(path)
    return path.read_bytes().decode("utf-8")


def read_environment(known_settings: KnownSettings, environment: Mapping[str, str]) -> SettingValues:
    """Return the settings in environment variables: `KUMI_CHUNKS_SIZE=600` sets `chunks.size`."""
    names = {
        f"{ENV_PREFIX}{scope}_{name}".upper(): (scope, name)
        for scope, settings in known_settings.items()
        for name in settings
    }
    layer: dict[str, dict[str, object]] = {}
    for variable, value in sorted(environment.items()):
        if variable.startswith(ENV_PREFIX) and variable not in NON_SETTINGS:
            if variable not in names:
                raise SettingsError(f"environment: {describe_unknown('setting', variable, [*names, *NON_SETTINGS])}")
            scope, name = names[variable]
            layer.setdefault(scope, {})[name] = value
    return layer


def parse_options(options: Iterable[str]) -> SettingValues:
    """Return the settings of command-line options: `--set chunks.size=600`.

    >>> parse_options(["chunks.size=300", "naive.k=5"])
    {'chunks': {'size': '300'}, 'naive': {'k': '5'}}
    """
    layer: dict[str, dict[str, object]] = {}
    for option in options:
        path, equals, value = option.partition("=")
        scope, dot, name = path.strip().partition(".")
        if not (equals and dot and scope and name):
            raise SettingsError(f"--set {option[:MAX_SHOWN]}: write it as step.setting=value, such as chunks.size=300")
        layer.setdefault(scope, {})[name] = value.strip()
    return layer


def render_default_config(known_settings: KnownSettings, summaries: Mapping[str, str]) -> str:
    """Return a kumi.toml that shows every setting and sets none."""
    lines = ["# Settings of this index. Remove the # from a line and change it."]
    for scope, settings in known_settings.items():
        if settings:
            lines += ["", f"# {summaries[scope]}", f"[{scope}]"]
            lines += [f"# {s.name} = {_to_toml(s.default)}  # {s.type_description}" for s in settings.values()]
            lines += _FIELDS_EXAMPLE.splitlines() if "fields" in settings else []
    return "\n".join(lines) + "\n"


def render_section(scope: str, values: Mapping[str, object]) -> str:
    """Return a table of a kumi.toml; texts of several lines stay readable.

    >>> render_section("mentions", {"types": ("person", "vessel"), "domain": "Harbours."}).splitlines()
    ['[mentions]', 'types = ["person", "vessel"]', 'domain = "Harbours."']
    """
    return f"[{scope}]\n" + "".join(f"{name} = {_to_toml(value)}\n" for name, value in values.items())


def add_settings(path: Path, settings: SettingValues) -> list[str]:
    """Add settings to a kumi.toml, and return the unchanged scopes."""
    path = safe_write.resolve_link(path)
    before = _read_text(path) if path.exists() else ""
    text, unchanged = merge_settings(before, settings)
    safe_write.write_file(path, [text], force=True)
    return unchanged


def merge_settings(text: str, settings: SettingValues) -> tuple[str, list[str]]:
    """Return a kumi.toml with these settings added, and the unchanged scopes.

    The existing text stays as it is: a scope that already sets one of the names is left unchanged.
    """
    unchanged: list[str] = []
    for scope, values in settings.items():
        merged = _insert_settings(text, scope, values)
        unchanged += [scope] if merged is None else []
        text = text if merged is None else merged
    return text, unchanged


def _insert_settings(text: str, scope: str, values: Mapping[str, object]) -> str | None:
    """Return the text with these settings; None if one is set already."""
    existing = tomllib.loads(text).get(scope)
    if existing is None:
        return f"{text.rstrip()}\n\n{render_section(scope, values)}".lstrip()
    heading = re.search(rf"^\[{re.escape(scope)}\][ \t\r]*(?:#.*)?$", text, re.M)
    if heading is None or existing.keys() & values.keys():
        return None
    _, _, lines = render_section(scope, values).partition("\n")
    merged = f"{text[: heading.end()]}\n{lines.rstrip()}{text[heading.end() :]}"
    return merged if _sets_exactly(merged, scope, existing.keys() | values.keys()) else None


def _sets_exactly(text: str, scope: str, names: set[str]) -> bool:
    """Return whether the scope sets exactly these names in the text.

    A heading may be part of a multi-line text, and then the insertion goes wrong.
    """
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
