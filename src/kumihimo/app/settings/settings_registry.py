"""a catalogue -> the settings of its steps, methods and roles, and the models they may set."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from inspect import getdoc
from pathlib import Path
from typing import Annotated

from kumihimo.core import network, settings, signature, wiring
from kumihimo.generation.answer import answer
from kumihimo.llm.registry import MODEL_SETTINGS, scope_chat_settings
from kumihimo.rdf.store import rdf_prefixes
from kumihimo.readers.limits import FetchSettings, ReadingLimits


@dataclass(frozen=True, kw_only=True)
class BuildingSettings:
    """Settings of a build: the fields of `[building]`.

    executor: `inline` builds in one process; `ray` and `ray://HOST:PORT` on the machines of a Ray cluster. workers: the
    most jobs that run there at once; 0: no limit. Raises SettingsError for a negative number.
    """

    executor: Annotated[str, network.CLUSTER] = "inline"
    workers: Annotated[int, settings.Bounds(0, 10_000)] = 0


MAX_PAGES = 1_000_000  # of one crawl
ANSWER = "answer"  # the role of the answer writer
EVALUATION_ROLES = {  # roles in an evaluation
    "questioner": "The model that writes questions in `kumi eval questions`.",
    "judge": "The model that compares answers in `kumi eval judge`: preferably of another family than the writer.",
    "second_judge": "A second judge for a sample of the comparisons.",
    "claimer": "The model that extracts and checks claims in `kumi eval claims`.",
    "scorer": "The model that splits answers into statements in `kumi eval score`.",
}
Settings = Mapping[str, Mapping[str, settings.Setting]]  # scope -> name -> setting


@dataclass(frozen=True)
class SettingsRegistry:
    """The settings of a catalogue, by scope: a step, a method, a role or a kind of model."""

    catalogue: wiring.Catalogue

    @cached_property
    def own(self) -> Settings:
        """Return the settings of each scope without its model settings."""
        return {
            **MODEL_SETTINGS,
            ANSWER: signature.settings_of(answer),
            "building": signature.settings_of(BuildingSettings),
            "reading": signature.settings_of(ReadingLimits),
            "fetching": signature.settings_of(FetchSettings),
            **self.catalogue.step_settings(),
            **{name: method.settings for name, method in self.catalogue.methods.items()},
            "rdf": signature.settings_of(rdf_prefixes),
            **{role: {} for role in EVALUATION_ROLES},
        }

    @cached_property
    def all(self) -> Settings:
        """Return all settings of each scope, those of its model included."""
        return {**self.own, **{n: {**self.own[n], **scope_chat_settings(self.own[n])} for n in self.llm_scopes}}

    @cached_property
    def llm_scopes(self) -> tuple[str, ...]:
        """Return the scopes that may set their own model."""
        signatures = (*self.catalogue.steps.values(), *self.catalogue.methods.values())
        calling = dict.fromkeys(s.scope for s in signatures if {"llm", "rerank"} & {*s.ports})
        return (ANSWER, *EVALUATION_ROLES, *calling)

    @cached_property
    def summaries(self) -> Mapping[str, str]:
        """Return a line of help for each scope."""
        signatures = {**self.catalogue.steps, **self.catalogue.methods}
        return {
            "chat": "The chat model, for all steps, methods and roles.",
            "embedding": "The embedding model; by default the built-in one.",
            "reranking": "The rerank server, for methods set to use it, and the number of candidates.",
            ANSWER: "How answers are written.",
            "building": "Where an index is built: in one process, in several, or on several machines.",
            "reading": "The limits of each file that is read.",
            "fetching": "How web pages are fetched.",
            "rdf": "The index as RDF, for `kumi sparql` and `kumi export rdf`.",
            **{name: s.summary for name, s in signatures.items() if s.scope == name},
            **EVALUATION_ROLES,
        }

    def model_values(self, values: settings.SettingValues) -> dict[str, dict[str, object]]:
        """Return the values of the model settings of each scope."""
        own_models = {
            scope: {n: v for n, v in values[scope].items() if n not in self.own[scope]} for scope in self.llm_scopes
        }
        return {**{name: dict(values[name]) for name in MODEL_SETTINGS}, **own_models}

    def own_values(self, values: settings.SettingValues) -> dict[str, dict[str, object]]:
        """Return the values of each scope without those of its model settings."""
        return {scope: {n: v for n, v in values[scope].items() if n in self.own[scope]} for scope in values}

    def non_default(self, values: settings.SettingValues) -> dict[str, object]:
        """Return the values that differ from the defaults, by full name."""
        return {
            f"{scope}.{name}": value
            for scope, scope_values in values.items()
            for name, value in scope_values.items()
            if (setting := self.own.get(scope, {}).get(name)) and setting.parse(scope, value) != setting.default
        }


_HELP_FILE = Path(__file__).with_name("setting_help.json")

# Recall@5 of the methods without a model, on 100, 100, 164, 300 and 300 questions, from benchmarks/recall.py. The
# figures of braid are from benchmarks/weights.py, with weights learned on the other sets.
RECALL_SETS = ("MuSiQue", "HotpotQA", "2WikiMultiHopQA", "JSQuAD", "DRCD")
RECALL: Mapping[str, tuple[float, ...]] = {
    "braid": (0.709, 0.965, 0.939, 0.960, 0.983),
    "bm25": (0.531, 0.795, 0.698, 0.967, 0.973),
    "naive": (0.542, 0.810, 0.721, 0.960, 0.973),
    "local": (0.556, 0.810, 0.733, 0.973, 0.980),
    "light": (0.532, 0.795, 0.720, 0.970, 0.983),
}


def setting_help(name: str, method: signature.Signature) -> Mapping[str, str]:
    """Return what each setting of a method does, as docs/settings.md has it.

    A method of a plug-in says so in its docstring, in sentences such as `depth: how many steps.`
    """
    if name in (own := _read_help()):
        return own[name]
    text = " ".join((getdoc(method.function) or "").split())
    parts = re.split(r"(?:^|(?<=[.:;] ))(" + "|".join(map(re.escape, method.settings)) + "): ", text)
    return {setting: part.strip() for setting, part in zip(parts[1::2], parts[2::2], strict=True)}


@cache
def _read_help() -> Mapping[str, Mapping[str, str]]:
    texts: dict[str, dict[str, str]] = json.loads(_HELP_FILE.read_text(encoding="utf-8"))
    return texts
