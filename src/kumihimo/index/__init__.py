"""documents -> tables: the steps, in a list one can read."""

from kumihimo.core.signature import catalogue
from kumihimo.core.wiring import plan
from kumihimo.index.chunks import chunks

STEPS = catalogue(
    chunks,
)


def paid_steps() -> set[str]:
    """The steps that ask a model, or are made of what one was asked."""
    paid: set[str] = set()
    for step in plan(STEPS):
        if "ask" in step.signature.ports or paid.intersection(step.inputs):
            paid.add(step.name)
    return paid
