"""documents -> tables: all index steps and their settings."""

from collections.abc import Container, Iterable

from kumihimo.core.records import Document, Record
from kumihimo.core.settings import Setting, SettingValues
from kumihimo.core.signature import collect_signatures
from kumihimo.core.wiring import ROOT, order_steps
from kumihimo.index.chunks import chunks
from kumihimo.index.communities import communities, members
from kumihimo.index.frames import frames
from kumihimo.index.frames import values as values_
from kumihimo.index.graph import claims, entities, relations
from kumihimo.index.links import links
from kumihimo.index.mentions import assertions, mentions, ties
from kumihimo.index.metadata import metadata, questions
from kumihimo.index.passages import passages
from kumihimo.index.reports import reports
from kumihimo.index.summaries import summaries, tags

STEPS = collect_signatures(
    chunks,
    mentions,
    ties,
    assertions,
    entities,
    relations,
    claims,
    communities,
    members,
    reports,
    metadata,
    questions,
    tags,
    summaries,
    passages,
    frames,
    values_,
    links,
)

RECORD_TYPES: dict[str, type[Record]] = {ROOT: Document} | {
    name: step.output_type for name, step in STEPS.items() if step.output_type
}

# These steps continue the conversation of another step, with its settings and its model.
_SHARED_CONVERSATIONS = {"ties": "mentions", "assertions": "mentions", "questions": "metadata"}


def settings_scope(step: str) -> str:
    """Return the settings scope of a step.

    Steps that continue one conversation share the settings and the model of its first step.
    """
    return _SHARED_CONVERSATIONS.get(step, step)


def step_settings() -> dict[str, dict[str, Setting]]:
    """Return the settings of all steps, grouped by scope."""
    by_scope: dict[str, dict[str, Setting]] = {}
    for name, step in STEPS.items():
        by_scope.setdefault(settings_scope(name), {}).update(step.settings)
    return by_scope


def settings_for_step(step: str, settings: SettingValues) -> dict[str, object]:
    """Return the settings of one step."""
    scope_settings = settings.get(settings_scope(step), {})
    return {name: scope_settings[name] for name in STEPS[step].settings if name in scope_settings}


def upstream_steps(tables: Iterable[str]) -> set[str]:
    """Return the steps that build these tables, with all their inputs."""
    names = set(tables) & STEPS.keys()
    for step in reversed(order_steps(STEPS)):
        names.update(name for name in step.inputs if step.name in names and name in STEPS)
    return names


def downstream_steps(steps: Container[str]) -> set[str]:
    """Return these steps and all steps downstream of them."""
    names: set[str] = set()
    for step in order_steps(STEPS):
        if step.name in steps or names.intersection(step.inputs):
            names.add(step.name)
    return names
