"""steps, methods and roles -> scopes: whatever has settings, and which of them may have a model of their own."""

from __future__ import annotations

from collections.abc import Mapping

from kumihimo.app.sparql import rdf_prefixes
from kumihimo.core.settings import Setting, SettingValues
from kumihimo.core.signature import settings_of
from kumihimo.generation.answer import answer
from kumihimo.index import STEPS, settings_scope
from kumihimo.index import step_settings as of_steps
from kumihimo.llm.registry import MODEL_SETTINGS, scope_chat_settings
from kumihimo.methods import METHODS

ANSWER = "answer"  # the role of whoever writes the answer
EVALUATION_ROLES = {  # the roles of an evaluation
    "questioner": "Who writes the questions of `kumi eval questions`.",
    "judge": "Who compares answers for `kumi eval judge`: best of another family than the model of the answers.",
    "second_judge": "Who judges a sample of them again.",
    "claimer": "Who reads claims out of answers for `kumi eval claims`, and checks them.",
    "scorer": "Who takes answers apart for `kumi eval score`.",
}
SETTINGS: Mapping[str, Mapping[str, Setting]] = {
    **MODEL_SETTINGS,
    ANSWER: settings_of(answer),
    **of_steps(),
    **{name: s.settings for name, s in METHODS.items()},
    "rdf": settings_of(rdf_prefixes),
    **{role: {} for role in EVALUATION_ROLES},
}
SUMMARIES = {
    "chat": "The chat model, for all who ask.",
    "embedding": "The embedding model; without one, that inside this process.",
    "reranking": "The server that reranks, for methods told so; how many candidates are judged.",
    ANSWER: "How answers are written.",
    "rdf": "The index as RDF, for `kumi sparql` and `kumi export rdf`.",
    **{name: s.summary for name, s in {**STEPS, **METHODS}.items() if settings_scope(name) == name},
    **EVALUATION_ROLES,
}
LLM_SCOPES = (
    ANSWER,
    *EVALUATION_ROLES,
    *dict.fromkeys(settings_scope(name) for name, s in {**STEPS, **METHODS}.items() if {"llm", "rerank"} & {*s.ports}),
)  # may have a model of their own
ALL_SETTINGS = {**SETTINGS, **{name: {**SETTINGS[name], **scope_chat_settings(SETTINGS[name])} for name in LLM_SCOPES}}


def model_settings(values: SettingValues) -> dict[str, dict[str, object]]:
    """Of each scope that asks what it has of `[chat]`'s settings; those of the models themselves."""
    own = {name: {n: v for n, v in values[name].items() if n not in SETTINGS[name]} for name in LLM_SCOPES}
    return {**{name: dict(values[name]) for name in MODEL_SETTINGS}, **own}


def own_settings(values: SettingValues) -> dict[str, dict[str, object]]:
    """Of each scope what are its own settings, not those of its model."""
    return {scope: {n: v for n, v in held.items() if n in SETTINGS[scope]} for scope, held in values.items()}


def non_default_settings(settings: SettingValues) -> dict[str, object]:
    """Those that are not the default, by their whole names."""
    named = {(scope, name): value for scope in settings for name, value in settings[scope].items()}
    known = {(s, n): value for (s, n), value in named.items() if n in SETTINGS.get(s, ())}
    return {f"{s}.{n}": v for (s, n), v in known.items() if SETTINGS[s][n].parse(s, v) != SETTINGS[s][n].default}
