"""a step -> its typical calls and tokens, measured over corpora and habits of models.

`python -m benchmarks.plans` builds with models of several habits and prints how many totals lie within their plan.
"""

from collections.abc import Mapping
from typing import NamedTuple

Range = tuple[float, float]  # minimum, maximum


class StepRate(NamedTuple):
    """What a step asks when a model of middle length replies.

    calls: for 1,000 tokens that the steps before it reply; of a plug-in, for a call of theirs. prompt, reply: tokens of
    a call. turns: how often the one turn of a conversation that may be left out is asked, least and most.
    """

    calls: float = 0.0
    prompt: float = 0.0
    reply: float = 0.0
    turns: Range = (0.0, 1.0)


class RowRate(NamedTuple):
    """The rows of a table for 1,000 reply tokens of the steps before it, and the tokens of one row."""

    rows: float
    tokens: float


STEPS: Mapping[str, StepRate] = {
    "mentions": StepRate(reply=700, turns=(0.1, 0.6)),
    "metadata": StepRate(reply=900, turns=(0.9, 1.0)),
    "frames": StepRate(reply=450),
    "links": StepRate(reply=90),
    "entities": StepRate(0.25, 700, 330),
    "relations": StepRate(0.04, 700, 330),
    "claims": StepRate(0.04, 700, 330),
    "reports": StepRate(0.45, 2200, 600),
    "summaries": StepRate(3.1, 1200, 300),
}
PLUGIN_STEP = StepRate(0.5, 1000, 200)
TABLES: Mapping[str, RowRate] = {
    "entities": RowRate(7, 60),
    "relations": RowRate(8, 60),
    "reports": RowRate(0.7, 400),
    "claims": RowRate(4, 60),
    "questions": RowRate(12, 25),
    "summaries": RowRate(2, 250),
    "metadata": RowRate(8, 15),
}
PLUGIN_TABLE = RowRate(5, 100)
SECONDS_OF_CALL: Range = (0.5, 3.0)  # until the reply begins
TOKENS_PER_SECOND: Range = (15, 150)  # of a reply
