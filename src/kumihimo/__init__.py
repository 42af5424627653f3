"""nothing -> the public names."""

from kumihimo.core.context import Answer, Context, Evidence
from kumihimo.core.errors import KumiError
from kumihimo.core.records import Chunk, Citation, Document, Record, Span, Usage
from kumihimo.session import Built, Kumihimo, Status

__all__ = [
    "Answer",
    "Built",
    "Chunk",
    "Citation",
    "Context",
    "Document",
    "Evidence",
    "KumiError",
    "Kumihimo",
    "Record",
    "Span",
    "Status",
    "Usage",
]
