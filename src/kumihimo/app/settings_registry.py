"""a catalogue -> the settings of its steps, methods and roles, and the models they may set."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from kumihimo.app.building_settings import BuildingSettings
from kumihimo.app.sparql import rdf_prefixes
from kumihimo.core.catalogue import Catalogue
from kumihimo.core.settings import Setting, SettingValues
from kumihimo.core.signature import settings_of
from kumihimo.generation.answer import answer
from kumihimo.llm.registry import MODEL_SETTINGS, scope_chat_settings
from kumihimo.readers.documents import ReadingLimits
from kumihimo.readers.remote.web import FetchSettings

ANSWER = "answer"  # the role of the answer writer
EVALUATION_ROLES = {  # roles in an evaluation
    "questioner": "The model that writes questions in `kumi eval questions`.",
    "judge": "The model that compares answers in `kumi eval judge`: preferably of another family than the writer.",
    "second_judge": "A second judge for a sample of the comparisons.",
    "claimer": "The model that extracts and checks claims in `kumi eval claims`.",
    "scorer": "The model that splits answers into statements in `kumi eval score`.",
}
Settings = Mapping[str, Mapping[str, Setting]]  # scope -> name -> setting


@dataclass(frozen=True)
class SettingsRegistry:
    """The settings of a catalogue, by scope: a step, a method, a role or a kind of model."""

    catalogue: Catalogue

    @cached_property
    def own(self) -> Settings:
        """Return the settings of each scope without its model settings."""
        return {
            **MODEL_SETTINGS,
            ANSWER: settings_of(answer),
            "building": settings_of(BuildingSettings),
            "reading": settings_of(ReadingLimits),
            "fetching": settings_of(FetchSettings),
            **self.catalogue.step_settings(),
            **{name: method.settings for name, method in self.catalogue.methods.items()},
            "rdf": settings_of(rdf_prefixes),
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

    def model_values(self, values: SettingValues) -> dict[str, dict[str, object]]:
        """Return the values of the model settings of each scope."""
        own_models = {
            scope: {n: v for n, v in values[scope].items() if n not in self.own[scope]} for scope in self.llm_scopes
        }
        return {**{name: dict(values[name]) for name in MODEL_SETTINGS}, **own_models}

    def own_values(self, values: SettingValues) -> dict[str, dict[str, object]]:
        """Return the values of each scope without those of its model settings."""
        return {scope: {n: v for n, v in values[scope].items() if n in self.own[scope]} for scope in values}

    def non_default(self, values: SettingValues) -> dict[str, object]:
        """Return the values that differ from the defaults, by full name."""
        return {
            f"{scope}.{name}": value
            for scope, scope_values in values.items()
            for name, value in scope_values.items()
            if (setting := self.own.get(scope, {}).get(name)) and setting.parse(scope, value) != setting.default
        }
