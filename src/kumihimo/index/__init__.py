"""documents -> tables: the steps, in a list one can read."""

from collections.abc import Container, Iterable

from kumihimo.core.settings import Setting, Values
from kumihimo.core.signature import catalogue
from kumihimo.core.wiring import plan
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

STEPS = catalogue(
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
_CONVERSATIONS = {"ties": "mentions", "assertions": "mentions", "questions": "metadata"}


def scope(step: str) -> str:
    """Under which name the settings of a step are kept, and its model."""
    return _CONVERSATIONS.get(step, step)


def settings() -> dict[str, dict[str, Setting]]:
    """The settings of all steps, by scope."""
    found: dict[str, dict[str, Setting]] = {}
    for name, step in STEPS.items():
        found.setdefault(scope(name), {}).update(step.settings)
    return found


def values(step: str, settings: Values) -> dict[str, object]:
    """Of the settings of all scopes those of one step."""
    held = settings.get(scope(step), {})
    return {name: held[name] for name in STEPS[step].settings if name in held}


def needed(tables: Iterable[str]) -> set[str]:
    """The steps that make these tables, and those that make what they are made of."""
    found = set(tables) & STEPS.keys()
    for step in reversed(plan(STEPS)):
        found.update(name for name in step.inputs if step.name in found and name in STEPS)
    return found


def made_of(steps: Container[str]) -> set[str]:
    """These steps, and those whose tables are made of theirs."""
    found: set[str] = set()
    for step in plan(STEPS):
        if step.name in steps or found.intersection(step.inputs):
            found.add(step.name)
    return found
