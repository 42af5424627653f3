"""a step -> its typical calls and tokens, measured over corpora and habits of models.

`python -m benchmarks.plans` builds with models of several habits and prints how many totals lie within their plan.
"""

from collections.abc import Mapping
from typing import NamedTuple

Range = tuple[float, float]  # minimum, maximum


class StepRate(NamedTuple):
    """What a step asks when a model of middle length replies.

    calls: for 1,000 tokens that the steps before it reply; of a plug-in, for a call of theirs. prompt, reply: tokens of
    a call. read: more reply tokens, for each token that a call reads. weight: of `calls` against those of earlier
    builds, in 1,000 tokens or calls of the steps before it.
    """

    calls: float = 0.0
    prompt: float = 0.0
    reply: float = 0.0
    read: float = 0.0
    weight: float = 10


class RowRate(NamedTuple):
    """The rows of a table for 1,000 reply tokens of the steps before it, and the tokens of one row."""

    rows: float
    tokens: float


STEPS: Mapping[str, StepRate] = {
    "mentions": StepRate(reply=375, read=0.3),
    "metadata": StepRate(reply=50, read=0.8),
    "frames": StepRate(read=0.65),
    "links": StepRate(read=0.15),
    "entities": StepRate(0.23, 850, 350, weight=20),
    "relations": StepRate(0.02, 850, 350, weight=20),
    "claims": StepRate(0.005, 850, 350, weight=20),
    "reports": StepRate(0.24, 2000, 600),
    "summaries": StepRate(1.0, 700, 310),
}
PLUGIN_STEP = StepRate(0.5, 1000, 200, weight=5)
TABLES: Mapping[str, RowRate] = {
    "entities": RowRate(7, 60),
    "relations": RowRate(6, 60),
    "reports": RowRate(1.3, 400),
    "claims": RowRate(4, 60),
    "questions": RowRate(8, 25),
    "summaries": RowRate(10, 250),
    "metadata": RowRate(8, 15),
}
PLUGIN_TABLE = RowRate(5, 100)
MORE_TURNS = 0.45  # the largest share of conversations with one more turn
SECONDS_OF_CALL: Range = (0.5, 3.0)  # until the reply begins
TOKENS_PER_SECOND: Range = (15, 150)  # of a reply
