"""question + tables -> Context: the methods, in a list one can read."""

from pathlib import Path

from kumihimo.core.signature import catalogue
from kumihimo.methods.bm25 import bm25
from kumihimo.methods.hyde import hyde
from kumihimo.methods.naive import naive

METHODS = catalogue(
    bm25,
    naive,
    hyde,
)

ANSWERS: dict[str, Path] = {}  # the prompts of methods that have their own for the answer; else `answer.md`
