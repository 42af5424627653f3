"""steps, methods and roles -> scopes: their settings, and optional models."""

from __future__ import annotations

from collections.abc import Mapping

from kumihimo.app.sparql import rdf_prefixes
from kumihimo.core.settings import Setting, SettingValues
from kumihimo.core.signature import settings_of
from kumihimo.generation.answer import answer
from kumihimo.index import STEPS, settings_scope, step_settings
from kumihimo.llm.registry import MODEL_SETTINGS, scope_chat_settings
from kumihimo.methods import METHODS

ANSWER = "answer"  # the role of the answer writer
EVALUATION_ROLES = {  # roles in an evaluation
    "questioner": "The model that writes questions in `kumi eval questions`.",
    "judge": "The model that compares answers in `kumi eval judge`: preferably of another family than the writer.",
    "second_judge": "A second judge for a sample of the comparisons.",
    "claimer": "The model that extracts and checks claims in `kumi eval claims`.",
    "scorer": "The model that splits answers into statements in `kumi eval score`.",
}
SETTINGS: Mapping[str, Mapping[str, Setting]] = {
    **MODEL_SETTINGS,
    ANSWER: settings_of(answer),
    **step_settings(),
    **{name: s.settings for name, s in METHODS.items()},
    "rdf": settings_of(rdf_prefixes),
    **{role: {} for role in EVALUATION_ROLES},
}
SUMMARIES = {
    "chat": "The chat model, for all steps, methods and roles.",
    "embedding": "The embedding model; by default the built-in one.",
    "reranking": "The rerank server, for methods set to use it, and the number of candidates.",
    ANSWER: "How answers are written.",
    "rdf": "The index as RDF, for `kumi sparql` and `kumi export rdf`.",
    **{name: s.summary for name, s in {**STEPS, **METHODS}.items() if settings_scope(name) == name},
    **EVALUATION_ROLES,
}
LLM_SCOPES = (
    ANSWER,
    *EVALUATION_ROLES,
    *dict.fromkeys(settings_scope(name) for name, s in {**STEPS, **METHODS}.items() if {"llm", "rerank"} & {*s.ports}),
)  # scopes that may set their own model
ALL_SETTINGS = {**SETTINGS, **{name: {**SETTINGS[name], **scope_chat_settings(SETTINGS[name])} for name in LLM_SCOPES}}


def model_settings(values: SettingValues) -> dict[str, dict[str, object]]:
    """Return the model settings of each scope."""
    llm_settings = {name: {n: v for n, v in values[name].items() if n not in SETTINGS[name]} for name in LLM_SCOPES}
    return {**{name: dict(values[name]) for name in MODEL_SETTINGS}, **llm_settings}


def own_settings(values: SettingValues) -> dict[str, dict[str, object]]:
    """Return the settings of each scope without its model settings."""
    return {scope: {n: v for n, v in settings.items() if n in SETTINGS[scope]} for scope, settings in values.items()}


def non_default_settings(settings: SettingValues) -> dict[str, object]:
    """Return the settings that differ from their defaults, by full name."""
    flat = {(scope, name): value for scope in settings for name, value in settings[scope].items()}
    current = {(s, n): value for (s, n), value in flat.items() if n in SETTINGS.get(s, ())}
    return {f"{s}.{n}": v for (s, n), v in current.items() if SETTINGS[s][n].parse(s, v) != SETTINGS[s][n].default}
