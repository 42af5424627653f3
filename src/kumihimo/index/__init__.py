"""documents -> tables: the steps, in a list one can read."""

from collections.abc import Container, Iterable

from kumihimo.core.settings import Setting, SettingValues
from kumihimo.core.signature import collect_signatures
from kumihimo.core.wiring import order_steps
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

# Steps that go on with one conversation: their settings and their model are those of the first.
_SHARED_CONVERSATIONS = {"ties": "mentions", "assertions": "mentions", "questions": "metadata"}


def settings_scope(step: str) -> str:
    """Under which name the settings of a step are kept, and its model."""
    return _SHARED_CONVERSATIONS.get(step, step)


def step_settings() -> dict[str, dict[str, Setting]]:
    """The settings of all steps, by scope."""
    found: dict[str, dict[str, Setting]] = {}
    for name, step in STEPS.items():
        found.setdefault(settings_scope(name), {}).update(step.settings)
    return found


def settings_for_step(step: str, settings: SettingValues) -> dict[str, object]:
    """Of the settings of all scopes those of one step."""
    held = settings.get(settings_scope(step), {})
    return {name: held[name] for name in STEPS[step].settings if name in held}


def upstream_steps(tables: Iterable[str]) -> set[str]:
    """The steps that make these tables, and those that make what they are made of."""
    found = set(tables) & STEPS.keys()
    for step in reversed(order_steps(STEPS)):
        found.update(name for name in step.inputs if step.name in found and name in STEPS)
    return found


def downstream_steps(steps: Container[str]) -> set[str]:
    """These steps, and those whose tables are made of theirs."""
    found: set[str] = set()
    for step in order_steps(STEPS):
        if step.name in steps or found.intersection(step.inputs):
            found.add(step.name)
    return found
