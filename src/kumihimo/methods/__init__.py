"""question + tables -> Context: the methods, in a list one can read."""

from kumihimo.core.signature import catalogue
from kumihimo.methods.bm25 import bm25
from kumihimo.methods.naive import naive

METHODS = catalogue(
    bm25,
    naive,
)
