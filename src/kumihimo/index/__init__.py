"""documents -> tables: the steps, in a list one can read."""

from kumihimo.core.signature import catalogue
from kumihimo.index.chunks import chunks

STEPS = catalogue(
    chunks,
)
