"""question + tables -> Context: the built-in retrieval methods."""

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
from kumihimo.methods.wide import wide

METHODS = collect_signatures(
    braid, wide, bm25, naive, hyde, rq, mapreduce, global_, local, drift, light, meta, discourse
)
