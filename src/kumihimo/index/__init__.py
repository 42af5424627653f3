"""documents -> tables: the steps, in a list one can read."""

from kumihimo.core.signature import catalogue
from kumihimo.core.wiring import plan
from kumihimo.index.chunks import chunks
from kumihimo.index.communities import communities, members
from kumihimo.index.graph import claims, entities, relations
from kumihimo.index.mentions import assertions, mentions, ties
from kumihimo.index.reports import reports

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
)

# Steps that go on with one conversation, whose settings and model are those of the first.
CONVERSATIONS = {"ties": "mentions", "assertions": "mentions"}


def paid_steps() -> set[str]:
    """The steps that ask a model, or are made of what one was asked."""
    paid: set[str] = set()
    for step in plan(STEPS):
        if "ask" in step.signature.ports or paid.intersection(step.inputs):
            paid.add(step.name)
    return paid
