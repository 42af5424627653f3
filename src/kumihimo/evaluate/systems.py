"""Names such as `global:C0` -> System: a method with settings; the systems of published studies.

One command runs a published study.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args, get_origin

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.opened.catalogue import AUTO, BUILT_IN, DEFAULT_METHOD
from kumihimo.core.errors import IndexUnavailable, SettingsError, describe_unknown
from kumihimo.core.settings import Setting, SettingValues, resolve_settings
from kumihimo.core.wiring import Catalogue

_LEVEL = re.compile(r"C(\d+)")  # a level of communities, as GraphRAG names it


@dataclass(frozen=True, slots=True)
class System:
    """A system under test: a method with settings.

    Settings that are not listed keep their configured values.
    """

    name: str
    method: str
    settings: Mapping[str, Any]


def parse_systems(
    names: str | Iterable[str], index_settings: SettingValues | None = None, catalogue: Catalogue = BUILT_IN
) -> list[System]:
    """Parse a list of system names.

    Examples: `bm25`, `global:C0`, `light:hybrid`, `naive:words=false+k=10`; a plus joins settings. `C0` means level=0.
    A value without a name is a choice of the one setting that allows it. index_settings: settings of the index, by
    method. Raises SettingsError for an unknown method, setting or value, and for a repeated system.

    >>> [(s.method, s.settings) for s in parse_systems("global:C0, light:hybrid,naive:words=false+k=10")]
    [('global', {'level': 0}), ('light', {'mode': 'hybrid'}), ('naive', {'words': False, 'k': 10})]
    """
    parts = names.split(",") if isinstance(names, str) else names
    if not (parsed := [parse_system(name.strip(), catalogue) for name in parts if name.strip()]):
        raise SettingsError("no method is named: say which, such as --methods bm25,naive")
    by_settings: dict[str, System] = {}
    for system in parsed:
        definitions = {system.method: _settings_of(system.method, catalogue)}
        configured = {system.method: (index_settings or {}).get(system.method, {})}
        settings = resolve_settings(definitions, configured, {system.method: system.settings})[system.method]
        signature = repr((system.method, sorted(settings.items())))
        if same := by_settings.get(signature):
            raise SettingsError(
                f"{same.name} and {system.name} are one system: name it once; `--again {same.name}` asks it once more"
            )
        by_settings[signature] = system
    return parsed


def parse_system(name: str, catalogue: Catalogue = BUILT_IN) -> System:
    """Parse one system name."""
    method_name, _, settings_text = name.partition(":")
    method, settings = method_name.strip(), dict[str, object]()
    definitions = _settings_of(method, catalogue)
    for part in filter(None, map(str.strip, settings_text.split("+"))):
        setting, equals, value = map(str.strip, part.partition("="))
        if not equals:
            setting, value = _setting_for_value(method, definitions, part), _LEVEL.sub(r"\1", part)
        if setting in settings:
            raise SettingsError(f"{name} sets {setting} twice: name it once")
        settings[setting] = value
    resolved = resolve_settings({method: definitions}, {method: settings})[method]
    return System(name, method, {setting: resolved[setting] for setting in settings})


def _settings_of(method: str, catalogue: Catalogue) -> Mapping[str, Setting]:
    """Return the settings of a method; `auto` has none.

    Raises SettingsError for an unknown method.
    """
    return {} if method == AUTO else catalogue.method(method).settings


def _setting_for_value(method: str, definitions: Mapping[str, Setting], value: str) -> str:
    """Return the setting that a value without a name belongs to.

    Raises SettingsError if none or several allow it.
    """
    if _LEVEL.fullmatch(value) and "level" in definitions:
        return "level"
    choices: dict[str, list[str]] = {}
    for setting in definitions.values():
        for choice in get_args(setting.type) if get_origin(setting.type) is Literal else ():
            choices.setdefault(str(choice), []).append(setting.name)
    names = choices.get(value, [])
    if len(names) > 1:
        options = " or ".join(f"{setting}={value}" for setting in names)
        raise SettingsError(f"{method}:{value} may be any of several settings: write {options}")
    if not names:
        levels = ["C0"] if "level" in definitions else []
        known = [*(f"{setting}=..." for setting in definitions), *choices, *levels]
        raise SettingsError(f"{method} has {describe_unknown('setting or choice', value, known)}")
    return names[0]


def select_systems(snapshot: Snapshot, names: str) -> tuple[list[System], dict[str, str]]:
    """Return the named systems after validating each.

    Without names: the ready methods of the index, and the reason for each other one. Raises SettingsError or
    IndexUnavailable for a named system that is not ready.
    """
    if names.strip():
        parsed = parse_systems(names, snapshot.settings, snapshot.catalogue)
        for system in parsed:
            snapshot.validate_method(system.method, system.settings)
        return parsed, {}
    ready: list[System] = []
    skipped: dict[str, str] = {}
    for name in snapshot.db.meta("methods", [DEFAULT_METHOD]):
        try:
            snapshot.validate_method(name)
            ready.append(parse_system(name, snapshot.catalogue))
        except (SettingsError, IndexUnavailable) as error:
            skipped[name] = str(error)
    if not ready:
        raise SettingsError(f"none of the index's methods is ready: {'; '.join(skipped.values())}")
    return ready, skipped


# -- published studies

WINDOWS = (8000, 16000, 32000, 64000)
_MANY_CHUNKS = 300  # retrieved, so that only the window limits the context


@dataclass(frozen=True, slots=True)
class StudyDesign:
    """The design of a published study.

    systems: the specification of each system by its name in the paper. stages: run, judge, claims, score.
    against: the system that all others are compared with; empty: every pair. settings: settings
    shared by all systems.
    """

    summary: str
    paper: str
    systems: Mapping[str, str]
    measured: str
    stages: Sequence[str] = ("run", "judge")
    protocol: str = "debiased"
    measures: Sequence[str] = ()
    against: str = ""
    settings: Sequence[str] = ()

    @property
    def method_list(self) -> str:
        """Return the systems as a comma-separated list."""
        return ",".join(self.systems.values())

    def restrict_to(self, names: Sequence[str]) -> Self:
        """Return the design restricted to these systems.

        names: names of the paper or specifications. Raises SettingsError if fewer than two systems remain.
        """
        by_name = {**{name: name for name in self.systems}, **{spec: name for name, spec in self.systems.items()}}
        if missing := [name for name in names if name not in by_name]:
            raise SettingsError(f"{missing[0]} is no system of this study: it has {', '.join(self.systems.values())}")
        selected = {by_name[name] for name in names} or {*self.systems}
        if len(selected) < 2:
            raise SettingsError("a study compares systems: name two or more")
        systems = {name: spec for name, spec in self.systems.items() if name in selected}
        return replace(self, systems=systems, against=self.against if self.against in systems.values() else "")


def window_systems(base: str = f"naive:words=false+k={_MANY_CHUNKS}") -> dict[str, str]:
    """Return one system for each window size.

    >>> list(window_systems("mapreduce").values())[:2], list(window_systems("naive:k=9"))[0]
    (['mapreduce:window=8000', 'mapreduce:window=16000'], '8k')
    """
    parsed = parse_system(base)
    window_settings = [name for name in ("budget", "window") if name in BUILT_IN.methods[parsed.method].settings]
    if not window_settings:
        raise SettingsError(f"{parsed.method} has no window: naive, local, global, mapreduce and others have one")
    separator = "+" if parsed.settings else ":"
    return {f"{size // 1000}k": f"{base}{separator}{window_settings[0]}={size}" for size in WINDOWS}


_PLAIN_RAG = "naive:words=false"

STUDIES: Mapping[str, StudyDesign] = {
    "levels": StudyDesign(
        "Answers from each level of communities, against the texts themselves (TS) and plain RAG (SS).",
        "GraphRAG, 2404.16130, sections 4.1 and 5, figure 2, table 2",
        {
            "C0": "global:C0",
            "C1": "global:C1",
            "C2": "global:C2",
            "C3": "global:C3",
            "TS": "mapreduce",
            "SS": _PLAIN_RAG,
        },
        "four criteria of a judge; tokens of each level",
    ),
    "windows": StudyDesign(
        "The same system with windows of 8, 16, 32 and 64 thousand tokens.",
        "GraphRAG, 2404.16130, appendix C",
        window_systems(),
        "four criteria of a judge",
        settings=(f"answer.budget={WINDOWS[-1]}",),
    ),
    "ablations": StudyDesign(
        "LightRAG without one part at a time, each against plain RAG.",
        "LightRAG, 2410.05779, section 4.3, table 2",
        {
            "NaiveRAG": _PLAIN_RAG,
            "LightRAG": "light:hybrid",
            "-High": "light:low",
            "-Low": "light:high",
            "-Origin": "light:hybrid+source=false",
        },
        "three criteria and overall, by one call of a judge",
        protocol="lightrag",
        against=_PLAIN_RAG,
    ),
    "arms": StudyDesign(
        "Chunks, chunks by several questions, questions with answers, and those with a summary of what can be asked.",
        "MK-RAG, 2408.09017, section 4",
        {
            "chunks": _PLAIN_RAG,
            "augmented": "meta:pairs=false+summary=false",
            "pairs": "meta:summary=false",
            "summary": "meta",
        },
        "six ratings from 0 to 100 of what each found and said",
        protocol="mk",
    ),
    "discourse": StudyDesign(
        "Passages tied by discourse relations and by 5W1H, as published and as here, against plain RAG.",
        "江上・福田, AIST, sections 3.2, 3.3 and 4",
        {"RAG": _PLAIN_RAG, "published": "discourse:paper=true", "discourse": "discourse"},
        "correctness, faithfulness, relevance of what was found (in both of its meanings)",
        stages=("run", "score"),
        measures=("answer_correctness", "faithfulness", "context_relevance_sentences", "context_relevance_graded"),
    ),
}
