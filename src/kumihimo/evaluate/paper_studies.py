"""studies/NAME.toml -> StudyDesign: the systems, stages and published figures of a study of a paper."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self

from pydantic import TypeAdapter

from kumihimo.app.opened.catalogue import BUILT_IN
from kumihimo.core.errors import SettingsError, describe_unknown
from kumihimo.evaluate.systems import parse_system

_FOLDER = Path(__file__).with_name("studies")
WINDOWS = (8000, 16000, 32000, 64000)
Figures = Mapping[str, Mapping[str, float]]  # by row, by column


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table of a paper.

    form: `pairs`: win rates, a matrix for each criterion; `against`: win rates over one system, a row for each
    criterion; `means`: a row for each system. measures: for `means`, the column of each measure. published: the figures
    of the paper by data set; the row of `pairs` is `CRITERION: SYSTEM`.
    """

    title: str
    cites: str
    form: Literal["pairs", "against", "means"]
    measures: Mapping[str, str] | None = None
    published: Mapping[str, Figures] | None = None


@dataclass(frozen=True, slots=True)
class StudyDesign:
    """The design of a published study.

    systems: the specification of each system by its name in the paper. stages: run, judge, claims, score.
    against: the system that all others are compared with; empty: every pair. settings: settings
    shared by all systems. needs: what the study needs first. fixed, differs: the choices of the paper. questions: the
    number of its questions about each data set; 0: not known.
    """

    summary: str
    paper: str
    systems: Mapping[str, str]
    measured: str
    needs: Sequence[str]
    fixed: Sequence[str]
    differs: Sequence[str]
    tables: Sequence[PaperTable]
    stages: Sequence[str] = ("run", "judge")
    protocol: str = "debiased"
    measures: Sequence[str] = ()
    against: str = ""
    settings: Sequence[str] = ()
    questions: int = 0

    @property
    def method_list(self) -> str:
        """Return the systems as a comma-separated list."""
        return ",".join(self.systems.values())

    @property
    def datasets(self) -> list[str]:
        """Return the data sets with published figures."""
        return list(dict.fromkeys(name for table in self.tables for name in table.published or ()))

    def check_dataset(self, name: str) -> None:
        """Raise SettingsError if the paper has no figures on this data set."""
        if name and not self.datasets:
            raise SettingsError("this study has no published figures: leave out --dataset")
        if name and name not in self.datasets:
            raise SettingsError(describe_unknown("data set", name, self.datasets))

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


def window_systems(base: str) -> dict[str, str]:
    """Return one system for each window size.

    >>> list(window_systems("mapreduce").values())[:2], list(window_systems("naive:k=9"))[0]
    (['mapreduce:window=8000', 'mapreduce:window=16000'], '8k')
    """
    parsed = parse_system(base)
    window_settings = [name for name in ("budget", "window") if name in BUILT_IN.methods[parsed.method].settings]
    if not window_settings:
        raise SettingsError(f"{parsed.method} has no window: naive, local, global, mapreduce and others have one")
    if window_settings[0] in parsed.settings:
        raise SettingsError(f"{base} sets {window_settings[0]}, which this study varies: leave it out")
    separator = "+" if parsed.settings else ":"
    return {f"{size // 1000}k": f"{base}{separator}{window_settings[0]}={size}" for size in WINDOWS}


STUDY_NAMES = ("levels", "claims", "windows", "baselines", "ablations", "arms", "discourse")


def read_design(name: str) -> StudyDesign:
    """Read the design of a study."""
    return TypeAdapter(StudyDesign).validate_python(tomllib.loads((_FOLDER / f"{name}.toml").read_text("utf-8")))
