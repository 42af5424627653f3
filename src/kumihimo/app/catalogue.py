"""nothing -> the methods and tables that there are, for interfaces to list."""

from kumihimo.index import RECORD_TYPES as RECORD_TYPES
from kumihimo.methods import METHODS as METHODS
