"""The name of a published study -> StudyDesign: its systems, measures and source; one command runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kumihimo.app.catalogue import METHODS
from kumihimo.core.errors import SettingsError
from kumihimo.evaluate.systems import parse_system

WINDOWS = (8000, 16000, 32000, 64000)
_MANY_CHUNKS = 300  # retrieved, so that only the window limits the context


@dataclass(frozen=True, slots=True)
class StudyDesign:
    """The design of a published study.

    systems: the specification of each system by its name in the paper. stages: run, judge, claims, score; none for a
    study of indexing. against: the system that all others are compared with; empty: every pair. settings: settings
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

    def restrict_to(self, names: Sequence[str]) -> StudyDesign:
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
    window_settings = [name for name in ("budget", "window") if name in setting_names(parsed.method)]
    if not window_settings:
        raise SettingsError(f"{parsed.method} has no window: naive, local, global, mapreduce and others have one")
    separator = "+" if parsed.settings else ":"
    return {f"{size // 1000}k": f"{base}{separator}{window_settings[0]}={size}" for size in WINDOWS}


def setting_names(method: str) -> Sequence[str]:
    """Return the setting names of a method."""

    return list(METHODS[method].settings)


_PLAIN_RAG = "naive:words=false"

STUDIES: Mapping[str, StudyDesign] = {
    "levels": StudyDesign(
        "Answers from each level of communities, against the texts themselves (TS) and plain RAG (SS).",
        "GraphRAG, 2404.16130, sections 4.1 and 5, figure 2, table 2",
        {**{f"C{n}": f"global:C{n}" for n in range(4)}, "TS": "mapreduce", "SS": _PLAIN_RAG},
        "four criteria of a judge; tokens of each level",
    ),
    "windows": StudyDesign(
        "The same system with windows of 8, 16, 32 and 64 thousand tokens.",
        "GraphRAG, 2404.16130, appendix C",
        window_systems(),
        "four criteria of a judge",
        settings=(f"answer.budget={WINDOWS[-1]}",),
    ),
    "gleanings": StudyDesign(
        "What is read out of chunks of 600, 1,200 and 2,400 tokens by 0 to 3 gleanings.",
        "GraphRAG, 2404.16130, section 3.1.2 and appendix A.2, figure 3",
        {},
        "references to entities",
        stages=(),
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
        measures=(
            "answer_correctness",
            "faithfulness",
            "context_relevance_sentences",
            "context_relevance_graded",
        ),
    ),
}
