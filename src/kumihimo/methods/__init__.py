"""question + tables -> Context: the catalogue of retrieval methods."""

from pathlib import Path

from kumihimo.core.signature import collect_signatures
from kumihimo.methods.bm25 import bm25
from kumihimo.methods.braid import braid
from kumihimo.methods.discourse import discourse
from kumihimo.methods.drift import drift
from kumihimo.methods.global_ import global_
from kumihimo.methods.hyde import hyde
from kumihimo.methods.light import light
from kumihimo.methods.local import local
from kumihimo.methods.mapreduce import mapreduce
from kumihimo.methods.meta import meta
from kumihimo.methods.naive import naive
from kumihimo.methods.rq import rq
from kumihimo.methods.shared.map_step import REDUCE_PROMPT

METHODS = collect_signatures(
    braid,
    bm25,
    naive,
    hyde,
    rq,
    mapreduce,
    global_,
    local,
    drift,
    light,
    meta,
    discourse,
)

# Methods with an answer prompt of their own; the others use `answer.md`.
ANSWER_PROMPTS: dict[str, Path] = {"mapreduce": REDUCE_PROMPT, "global": REDUCE_PROMPT, "drift": REDUCE_PROMPT}
